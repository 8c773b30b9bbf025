package delivery

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"unicode/utf8"
)

// LogSender sends nothing: without APNs credentials it logs what would be sent
// and counts it as delivered. It shows no text and no whole token.
type LogSender struct {
	log *slog.Logger

	mu   sync.Mutex
	apps map[string]AppState
}

var _ Sender = (*LogSender)(nil)

// NewLogSender makes a log sender and says so, once.
func NewLogSender(log *slog.Logger) *LogSender {
	log.Warn("no APNs credentials are configured: notifications are logged, not sent")
	return &LogSender{log: log, apps: make(map[string]AppState)}
}

// Send implements Sender.
func (s *LogSender) Send(_ context.Context, n *Notification) Answer {
	if n.Alive != nil && !n.Alive() {
		return Answer{Outcome: NotSent, Err: ErrNotAlive}
	}
	s.meet(n)
	s.log.Info("notification", "topic", n.Topic, "token", n.Token[:min(8, len(n.Token))], "title_length", titleLength(n.Payload))
	return Answer{Outcome: Delivered, APNsID: n.ID}
}

// meet remembers an app for Apps, up to a bound: topics come from clients.
func (s *LogSender) meet(n *Notification) {
	name := AppOf(n.Topic, n.Environment)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.apps[name]; !ok && len(s.apps) < maxTopics {
		s.apps[name] = AppState{App: name, Topic: n.Topic, Environment: n.Environment, Auth: "log"}
	}
}

// titleLength counts the characters of a payload's title.
func titleLength(payload []byte) int {
	var doc struct {
		APS struct {
			Alert json.RawMessage `json:"alert"`
		} `json:"aps"`
	}
	var alert struct {
		Title string `json:"title"`
	}
	if json.Unmarshal(payload, &doc) != nil || json.Unmarshal(doc.APS.Alert, &alert) != nil {
		return 0
	}
	return utf8.RuneCountInString(alert.Title)
}

// Apps implements Sender: the apps that notifications were for.
func (s *LogSender) Apps() []AppState {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]AppState, 0, len(s.apps))
	for _, a := range s.apps {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b AppState) int { return cmp.Compare(a.App, b.App) })
	return out
}

// Reload implements Sender; there is nothing to read.
func (s *LogSender) Reload() error { return nil }

// Close implements Sender.
func (s *LogSender) Close() error { return nil }
