package delivery

import (
	"fanfare/api"
	"fanfare/store/queue"
)

// Message is a notification's text in the queue.
func Message(event, user, token, topic string, acceptedAt int64, p api.Push) []byte {
	m := &message{Token: token, User: user, Topic: topic, Environment: api.EnvProduction, RegisteredAt: 1, Event: event, AcceptedAt: acceptedAt, Push: p}
	return m.encode()
}

// TakesAhead tells whether the page of an event whose users were read ahead takes that.
func TakesAhead(a queue.Ahead) bool {
	return (&page{c: &queue.Claimed{First: true, Job: queue.Job{Ahead: a}}}).readAhead()
}

// JobID is the id under which targeting stores the notification to a device.
func JobID(event, token string) string { return jobID(event, token) }
