package render

import (
	"encoding/json"
	"maps"
	"net/url"

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
// (W5): it is no alert, or it shows no text. The push must be in one language, whose locale is given ("": the default
// one). The last member is the type, as in the payload of APNs.
func (p *Push) page(language string) (json.RawMessage, bool) {
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
	if r.badge != nil {
		members["app_badge"] = r.badge
	}
	declared := maps.Clone(members)
	declare(declared, language, marshal(r.Type))
	if payload := pageOf(declared, r.Type); len(payload) <= api.MaxWebPushPayload {
		return payload, true
	}
	return pageOf(members, r.Type), true // a worker shows it
}

// pageOf writes what a page gets.
func pageOf(members map[string]json.RawMessage, typ string) json.RawMessage {
	b := appendObject(make([]byte, 0, 512), members, appendRaw)
	return append(appendQuote(append(b[:len(b)-1], `,"type":`...), typ), '}')
}

// declarative is the mark of a message that a browser shows without a script: the number of the RFC of Web Push.
const declarative = "8030"

// declare adds what a browser needs to show a push by itself (D1), which takes an absolute url. It is mutable: a worker
// that the page has is asked first, and what is declared here is shown if there is none, or if it shows nothing.
func declare(members map[string]json.RawMessage, language string, typ json.RawMessage) {
	var address string
	if json.Unmarshal(members["url"], &address) != nil || !absolute(address) {
		return
	}
	n := map[string]json.RawMessage{"navigate": members["url"]}
	// WebKit reads app_badge here, and the Push API's draft beside the notification.
	for _, name := range []string{"title", "body", "tag", "icon", "badge", "image", "require_interaction", "app_badge"} {
		if value, ok := members[name]; ok {
			n[name] = value
		}
	}
	if _, ok := n["title"]; !ok { // a notification must have one
		n["title"] = n["body"]
		delete(n, "body")
	}
	if language != "" {
		n["lang"] = marshal(language)
	}
	if actions, ok := members["actions"]; ok {
		n["actions"] = navigating(actions, members["url"])
	}
	data := map[string]json.RawMessage{"type": typ}
	for _, name := range []string{"event_id", "object", "data", "url"} { // as a worker puts them there
		if value, ok := members[name]; ok {
			data[name] = value
		}
	}
	n["data"] = appendObject(nil, data, appendRaw)
	members["web_push"], members["mutable"] = json.RawMessage(declarative), json.RawMessage("true")
	members["notification"] = appendObject(nil, n, appendRaw)
}

// absolute reports whether an address of a page says its host.
func absolute(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

// navigating are buttons that open an address: without a worker, a button must say what it opens.
func navigating(actions, address json.RawMessage) json.RawMessage {
	var list []map[string]json.RawMessage
	if json.Unmarshal(actions, &list) != nil {
		return actions
	}
	for _, action := range list {
		action["navigate"] = address
	}
	return marshal(list)
}

// forWebPush is the push, in one language, for browsers; nil if it is not meant for them. One that is too
// large has no payload: the sender lets it fail.
func (p *Push) forWebPush(language string) *Push {
	payload, ok := p.page(language)
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
