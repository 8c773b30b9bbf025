package fcm

import (
	"errors"

	"fanfare/api"
	"fanfare/delivery/exchange"
	"fanfare/delivery/h2"
	"fanfare/delivery/transport"
)

const (
	// maxConns is how many connections a service account has at most. FCM allows 100 requests on each.
	maxConns = 16
	// coldLimit is how many requests of an app are under way when it begins after a minute without any.
	coldLimit = 100
)

// link is what the apps of one service account share. It never changes.
type link struct {
	pool   *h2.Pool
	source *tokenSource
	path   string
}

func newLink(c *appConfig, o *Options) (*link, error) {
	source, err := newTokenSource(c, o)
	if err != nil {
		return nil, err
	}
	po := o.Pool("FCM", c.url.Host)
	po.Conns, po.OnePath = maxConns, true
	return &link{
		pool:   h2.New(exchange.Address(c.url), exchange.TLS(c.url, c.roots), po),
		source: source, path: "/v1/projects/" + c.account.ProjectID + "/messages:send",
	}, nil
}

// close ends idle connections at once and the others with their requests.
func (l *link) close() {
	l.pool.Close()
	l.source.close()
}

// app is one topic.
type app struct {
	topic   string
	link    *link
	limiter *h2.Limiter
}

// appName is the app's name everywhere.
func appName(topic string) string { return transport.AppOf(api.PlatformFCM, topic, "") }

// failure is the newest failure to connect or to get an access token, nil after a success.
func (l *link) failure() error {
	_, err := l.pool.State()
	return errors.Join(err, l.source.failure())
}

// appTable holds the apps of one configuration. It never changes.
type appTable struct {
	apps  map[string]*app // by topic
	links map[key]*link
}

// next makes the table of the next configuration. Apps that did not change keep their connections and
// access tokens.
func (t *appTable) next(apps []appConfig, o *Options) (*appTable, error) {
	n := &appTable{apps: map[string]*app{}, links: map[key]*link{}}
	for i := range apps {
		c := &apps[i]
		l := n.links[c.key()]
		if l == nil {
			l = t.links[c.key()]
		}
		if l == nil {
			var err error
			if l, err = newLink(c, o); err != nil {
				return nil, err
			}
		}
		n.links[c.key()] = l
		if old := t.apps[c.topic]; old != nil && old.link == l {
			n.apps[c.topic] = old
			continue
		}
		n.apps[c.topic] = &app{topic: c.topic, link: l, limiter: l.pool.NewLimiter(o.Now).StartWith(coldLimit)}
	}
	return n, nil
}
