package shard

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"fanfare/store/redisdb"
)

// unclaimed is an entry that Redis delivered to a blocking read; the next call claims it.
type unclaimed struct {
	place string
	text  []byte
}

// isolatedClaim asks for jobs of a stream that must not run beside others. got is closed if there are none.
type isolatedClaim struct {
	letter string
	most   int
	got    chan []*Claimed
}

// claims say what there is to claim in a shard. The worker's lock guards them.
type claims struct {
	isolated  *isolatedClaim // the next call is to make it; nil: none
	unclaimed []unclaimed
	wantsMore bool   // entries may wait
	wanted    uint64 // counts calls of want
}

// want notes that entries may wait: calls claim until there are none.
func (cs *claims) want(arrived ...unclaimed) {
	cs.wantsMore = true
	cs.wanted++
	cs.unclaimed = append(cs.unclaimed, arrived...)
}

// some reports whether jobs probably wait to be claimed.
func (cs *claims) some() bool { return cs.wantsMore || len(cs.unclaimed) > 0 }

// take gives a call that has places the entries that it is to reclaim.
func (cs *claims) take(c *call) {
	n := min(len(cs.unclaimed), c.room)
	c.reclaim, cs.unclaimed = cs.unclaimed[:n:n], cs.unclaimed[n:]
	c.wanted = cs.wanted
}

// putBack keeps the entries of a call that did not run.
func (cs *claims) putBack(c *call) {
	cs.unclaimed = append(c.reclaim, cs.unclaimed...)
	cs.wantsMore = true
}

// found notes how many jobs a call claimed.
func (cs *claims) found(c *call, jobs int) {
	switch {
	case c.room == 0:
	case jobs >= c.room: // the room was used up: more may wait
		cs.wantsMore = true
	case c.wanted == cs.wanted && len(cs.unclaimed) == 0:
		cs.wantsMore = false
	}
}

// inbox has the claimed jobs that the handler was not given yet. The worker's lock guards
// it.
type inbox struct {
	jobs    []*Claimed
	handing bool // a goroutine hands them out
}

// put adds jobs. It reports whether the caller has to start the goroutine.
func (b *inbox) put(jobs []*Claimed) (start bool) {
	b.jobs = append(b.jobs, jobs...)
	start = len(b.jobs) > 0 && !b.handing
	b.handing = b.handing || start
	return start
}

// take empties the inbox. If it is empty the goroutine has to end.
func (b *inbox) take() (jobs []*Claimed) {
	jobs, b.jobs = b.jobs, nil
	b.handing = len(jobs) > 0
	return jobs
}

// Worker does the work of a process in one shard: it has a session, claims jobs, hands them to
// the handler and has their results recorded.
type Worker struct {
	*Shard
	process *Process
	sender  sender      // sends results and claims
	stopped atomic.Bool // nothing is claimed any more

	mu      sync.Mutex
	session *session // nil: it ended, or has not begun
	live    map[*Claimed]struct{}
	results results
	claims  claims
	inbox   inbox
	changed chan struct{} // closed, and made again, when one of these changes

	reader reader
}

// NewWorker makes a worker. It starts nothing.
func NewWorker(p *Process, s *Shard) *Worker {
	w := &Worker{Shard: s, process: p, live: map[*Claimed]struct{}{}, changed: make(chan struct{})}
	w.results.marks, w.results.all = map[*Claimed]*marked{}, &s.Unrecorded
	w.reader.worker, w.reader.ended = w, make(chan struct{}, 1)
	w.sender = sender{Shard: s, next: w.nextCall, apply: w.applyCall, fail: w.failCall, resolve: w.resolve}
	return w
}

// announce wakes all goroutines that wait for a change. The lock is held.
func (w *Worker) announce() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// await waits until a condition holds, which is evaluated under the lock, or ctx ends.
func (w *Worker) await(ctx context.Context, what func() bool) bool {
	for ctx.Err() == nil {
		w.mu.Lock()
		ok, changed := what(), w.changed
		w.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return false
}

// wantMore notes that entries may wait in the shard, and has a call claim them.
func (w *Worker) wantMore(arrived ...unclaimed) {
	w.mu.Lock()
	w.claims.want(arrived...)
	w.mu.Unlock()
	w.sender.wake()
}

// takeRoom takes places for the jobs that a call may claim. The lock is held. If none is
// free, the limiter wakes this shard when one is. A call may use the places that its own
// results free, unless other shards wait for places.
func (w *Worker) takeRoom(c *call, most int) {
	limiter := w.process.limiter
	most = min(most, limiter.room())
	c.room = limiter.take(most)
	if c.room < most && len(c.results) > 0 && limiter.noWaiters() {
		c.reuse = min(len(c.results), most-c.room)
		c.room += c.reuse
	}
	if c.room == 0 {
		limiter.ask(w)
		return
	}
	w.claims.take(c)
}

// claimWith lets an enqueueing call claim as many jobs as it stores or, if more entries may
// wait, a batch.
func (w *Worker) claimWith(c *call, jobs int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.session == nil || w.stopped.Load() || w.results.failing {
		return
	}
	most := w.Batch
	if !w.claims.wantsMore {
		most = min(most, jobs)
	}
	if w.takeRoom(c, most); c.room > 0 {
		c.session, c.held = w.session, len(w.live)
	} else {
		w.claims.want() // the jobs that it stores wait here
	}
}

// giveRoom gives back the places of a call that is over, except those of its own results.
func (w *Worker) giveRoom(c *call) {
	w.process.limiter.release(c.room - c.reuse)
	c.room, c.reuse = 0, 0
}

// failClaim notes a failed call and, when the call is over, takes its claim back.
func (w *Worker) failClaim(c *call, over bool) {
	w.mu.Lock()
	w.results.failing = true
	if over {
		w.claims.putBack(c)
		if c.isolated != nil {
			close(c.isolated.got)
		}
	}
	w.mu.Unlock()
	if over {
		w.giveRoom(c)
	}
	w.sender.wake()
	w.Producer.wake()
	w.WakeMaintainer(0) // the lost answer may have said that a delayed job is due
}

// resolve compares the jobs of this process with those that Redis has for the session.
func (w *Worker) resolve() {
	if l := w.present(); l != nil {
		w.process.inBackground(func() { l.compare() })
	}
}

// applyClaim hands out the jobs that a call claimed and gives back unused places.
func (w *Worker) applyClaim(c *call, answer []any, sent time.Time) {
	session := c.session
	if redisdb.Number(answer[callAlive]) == 0 {
		w.process.limiter.release(c.freed(0))
		if c.isolated != nil {
			close(c.isolated.got)
		}
		session.end()
		return
	}
	if len(c.results)+len(c.marks) > 0 || len(answer) > callJobs {
		session.extend(sent, false)
	} else {
		w.worked()
	}
	if redisdb.Number(answer[callDue]) == 1 {
		w.WakeMaintainer(0)
	}
	batch := w.begin(c, answer, sent)
	if c.isolated != nil {
		for _, one := range batch {
			one.ended = make(chan struct{})
		}
		c.isolated.got <- batch
		w.process.limiter.release(len(c.results))
		return
	}
	w.process.limiter.release(c.freed(len(batch)))
	w.mu.Lock()
	w.claims.found(c, len(batch))
	goOn, start := w.claims.some() || !w.results.none(), w.inbox.put(batch)
	w.announce()
	w.mu.Unlock()
	switch {
	case len(batch) == 0 || batch[0].Attempt > 1:
	case len(c.reclaim) > 0:
		w.noteWakeup(batch[0].Now.Sub(batch[0].EnqueuedAt))
	case len(c.stored) > 0 && c.held == 0:
		w.noteWakeup(time.Since(c.began)) // enqueued and claimed by the same call
	}
	if start {
		go w.handOut()
	}
	if goOn {
		w.sender.wake()
	}
}

// freed is the number of places that an answered call which claimed so many jobs gives back: those
// that were taken for it and those of its results, without those of the claimed jobs. Reused
// places are among both and count once.
func (c *call) freed(claimed int) int { return c.room - c.reuse + len(c.results) - claimed }

// begin makes the claimed jobs of an answer; sent is when the call left.
func (w *Worker) begin(c *call, answer []any, sent time.Time) []*Claimed {
	us, _ := strconv.ParseInt(redisdb.Text(answer[callClock]), 10, 64)
	now, here := time.UnixMicro(us), time.Now()
	jobs := answer[callJobs:]
	batch := make([]*Claimed, 0, len(jobs)/callGiven)
	for i := 0; i+callGiven <= len(jobs); i += callGiven {
		one := new(Claimed) // allocated one by one, so that a long job does not keep the payloads of its batch
		if !w.read(one, c, jobs[i:i+callGiven]) {
			continue
		}
		one.Now, one.here, one.asked = now, here, sent
		batch = append(batch, one)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range batch {
		w.live[one] = struct{}{}
		if c.session.over.Load() { // the session ended meanwhile
			one.gone = true
			one.lost.Store(true)
		}
	}
	return batch
}

// read makes one claimed job. A job that the same call stored is still in memory.
func (w *Worker) read(one *Claimed, c *call, v []any) bool {
	one.place = redisdb.Text(v[0])
	var e *Entry
	if at, ok := v[1].(int64); ok {
		e = c.stored[int(at)]
	}
	if e == nil {
		var err error
		if e, err = parseEntry([]byte(redisdb.Text(v[1]))); err != nil {
			w.Logger.Error("a job cannot be read", "shard", w.n, "entry", one.place, "error", err)
			return false
		}
	}
	one.past, one.Job = e.past, e.Job
	one.Counts = nil // they were added when the job was stored
	one.Shard = w.n
	one.GuardValue = redisdb.Text(v[2])
	one.Attempt, one.Fence = e.failures+1, max(c.session.epoch, e.fence+1)
	one.worker, one.session = w, c.session
	one.First = e.failures == 0 && e.lost == 0 && e.fence == 0 && e.Job.Delay == 0
	since := e.since
	if since == 0 {
		text, _, _ := strings.Cut(one.place[1:], "-")
		since, _ = strconv.ParseInt(text, 10, 64)
	}
	one.EnqueuedAt = time.UnixMilli(since)
	return true
}

// handOut gives the claimed jobs to the handler in the order of the claims. Jobs that
// arrive while the handler works are the next batch.
func (w *Worker) handOut() {
	for {
		w.mu.Lock()
		batch, stopped := w.inbox.take(), w.stopped.Load()
		w.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		if stopped {
			for _, c := range batch {
				c.Finish(Result{Outcome: Release, Untouched: true}) // no handler saw it
			}
			continue
		}
		w.process.callbacks.Handle(w.process.jobs, batch)
	}
}

// Stop ends claiming for good: no call that is made later claims.
func (w *Worker) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped.Store(true)
}

func (w *Worker) unfinished() []*Claimed {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.live))
}

// ReleaseAll hands back every job whose handler has not answered. From then on
// the handler's Alive is false and its Finish has no effect.
func (w *Worker) ReleaseAll() {
	for _, c := range w.unfinished() {
		if c.finished.CompareAndSwap(false, true) {
			c.lose()
			w.finish(c, Result{Outcome: Release})
		}
	}
}

// noteWakeup keeps a moving mean of the time from enqueueing to claiming of
// jobs that found a worker idle.
func (c *Common) noteWakeup(took time.Duration) {
	is := max(took.Microseconds(), 1)
	if old := c.Wakeup.Load(); old > 0 {
		is = (old*7 + is) / 8
	}
	c.Wakeup.Store(is)
}
