package delivery

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"fanfare/delivery/transport"
)

// When a breaker opens (docs/spec/push.md).
const (
	stormWindow  = 200 // how many of the last distinct users count
	stormLeast   = 50  // how many users are needed before the share counts
	stormPercent = 20  // the share of bad tokens that opens the breaker
	// severalUsers is how many users show that a refusal is not about one device.
	severalUsers = 3
	// answersWithin is how long ago a host must have taken a notification to count as one that answers.
	answersWithin = time.Minute
	// maxWindows bounds the windows of a breaker: users may choose hosts. Apps have fewer names.
	maxWindows = 2 * maxAppNames
)

// breaker is the storm breaker. If the tokens of more than stormPercent of an app's last distinct users are
// refused as bad, the app is probably configured wrongly; it is unlikely that all these devices are
// gone. A user counts once, by the newest answer, so that one user with made-up tokens cannot open
// the breaker. While it is open, no device may be dropped. Each process has its own breaker, which
// tells apps apart by the names that appNames gives them. Another one has the hosts of browsers' push services
// in place of apps, for refusals without a clear cause (W14).
type breaker struct {
	seed maphash.Seed

	mu   sync.Mutex
	apps map[string]*userWindow
}

// userWindow is a ring of the last distinct users, by hash.
type userWindow struct {
	ring []uint64
	next int
	bad  map[uint64]bool // every user of the ring
	nbad int
	row  []uint64  // the first users who were refused since the last delivery, at most severalUsers
	took time.Time // of the last delivery
	open bool
}

// newBreaker makes a closed breaker.
func newBreaker() *breaker {
	return &breaker{seed: maphash.MakeSeed(), apps: make(map[string]*userWindow)}
}

// judgesToken reports whether an outcome shows a token to be good or bad.
func judgesToken(o transport.Outcome) bool {
	return o == transport.Delivered || o == transport.SuspectDevice || o == transport.UnclearRefusal
}

// observe counts an answer for a user's token of an app and reports whether the breaker has just opened.
// Then the app has to be paused and an alarm raised. Outcomes that say nothing about the token do
// not count, and neither does a 410.
func (b *breaker) observe(app, user string, o transport.Outcome) (opened bool) {
	if !judgesToken(o) {
		return false
	}
	h := maphash.String(b.seed, user)
	b.mu.Lock()
	defer b.mu.Unlock()
	w, ok := b.apps[app]
	if !ok {
		for name := range b.apps { // any one makes room
			if len(b.apps) < maxWindows {
				break
			}
			delete(b.apps, name)
		}
		w = &userWindow{bad: make(map[uint64]bool)}
		b.apps[app] = w
	}
	w.put(h, o != transport.Delivered)
	if w.open || len(w.ring) < stormLeast || w.nbad*100 <= len(w.ring)*stormPercent {
		return false
	}
	w.open = true
	return true
}

// put notes the newest answer for a user; a user who is new to a full window pushes the oldest
// out.
func (w *userWindow) put(h uint64, bad bool) {
	switch {
	case !bad:
		w.row, w.took = w.row[:0], time.Now()
	case len(w.row) < severalUsers && !slices.Contains(w.row, h):
		w.row = append(w.row, h)
	}
	was, known := w.bad[h]
	if known && was {
		w.nbad--
	}
	if !known {
		w.push(h)
	}
	w.bad[h] = bad
	if bad {
		w.nbad++
	}
}

// push adds a user to the ring. A full ring drops its oldest user together with that user's
// answer.
func (w *userWindow) push(h uint64) {
	if len(w.ring) < stormWindow {
		w.ring = append(w.ring, h)
		return
	}
	old := w.ring[w.next]
	if w.bad[old] {
		w.nbad--
	}
	delete(w.bad, old)
	w.ring[w.next] = h
	w.next = (w.next + 1) % stormWindow
}

// isOpen reports whether an app's breaker is open: none of its devices may be dropped.
func (b *breaker) isOpen(app string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	w, ok := b.apps[app]
	return ok && w.open
}

// inARow reports whether an app's tokens of several users were refused since its last delivery. Then the app is
// likely to be at fault, however few users it has, and no suspect device is dropped.
func (b *breaker) inARow(app string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	w, ok := b.apps[app]
	return ok && len(w.row) == severalUsers
}

// blames reports whether a refusal without a clear cause is the device's fault: its host takes others' notifications.
func (b *breaker) blames(host string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	w, ok := b.apps[host]
	return ok && len(w.row) < severalUsers && time.Since(w.took) < answersWithin
}

// reset closes an app's breaker and forgets its users, when the app resumes.
func (b *breaker) reset(app string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.apps, app)
}

// watchStorm pauses the app when the tokens of too many users were refused.
func (d *Delivery) watchStorm(ctx context.Context, app, user string, o transport.Outcome) {
	if d.storm.observe(d.names.of(app), user, o) {
		d.stormed(ctx, app)
	}
}

// stormed pauses an app whose storm breaker opened.
func (d *Delivery) stormed(ctx context.Context, app string) {
	d.o.Metrics.breaker.WithLabelValues(d.names.of(app)).Set(1)
	d.alarm(alarmStorm, "app", app)
	d.pause(ctx, app, stormReason)
}
