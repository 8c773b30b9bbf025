package web

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"fanfare/api"
)

// How many wrong keys an address may send before it is told to wait.
const (
	maxWrongKeys      = 20
	wrongKeysWindow   = time.Minute
	maxWrongAddresses = 10_000 // addresses remembered at once
)

// If an address has sent too many wrong user tokens, this many of its tokens are checked at
// once, and each waits this long for its turn.
const (
	checksAtOnce = 2
	checkWait    = time.Second
)

// wrongKeys counts wrong keys, or false signatures of user tokens, per address. A right key is always
// accepted, because callers behind a proxy share an address.
type wrongKeys struct {
	mu      sync.Mutex
	windows map[netip.Prefix]*wrongKeyWindow
}

// wrongKeyWindow counts the wrong keys or signatures of one address within a minute.
type wrongKeyWindow struct {
	count  int
	until  time.Time
	checks chan struct{} // one place for each check under way, see check
}

// count counts one wrong key. It returns how long the address has to wait once it has sent too
// many, else 0.
func (w *wrongKeys) count(from netip.Prefix, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	window := w.windows[from]
	if window == nil || !now.Before(window.until) {
		w.prune(now)
		window = &wrongKeyWindow{until: now.Add(wrongKeysWindow), checks: make(chan struct{}, checksAtOnce)}
		w.windows[from] = window
	}
	if window.count++; window.count <= maxWrongKeys {
		return 0
	}
	return window.until.Sub(now)
}

// check takes a place for checking a signature, which leave gives back. An address that has sent
// too many false signatures has few places, which bounds the work that wrong tokens cause.
func (w *wrongKeys) check(ctx context.Context, from netip.Prefix, now time.Time) (leave func(), err error) {
	w.mu.Lock()
	window := w.windows[from]
	few := window != nil && now.Before(window.until) && window.count >= maxWrongKeys
	w.mu.Unlock()
	if !few {
		return func() {}, nil
	}
	select {
	case window.checks <- struct{}{}:
		return func() { <-window.checks }, nil
	case <-time.After(checkWait):
	case <-ctx.Done():
	}
	return nil, api.Errorf(api.CodeOverloaded, "too many wrong user tokens come from this address; try again")
}

// prune keeps the map small: it removes the windows that are over and, if that is not enough, all.
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

// prefixOf is the range that counts as one address: an IPv4 address, or the /64 within which an IPv6
// host may change its address.
func prefixOf(addr netip.Addr) netip.Prefix {
	bits := 32
	if addr.Is6() {
		bits = 64
	}
	prefix, _ := addr.Prefix(bits)
	return prefix
}
