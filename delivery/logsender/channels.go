package logsender

import (
	"context"
	"crypto/rand"
	"encoding/base64"

	"fanfare/api"
)

// TakesBroadcast implements broadcasts.Channels, as the methods that follow; it takes every app.
func (s *Sender) TakesBroadcast(string, api.Environment) bool { return true }

// CreateChannel makes up the name of a channel, in the form of Apple's, and logs it.
func (s *Sender) CreateChannel(_ context.Context, topic string, _ api.Environment, keep api.BroadcastKeep) (string, error) {
	name := make([]byte, 16)
	rand.Read(name) // never fails
	channel := base64.StdEncoding.EncodeToString(name)
	s.log.Info("a channel is made up", "topic", topic, "keep", keep, "channel", channel)
	return channel, nil
}

// DeleteChannel does nothing: no channel was made.
func (s *Sender) DeleteChannel(context.Context, string, api.Environment, string) error { return nil }

// ListChannels finds none.
func (s *Sender) ListChannels(context.Context, string, api.Environment) ([]string, error) {
	return nil, nil
}
