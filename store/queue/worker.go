package queue

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"fanfare/store/redisdb"
)

// arrival is an entry that a blocking read was given; the next call claims it.
type arrival struct {
	place string
	text  []byte
}

// aloneClaim asks for one job that runs alone; nil comes when there is none.
type aloneClaim struct{ got chan *Claimed }

// shardWorker is what a worker does in one shard.
type shardWorker struct {
	worker  *worker
	shard   int
	ends    lane // its calls carry results and claims
	poke    chan struct{}
	writing atomic.Int64 // since when a result waits to be recorded (worker's clock), 0: none does

	unrecorded atomic.Int64 // marks that are not on record

	mu      sync.Mutex
	life    *life // nil: it ended, or has not begun
	live    map[*Claimed]struct{}
	results results
	alone   *aloneClaim
	arrived []arrival
	hungry  bool   // entries may wait here
	wishes  uint64 // how often somebody found that they may
	stopped bool   // nothing is claimed any more
	inbox   []*Claimed
	handing bool
	changed chan struct{} // closed, and made again, when one of these changes

	deafSince time.Time // the reader blocks since then; zero: it does not
	suspect   time.Time // the maintainer's: since then entries wait although the reader does
}

func newShardWorker(w *worker, shard int) *shardWorker {
	s := &shardWorker{worker: w, shard: shard, poke: make(chan struct{}, 1), live: map[*Claimed]struct{}{}, changed: make(chan struct{})}
	s.results.marks = map[*Claimed]*marked{}
	s.ends = lane{q: w.q, shard: shard, next: s.nextCall, apply: s.applyCall, fail: s.failCall, resolve: s.resolve}
	return s
}

// announce wakes whoever waits for a change; the lock is held.
func (s *shardWorker) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// await waits, until ctx ends, for a condition, which is asked under the lock.
func (s *shardWorker) await(ctx context.Context, what func() bool) bool {
	for ctx.Err() == nil {
		s.mu.Lock()
		ok, changed := what(), s.changed
		s.mu.Unlock()
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

// wish says that entries may wait: calls claim until none does.
func (s *shardWorker) wish(arrived ...arrival) {
	s.mu.Lock()
	s.hungry = true
	s.wishes++
	s.arrived = append(s.arrived, arrived...)
	s.mu.Unlock()
	s.ends.kick()
}

// takeRoom gives a call room for claims; the lock is held. Without a free place the
// gate tells when there is one. The places that the call's own results free may be
// used at once, unless others wait for them.
func (s *shardWorker) takeRoom(c *call, most int) {
	gate := s.worker.gate
	most = min(most, gate.room())
	c.room = gate.take(most)
	if c.room < most && len(c.results) > 0 && gate.unasked() {
		c.reuse = min(len(c.results), most-c.room)
		c.room += c.reuse
	}
	if c.room == 0 {
		gate.ask(s)
		return
	}
	n := min(len(s.arrived), c.room)
	c.adopt, s.arrived = s.arrived[:n:n], s.arrived[n:]
	c.want = s.wishes
}

// claimWith lets an enqueueing call claim as well, up to what it brings and, if more
// may wait, a batch.
func (s *shardWorker) claimWith(c *call, jobs int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life == nil || s.stopped || s.results.troubled {
		return
	}
	most := s.worker.q.o.Batch
	if !s.hungry {
		most = min(most, jobs)
	}
	if s.takeRoom(c, most); c.room > 0 {
		c.life, c.held = s.life, len(s.live)
	} else {
		s.hungry = true // what it stores has to wait here
		s.wishes++
	}
}

// giveRoom gives back the places of a call that is over, but for those of its own
// results.
func (s *shardWorker) giveRoom(c *call) {
	s.worker.gate.release(c.room - c.reuse)
	c.room, c.reuse = 0, 0
}

// failClaim notes trouble and, when the call is over, takes its wish back.
func (s *shardWorker) failClaim(c *call, over bool) {
	s.mu.Lock()
	s.results.troubled = true
	if over {
		s.arrived = append(c.adopt, s.arrived...)
		s.hungry = true
		if c.alone != nil {
			close(c.alone.got)
		}
	}
	s.mu.Unlock()
	if over {
		s.giveRoom(c)
	}
	s.ends.kick()
	s.worker.q.lines[s.shard].kick()
	s.worker.q.nudge(s.shard, 0) // the answer may have said that a delayed job came
}

// resolve compares what the life holds with what it believes to hold.
func (s *shardWorker) resolve() {
	if l := s.present(); l != nil {
		s.worker.aside(func() { l.compare() })
	}
}

// applyClaim hands out what a call claimed and gives back the room it did not need.
func (s *shardWorker) applyClaim(c *call, answer []any, sent time.Time) {
	q, l := s.worker.q, c.life
	if redisdb.Number(answer[callAlive]) == 0 {
		s.worker.gate.release(c.room - c.reuse + len(c.results))
		if c.alone != nil {
			close(c.alone.got)
		}
		l.end()
		return
	}
	if len(c.results)+len(c.marks) > 0 || len(answer) > callJobs {
		l.extend(sent, false)
	} else {
		q.worked(s.shard)
	}
	if redisdb.Number(answer[callDue]) == 1 {
		q.nudge(s.shard, 0)
	}
	batch := s.begin(c, answer, sent)
	if c.alone != nil {
		for _, one := range batch {
			one.ended = make(chan struct{})
			c.alone.got <- one
		}
		close(c.alone.got)
		s.worker.gate.release(len(c.results))
		return
	}
	s.worker.gate.release(c.room - c.reuse + len(c.results) - len(batch))
	s.mu.Lock()
	switch {
	case c.room == 0:
	case len(batch) >= c.room: // as many as there was room for: there may be more
		s.hungry = true
	case c.want == s.wishes && len(s.arrived) == 0:
		s.hungry = false
	}
	goOn := s.hungry || len(s.arrived) > 0 || !s.results.none()
	s.inbox = append(s.inbox, batch...)
	start := len(s.inbox) > 0 && !s.handing
	s.handing = s.handing || start
	s.announce()
	s.mu.Unlock()
	switch {
	case len(batch) == 0 || batch[0].Attempt > 1:
	case len(c.adopt) > 0:
		q.noteWakeup(batch[0].Now.Sub(batch[0].EnqueuedAt))
	case len(c.stored) > 0 && c.held == 0:
		q.noteWakeup(time.Since(c.began)) // enqueued and claimed by the same call
	}
	if start {
		go s.handOut()
	}
	if goOn {
		s.ends.kick()
	}
}

// begin makes the claimed jobs of an answer to what was sent then.
func (s *shardWorker) begin(c *call, answer []any, sent time.Time) []*Claimed {
	us, _ := strconv.ParseInt(redisdb.Text(answer[callClock]), 10, 64)
	now, here := time.UnixMicro(us), time.Now()
	jobs := answer[callJobs:]
	batch := make([]*Claimed, 0, len(jobs)/callGiven)
	for i := 0; i+callGiven <= len(jobs); i += callGiven {
		one := new(Claimed) // each by itself: one that lasts keeps no other's payload
		if !s.read(one, c, jobs[i:i+callGiven]) {
			continue
		}
		one.Now, one.here, one.asked = now, here, sent
		batch = append(batch, one)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range batch {
		s.live[one] = struct{}{}
		if c.life.over.Load() { // it was found out meanwhile
			one.gone = true
			one.lost.Store(true)
		}
	}
	return batch
}

// read makes one claimed job: what the call stored itself is still in memory.
func (s *shardWorker) read(one *Claimed, c *call, v []any) bool {
	one.place = redisdb.Text(v[0])
	var e *entry
	if at, ok := v[1].(int64); ok {
		e = c.stored[int(at)]
	}
	if e == nil {
		var err error
		if e, err = parseEntry([]byte(redisdb.Text(v[1]))); err != nil {
			s.worker.q.o.Logger.Error("a job cannot be read", "shard", s.shard, "entry", one.place, "error", err)
			return false
		}
	}
	one.entry, one.Job = *e, e.job
	// Its end needs the head alone.
	one.entry.job.Payload, one.entry.job.Value, one.entry.job.Counts = nil, nil, nil
	one.Shard = s.shard
	one.GuardValue = redisdb.Text(v[2])
	one.Attempt, one.Fence = e.failures+1, max(c.life.epoch, e.fence+1)
	one.shard, one.life = s, c.life
	one.First = e.failures == 0 && e.lost == 0 && e.fence == 0 && e.job.Delay == 0
	since := e.since
	if since == 0 {
		text, _, _ := strings.Cut(one.place[1:], "-")
		since, _ = strconv.ParseInt(text, 10, 64)
	}
	one.EnqueuedAt = time.UnixMilli(since)
	return true
}

// handOut gives the handler what was claimed, batch after batch in the order of
// the claims: what comes while it works is the next batch.
func (s *shardWorker) handOut() {
	for {
		s.mu.Lock()
		batch := s.inbox
		s.inbox = nil
		if len(batch) == 0 {
			s.handing = false
			s.mu.Unlock()
			return
		}
		stopped := s.stopped
		s.mu.Unlock()
		if stopped {
			for _, c := range batch {
				c.Finish(Result{Outcome: Release, Untouched: true}) // no handler saw it
			}
			continue
		}
		s.worker.handle(s.worker.jobs, batch)
	}
}

// stop ends claiming.
func (s *shardWorker) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	s.announce()
}

func (s *shardWorker) isStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

func (s *shardWorker) unfinished() []*Claimed {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*Claimed, 0, len(s.live))
	for c := range s.live {
		out = append(out, c)
	}
	return out
}

// releaseAll hands back every job whose handler has not answered. From then on
// the handler's Alive is false and its Finish has no effect.
func (s *shardWorker) releaseAll() {
	for _, c := range s.unfinished() {
		if c.finished.CompareAndSwap(false, true) {
			c.lose()
			s.finish(c, Result{Outcome: Release})
		}
	}
}

// noteWakeup keeps a moving mean of the time from enqueueing to claiming of
// jobs that found a worker idle.
func (q *Queue) noteWakeup(took time.Duration) {
	is := max(took.Microseconds(), 1)
	if old := q.wakeup.Load(); old > 0 {
		is = (old*7 + is) / 8
	}
	q.wakeup.Store(is)
}
