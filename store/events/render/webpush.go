package render

import (
	"encoding/json"

	"fanfare/api"
)

// membersOf are the members of webpush by name; nil for none.
func membersOf(o *api.WebPushOptions) map[string]json.RawMessage {
	if o == nil {
		return nil
	}
	var members map[string]json.RawMessage
	_ = json.Unmarshal(marshal(o), &members)
	return members
}

// renderWebPush is the type's webpush with the event's laid over it; nil for none, and for push types that
// do not go to browsers.
func (s *TemplateSet) renderWebPush(e *api.EventRequest) json.RawMessage {
	own := membersOf(e.WebPush)
	if s.pushType != api.PushAlert || len(s.webpush)+len(own) == 0 {
		return nil
	}
	return appendObject(nil, merged(s.webpush, own), appendRaw)
}

// page is the payload for pages, made from the payload of APNs; false if the push is not meant for browsers
// (W5): it is no alert, or it shows no text. The push must be in one language. The last member is the type,
// as in the payload of APNs.
func (p *Push) page() (json.RawMessage, bool) {
	r, ok := p.rendered()
	text := r.text()
	if !ok || p.PushType != api.PushAlert || text == (api.Alert{}) {
		return nil, false
	}
	var members map[string]json.RawMessage
	_ = json.Unmarshal(p.WebPush, &members)
	members = merged(members, present(map[string]string{"title": text.Title, "body": text.Body, "tag": p.CollapseID, "event_id": r.EventID, "object": r.Object}))
	if len(r.Data) > 0 {
		members["data"] = appendObject(nil, r.Data, appendQuote)
	}
	b := appendObject(make([]byte, 0, 512), members, appendRaw)
	return append(appendQuote(append(b[:len(b)-1], `,"type":`...), r.Type), '}'), true
}

// forWebPush is the push, in one language, for browsers; nil if it is not meant for them. One that is too
// large has no payload: the sender lets it fail.
func (p *Push) forWebPush() *Push {
	payload, ok := p.page()
	if !ok {
		return nil
	}
	out := *p
	out.FCM, out.WebPush, out.Payload = nil, nil, nil
	if len(payload) <= api.MaxWebPushPayload {
		out.Payload = payload
	}
	return &out
}
