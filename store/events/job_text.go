package events

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Encode writes the job for the queue, as encoding/json would according to the fields' tags. It
// writes the rendered payload unchanged, without checking or escaping it a second time.
func (j *Job) Encode() ([]byte, error) {
	size := 256 + len(j.Push.Payload)
	for _, names := range [][]string{j.Audience.Users, j.Missed} {
		for _, name := range names {
			size += len(name) + 3
		}
	}
	t := &jsonText{b: make([]byte, 0, size)}
	t.object("", func() {
		t.text("type", j.Type)
		t.optional("actor", j.Actor)
		t.optional("object", j.Object)
		t.object("audience", func() { j.Audience.encode(t) })
		t.object("push", func() { j.encodePush(t) })
		t.optional("of", j.Of)
		t.number("parts", j.Parts)
		t.name("accepted_at")
		t.b = strconv.AppendInt(t.b, j.AcceptedAt, 10)
		t.number("send_at", j.SendAt)
		t.optional("cursor", j.Cursor)
		if j.Counted != (Counts{}) {
			t.value("counted", j.Counted)
		}
		t.texts("missed", j.Missed)
		if !j.Sent.none() {
			t.value("sent", j.Sent)
		}
		t.number("settled", j.Settled)
	})
	if t.err != nil {
		return nil, fmt.Errorf("encode event: %w", t.err)
	}
	return t.b, nil
}

func (a *Audience) encode(t *jsonText) {
	t.texts("users", a.Users)
	t.number("pages", int64(a.Pages))
	t.optional("contacts_of", a.ContactsOf)
	t.optional("chat", a.Chat)
	t.optional("topic", a.Topic)
	t.flag("all", a.All)
	if d := a.Device; d != nil {
		t.object("device", func() {
			t.text("user", d.User)
			t.text("token", d.Token)
		})
	}
}

func (j *Job) encodePush(t *jsonText) {
	p := &j.Push
	t.name("payload")
	if p.Payload == nil {
		t.b = append(t.b, "null"...)
	}
	t.b = append(t.b, p.Payload...)
	if l := p.Languages; l != nil {
		t.object("languages", func() {
			t.name("head")
			t.b = strconv.AppendInt(t.b, int64(l.Head), 10)
			t.name("tail")
			t.b = strconv.AppendInt(t.b, int64(l.Tail), 10)
			t.object("middle", func() {
				for _, name := range slices.Sorted(maps.Keys(l.Middle)) {
					t.text(name, l.Middle[name])
				}
			})
		})
	}
	t.raw("fcm", p.FCM)
	t.raw("webpush", p.WebPush)
	t.text("push_type", string(p.PushType))
	t.name("priority")
	t.b = strconv.AppendInt(t.b, int64(p.Priority), 10)
	t.optional("collapse_id", p.CollapseID)
	if p.Expiration != nil {
		t.name("expiration")
		t.b = strconv.AppendInt(t.b, *p.Expiration, 10)
	}
	t.number("expires_at", p.ExpiresAt)
	t.number("ttl", p.TTL)
	t.flag("no_retry_unknown", p.NoRetryUnknown)
	t.texts("topics", p.Topics)
}

// jsonText writes objects of JSON, member by member. The first error stays.
type jsonText struct {
	b   []byte
	err error
}

// name begins a member.
func (t *jsonText) name(name string) {
	if t.b[len(t.b)-1] != '{' {
		t.b = append(t.b, ',')
	}
	t.b = append(append(append(t.b, '"'), name...), '"', ':')
}

// object writes one, as a member if it has a name.
func (t *jsonText) object(name string, members func()) {
	if name != "" {
		t.name(name)
	}
	t.b = append(t.b, '{')
	members()
	t.b = append(t.b, '}')
}

func (t *jsonText) quote(s string) {
	b, err := jsontext.AppendQuote(t.b, s)
	if t.b = b; t.err == nil {
		t.err = err
	}
}

func (t *jsonText) text(name, s string) {
	t.name(name)
	t.quote(s)
}

// raw writes JSON unchanged, unless there is none.
func (t *jsonText) raw(name string, value json.RawMessage) {
	if value != nil {
		t.name(name)
		t.b = append(t.b, value...)
	}
}

// optional writes a text unless it is empty.
func (t *jsonText) optional(name, s string) {
	if s != "" {
		t.text(name, s)
	}
}

// number writes a number unless it is 0.
func (t *jsonText) number(name string, n int64) {
	if n != 0 {
		t.name(name)
		t.b = strconv.AppendInt(t.b, n, 10)
	}
}

// flag writes true, and false not at all.
func (t *jsonText) flag(name string, on bool) {
	if on {
		t.name(name)
		t.b = append(t.b, "true"...)
	}
}

// texts writes a list unless it is empty.
func (t *jsonText) texts(name string, all []string) {
	if len(all) == 0 {
		return
	}
	t.name(name)
	for i, s := range all {
		t.b = append(t.b, "[,"[min(i, 1)])
		t.quote(s)
	}
	t.b = append(t.b, ']')
}

// value writes a rare member with encoding/json.
func (t *jsonText) value(name string, v any) {
	b, err := json.Marshal(v)
	t.name(name)
	if t.b = append(t.b, b...); t.err == nil {
		t.err = err
	}
}
