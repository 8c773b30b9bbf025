package delivery

import (
	"log/slog"

	"fanfare/api"
	"fanfare/delivery/logsender"
	"fanfare/store/events/render"
)

// Message is a notification's text in the queue.
func Message(event, user, token, topic string, acceptedAt int64, p render.Push) []byte {
	m := &message{Token: token, User: user, Topic: topic, Environment: api.EnvProduction, RegisteredAt: 1, Event: event, AcceptedAt: acceptedAt, Push: p}
	return m.encode()
}

// Wake has a process look at an app's parked notifications.
func Wake(d *Delivery, app string) { d.wake(app) }

// JobID is the id under which targeting stores the notification to a device.
func JobID(event, token string) string { return jobID(event, token) }

// SilentSender takes every notification and says nothing of it.
func SilentSender() *logsender.Sender {
	return logsender.New(slog.New(slog.DiscardHandler), func() bool { return false })
}
