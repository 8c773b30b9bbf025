package delivery

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"fanfare/api"
	"fanfare/store/events"
	"fanfare/store/events/render"
	"fanfare/store/pack"
)

// ShowMessage renders a notification's queue entry as JSON, for its dead letter. Of a browser's endpoint it
// shows the origin alone, and nothing of its keys; of an entry that cannot be read it shows nothing.
func ShowMessage(group string, text []byte) json.RawMessage {
	m, err := decodeMessage(group, text)
	if err != nil {
		return nil // it may have keys all the same
	}
	token := m.Token
	if registration, activity, ok := api.LiveTarget(m.Target); ok {
		token = cmp.Or(activity, registration) // as the app registered it
	}
	shown, err := json.Marshal(struct {
		ID     string `json:"id"` // at the push service
		Origin string `json:"origin,omitempty"`
		Token  string `json:"token"`
		*message
	}{events.NotificationID(m.Event, m.Token), api.OriginOf(m.Target), token, m})
	if err != nil {
		return nil
	}
	return shown
}

// A waiting message is two values of package pack. It is short, because millions may wait: the event's id is taken
// from the job's group, what is usual is left out, and texts that most payloads share are replaced by bytes that never
// occur in JSON.

// devicePart is what a message has of its device.
type devicePart struct {
	Hex          []byte `cbor:"1,keyasint,omitempty"` // the bytes that a token of lowercase hexadecimal digits stands for
	Token        string `cbor:"2,keyasint,omitempty"` // any other token
	User         string `cbor:"3,keyasint,omitempty"`
	Topic        string `cbor:"4,keyasint,omitempty"`
	Sandbox      bool   `cbor:"5,keyasint,omitempty"`
	Other        bool   `cbor:"6,keyasint,omitempty"` // the platform is not APNs, and there is no environment
	RegisteredAt int64  `cbor:"7,keyasint,omitempty"`
	Target       string `cbor:"8,keyasint,omitempty"`
	Suspect      bool   `cbor:"9,keyasint,omitempty"`
	Retrying     bool   `cbor:"10,keyasint,omitempty"`
	Refused      string `cbor:"11,keyasint,omitempty"`
	RefusedSaid  string `cbor:"12,keyasint,omitempty"`
	Channel      string `cbor:"13,keyasint,omitempty"`
	Activity     string `cbor:"14,keyasint,omitempty"`
	Latest       bool   `cbor:"15,keyasint,omitempty"`
}

// eventPart is what a message has of its event.
type eventPart struct {
	AcceptedAt     int64        `cbor:"1,keyasint,omitempty"`
	PushType       api.PushType `cbor:"2,keyasint,omitempty"` // "": as usual
	Priority       int          `cbor:"3,keyasint,omitempty"` // 0: as usual
	CollapseID     *string      `cbor:"4,keyasint,omitempty"` // nil: the event's id
	Expiration     *int64       `cbor:"5,keyasint,omitempty"`
	ExpiresAt      int64        `cbor:"6,keyasint,omitempty"`
	TTL            int64        `cbor:"7,keyasint,omitempty"`
	NoRetryUnknown bool         `cbor:"8,keyasint,omitempty"`
	Payload        []byte       `cbor:"9,keyasint"`
	Trace          string       `cbor:"10,keyasint,omitempty"`
	LiveObject     string       `cbor:"11,keyasint,omitempty"`
	LivePlace      int64        `cbor:"12,keyasint,omitempty"`
	LiveLane       string       `cbor:"13,keyasint,omitempty"`
}

// The type and the priority of most notifications.
const (
	usualType     = api.PushAlert
	usualPriority = 10
)

// eventByte replaces the event's id in the payload.
const eventByte = "\x01"

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

// packToken returns the bytes that a lowercase hexadecimal token stands for; false for any other.
func packToken(token string) ([]byte, bool) {
	b, err := hex.DecodeString(token)
	return b, err == nil && hex.EncodeToString(b) == token
}

func (m *message) devicePart() []byte {
	p := devicePart{User: m.User, Topic: m.Topic, Sandbox: m.Environment == api.EnvSandbox, Other: m.Environment == "", RegisteredAt: m.RegisteredAt,
		Target: m.Target, Suspect: m.Suspect, Retrying: m.Retrying, Refused: m.Refused, RefusedSaid: m.RefusedSaid, Channel: m.Channel, Latest: m.Latest, Activity: m.Activity}
	if packed, ok := packToken(m.Token); ok {
		p.Hex = packed
	} else {
		p.Token = m.Token
	}
	return pack.Encode(&p)
}

func (m *message) eventPart() []byte {
	p, payload := &m.Push, string(m.Push.Payload)
	if m.Event != "" {
		payload = strings.ReplaceAll(payload, m.Event, eventByte)
	}
	part := eventPart{AcceptedAt: m.AcceptedAt, Trace: m.Trace, Expiration: p.Expiration, ExpiresAt: p.ExpiresAt, TTL: p.TTL,
		NoRetryUnknown: p.NoRetryUnknown, Payload: []byte(packPayload.Replace(payload)), LiveObject: m.Live.Object, LivePlace: m.Live.Place, LiveLane: m.Live.Lane}
	if p.PushType != usualType {
		part.PushType = p.PushType
	}
	if p.Priority != usualPriority {
		part.Priority = p.Priority
	}
	if p.CollapseID != m.Event {
		part.CollapseID = &p.CollapseID
	}
	return pack.Encode(&part)
}

// encode writes the message.
func (m *message) encode() []byte { return append(m.devicePart(), m.eventPart()...) }

// decodeMessage decodes the payload of a job in this group.
func decodeMessage(group string, text []byte) (*message, error) {
	var d devicePart
	var p eventPart
	rest, err := pack.DecodeFirst(text, &d)
	if err == nil {
		err = pack.Decode(rest, &p)
	}
	if err == nil && (len(d.Hex)+len(d.Token) == 0 || p.Payload == nil) { // one that is too large for its service has an empty one
		err = errors.New("it has no token or no payload") // a later version may name them otherwise
	}
	if err != nil {
		return nil, fmt.Errorf("decode notification: %w", err)
	}
	event := events.EventOfGroup(group)
	m := &message{
		Event: event, Token: cmp.Or(d.Token, hex.EncodeToString(d.Hex)), User: d.User, Topic: d.Topic, Environment: api.EnvProduction,
		RegisteredAt: d.RegisteredAt, Target: d.Target, Suspect: d.Suspect, Retrying: d.Retrying, Refused: d.Refused, RefusedSaid: d.RefusedSaid, Channel: d.Channel, Latest: d.Latest, Activity: d.Activity,
		AcceptedAt: p.AcceptedAt, Trace: p.Trace, Live: events.Superseding{Object: p.LiveObject, Lane: p.LiveLane, Place: p.LivePlace},
		Push: render.Push{PushType: cmp.Or(p.PushType, usualType), Priority: cmp.Or(p.Priority, usualPriority), CollapseID: event,
			Expiration: p.Expiration, ExpiresAt: p.ExpiresAt, TTL: p.TTL, NoRetryUnknown: p.NoRetryUnknown,
			Payload: []byte(strings.ReplaceAll(unpackPayload.Replace(string(p.Payload)), eventByte, event))},
	}
	switch {
	case d.Other:
		m.Environment = ""
	case d.Sandbox:
		m.Environment = api.EnvSandbox
	}
	if p.CollapseID != nil {
		m.Push.CollapseID = *p.CollapseID
	}
	return m, nil
}

// marked encodes the message again, marked as counted as retrying.
func (m *message) marked() []byte {
	again := *m
	again.Retrying = true
	return again.encode()
}
