package render

import (
	"encoding/json"
	"maps"
	"slices"

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
		return in.forWebPush()
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

	alert, sound json.RawMessage // of APS
}

// rendered reads the payload, which must be in one language; false if it is no such payload.
func (p *Push) rendered() (r rendered, ok bool) {
	var aps struct{ Alert, Sound json.RawMessage }
	if json.Unmarshal(p.Payload, &r) != nil || json.Unmarshal(r.APS, &aps) != nil {
		return r, false
	}
	r.alert, r.sound = aps.Alert, aps.Sound
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
	return p.checkSize(api.PlatformWebPush, api.MaxWebPushPayload, func(in *Push) int {
		payload, _ := in.page()
		return len(payload)
	})
}

// checkSize refuses a push that is larger on a platform than its limit, in bytes, in one of its languages.
func (p *Push) checkSize(platform api.Platform, limit int, sizeOf func(in *Push) int) error {
	languages := []string{""}
	if p.Languages != nil {
		languages = append(languages, slices.Sorted(maps.Keys(p.Languages.Middle))...)
	}
	for _, language := range languages {
		size, in := sizeOf(p.In(language)), ""
		if language != "" {
			in = " in " + language
		}
		if size > limit {
			return api.Invalid("payload", "max", "would be %d bytes%s on %s; the limit is %d", size, in, platform, limit).
				With("platform", platform).With("size", size).With("limit", limit)
		}
	}
	return nil
}
