package render

import "fanfare/api"

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
	}
	return nil
}
