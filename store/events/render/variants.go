package render

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"fanfare/api"
)

// Variants has a push in the forms in which devices get it: by platform and language. Each is made once,
// when the first device needs it.
type Variants struct{ made map[variant]*Push }

type variant struct {
	platform api.Platform
	language string
}

// Of is the push as a device gets it, the same for all devices of its kind; nil if the push is not meant
// for devices of this platform (W5).
func (v *Variants) Of(p *Push, d *api.Device) *Push {
	as := variant{d.PlatformOf(), p.Language(d.Locale)}
	if as.platform == api.PlatformAPNs && p.Languages == nil {
		return p
	}
	made, ok := v.made[as]
	if !ok {
		made = p.as(as)
		if v.made == nil {
			v.made = map[variant]*Push{}
		}
		v.made[as] = made
	}
	return made
}

// as makes one form of the push.
func (p *Push) as(v variant) *Push {
	switch in := p.In(v.language); v.platform {
	case api.PlatformAPNs:
		return in
	case api.PlatformFCM:
		return in.forFCM()
	case api.PlatformWebPush:
		return in.forWebPush(v.language)
	}
	return nil
}

// rendered is what the payload of APNs says. The messages for other platforms are made from it.
type rendered struct {
	APS     json.RawMessage   `json:"aps"`
	Data    map[string]string `json:"data"`
	EventID string            `json:"event_id"`
	Object  string            `json:"object"`
	Type    string            `json:"type"`

	alert, sound, badge, timestamp json.RawMessage // of APS
}

// rendered reads the payload, which must be in one language; false if it is no such payload.
func (p *Push) rendered() (r rendered, ok bool) {
	var aps struct{ Alert, Sound, Badge, Timestamp json.RawMessage }
	if json.Unmarshal(p.Payload, &r) != nil || json.Unmarshal(r.APS, &aps) != nil {
		return r, false
	}
	r.alert, r.sound, r.timestamp = aps.Alert, aps.Sound, aps.Timestamp
	if _, err := strconv.ParseUint(string(aps.Badge), 10, 31); err == nil || string(aps.Badge) == badgePlace {
		r.badge = aps.Badge
	}
	return r, true
}

// text is the text that the push shows, whatever set it; empty for none.
func (r *rendered) text() (text api.Alert) {
	if json.Unmarshal(r.alert, &text) != nil {
		_ = json.Unmarshal(r.alert, &text.Body)
	}
	return text
}

// Check checks an event's push for what the platforms to which this process sends do not take (W6), beside
// APNs, for which Render has checked it.
func (p *Push) Check(e *api.EventRequest, sendsTo func(api.Platform) bool) error {
	if sendsTo(api.PlatformFCM) {
		if err := p.checkFCM(e); err != nil {
			return err
		}
	}
	if !sendsTo(api.PlatformWebPush) {
		return nil
	}
	return p.checkSize(api.PlatformWebPush)
}

// size is how large the push is in one language on a platform, in bytes, and how large it may be. 0: the push is not
// meant for the platform.
func (p *Push) size(platform api.Platform, language string) (size, limit int) {
	in := p.In(language)
	switch platform {
	case api.PlatformFCM:
		if m, ok := in.fcm(); ok {
			size = m.size()
		}
		return size, api.MaxPayload
	case api.PlatformWebPush:
		payload, _ := in.page(language)
		return len(payload), api.MaxWebPushPayload
	default:
		return len(in.Payload), maxPayload(p.PushType)
	}
}

// inLanguages are the languages of a push, beginning with the default one, "".
func (p *Push) inLanguages() []string {
	languages := []string{""}
	if p.Languages != nil {
		languages = append(languages, slices.Sorted(maps.Keys(p.Languages.Middle))...)
	}
	return languages
}

// checkSize refuses a push that is larger on a platform than its limit in one of its languages.
func (p *Push) checkSize(platform api.Platform) error {
	for _, language := range p.inLanguages() {
		in := ""
		if language != "" {
			in = " in " + language
		}
		if size, limit := p.size(platform, language); size > limit {
			return api.Invalid("payload", "max", "would be %d bytes%s on %s; the limit is %d", size, in, platform, limit).
				With("platform", platform).With("size", size).With("limit", limit)
		}
	}
	return nil
}

// Preview shows what devices of the platforms that a process delivers to would get, in place of a user's number with the
// highest badge. The push must have passed Check.
func (p *Push) Preview(delivers func(api.Platform) bool) *api.EventPreview {
	out := &api.EventPreview{PushType: p.PushType, Priority: p.Priority, CollapseID: p.CollapseID, Topics: p.Topics, Payloads: []api.PayloadPreview{}}
	for _, platform := range []api.Platform{api.PlatformAPNs, api.PlatformFCM, api.PlatformWebPush} {
		for _, language := range p.inLanguages() {
			in := p.as(variant{platform, language})
			if in == nil || in.Payload == nil || platform != api.PlatformAPNs && !delivers(platform) {
				continue
			}
			if p.Badge != "" {
				in = in.WithBadge(api.MaxBadge)
			}
			size, limit := p.size(platform, language)
			out.Payloads = append(out.Payloads, api.PayloadPreview{Platform: platform, Locale: language, Payload: in.Payload, Bytes: size, Limit: limit})
		}
	}
	return out
}
