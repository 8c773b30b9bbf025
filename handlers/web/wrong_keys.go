package web

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"fanfare/api"
)

// What an address may get wrong before it is told to wait.
const (
	maxWrongKeys      = 20
	wrongKeysWindow   = time.Minute
	maxWrongAddresses = 10_000 // addresses remembered at once
)

// wrongKeys counts wrong keys, or wrong user tokens, per address. A right key passes
// whatever its address has done: many callers may share one behind a proxy.
type wrongKeys struct {
	what    string // they are called
	mu      sync.Mutex
	windows map[netip.Prefix]*wrongKeyWindow
}

// wrongKeyWindow is what one address got wrong until its minute is over.
type wrongKeyWindow struct {
	count int
	until time.Time
}

// count counts one wrong key and returns err, or CodeRateLimited once the
// address has sent too many.
func (w *wrongKeys) count(from netip.Prefix, now time.Time, err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	window := w.windows[from]
	if window == nil || !now.Before(window.until) {
		w.prune(now)
		window = &wrongKeyWindow{until: now.Add(wrongKeysWindow)}
		w.windows[from] = window
	}
	if window.count++; window.count <= maxWrongKeys {
		return err
	}
	return w.tooMany(window, now)
}

// refuse is CodeRateLimited for an address that has sent too many.
func (w *wrongKeys) refuse(from netip.Prefix, now time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if window := w.windows[from]; window != nil && now.Before(window.until) && window.count >= maxWrongKeys {
		return w.tooMany(window, now)
	}
	return nil
}

func (w *wrongKeys) tooMany(window *wrongKeyWindow, now time.Time) error {
	e := api.Errorf(api.CodeRateLimited, "too many wrong %s from this address", w.what)
	e.RetryAfter = window.until.Sub(now)
	return e
}

// prune keeps the map bounded: windows that are over go first, then all.
func (w *wrongKeys) prune(now time.Time) {
	if w.windows == nil {
		w.windows = make(map[netip.Prefix]*wrongKeyWindow)
	}
	if len(w.windows) < maxWrongAddresses {
		return
	}
	for from, window := range w.windows {
		if !now.Before(window.until) {
			delete(w.windows, from)
		}
	}
	if len(w.windows) >= maxWrongAddresses {
		clear(w.windows)
	}
}

// addressOf is who is at the other end of the connection, never what a header
// claims: one IPv4 address, or the /64 that one IPv6 host may roam in.
func addressOf(r *http.Request) netip.Prefix {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Prefix{}
	}
	addr, bits := at.Addr().Unmap().WithZone(""), 32
	if addr.Is6() {
		bits = 64
	}
	prefix, _ := addr.Prefix(bits)
	return prefix
}
