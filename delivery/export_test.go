package delivery

import "fanfare/api"

// Message is a notification's text in the queue.
func Message(event, user, token, topic string, acceptedAt int64, p api.Push) []byte {
	m := &message{Token: token, User: user, Topic: topic, Environment: api.EnvProduction, RegisteredAt: 1, Event: event, AcceptedAt: acceptedAt, Push: p}
	return m.encode()
}
