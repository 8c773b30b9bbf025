package webpush

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"fanfare/delivery/exchange"
	"fanfare/delivery/h2"
)

const (
	// maxHosts is how many hosts have connections at once, and maxHostsOfOrigin how many of one entry of
	// the list of origins: users who name hosts of one entry cannot keep the others' from being reached.
	maxHosts         = 200
	maxHostsOfOrigin = maxHosts / 2
	// maxConns is how many connections a host has at most.
	maxConns = 16
	// lately is for how long a host that cannot be reached is told.
	lately = 10 * time.Minute
)

// errManyHosts says that there are connections to as many hosts as there may be, all with requests.
var errManyHosts = errors.New("requests to too many hosts are under way")

// route is how the hosts of an app are connected to.
type route struct {
	connectTo string // "": to the host itself
	ca        [sha256.Size]byte
}

// hostKey identifies what shares connections.
type hostKey struct {
	name string
	route
}

// host is a host of push services with its connections. The lock of hosts guards users and used; the
// other fields never change.
type host struct {
	origin string // of the list
	pool   *h2.Pool
	users  int       // requests under way
	used   time.Time // when the last one began or ended
}

// hosts are the hosts that notifications go to. A host without requests stays, and its connection with it
// for a minute, until another one needs its place.
type hosts struct {
	o *Options

	mu     sync.Mutex
	byKey  map[hostKey]*host
	closed bool
}

// take returns a host for one request, until release.
func (h *hosts) take(key hostKey, origin string, roots *x509.CertPool) (*host, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, h2.ErrClosed
	}
	x := h.byKey[key]
	if x == nil {
		if !h.makeRoom(origin) {
			return nil, errManyHosts
		}
		x = &host{origin: origin, pool: h.newPool(key, roots)}
		h.byKey[key] = x
	}
	x.users++
	x.used = h.o.Now()
	return x, nil
}

// release ends a request to a host.
func (h *hosts) release(x *host) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x.users--
	x.used = h.o.Now()
}

// newPool makes the connections of a host, without any yet.
func (h *hosts) newPool(key hostKey, roots *x509.CertPool) *h2.Pool {
	po := h.o.Pool("Web Push", key.name)
	po.Conns, po.CloseLast, po.IdleAfter = maxConns, true, h.o.idle
	po.Control, po.Resolver = h.o.addresses().Control, h.o.resolver
	u := &url.URL{Scheme: "https", Host: key.name + h.o.port}
	return h2.New(cmp.Or(key.connectTo, exchange.Address(u)), exchange.TLS(u, roots), po)
}

// makeRoom removes a host without requests if there is no room for one more of an origin. It returns false
// if each has requests. mu is held.
func (h *hosts) makeRoom(origin string) bool {
	same := 0
	for _, x := range h.byKey {
		if x.origin == origin {
			same++
		}
	}
	switch {
	case same >= maxHostsOfOrigin:
		return h.removeIdle(origin)
	case len(h.byKey) >= maxHosts:
		return h.removeIdle("")
	}
	return true
}

// removeIdle removes the host of an origin, "" for any, that has had no request for longest.
func (h *hosts) removeIdle(origin string) bool {
	var oldest hostKey
	var found *host
	for key, x := range h.byKey {
		if x.users == 0 && (origin == "" || x.origin == origin) && (found == nil || x.used.Before(found.used)) {
			oldest, found = key, x
		}
	}
	if found == nil {
		return false
	}
	found.pool.Close()
	delete(h.byKey, oldest)
	return true
}

// keep closes the connections by routes that no app has any more. Requests that wait for one are told after
// the lock is free, because they release their host.
func (h *hosts) keep(routes map[route]bool) {
	var pools []*h2.Pool
	h.mu.Lock()
	for key, x := range h.byKey {
		if !routes[key.route] {
			pools = append(pools, x.pool)
			delete(h.byKey, key)
		}
	}
	h.mu.Unlock()
	for _, pool := range pools {
		pool.Close()
	}
}

// close closes all connections for good.
func (h *hosts) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.keep(nil)
}

// failure is the error of a host of an origin by a route, if lately none could be reached. Below a domain ("*.") users may
// name hosts that do not exist, which do not count.
func (h *hosts) failure(origin string, by route) (failure error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, x := range h.byKey {
		if x.origin != origin || key.route != by || h.o.Now().Sub(x.used) > lately {
			continue
		}
		_, err := x.pool.State()
		if err == nil {
			return nil
		}
		var lookup *net.DNSError
		if !strings.HasPrefix(origin, "*.") || !errors.As(err, &lookup) || !lookup.IsNotFound {
			failure = err
		}
	}
	return failure
}
