package delivery

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"fanfare/api"
	"fanfare/store/devices"
	"fanfare/store/events"
	"fanfare/store/events/render"
	"fanfare/store/queue"
)

// ShowMessage renders a notification's queue entry as JSON, for its dead letter. Of a browser's endpoint it
// shows the origin alone, and nothing of its keys.
func ShowMessage(group string, text []byte) json.RawMessage {
	m, err := decodeMessage(group, text)
	if err != nil {
		return text
	}
	shown, err := json.Marshal(struct {
		ID     string `json:"id"` // at the push service
		Origin string `json:"origin,omitempty"`
		*message
	}{events.NotificationID(m.Event, m.Token), api.OriginOf(m.Target), m})
	if err != nil {
		return text
	}
	return shown
}

// The encoding of a message: its form, the device's fields (appendDevice), the event's fields
// (appendEvent), and the payload up to the end. Strings are length-prefixed and numbers are
// varints. It is short because millions may wait. A hexadecimal token is stored as the
// bytes that it stands for, and the event's id is taken from the job's group. In the payload, the id
// and other texts that most payloads share are replaced by bytes that never occur in JSON.
const (
	messageForm = 1 // another is refused
	eventByte   = 1
)

// commonText pairs each replacement byte with the text that it stands for, which many payloads
// contain.
var commonText = []string{
	"\x02", `{"aps":{"alert":{"title":"`, "\x03", `{"aps":{"alert":{"body":"`, "\x04", `","body":"`, "\x05", `","title":"`,
	"\x06", `"}},"event_id":"`, "\x07", `},"event_id":"`, "\x0e", `","type":"`, "\x0f", `"sound":"default"`, "\x10", `"thread-id":"`,
	"\x11", `,"badge":`, "\x12", `"mutable-content":1`, "\x13", `"content-available":1`, "\x14", `"category":"`,
}

var packPayload, unpackPayload = strings.NewReplacer(swapped(commonText)...), strings.NewReplacer(commonText...)

// swapped exchanges the two texts of each pair.
func swapped(pairs []string) []string {
	out := slices.Clone(pairs)
	for i := 0; i < len(out); i += 2 {
		out[i], out[i+1] = out[i+1], out[i]
	}
	return out
}

// Flags of the device's fields; the flags of the event's fields follow.
const (
	isSuspect = 1 << iota
	isRetrying
	isRefused
	isSandbox
	isHex   // the token is stored as the bytes of its hexadecimal digits
	isOther // the device is of another platform than APNs, and has no environment
	hasTarget
)

const (
	isNoRetryUnknown = 1 << iota
	hasExpiration
	collapsesAsEvent // the collapse id is the event's id
	isUsual          // sent as usual says; the fields that it covers are left out
)

// usual is how most notifications are sent: at once, and without a time to live.
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

// packToken returns the bytes that a lowercase hexadecimal token stands for; any other token is
// returned unchanged.
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
		flag(m.Environment == api.EnvSandbox, isSandbox)|flag(inHex, isHex)|flag(m.Environment == "", isOther)|flag(m.Target != "", hasTarget))
	b = appendText(appendText(appendText(b, token), m.User), m.Topic)
	b = binary.AppendVarint(b, m.RegisteredAt)
	if m.Target != "" {
		b = appendText(b, m.Target)
	}
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

// encoder encodes the messages of one event. The common part, mostly the payload, is encoded
// once for each platform and language.
type encoder struct {
	event  string
	job    *events.Job
	common map[*render.Push][]byte
}

func newEncoder(event string, j *events.Job) *encoder {
	return &encoder{event: event, job: j, common: map[*render.Push][]byte{}}
}

// message encodes the message to one device.
func (e *encoder) message(user string, d *api.Device) []byte {
	push := e.job.PushFor(d)
	common, ok := e.common[push]
	if !ok {
		common = appendEvent(nil, e.event, e.job.AcceptedAt, push)
		e.common[push] = common
	}
	m := message{
		Token: d.Token, User: user, Topic: d.Topic, Environment: d.Environment, RegisteredAt: d.RegisteredAt.UnixMilli(),
		Target: d.Target, Suspect: d.State == api.DeviceSuspect,
	}
	return append(m.appendDevice(make([]byte, 0, len(common)+len(d.Token)+len(user)+len(d.Topic)+len(d.Target)+16)), common...)
}

// decodeMessage decodes the payload of a job in this group.
func decodeMessage(group string, text []byte) (*message, error) {
	event, r := events.EventOfGroup(group), &fields{rest: text}
	if form := r.byte(); form != messageForm {
		return nil, fmt.Errorf("a notification of form %d", form)
	}
	flags := r.byte()
	m := &message{
		Event: event, Token: r.text(), User: r.text(), Topic: r.text(), Environment: api.EnvProduction, RegisteredAt: r.number(),
		Suspect: flags&isSuspect != 0, Retrying: flags&isRetrying != 0,
	}
	switch {
	case flags&isOther != 0:
		m.Environment = ""
	case flags&isSandbox != 0:
		m.Environment = api.EnvSandbox
	}
	if flags&hasTarget != 0 {
		m.Target = r.text()
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

// fields reads values one after the other; short is set when the text ends too early.
type fields struct {
	rest  []byte
	short bool
}

func (f *fields) take(n int) []byte {
	if n < 0 || n > len(f.rest) {
		f.rest, f.short = nil, true
		return nil
	}
	taken := f.rest[:n]
	f.rest = f.rest[n:]
	return taken
}

func (f *fields) byte() byte {
	if b := f.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (f *fields) text() string {
	size, n := binary.Uvarint(f.rest)
	if n <= 0 || size > uint64(len(f.rest)-n) {
		n, size = -1, 0
	}
	f.take(n)
	return string(f.take(int(size)))
}

func (f *fields) number() int64 {
	v, n := binary.Varint(f.rest)
	if n <= 0 {
		n = -1
	}
	f.take(n)
	return v
}

// marked encodes the message again, marked as counted as retrying.
func (m *message) marked() []byte {
	again := *m
	again.Retrying = true
	return again.encode()
}

// Jobs makes an event's notifications for the queue q.
func Jobs(q *queue.Queue, event string, j *events.Job, to []Recipient) []queue.Job {
	if len(to) == 0 {
		return nil
	}
	enc, jobs, actor := newEncoder(event, j), make([]queue.Job, len(to)), actorMark(j.Actor)
	for i, r := range to {
		jobs[i] = events.JobFor(q, event, r.Device.Token, r.Device.PlatformOf())
		jobs[i].Type, jobs[i].Guard, jobs[i].Payload = actor, devices.GuardName(r.Device.Token), enc.message(r.User, r.Device)
	}
	return jobs
}
