package webpush

import "fanfare/api"

// app is one topic.
type app struct {
	*appConfig
	vapid *vapidKey
}

// origins are the places of each app, each with a name of its own: the list, and what belongs to none of its
// entries.
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
	if before != nil && before.public == c.public && before.subject == c.subject {
		return &app{appConfig: c, vapid: before.vapid}
	}
	return &app{appConfig: c, vapid: newVAPIDKey(c, o.Now)}
}

// failure is the newest failure to connect to hosts of an origin. That users name hosts of no entry that
// cannot be reached is no fault of the app.
func (a *app) failure(origin string, h *hosts) error {
	if origin == api.OtherOrigin {
		return nil
	}
	return h.failure(origin, a.route)
}
