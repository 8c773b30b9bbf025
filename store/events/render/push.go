package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"fanfare/api"
)

// Push is one rendered notification, the same for every device of an event with the same language:
// the payload and what goes into APNs' headers.
type Push struct {
	Payload json.RawMessage `json:"payload"`
	// Languages has the payloads in other languages; nil: every device gets Payload.
	Languages *Languages `json:"languages,omitempty"`
	// FCM is merged into the android member of messages to FCM.
	FCM json.RawMessage `json:"fcm,omitempty"`
	// WebPush is merged into what pages get.
	WebPush json.RawMessage `json:"webpush,omitempty"`
	// LiveData is what Android apps get of a live event, beside its timestamp.
	LiveData   json.RawMessage `json:"live_data,omitempty"`
	PushType   api.PushType    `json:"push_type"`
	Priority   int             `json:"priority"`
	CollapseID string          `json:"collapse_id,omitempty"`
	// Expiration is apns-expiration in Unix seconds; nil: the header is absent,
	// 0: APNs tries once and stores nothing.
	Expiration *int64 `json:"expiration,omitempty"`
	// ExpiresAt is when fanfare itself gives up, in Unix milliseconds; 0: never.
	ExpiresAt int64 `json:"expires_at,omitempty"`
	// TTL is the same limit in seconds after the event was enqueued, see Begin; 0: none.
	TTL int64 `json:"ttl,omitempty"`
	// NoRetryUnknown ends the notification when its outcome is unknown.
	NoRetryUnknown bool `json:"no_retry_unknown,omitempty"`
	// Topics are those of the apps that the push is for; none: all apps.
	Topics []string `json:"topics,omitempty"`
	// Badge says which number of its user the push shows, in place of badgePlace; "": none, or one of its own.
	Badge api.BadgeMode `json:"badge,omitempty"`
}

// Suits reports whether the push is for a topic. A topic of APNs must end as the push type asks for (A5). An end
// that a plain type must not have is allowed if the topic is named, because it may be that of a bundle id. A live event
// is for the activities of an app on all platforms, with or without the end in its topics.
func (p *Push) Suits(topic string, platform api.Platform) bool {
	takes := platform != api.PlatformAPNs || p.PushType.Takes(topic)
	if len(p.Topics) == 0 {
		return takes
	}
	if p.PushType == api.PushLiveActivity {
		return takes && slices.ContainsFunc(p.Topics, func(t string) bool { return api.LiveBundle(t) == api.LiveBundle(topic) })
	}
	suffix := ""
	if platform == api.PlatformAPNs {
		suffix = p.PushType.TopicSuffix()
	}
	if slices.Contains(p.Topics, topic) {
		return takes || suffix == ""
	}
	return takes && suffix != "" && slices.Contains(p.Topics, strings.TrimSuffix(topic, suffix))
}

// EventType is the type of the push's event, which every payload has at its end.
func (p *Push) EventType() string {
	const begin = `,"type":"`
	at := bytes.LastIndex(p.Payload, []byte(begin))
	if at < 0 {
		return ""
	}
	name, end, _ := bytes.Cut(p.Payload[at+len(begin):], []byte(`"`))
	if string(end) != "}" && string(end) != "}}" { // FCM's data ends there
		return ""
	}
	return string(name)
}

// OfMessage reports whether the push may be about a message of a chat, and so be withdrawn: its event
// has the type of such events. Every payload ends with the type.
func (p *Push) OfMessage() bool {
	const end = `,"type":"` + api.ChatMessageType + `"}`
	return bytes.HasSuffix(p.Payload, []byte(end)) || bytes.HasSuffix(p.Payload, []byte(end+"}")) // FCM's data ends there
}

// Render renders an event once, for all its devices. It is a pure
// function of the type's templates, the event's id and the event; equal arguments
// give equal bytes. A payload above APNs' limit, a missing name of data, or an aps
// that the push type does not allow is a CodeValidation error. The rules that
// api.Validator checks are not checked again.
func (s *TemplateSet) Render(id string, e *api.EventRequest) (*Push, error) {
	if err := s.checkLive(e); err != nil {
		return nil, err
	}
	payload, err := s.renderPayload(id, e)
	if err != nil {
		return nil, err
	}
	languages, err := s.renderLanguages(id, e, payload)
	if err != nil {
		return nil, err
	}
	fcm, err := s.renderFCM(e)
	if err != nil {
		return nil, err
	}
	p := &Push{
		Payload: payload, Languages: languages, FCM: fcm, WebPush: s.renderWebPush(e), LiveData: renderLive(e), PushType: s.pushType, Priority: s.priority,
		CollapseID: e.CollapseID, NoRetryUnknown: !s.retryUnknown, Topics: s.topics,
	}
	if e.Topic != nil {
		p.Topics = e.Topic
	}
	if p.CollapseID == "" && s.collapse && s.pushType == api.PushAlert {
		p.CollapseID = id
	}
	if bytes.Contains(payload, badgePlaces[0]) {
		p.Badge = s.badge
	}
	p.setExpiry(s.ttl, e.ExpiresAt)
	return p, nil
}

// onceWithin is how long fanfare itself tries to hand over a push with a ttl of 0, in seconds.
const onceWithin = 60

// setExpiry sets how long the push is worth sending. A ttl of 0 asks the push service to try once.
func (p *Push) setExpiry(ttl *int64, at *api.Time) {
	switch {
	case at != nil:
		p.endAt(at.Time)
	case ttl != nil && *ttl == 0:
		p.Expiration, p.TTL = new(int64), onceWithin
	case ttl != nil:
		p.TTL = *ttl
	}
}

// Begin turns a TTL into times, once, and reports whether there was one. enqueued is Redis' time, and
// so are the times with which ExpiresAt is compared. The clock of the server that accepted the
// event may differ.
func (p *Push) Begin(enqueued time.Time) bool {
	if p.TTL == 0 {
		return false
	}
	p.endAt(enqueued.Add(time.Duration(p.TTL) * time.Second))
	p.TTL = 0
	return true
}

func (p *Push) endAt(end time.Time) {
	if p.Expiration == nil {
		p.Expiration = new(end.Unix())
	}
	p.ExpiresAt = end.UnixMilli()
}

// renderAPS merges four layers, in this order: the template, the type's aps, the event's alert, the
// event's aps. A later layer takes precedence. Objects under "alert" are merged key by key;
// everything else is replaced as a whole.
func (s *TemplateSet) renderAPS(e *api.EventRequest) (map[string]json.RawMessage, error) {
	own, err := parseAPS(s.pushType, e.APS)
	if err != nil {
		return nil, err
	}
	if apsOnly[s.pushType] && len(s.aps) == 0 && e.APS == nil {
		return nil, api.Invalid("aps", "required", "is where a push of type %s takes its payload from", s.pushType)
	}
	aps := make(map[string]json.RawMessage, len(s.aps)+len(own)+2)
	switch {
	case e.Live != nil && e.Live.Action != api.LiveStart && e.Alert == nil: // the texts of the type are for starts
		maps.Copy(aps, s.aps)
		delete(aps, "alert")
	case s.pushType != api.PushBackground:
		if err := s.renderAlert(e, aps); err != nil {
			return nil, err
		}
	case e.Alert != nil:
		return nil, api.Invalid("alert", "background", "is nothing that a background push may show")
	default:
		maps.Copy(aps, s.aps)
	}
	for name, value := range own {
		aps[name] = over(name, aps[name], value)
	}
	if s.pushType == api.PushBackground {
		aps["content-available"] = json.RawMessage("1")
	}
	if _, own := aps["badge"]; !own && s.badge != "" {
		aps["badge"] = json.RawMessage(badgePlace)
	}
	if e.Live != nil {
		err = setLive(e, aps)
	}
	return aps, err
}

// renderAlert writes the layers below the event's own aps.
func (s *TemplateSet) renderAlert(e *api.EventRequest, aps map[string]json.RawMessage) error {
	if e.Alert == nil {
		text, err := s.renderText(e)
		if err != nil {
			return err
		}
		setAlert(aps, text)
	}
	for name, value := range s.aps {
		aps[name] = over(name, aps[name], value)
	}
	if e.Alert != nil {
		setAlert(aps, *e.Alert)
	}
	return nil
}

func (s *TemplateSet) renderText(e *api.EventRequest) (a api.Alert, err error) {
	if a.Title, err = s.title.Render(e); err != nil {
		return a, err
	}
	a.Body, err = s.body.Render(e)
	return a, err
}

func setAlert(aps map[string]json.RawMessage, a api.Alert) {
	if a == (api.Alert{}) {
		return
	}
	aps["alert"] = over("alert", aps["alert"], appendAlert(make([]byte, 0, len(a.Title)+len(a.Body)+32), a))
}

// over merges a value of aps with that of a lower layer.
func over(name string, lower, upper json.RawMessage) json.RawMessage {
	if name != "alert" || len(lower) == 0 || lower[0] != '{' || upper[0] != '{' {
		return upper
	}
	var merged map[string]json.RawMessage
	if json.Unmarshal(lower, &merged) != nil || json.Unmarshal(upper, &merged) != nil {
		return upper
	}
	return marshal(merged)
}

// parseAPS reads an aps object; nil for none.
func parseAPS(p api.PushType, raw json.RawMessage) (map[string]json.RawMessage, error) {
	aps, err := parseObject("aps", raw)
	if err != nil || p != api.PushBackground {
		return aps, err
	}
	for _, name := range visible {
		if _, ok := aps[name]; ok {
			return nil, api.Invalid("aps."+name, "background", "is nothing that a background push may hold")
		}
	}
	return aps, nil
}

// parseObject reads the JSON object of a field in its shortest form; nil for none.
func parseObject(field string, raw json.RawMessage) (map[string]json.RawMessage, error) {
	if raw == nil {
		return nil, nil
	}
	small, err := api.ShortestJSON(raw)
	var object map[string]json.RawMessage
	if err != nil || !isObject(small) || json.Unmarshal(small, &object) != nil {
		return nil, api.Invalid(field, "object", "must be a JSON object")
	}
	return object, nil
}

// renderPayload writes the whole payload. Every object is ordered by names, so that equal events
// give equal bytes.
func (s *TemplateSet) renderPayload(id string, e *api.EventRequest) (json.RawMessage, error) {
	aps, err := s.renderAPS(e)
	if err != nil {
		return nil, err
	}
	payload := appendObject(append(make([]byte, 0, 384), `{"aps":`...), aps, appendRaw)
	if len(e.Data) > 0 {
		payload = appendObject(append(payload, `,"data":`...), e.Data, appendQuote)
	}
	payload = appendQuote(append(payload, `,"event_id":`...), id)
	if e.Object != "" {
		payload = appendQuote(append(payload, `,"object":`...), e.Object)
	}
	payload = append(appendQuote(append(payload, `,"type":`...), e.Type), '}')
	limit := maxPayload(s.pushType)
	if e.Audience.Broadcast != "" {
		limit = api.MaxBroadcast
	}
	if len(payload) > limit {
		in := ""
		if s.language != "" {
			in = " in " + s.language
		}
		return nil, api.Invalid("payload", "max", "would be %d bytes%s; the limit for %s is %d", len(payload), in, s.pushType, limit).
			With("size", len(payload)).With("limit", limit)
	}
	return payload, nil
}

// maxPayload is APNs' limit for a payload.
func maxPayload(p api.PushType) int {
	if p == api.PushVoIP {
		return api.MaxVoIPPayload
	}
	return api.MaxPayload
}

// joinInvalid joins several CodeValidation errors into one; nil without any.
func joinInvalid(errs []error) error {
	var all *api.Error
	for _, err := range errs {
		var e *api.Error
		if !errors.As(err, &e) {
			continue
		}
		if all == nil {
			all = e
			continue
		}
		joined := *all
		joined.Fields = append(append([]api.FieldError{}, all.Fields...), e.Fields...)
		joined.Detail = all.Detail + "; " + e.Detail
		all = &joined
	}
	if all == nil {
		return nil
	}
	return all
}
