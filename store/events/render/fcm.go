package render

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"fanfare/api"
)

// fcmFixed are the members of fcm that an event type or an event cannot set, and what sets them.
var fcmFixed = map[string]string{
	"collapse_key": "collapse_id", "data": "data", "priority": "the event type's priority", "ttl": "ttl_seconds or expires_at",
}

// parseFCM reads an fcm object; nil for none.
func parseFCM(raw json.RawMessage) (map[string]json.RawMessage, error) {
	object, err := parseObject("fcm", raw)
	if object == nil {
		return nil, err
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(fcmFixed)) {
		if _, ok := object[name]; ok {
			errs = append(errs, api.Invalid("fcm."+name, "reserved", "is set by %s", fcmFixed[name]))
		}
	}
	return object, joinInvalid(errs)
}

// merged lays upper over lower, member by member. Objects are merged in turn.
func merged(lower, upper map[string]json.RawMessage) map[string]json.RawMessage {
	out := maps.Clone(lower)
	if out == nil {
		out = make(map[string]json.RawMessage, len(upper))
	}
	for name, value := range upper {
		var below, above map[string]json.RawMessage
		if isObject(out[name]) && isObject(value) && json.Unmarshal(out[name], &below) == nil && json.Unmarshal(value, &above) == nil {
			value = appendObject(nil, merged(below, above), appendRaw)
		}
		out[name] = value
	}
	return out
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

// renderFCM is the type's fcm with the event's laid over it; nil for none.
func (s *TemplateSet) renderFCM(e *api.EventRequest) (json.RawMessage, error) {
	own, err := parseFCM(e.FCM)
	if err != nil || len(s.fcm)+len(own) == 0 {
		return nil, err
	}
	return appendObject(nil, merged(s.fcm, own), appendRaw), nil
}

// fcmMessage is a push as FCM takes it, without the device and the time to live. The token of a device of FCM
// does not tell what it runs, so each message has what Android, iPhones and web apps need. Android shows android
// alone, which has all that notification has.
type fcmMessage struct {
	android, shown map[string]json.RawMessage
	headers        map[string]string          // for iPhones
	aps            json.RawMessage            // for iPhones
	notification   map[string]json.RawMessage // for web apps
	data           map[string]string
	own            [][2]string // what fanfare adds to data, in this order
}

// fcmVisible are the members of android.notification of which a notification needs one to show a text.
var fcmVisible = []string{"title", "body", "title_loc_key", "body_loc_key"}

// fcm makes the message from the payload of APNs; false if the push is not meant for FCM (W5): its push
// type is APNs' alone, or it shows no text. The push must be in one language.
func (p *Push) fcm() (*fcmMessage, bool) {
	if p.PushType == api.PushLiveActivity {
		return p.liveMessage()
	}
	if p.PushType != api.PushAlert && p.PushType != api.PushBackground {
		return nil, false
	}
	doc, ok := p.rendered()
	if !ok {
		return nil, false
	}
	m := &fcmMessage{data: doc.Data, own: [][2]string{{"event_id", doc.EventID}, {"object", doc.Object}, {"type", doc.Type}}}
	m.android = map[string]json.RawMessage{"priority": json.RawMessage(`"NORMAL"`)}
	if p.Priority == 10 {
		m.android["priority"] = json.RawMessage(`"HIGH"`)
	}
	if p.CollapseID != "" && p.CollapseID != doc.EventID {
		m.android["collapse_key"] = marshal(p.CollapseID)
	}
	m.aps, m.headers = doc.APS, map[string]string{"apns-push-type": string(p.PushType)}
	if p.CollapseID != "" {
		m.headers["apns-collapse-id"] = p.CollapseID
	}
	if p.Priority != 0 {
		m.headers["apns-priority"] = strconv.Itoa(p.Priority)
	}
	if p.PushType == api.PushAlert {
		m.android["notification"] = appendObject(nil, p.shown(&doc), appendRaw)
	}
	var own map[string]json.RawMessage
	_ = json.Unmarshal(p.FCM, &own)
	m.android = merged(m.android, own)
	if p.PushType == api.PushBackground {
		delete(m.android, "notification")
		return m, true
	}
	_ = json.Unmarshal(m.android["notification"], &m.shown)
	text := doc.text()
	m.notification = present(map[string]string{"title": text.Title, "body": text.Body})
	if len(m.notification) == 0 { // fcm alone has the text
		m.notification = maps.Clone(m.shown)
		maps.DeleteFunc(m.notification, func(name string, _ json.RawMessage) bool { return name != "title" && name != "body" })
	}
	return m, slices.ContainsFunc(fcmVisible, func(name string) bool { return m.shown[name] != nil })
}

// present are the members that have a value.
func present(members map[string]string) map[string]json.RawMessage {
	out := make(map[string]json.RawMessage, len(members))
	for name, value := range members {
		if value != "" {
			out[name] = marshal(value)
		}
	}
	return out
}

// shown are the members of android.notification that come from the alert and the sound of aps.
func (p *Push) shown(doc *rendered) map[string]json.RawMessage {
	var name string
	if json.Unmarshal(doc.sound, &name) != nil {
		var critical struct {
			Name string `json:"name"`
		}
		_ = json.Unmarshal(doc.sound, &critical)
		name = critical.Name
	}
	text := doc.text()
	members := present(map[string]string{"title": text.Title, "body": text.Body, "sound": name, "tag": p.CollapseID})
	if doc.badge != nil {
		members["notification_count"] = doc.badge
	}
	return members
}

// size is how many bytes of keys and values Android gets. What iPhones and web apps get fits because the payload of
// APNs does, which has all of it and the same limit.
func (m *fcmMessage) size() (n int) {
	m.eachOfData(func(name, value string) { n += len(name) + len(value) })
	for name, value := range m.shown {
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		n += len(name) + len(text)
	}
	return n
}

// eachOfData calls f for each member of data, those of fanfare last.
func (m *fcmMessage) eachOfData(f func(name, value string)) {
	for _, name := range slices.Sorted(maps.Keys(m.data)) {
		if !fcmOurs[name] {
			f(name, m.data[name])
		}
	}
	for _, own := range m.own {
		if own[1] != "" {
			f(own[0], own[1])
		}
	}
}

// payload writes the message. Its last member is the type, as in the payload of APNs.
func (m *fcmMessage) payload() json.RawMessage {
	b := appendObject(append(make([]byte, 0, 1024), `{"android":`...), m.android, appendRaw)
	b = appendObject(append(b, `,"apns":{"headers":`...), m.headers, appendQuote)
	b = append(append(append(b, `,"payload":{"aps":`...), m.aps...), "}}"...)
	if len(m.notification) > 0 {
		b = appendObject(append(b, `,"notification":`...), m.notification, appendRaw)
	}
	b = append(b, `,"data":`...)
	separator := byte('{')
	m.eachOfData(func(name, value string) {
		b = appendQuote(append(appendQuote(append(b, separator), name), ':'), value)
		separator = ','
	})
	return append(b, "}}"...)
}

// forFCM is the push, in one language, for devices of FCM; nil if it is not meant for them. One that is
// too large has no payload: the sender lets it fail.
func (p *Push) forFCM() *Push {
	m, ok := p.fcm()
	if !ok {
		return nil
	}
	out := *p
	out.FCM, out.LiveData, out.Payload = nil, nil, nil
	if m.size() <= api.MaxPayload {
		out.Payload = m.payload()
	}
	return &out
}

// checkFCM checks what FCM does not take (W6): names of data that FCM or fanfare uses, and a message that
// is too large in one of its languages.
func (p *Push) checkFCM(e *api.EventRequest) error {
	var fields []api.FieldError
	for _, name := range slices.Sorted(maps.Keys(e.Data)) {
		if reservedName(name) {
			fields = append(fields, api.FieldError{Field: "data." + name, Rule: "reserved", Message: "is a name that FCM or fanfare uses"})
		}
	}
	if len(fields) > 0 {
		err := api.Errorf(api.CodeReservedKey, "%s %s", fields[0].Field, fields[0].Message)
		err.Fields = fields
		return err
	}
	return p.checkSize(api.PlatformFCM)
}

// fcmOurs are the members of data that fanfare sets.
var fcmOurs = map[string]bool{"event_id": true, "object": true, "type": true}

// reservedName reports whether data may not have this member on FCM.
func reservedName(name string) bool {
	return fcmOurs[name] || name == "from" || name == "message_type" || strings.HasPrefix(name, "google.") || strings.HasPrefix(name, "gcm.notification.")
}
