package delivery

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"fanfare/api"
	"fanfare/delivery/transport"
	"fanfare/store/events"
)

// notificationSpace is the name space of notification ids. It never changes:
// the same event and device must give the same id for ever.
var notificationSpace = uuid.MustParse("7d1e6c0a-2f4b-5d8e-9a3c-0b6f1e2d4c5a")

// NotificationID is the id of an event's notification to a device, here and at
// the push service: a lowercase UUIDv5, a pure function of both.
func NotificationID(event, token string) string {
	return uuid.NewSHA1(notificationSpace, []byte(event+"\x00"+token)).String()
}

// message is a notification as its queue entry holds it: all that sending
// needs, so that nothing is looked up.
type message struct {
	Token        string          `json:"token"`
	User         string          `json:"user"`
	Topic        string          `json:"topic"`
	Environment  api.Environment `json:"environment"`
	RegisteredAt int64           `json:"registered_at"`
	Event        string          `json:"event"`
	AcceptedAt   int64           `json:"accepted_at"`
	Push         api.Push        `json:"push"`
	// Suspect tells that the service refused the device once before.
	Suspect bool `json:"suspect,omitempty"`
	// Refused is why the service refused the notification for good when it was sent
	// with its event; it only comes into the queue to become a dead letter.
	Refused string `json:"refused,omitempty"`
	// RefusedSaid is what it said, for people.
	RefusedSaid string `json:"refused_said,omitempty"`
	// Retrying tells that this notification is counted as retrying.
	Retrying bool `json:"retrying,omitempty"`
}

// encoder writes the messages of one event. What they have in common, the
// payload above all, is written once.
type encoder struct{ common []byte }

func newEncoder(event string, j *events.Job) (*encoder, error) {
	common, err := encode(struct {
		Event      string   `json:"event"`
		AcceptedAt int64    `json:"accepted_at"`
		Push       api.Push `json:"push"`
	}{event, j.AcceptedAt, j.Push})
	if err != nil {
		return nil, fmt.Errorf("encode notification: %w", err)
	}
	return &encoder{common: common}, nil
}

// message writes one message. Users, topics and tokens never hold a character
// that JSON escapes.
func (e *encoder) message(user string, d *api.Device) []byte {
	b := make([]byte, 0, len(e.common)+len(d.Token)+len(user)+len(d.Topic)+100)
	b = append(b, `{"token":"`...)
	b = append(b, d.Token...)
	b = append(b, `","user":"`...)
	b = append(b, user...)
	b = append(b, `","topic":"`...)
	b = append(b, d.Topic...)
	b = append(b, `","environment":"`...)
	b = append(b, d.Environment...)
	b = append(b, `","registered_at":`...)
	b = strconv.AppendInt(b, d.RegisteredAt.UnixMilli(), 10)
	if d.State == api.DeviceSuspect {
		b = append(b, `,"suspect":true`...)
	}
	b = append(b, ',')
	return append(b, e.common[1:]...)
}

// encode writes JSON without escaping the payload for web pages.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func decodeMessage(payload []byte) (*message, error) {
	m := new(message)
	if err := json.Unmarshal(payload, m); err != nil {
		return nil, fmt.Errorf("decode notification: %w", err)
	}
	return m, nil
}

// marked is the message again, with the mark that it is counted as retrying.
func (m *message) marked() []byte {
	again := *m
	again.Retrying = true
	b, err := encode(&again)
	if err != nil {
		return nil // keeps the old one
	}
	return b
}

// app names the app that this message goes through.
func (m *message) app() string { return transport.AppOf(m.Topic, m.Environment) }

func (m *message) registeredAt() time.Time { return time.UnixMilli(m.RegisteredAt) }

// expired tells whether the message's own time is over.
func (m *message) expired(now time.Time) bool {
	return m.Push.ExpiresAt > 0 && now.UnixMilli() >= m.Push.ExpiresAt
}

// notification is what the Sender takes.
func (m *message) notification(id string, maySend func() bool) *transport.Notification {
	n := &transport.Notification{
		ID: id, Platform: transport.APNs, Token: m.Token, Topic: m.Topic, Environment: m.Environment,
		PushType: m.Push.PushType, Priority: m.Push.Priority, CollapseID: m.Push.CollapseID,
		Payload: m.Push.Payload, MaySend: maySend,
	}
	if m.Push.Expiration != nil {
		at := time.Unix(*m.Push.Expiration, 0)
		n.Expiration = &at
	}
	return n
}
