package webpush

import (
	"sync/atomic"

	"fanfare/api"
	"fanfare/delivery/transport"
)

// app is one topic.
type app struct {
	*appConfig
	vapid  *vapidKey
	places map[string]*place // by origin
}

// place is what has a name of its own: an app at one origin of the list.
type place struct {
	name     string
	inFlight atomic.Int64
}

// origins are the places of each app: the list, and what belongs to none of its entries.
func (o *Options) origins() []string {
	all := []string{api.OtherOrigin}
	for _, origin := range o.Origins {
		if origin != "*" {
			all = append(all, origin)
		}
	}
	return all
}

// newApp makes the app of a configuration. It keeps the tokens of the app before, if it has the same key.
func newApp(c *appConfig, before *app, o *Options) *app {
	a := &app{appConfig: c, vapid: newVAPIDKey(c, o.Now), places: map[string]*place{}}
	for _, origin := range o.origins() {
		a.places[origin] = &place{name: transport.AppOf(api.PlatformWebPush, c.topic, origin)}
	}
	if before != nil {
		a.places = before.places
		if before.public == c.public && before.subject == c.subject {
			a.vapid = before.vapid
		}
	}
	return a
}

// state describes the app at an origin without any secret. That users name hosts of no entry that cannot be
// reached is no fault of the app.
func (a *app) state(origin string, h *hosts) transport.AppState {
	p := a.places[origin]
	s := transport.AppState{App: p.name, Topic: a.topic, Auth: "VAPID", InFlight: int(p.inFlight.Load()), TokenIssued: a.vapid.newest()}
	var err error
	if s.Connections, err = h.state(origin, a.route); err != nil && origin != api.OtherOrigin {
		s.LastError = err.Error()
	}
	return s
}
