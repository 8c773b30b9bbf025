package logsender

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"unicode/utf8"

	"fanfare/api"
	"fanfare/delivery/transport"
)

// maxApps bounds how many apps are listed: topics come from clients.
const maxApps = 1000

// Sender logs each notification and answers that it was delivered. It never shows a whole token,
// and shows text only if it may.
type Sender struct {
	log   *slog.Logger
	texts func() bool

	mu   sync.Mutex
	apps map[string]error
}

var _ transport.Sender = (*Sender)(nil)

// New makes a log sender that shows titles and bodies while texts returns true. It logs once
// that it sends nothing.
func New(log *slog.Logger, texts func() bool) *Sender {
	log.Warn("no APNs credentials are configured: notifications are logged, not sent")
	return &Sender{log: log, texts: texts, apps: map[string]error{}}
}

// Start implements transport.Sender.
func (s *Sender) Start(_ context.Context, n *transport.Notification, done func(transport.Answer)) {
	if n.MaySend != nil && !n.MaySend() {
		done(transport.Answer{Outcome: transport.NotSent, Err: transport.ErrMayNotSend})
		return
	}
	s.remember(n)
	text, shown := alertOf(n.Payload), []any{"topic", n.Topic, "token", api.ShortToken(n.Token)}
	if n.Channel != "" {
		shown = append(shown[:2], "object", api.ObjectOfBroadcast(n.Token), "channel", n.Channel)
	}
	if s.texts() {
		shown = append(shown, "title", text.Title, "body", text.Body)
	} else {
		shown = append(shown, "title_length", utf8.RuneCountInString(text.Title))
	}
	s.log.Info("notification", shown...)
	done(transport.Answer{Outcome: transport.Delivered})
}

// Takes implements transport.Sender; it takes every app.
func (s *Sender) Takes(*api.DeviceRequest) bool { return true }

// remember keeps an app for Apps.
func (s *Sender) remember(n *transport.Notification) {
	place := string(n.Environment)
	if n.Target != "" {
		place = api.KnownPushOrigins.OfTarget(n.Target)
	}
	name := transport.AppOf(n.Platform, n.Topic, place)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.apps) < maxApps {
		s.apps[name] = nil
	}
}

// alertOf reads the text that a payload of APNs, FCM or a page shows; it is empty when the payload can't be
// read.
func alertOf(payload []byte) (alert api.Alert) {
	var doc struct {
		api.Alert
		APS struct {
			Alert json.RawMessage `json:"alert"`
		} `json:"aps"`
		Android struct {
			Notification json.RawMessage `json:"notification"`
		} `json:"android"`
	}
	if json.Unmarshal(payload, &doc) != nil {
		return api.Alert{}
	}
	if doc.APS.Alert == nil && doc.Android.Notification == nil {
		return doc.Alert
	}
	if json.Unmarshal(slices.Concat(doc.APS.Alert, doc.Android.Notification), &alert) != nil { // it has one of them
		return api.Alert{}
	}
	return alert
}

// Apps implements transport.Sender: the apps that notifications were for.
func (s *Sender) Apps() map[string]error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.apps)
}

// Reasons implements transport.Sender; no service gives any.
func (s *Sender) Reasons() []string { return nil }

// Prepare implements transport.Sender; there is nothing to read.
func (s *Sender) Prepare([]transport.AppEntry) (func(), error) { return func() {}, nil }

// Close implements transport.Sender.
func (s *Sender) Close() error { return nil }
