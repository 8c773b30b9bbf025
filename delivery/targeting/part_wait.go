package targeting

import (
	"context"
	"sync"
	"time"

	"fanfare/delivery"
	"fanfare/store/queue"
)

const (
	// partPatience is how long a part waits for room to be sent in one hop. Until then it is one
	// job instead of one for each of its devices. partWaitMost bounds a single wait.
	partPatience, partWaitMost = time.Minute, 5 * time.Second
	// waitShare: an event or a part that lets others go first waits for its age divided by this.
	waitShare = 4
	// hangingWaitLeast is the least wait of a part whose app does not answer.
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
		r.shares = map[string]delivery.Shares{} // a forgotten event costs one more reading of settings
	}
	r.shares[event] = shares
}

// of returns the shares with which a part of the event last found no room.
func (r *refusals) of(event string) delivery.Shares {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shares[event]
}

// patient tells whether a part still waits for room instead of going in two hops.
func (p *page) patient() bool {
	return p.part() && p.c.Now.Sub(p.c.EnqueuedAt) < partPatience
}

// waitsForRoom lets a part wait, before anything is read for it, while there is still no room
// for the shares that an earlier part of its event had.
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

// backlog is the number of jobs of a queue that wait in the whole cluster, as read a moment ago,
// plus what this process added since.
type backlog struct {
	mu    sync.Mutex
	n     int64
	until time.Time
}

// backlogFresh is how long a reading of a backlog is used.
const backlogFresh = 25 * time.Millisecond

// allows tells whether fewer than most jobs of a queue wait, and if so counts the added ones. It
// returns false when the queue cannot be read.
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

// tooDeep tells whether so many notifications wait that a part of a large audience should wait,
// too.
func (t *Targeting) tooDeep(ctx context.Context, n int) bool {
	return !t.notifications.allows(ctx, t.o.Notifications, t.o.Deep, int64(n))
}
