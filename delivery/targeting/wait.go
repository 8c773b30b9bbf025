package targeting

import (
	"context"
	"sync"
	"time"

	"fanfare/delivery"
	"fanfare/store/queue"
)

// Overtime is how much longer than Options.MaxAge the queue of events should keep what only ever deferred (queue.Options.MaxAge).
// What is older than Options.MaxAge ends, with its notifications expired. Until then it may wait for what this needs: SQL, or
// others whose time has come as well.
const Overtime = time.Hour

const (
	// mostParts is how many events and parts may wait, in all shards together, before a large audience with parts that have not
	// ended is split no further. Each part has at most 100 users. Jobs that a process works on are not counted.
	mostParts = 32
	// pageDelay is the least time that a page of such an audience waits, before jitter, and also an event or a part whose apps have no room.
	pageDelay = 20 * time.Millisecond
	// partWaitMost limits a single wait of a part, and of an event that lets others go first.
	partWaitMost = 5 * time.Second
	// eventWaitMost limits a single wait of an event for room. It is longer, because very many events may wait.
	eventWaitMost = 5 * time.Minute
	// An event or a part that lets others go first waits for its age divided by waitShare.
	waitShare = 4
	// hangingWaitLeast is twice the least wait of an event or a part whose apps do not answer (waitForWindow).
	hangingWaitLeast = time.Second
	// looksPerSecond limits the parts that are read although another part of their event found that its apps hang.
	looksPerSecond = 100
	// maxRefused is how many events with parts are remembered that found a full window.
	maxRefused = 10_000
)

// refusals remember the shares with which the last part of an event found a full window.
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

// of returns the shares with which a part of an event last found a full window.
func (r *refusals) of(name string) delivery.Shares {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shares[name]
}

// patient reports whether an event or a part without room may wait in the queue as one job. What may not has one job for each of
// its notifications without room, or ends. These do not wait:
//   - what is cancelled, superseded, has expired or is too old: its notifications end;
//   - what another process began without leaving a mark of each notification;
//   - a live event that has no parts, because the next one of its object waits until all of it has begun;
//   - a further page of an event, because nobody recalls which of its notifications have ended.
func (t *Targeting) patient(p *page) bool {
	return p.settled() && !p.newer && !t.over(p) && (p.part() || p.job.Live == nil && p.job.Cursor == "")
}

// over reports whether an event or a part is cancelled, or its time is over.
func (t *Targeting) over(p *page) bool { return p.cancelled || t.left(p) <= 0 }

// left is how much time an event or a part has left until its notifications end without being sent.
func (t *Targeting) left(p *page) time.Duration {
	left := t.o.MaxAge - p.age()
	if at := p.job.Push.ExpiresAt; at > 0 {
		left = min(left, time.UnixMilli(at).Sub(p.c.Clock()))
	}
	return left
}

// age is for how long the event or the part is in the queue, or due if it was accepted for later.
func (p *page) age() time.Duration { return p.c.Clock().Sub(p.c.EnqueuedAt) }

// refusedAs is the name of the refusals of a part. Parts of an event that were begun wait for other apps than
// those that were not.
func (p *page) refusedAs() string {
	if p.c.First {
		return p.event()
	}
	return p.event() + "/begun"
}

// waitsForWindow lets an event or a part wait, before anything is read for it, as long as the windows have no room for what
// it lacked, or an earlier part of its event. While the apps of that earlier part hang, parts that were not refused
// themselves are read, some at a time, because they may have devices of apps that answer.
func (t *Targeting) waitsForWindow(p *page) bool {
	shares := delivery.Shares(p.job.Lacks)
	own := len(shares) > 0
	if !own && p.part() {
		shares = t.refused.of(p.refusedAs())
	}
	if len(shares) == 0 || !t.patient(p) || t.o.Delivery.MayTry(p.part(), p.c.EnqueuedAt, shares) || !own && t.o.Delivery.Hang(shares) && t.looks.Allow() {
		return false
	}
	t.o.Delivery.CountNoRoom(shares)
	t.waitForWindow(p, shares, nil)
	return true
}

// giveBack gives back an event or a part of which nothing has begun, because its apps' windows were full. It notes in it what all
// of it lacks, so that no process reads anything for it before there is room; in a part only while its apps hang, because there
// may be room soon.
func (t *Targeting) giveBack(p *page, shares, lacks delivery.Shares) {
	if p.part() {
		t.refused.note(p.refusedAs(), shares)
	}
	if p.part() && !t.o.Delivery.Hang(shares) {
		lacks = nil
	}
	var payload []byte
	if len(lacks)+len(p.job.Lacks) > 0 {
		p.job.Lacks = lacks
		payload = p.job.Encode()
	}
	t.waitForWindow(p, shares, payload)
}

// waitForWindow lets an event or a part wait for its apps' windows, from half to all of what waits says, and longer if none of them
// answers. It is claimed again when its time is over, at the latest: then its notifications end.
func (t *Targeting) waitForWindow(p *page, shares delivery.Shares, payload []byte) {
	least, most := pageDelay, partWaitMost
	if t.o.Delivery.Hang(shares) {
		least = hangingWaitLeast
	}
	if !p.part() {
		most = eventWaitMost
	}
	wait := p.waits(least, most) / 2
	wait = min(wait+delivery.Jitter(wait), max(t.left(p), 0)+time.Millisecond)
	p.c.Finish(queue.Result{Outcome: queue.Defer, Delay: wait, Payload: payload, Untouched: true, Reason: delivery.WindowFull})
}

// waits is how long an event or a part waits that cannot begin, or go on, now; an older one waits longer.
func (p *page) waits(least, most time.Duration) time.Duration {
	return min(max(least, p.age()/waitShare), most)
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
