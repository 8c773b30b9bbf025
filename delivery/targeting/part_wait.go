package targeting

import (
	"context"
	"sync"
	"time"

	"fanfare/delivery"
	"fanfare/store/queue"
)

const (
	// partWaitMost limits a single wait of an event or a part.
	partWaitMost = 5 * time.Second
	// An event or a part that lets others go first waits for its age divided by waitShare.
	waitShare = 4
	// hangingWaitLeast is the least wait of a part whose app does not answer.
	hangingWaitLeast = time.Second
	// looksPerSecond limits the parts that are read although another part of their event found that its apps hang.
	looksPerSecond = 100
	// maxRefused is how many events and parts are remembered that found a full window.
	maxRefused = 10_000
)

// refusals remember the shares that found a full window: for an event those of its last part that did, and for a part
// whose apps hung its own.
type refusals struct {
	mu     sync.Mutex
	shares map[string]delivery.Shares
}

// note remembers shares that found a full window; nil: there was room.
func (r *refusals) note(name string, shares delivery.Shares) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(shares) == 0 {
		delete(r.shares, name)
		return
	}
	if r.shares == nil || len(r.shares) >= maxRefused {
		r.shares = map[string]delivery.Shares{} // a forgotten part reads settings once more
	}
	r.shares[name] = shares
}

// of returns the shares with which an event or a part last found a full window.
func (r *refusals) of(name string) delivery.Shares {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shares[name]
}

// patient reports whether a part without room still waits in the queue as one job, instead of one job for each of its
// devices. At the end its notifications expire one by one.
func (t *Targeting) patient(p *page) bool {
	at := p.job.Push.ExpiresAt
	return p.part() && p.settled() && p.c.Now.Sub(p.c.EnqueuedAt) < t.o.MaxAge/2 && (at == 0 || p.c.Clock().UnixMilli() < at)
}

// refusedAs is the name of the refusals of a part. Parts of an event that were begun wait for other apps than
// those that were not.
func (p *page) refusedAs() string {
	if p.c.First {
		return p.event()
	}
	return p.event() + "/begun"
}

// partWaitsForWindow lets a part wait, before anything is read for it, as long as the windows have no
// room for its own shares or those of an earlier part of its event. While the apps of that earlier part hang, parts that
// were not refused themselves are read, some at a time, because they may have devices of apps that answer.
func (t *Targeting) partWaitsForWindow(p *page) bool {
	if !t.patient(p) {
		return false
	}
	shares := t.refused.of(p.c.ID)
	own := len(shares) > 0
	if !own {
		shares = t.refused.of(p.refusedAs())
	}
	if len(shares) == 0 || t.o.Delivery.Fits(shares) || !own && t.o.Delivery.Hang(shares) && t.looks.Allow() {
		return false
	}
	t.waitForWindow(p, shares)
	return true
}

// waitForWindow lets a part wait for its apps' windows, and longer if none of them answers.
func (t *Targeting) waitForWindow(p *page, shares delivery.Shares) {
	least := t.o.PageDelay
	if t.o.Delivery.Hang(shares) {
		least = hangingWaitLeast
	}
	t.wait(p, least, delivery.WindowFull)
}

// backlog is the number of jobs of a queue that are ready and wait in the whole cluster: the number read a
// moment ago, plus the jobs that this process has added since. Jobs that wait for a time do not count.
type backlog struct {
	mu    sync.Mutex
	n     int64
	until time.Time
}

// backlogFresh is how long a reading of a backlog is used.
const backlogFresh = 25 * time.Millisecond

// allows reports whether fewer than most jobs of a queue wait, and if so counts the added ones. It
// returns false if the queue cannot be read.
func (b *backlog) allows(ctx context.Context, q *queue.Queue, most, added int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := time.Now(); now.After(b.until) {
		stats, err := q.Stats(ctx)
		if err != nil {
			return false
		}
		b.n, b.until = stats.Depth, now.Add(backlogFresh)
	}
	if b.n >= most {
		return false
	}
	b.n += added
	return true
}
