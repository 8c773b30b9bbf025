package targeting

import (
	"context"
	"sync"
	"time"

	"fanfare/delivery"
	"fanfare/store/queue"
)

const (
	// partPatience is how long a part waits for room to be sent in one hop: until then it
	// is one job, and not one for each of its devices. partWaitMost is how long it waits at
	// once.
	partPatience, partWaitMost = time.Minute, 5 * time.Second
	// waitShare is the share of its age that an event or a part waits when others go first.
	waitShare = 4
	// hangingWaitLeast is how long a part at least waits for an app that does not answer.
	hangingWaitLeast = time.Second
	// maxRefused bounds the events whose refusals are remembered.
	maxRefused = 1000
)

// refusals remember, by event, the shares of a part that found no room.
type refusals struct {
	mu     sync.Mutex
	shares map[string]delivery.Shares
}

// note remembers shares that found no room; nil: there was room.
func (r *refusals) note(event string, shares delivery.Shares) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(shares) == 0 {
		delete(r.shares, event)
		return
	}
	if r.shares == nil || len(r.shares) >= maxRefused {
		r.shares = map[string]delivery.Shares{} // a forgotten event costs one reading of settings
	}
	r.shares[event] = shares
}

// of gives the shares of the event's part that found no room last.
func (r *refusals) of(event string) delivery.Shares {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shares[event]
}

// patient tells whether a part waits for room rather than going in two hops.
func (p *page) patient() bool {
	return p.part() && p.c.Now.Sub(p.c.EnqueuedAt) < partPatience
}

// waitsForRoom lets a part wait, before anything is read for it, while there is still no
// room for as many devices of the same apps as a part of its event had.
func (t *Targeting) waitsForRoom(p *page) bool {
	if t.o.Delivery == nil || !p.c.First || !p.patient() {
		return false
	}
	shares := t.refused.of(p.event())
	if len(shares) == 0 || t.o.Delivery.Fits(shares) {
		return false
	}
	t.waitForRoom(p, shares)
	return true
}

// waitForRoom lets a part wait for its apps' windows, longer where one hangs.
func (t *Targeting) waitForRoom(p *page, shares delivery.Shares) {
	least := t.o.PageDelay
	if t.o.Delivery.Hangs(shares) {
		least = hangingWaitLeast
	}
	t.wait(p, least, delivery.NoRoom)
}

// backlog is how many jobs of a queue wait in the whole cluster, read a moment ago, with
// what this process added since.
type backlog struct {
	mu    sync.Mutex
	n     int64
	until time.Time
}

// backlogFresh is how long a reading of a backlog is used.
const backlogFresh = 25 * time.Millisecond

// allows tells whether fewer than most jobs of a queue wait, and counts the ones that are
// added then. When the queue cannot be read the answer is no.
func (b *backlog) allows(ctx context.Context, q *queue.Queue, most, added int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := time.Now(); now.After(b.until) {
		stats, err := q.Stats(ctx)
		if err != nil {
			return false
		}
		b.n, b.until = stats.Depth+stats.Scheduled, now.Add(backlogFresh)
	}
	if b.n >= most {
		return false
	}
	b.n += added
	return true
}

// tooDeep tells whether so many notifications wait that a part of a large audience should.
func (t *Targeting) tooDeep(ctx context.Context, n int) bool {
	return !t.notifications.allows(ctx, t.o.Notifications, t.o.Deep, int64(n))
}
