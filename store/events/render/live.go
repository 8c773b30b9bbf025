package render

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"fanfare/api"
)

// stampPlace stands in a payload for the timestamp that an event gets when it begins. It is as long as any until 2286.
const stampPlace = "9999999999"

// stampMember is the member of aps that has it.
var stampMember = []byte(`"timestamp":` + stampPlace)

// liveMembers are the members of aps that live sets.
var liveMembers = []string{"timestamp", "event", "content-state", "attributes-type", "attributes", "stale-date", "dismissal-date", "relevance-score"}

// LiveTemplateSet renders live events whose type does not exist.
func LiveTemplateSet() *TemplateSet {
	s := DefaultTemplateSet()
	s.pushType = api.PushLiveActivity
	return s
}

// checkLive requires live of an event whose push type is liveactivity, and refuses it of any other.
func (s *TemplateSet) checkLive(e *api.EventRequest) error {
	switch is := s.pushType == api.PushLiveActivity; {
	case is && e.Live == nil:
		return api.Invalid("live", "required", "is where a push of type liveactivity takes its payload from")
	case !is && e.Live != nil:
		return api.Invalid("live", "push_type", "goes only with an event type whose push type is liveactivity")
	case !is:
		return nil
	}
	own, err := parseAPS(s.pushType, e.APS)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range liveMembers {
		if _, ok := own[name]; ok {
			errs = append(errs, api.Invalid("aps."+name, "reserved", "is set by live"))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Data)) {
		if liveData[name] {
			errs = append(errs, api.Invalid("data."+name, "reserved", "is what Android apps get live in"))
		}
	}
	return joinInvalid(errs)
}

// liveData are the members of data in which Android apps get a live event.
var liveData = map[string]bool{"live": true, "timestamp": true}

// setLive lays what live says over aps. A start needs an alert: without one, phones leave it out.
func setLive(e *api.EventRequest, aps map[string]json.RawMessage) error {
	l := e.Live
	if _, ok := aps["alert"]; !ok && l.Action == api.LiveStart {
		return api.Invalid("alert", "required", "is what a start needs, if its event type has no texts")
	}
	for _, name := range liveMembers {
		delete(aps, name)
	}
	for name, value := range aps { // what is behind the timestamp must not be taken for it
		if name > "timestamp" && bytes.Contains(value, []byte(stampPlace)) {
			return api.Invalid("aps."+name, "reserved", "may not have the number %s", stampPlace)
		}
	}
	aps["timestamp"], aps["event"] = json.RawMessage(stampPlace), marshal(l.Action)
	for name, object := range map[string]json.RawMessage{"content-state": l.ContentState, "attributes": l.Attributes} {
		if value := shortObject(object); value != nil {
			aps[name] = value
		}
	}
	if l.AttributesType != "" {
		aps["attributes-type"] = marshal(l.AttributesType)
	}
	for name, at := range map[string]*api.Time{"stale-date": l.StaleAt, "dismissal-date": l.DismissAt} {
		if at != nil {
			aps[name] = strconv.AppendInt(nil, at.Unix(), 10)
		}
	}
	if l.Relevance != nil {
		aps["relevance-score"] = marshal(*l.Relevance)
	}
	_, channel := aps["input-push-channel"]
	if _, ok := aps["input-push-token"]; !ok && !channel && l.Action == api.LiveStart {
		aps["input-push-token"] = json.RawMessage("1") // iOS 18 and later give the app a token for updates if asked
	}
	soundInAlert(aps)
	return nil
}

// shortObject is a JSON object in its shortest form; nil for none.
func shortObject(raw json.RawMessage) json.RawMessage {
	object, err := api.ShortestJSON(raw)
	if err != nil || !isObject(object) {
		return nil
	}
	return object
}

// soundInAlert moves the sound into the alert, where Live Activities have it.
func soundInAlert(aps map[string]json.RawMessage) {
	sound, ok := aps["sound"]
	delete(aps, "sound")
	var alert map[string]json.RawMessage
	if !ok || json.Unmarshal(aps["alert"], &alert) != nil || alert == nil || alert["sound"] != nil {
		return
	}
	alert["sound"] = sound
	aps["alert"] = appendObject(nil, alert, appendRaw)
}

// renderLive is what Android apps get of live, beside the timestamp; nil without live.
func renderLive(e *api.EventRequest) json.RawMessage {
	if e.Live == nil {
		return nil
	}
	l := *e.Live
	l.ContentState, l.Attributes = shortObject(l.ContentState), shortObject(l.Attributes)
	return marshal(&l)
}

// Stamp sets the timestamp of a live push, once, in Unix seconds. It changes nothing in other pushes.
func (p *Push) Stamp(second int64) {
	at := bytes.LastIndex(p.Payload, stampMember) // what the caller's state has is before it
	if at < 0 {
		return
	}
	number := strconv.AppendInt(nil, second, 10)
	p.Payload = slices.Concat(p.Payload[:at+len(stampMember)-len(stampPlace)], number, p.Payload[at+len(stampMember):])
}

// liveMessage is a live push as FCM takes it: for an Android app as data, and for an iPhone as APNs gets it. The sender
// adds the token of an iPhone's activity.
func (p *Push) liveMessage() (*fcmMessage, bool) {
	doc, ok := p.rendered()
	if !ok || p.LiveData == nil {
		return nil, false
	}
	m := &fcmMessage{data: doc.Data, aps: doc.APS, headers: map[string]string{}, own: [][2]string{
		{"event_id", doc.EventID}, {"live", string(p.LiveData)}, {"object", doc.Object}, {"timestamp", string(doc.timestamp)}, {"type", doc.Type},
	}}
	m.android = map[string]json.RawMessage{"priority": json.RawMessage(`"NORMAL"`), "collapse_key": marshal(doc.Object)}
	if p.Priority == 10 {
		m.android["priority"] = json.RawMessage(`"HIGH"`)
	}
	if p.CollapseID != "" {
		m.android["collapse_key"] = marshal(p.CollapseID)
	}
	if p.Priority != 0 {
		m.headers["apns-priority"] = strconv.Itoa(p.Priority)
	}
	var own map[string]json.RawMessage
	_ = json.Unmarshal(p.FCM, &own)
	m.android = merged(m.android, own)
	delete(m.android, "notification") // the app makes it
	return m, true
}
