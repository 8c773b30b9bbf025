package delivery

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"fanfare/api"
	"fanfare/delivery/transport"
	"fanfare/store/events"
	"fanfare/store/events/render"
)

// notificationSpace is the name space of notification ids. It never changes:
// the same event and device must give the same id for ever.
var notificationSpace = uuid.MustParse("7d1e6c0a-2f4b-5d8e-9a3c-0b6f1e2d4c5a")

// NotificationID is the id of an event's notification to a device, here and at
// the push service: a lowercase UUIDv5, a pure function of both.
func NotificationID(event, token string) string { return notificationUUID(event, token).String() }

// jobID is the same id where the notification waits as a job: short, because the queue
// keeps it twice.
func jobID(event, token string) string {
	id := notificationUUID(event, token)
	return base64.RawURLEncoding.EncodeToString(id[:])
}

func notificationUUID(event, token string) uuid.UUID {
	return uuid.NewSHA1(notificationSpace, []byte(event+"\x00"+token))
}

// message is a notification as its queue entry holds it: all that sending
// needs, so that nothing is looked up.
type message struct {
	Token        string          `json:"token"`
	User         string          `json:"user"`
	Topic        string          `json:"topic"`
	Environment  api.Environment `json:"environment"`
	RegisteredAt int64           `json:"registered_at"` // Unix ms
	Event        string          `json:"event"`         // its group
	AcceptedAt   int64           `json:"accepted_at"`   // Unix ms
	Push         render.Push     `json:"push"`
	// Suspect tells that the service refused the device once before.
	Suspect bool `json:"suspect,omitempty"`
	// Refused is why the service refused the notification for good when it was sent
	// with its event; it only comes into the queue to become a dead letter.
	Refused string `json:"-"`
	// RefusedSaid is the service's answer, for people.
	RefusedSaid string `json:"-"`
	// Retrying tells that this notification is counted as retrying.
	Retrying bool `json:"retrying,omitempty"`
}

// ShowMessage makes JSON of a notification's text in the queue, for its dead letter.
func ShowMessage(group string, text []byte) json.RawMessage {
	m, err := decodeMessage(group, text)
	if err != nil {
		return text
	}
	shown, err := json.Marshal(struct {
		ID string `json:"id"` // at the push service
		*message
	}{NotificationID(m.Event, m.Token), m})
	if err != nil {
		return text
	}
	return shown
}

// A message's text: messageForm, the device's fields (appendDevice), the event's
// (appendEvent), and the payload up to the end. Texts follow their length, numbers are
// varints. It is kept short, for millions may wait: a token of hexadecimal digits is
// its bytes, the event's id is that of the job's group, and what most payloads have in
// common, like the id, is a byte that no JSON has.
const (
	messageForm = 3
	eventByte   = 1
)

// commonText are texts that many payloads contain, each behind the byte that replaces it.
var commonText = []string{
	"\x02", `{"aps":{"alert":{"title":"`, "\x03", `{"aps":{"alert":{"body":"`, "\x04", `","body":"`, "\x05", `","title":"`,
	"\x06", `"}},"event_id":"`, "\x07", `},"event_id":"`, "\x0e", `","type":"`, "\x0f", `"sound":"default"`, "\x10", `"thread-id":"`,
	"\x11", `,"badge":`, "\x12", `"mutable-content":1`, "\x13", `"content-available":1`, "\x14", `"category":"`,
}

var packPayload, unpackPayload = strings.NewReplacer(swapped(commonText)...), strings.NewReplacer(commonText...)

// swapped are the pairs with their halves exchanged.
func swapped(pairs []string) []string {
	out := slices.Clone(pairs)
	for i := 0; i < len(out); i += 2 {
		out[i], out[i+1] = out[i+1], out[i]
	}
	return out
}

// The flags of the device's fields, and of the event's.
const (
	isSuspect = 1 << iota
	isRetrying
	isRefused
	isSandbox
	isHex // the token
)

const (
	isNoRetryUnknown = 1 << iota
	hasExpiration
	collapsesAsEvent // the collapse id is the event's
	isUsual          // it is sent as usual sends, and these fields are left out
)

// usual is how most notifications are sent: at once, and for as long as it takes.
var usual = render.Push{PushType: api.PushAlert, Priority: 10}

func sentAsUsual(p *render.Push) bool {
	return p.PushType == usual.PushType && p.Priority == usual.Priority && p.ExpiresAt == usual.ExpiresAt && p.TTL == usual.TTL
}

func flag(on bool, f byte) byte {
	if on {
		return f
	}
	return 0
}

// packToken gives the bytes of a token that is lowercase hexadecimal, or else itself.
func packToken(token string) (packed string, inHex bool) {
	b, err := hex.DecodeString(token)
	if err != nil || hex.EncodeToString(b) != token {
		return token, false
	}
	return string(b), true
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func (m *message) appendDevice(b []byte) []byte {
	token, inHex := packToken(m.Token)
	b = append(b, messageForm, flag(m.Suspect, isSuspect)|flag(m.Retrying, isRetrying)|flag(m.Refused != "", isRefused)|
		flag(m.Environment == api.EnvSandbox, isSandbox)|flag(inHex, isHex))
	b = appendText(appendText(appendText(b, token), m.User), m.Topic)
	b = binary.AppendVarint(b, m.RegisteredAt)
	if m.Refused != "" {
		b = appendText(appendText(b, m.Refused), m.RefusedSaid)
	}
	return b
}

func appendEvent(b []byte, event string, acceptedAt int64, p *render.Push) []byte {
	same := p.CollapseID == event && event != ""
	b = append(b, flag(p.NoRetryUnknown, isNoRetryUnknown)|flag(p.Expiration != nil, hasExpiration)|flag(same, collapsesAsEvent)|flag(sentAsUsual(p), isUsual))
	b = binary.AppendVarint(b, acceptedAt)
	if !sentAsUsual(p) {
		b = binary.AppendVarint(appendText(b, string(p.PushType)), int64(p.Priority))
	}
	if !same {
		b = appendText(b, p.CollapseID)
	}
	if p.Expiration != nil {
		b = binary.AppendVarint(b, *p.Expiration)
	}
	if !sentAsUsual(p) {
		b = binary.AppendVarint(binary.AppendVarint(b, p.ExpiresAt), p.TTL)
	}
	payload := string(p.Payload)
	if event != "" {
		payload = strings.ReplaceAll(payload, event, string(rune(eventByte)))
	}
	return append(b, packPayload.Replace(payload)...)
}

// encode writes the message.
func (m *message) encode() []byte {
	return appendEvent(m.appendDevice(nil), m.Event, m.AcceptedAt, &m.Push)
}

// encoder writes the messages of one event. What they have in common, the
// payload above all, is written once.
type encoder struct{ common []byte }

func newEncoder(event string, j *events.Job) *encoder {
	return &encoder{common: appendEvent(nil, event, j.AcceptedAt, &j.Push)}
}

// message writes one message.
func (e *encoder) message(user string, d *api.Device) []byte {
	m := message{
		Token: d.Token, User: user, Topic: d.Topic, Environment: d.Environment, RegisteredAt: d.RegisteredAt.UnixMilli(),
		Suspect: d.State == api.DeviceSuspect,
	}
	return append(m.appendDevice(make([]byte, 0, len(e.common)+len(d.Token)+len(user)+len(d.Topic)+16)), e.common...)
}

// decodeMessage reads what a job of that group holds.
func decodeMessage(event string, text []byte) (*message, error) {
	r := &fields{rest: text}
	if form := r.byte(); form != messageForm {
		return nil, fmt.Errorf("a notification of form %d", form)
	}
	flags := r.byte()
	m := &message{
		Event: event, Token: r.text(), User: r.text(), Topic: r.text(), Environment: api.EnvProduction, RegisteredAt: r.number(),
		Suspect: flags&isSuspect != 0, Retrying: flags&isRetrying != 0,
	}
	if flags&isSandbox != 0 {
		m.Environment = api.EnvSandbox
	}
	if flags&isHex != 0 {
		m.Token = hex.EncodeToString([]byte(m.Token))
	}
	if flags&isRefused != 0 {
		m.Refused, m.RefusedSaid = r.text(), r.text()
	}
	flags = r.byte()
	m.AcceptedAt = r.number()
	m.Push = usual
	p := &m.Push
	p.NoRetryUnknown, p.CollapseID = flags&isNoRetryUnknown != 0, event
	if flags&isUsual == 0 {
		p.PushType, p.Priority = api.PushType(r.text()), int(r.number())
	}
	if flags&collapsesAsEvent == 0 {
		p.CollapseID = r.text()
	}
	if flags&hasExpiration != 0 {
		at := r.number()
		p.Expiration = &at
	}
	if flags&isUsual == 0 {
		p.ExpiresAt, p.TTL = r.number(), r.number()
	}
	if r.short {
		return nil, errors.New("a notification that is cut off")
	}
	p.Payload = []byte(strings.ReplaceAll(unpackPayload.Replace(string(r.rest)), string(rune(eventByte)), event))
	return m, nil
}

// fields reads values that stand one behind the other; short: the text ended too early.
type fields struct {
	rest  []byte
	short bool
}

func (r *fields) take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.rest, r.short = nil, true
		return nil
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *fields) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *fields) text() string {
	size, n := binary.Uvarint(r.rest)
	if n <= 0 || size > uint64(len(r.rest)-n) {
		n, size = -1, 0
	}
	r.take(n)
	return string(r.take(int(size)))
}

func (r *fields) number() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		n = -1
	}
	r.take(n)
	return v
}

// marked is the message again, with the mark that it is counted as retrying.
func (m *message) marked() []byte {
	again := *m
	again.Retrying = true
	return again.encode()
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
