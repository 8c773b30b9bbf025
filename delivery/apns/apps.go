package apns

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"fanfare/api"
	"fanfare/delivery/exchange"
	"fanfare/delivery/h2"
	"fanfare/delivery/transport"
)

// link is what the apps of one account share: the connections to its server.
type link struct {
	pool   *h2.Pool
	manage *manager
	source *tokenSource // nil: certificate
	ends   time.Time    // the certificate's last moment; zero: none
	now    func() time.Time
	proven atomic.Bool // it has delivered
}

// newLink makes the link of an app's account; source is nil with a certificate.
func newLink(c *configuration, a *appConfig, source *tokenSource, o *Options) *link {
	po := o.Pool("APNs", a.url.Host)
	if source != nil { // APNs takes one request until it has seen a provider token
		po.FirstAlone, po.Attach = true, func() (any, error) { return newConnToken(source) }
	}
	l := &link{pool: h2.New(exchange.Address(a.url), c.tlsConfig(a, a.url), po), manage: newManager(c, a, source, o), source: source, now: o.Now}
	if cert := a.creds.cert; cert != nil {
		l.ends = cert.Leaf.NotAfter
	}
	return l
}

// close closes the connections to both hosts.
func (l *link) close() {
	l.pool.Close()
	l.manage.client.CloseIdleConnections()
}

// app is one topic in one environment.
type app struct {
	topic   string // "*": all topics of a key
	env     api.Environment
	link    *link
	limiter *h2.Limiter
	proven  atomic.Bool // the topic is right: the file names it, or it has delivered
}

// judgeTopic notes that a topic has delivered, and judges the refusal of one that has not. If only clients
// have named the topic, its devices are at fault, so that made-up topics pause nothing. As long as the key has
// delivered nothing, it may be at fault instead: then no device is dropped.
func (a *app) judgeTopic(topic string, answer *transport.Answer) {
	switch {
	case answer.Outcome == transport.Delivered:
		for _, of := range []*atomic.Bool{&a.proven, &a.link.proven} {
			if !of.Load() && a.topic == topic {
				of.Store(true)
			}
		}
	case answer.Outcome == transport.PauseApp && answer.Status == http.StatusBadRequest && !a.proven.Load():
		answer.Outcome, answer.Reason, answer.Spare = transport.SuspectDevice, transport.ReasonTopic, !a.link.proven.Load()
	}
}

// name is the app's name everywhere.
func (a *app) name() string { return transport.AppOf(api.PlatformAPNs, a.topic, string(a.env)) }

// failure is the newest failure to connect or to sign, nil after a success.
func (l *link) failure() error {
	_, err := l.pool.State()
	if l.source != nil {
		err = errors.Join(err, l.source.failure())
	}
	return err
}

// appKey is the key under which an app is found.
type appKey struct {
	topic string
	env   api.Environment
}

// appTable holds the apps of one configuration. The only later additions are topics that a key
// for all topics sends to.
type appTable struct {
	named map[appKey]*app          // from the file
	any   map[api.Environment]*app // from the key for all topics
	links map[account]*link

	mu  sync.Mutex
	met map[appKey]*app // topics met under any
}

// find is the app that sends to the devices of a topic, nil when there is none.
func (t *appTable) find(topic string, env api.Environment) *app {
	if a := t.ofFile(topic, env); a != nil {
		return a
	}
	return t.meet(topic, env)
}

// forChannels is the app for the channels of a topic of Live Activities, nil when there is none.
func (t *appTable) forChannels(topic string, env api.Environment) *app {
	if a := t.ofFileForChannels(topic, env); a != nil {
		return a
	}
	return t.meet(topic, env)
}

// ofFile is the app from the file that sends to the devices of a topic, nil if it has none. The key of an app sends to its Live
// Activities, too. A certificate does not, because APNs takes only keys for them.
func (t *appTable) ofFile(topic string, env api.Environment) *app {
	bundle, live := strings.CutSuffix(topic, api.PushLiveActivity.TopicSuffix())
	if !live {
		return t.named[appKey{topic, env}]
	}
	for _, name := range []string{topic, bundle} {
		if a := t.named[appKey{name, env}]; a != nil && a.link.source != nil {
			return a
		}
	}
	return nil
}

// ofFileForChannels is the app from the file for the channels of a topic of Live Activities, nil if it has none. If the file names the
// topic with a certificate, that is for its channels alone.
func (t *appTable) ofFileForChannels(topic string, env api.Environment) *app {
	if a := t.named[appKey{topic, env}]; a != nil {
		return a
	}
	return t.ofFile(topic, env)
}

// meet is the app of a topic that the file does not name, nil if there is no key for all topics.
func (t *appTable) meet(topic string, env api.Environment) *app {
	key := appKey{topic, env}
	general, ok := t.any[env]
	if !ok {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if a, ok := t.met[key]; ok {
		return a
	}
	if len(t.met) >= maxTopics && !t.forget() {
		return general
	}
	a := &app{topic: topic, env: env, link: general.link, limiter: general.link.pool.NewLimiter(general.link.now)}
	t.met[key] = a
	return a
}

// forget makes room for a topic: one that has not delivered goes. It returns false if all have.
func (t *appTable) forget() bool {
	for key, a := range t.met {
		if !a.proven.Load() {
			delete(t.met, key)
			return true
		}
	}
	return false
}

// all is every app there is.
func (t *appTable) all() []*app {
	var out []*app
	for _, a := range t.named {
		out = append(out, a)
	}
	for _, a := range t.any {
		out = append(out, a)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range t.met {
		out = append(out, a)
	}
	return out
}

// next makes the table of the next configuration. Apps that did not change keep their
// connections.
func (t *appTable) next(c *configuration, o *Options) (*appTable, error) {
	n := &appTable{
		named: make(map[appKey]*app), any: make(map[api.Environment]*app),
		links: make(map[account]*link), met: make(map[appKey]*app),
	}
	sources := make(map[[32]byte]*tokenSource)
	for i := range c.apps {
		a := &c.apps[i]
		l, err := n.link(t, c, a, sources, o)
		if err != nil {
			return nil, err
		}
		if a.topic == "" {
			n.any[a.env] = t.keep(anyTopic, a.env, l, o)
		} else {
			n.named[appKey{a.topic, a.env}] = t.keep(a.topic, a.env, l, o)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, a := range t.met { // a topic that has delivered stays one that has
		if general := n.any[key.env]; general != nil && general.link == a.link && n.named[key] == nil {
			n.met[key] = a
		}
	}
	return n, nil
}

// keep returns the old table's app, with its limiter, if its link stayed, else a new one.
func (t *appTable) keep(topic string, env api.Environment, l *link, o *Options) *app {
	old, ok := t.named[appKey{topic, env}]
	if topic == anyTopic {
		old, ok = t.any[env]
	}
	if ok && old.link == l {
		return old
	}
	a := &app{topic: topic, env: env, link: l, limiter: l.pool.NewLimiter(o.Now)}
	a.proven.Store(topic != anyTopic)
	return a
}

// link finds or makes the link of an app: of this table, of the old one, or new.
func (t *appTable) link(old *appTable, c *configuration, a *appConfig, sources map[[32]byte]*tokenSource, o *Options) (*link, error) {
	key := c.account(a)
	if l, ok := t.links[key]; ok {
		return l, nil
	}
	l, ok := old.links[key]
	if !ok {
		source, err := old.source(a.creds, sources, o)
		if err != nil {
			return nil, err
		}
		l = newLink(c, a, source, o)
	}
	t.links[key] = l
	return l, nil
}

// source is the token source of a key. All servers of the key share one, and the next
// configuration keeps it, because Apple counts new tokens per key.
func (t *appTable) source(c *credentials, sources map[[32]byte]*tokenSource, o *Options) (*tokenSource, error) {
	if c.cert != nil {
		return nil, nil
	}
	for _, l := range t.links {
		if s := l.source; s != nil && s.sum == c.sum {
			return s, nil
		}
	}
	if s, ok := sources[c.sum]; ok {
		return s, nil
	}
	s, err := newTokenSource(c, o.Now)
	if err != nil {
		return nil, err
	}
	sources[c.sum] = s
	return s, nil
}
