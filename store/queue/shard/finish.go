package shard

import (
	"cmp"
	"context"
	"strings"
	"sync/atomic"
	"time"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// Answers of the finishing script, one digit per job.
const (
	finishLost = '0'
	finishDead = '2'
)

// refusedTries is how often in a row Redis may refuse a call with results or marks.
// Then this process gives up its lease on the shard: all of its jobs there start again
// after the lease has ended, and a job that makes scripts fail soon runs without others.
const refusedTries = 3

// Names of the outcomes in the finishing script.
var outcomeNames = [...]string{Done: "done", Retry: "retry", Defer: "defer", Dead: "dead",
	Continue: "continue", Park: "park", Release: "release"}

// ended is a job with its result.
type ended struct {
	c     *Claimed
	r     Result
	parts int64 // marked parts that are stored with this result at the latest
}

// done is 1 if the job is done: what it did happens again if the result is lost.
func (e *ended) done() int64 {
	if e.r.Outcome == Done {
		return 1
	}
	return 0
}

// marked is what was marked of one job since the last call.
type marked struct {
	c      *Claimed
	fields []any // name, value, and so on
	report string
	facts  []Fact
}

// parts is how many parts were marked.
func (m *marked) parts() int64 { return int64(len(m.fields) / 2) }

// results are the results and marks of a shard that wait for a call. The worker's lock
// guards them; the handlers of jobs read the two counters without it.
type results struct {
	waiting []ended
	marks   map[*Claimed]*marked
	refused int // how often a call with them was refused in a row
	// failing: the last call failed. Nothing is claimed until the waiting results are
	// stored.
	failing    bool
	since      atomic.Int64  // when the oldest began to wait, by the worker's clock; 0: none waits
	unrecorded atomic.Int64  // marks that Redis has not stored yet
	all        *atomic.Int64 // Common.Unrecorded
}

// none reports whether no result and no mark waits to be recorded.
func (r *results) none() bool { return len(r.waiting) == 0 && len(r.marks) == 0 }

// add lets a result wait from now on.
func (r *results) add(e ended, now int64) {
	r.waiting = append(r.waiting, e)
	r.all.Add(e.done())
	r.since.CompareAndSwap(0, max(now, 1))
}

// count adds to the numbers of marks that Redis has not stored.
func (r *results) count(marks int64) {
	r.unrecorded.Add(marks)
	r.all.Add(marks)
}

// forget no longer counts a result, nor the marks that it made needless.
func (r *results) forget(e *ended) {
	r.count(-e.parts)
	r.all.Add(-e.done())
}

// mark lets a mark wait.
func (r *results) mark(c *Claimed, name, value, report string, facts []Fact) {
	m := r.marks[c]
	if m == nil {
		m = &marked{c: c}
		r.marks[c] = m
	}
	m.fields, m.facts = append(m.fields, name, value), append(m.facts, facts...)
	if report != "" {
		m.report = report
	}
	r.count(1)
}

// take moves waiting results and marks into a call, up to its limit.
func (r *results) take(c *call) {
	n := min(len(r.waiting), finishJobs)
	c.results = r.waiting[:n:n]
	if r.waiting = r.waiting[n:]; len(r.waiting) == 0 {
		r.waiting = nil
	}
	c.marks, c.unmark = r.takeMarks(c.results)
}

// takeMarks takes the marks that a call with these results is to write: a job that is
// done needs none. gone are jobs whose marks are deleted.
func (r *results) takeMarks(ending []ended) (all []*marked, gone []string) {
	for i := range ending {
		e := &ending[i]
		if e.r.Outcome != Done && e.r.Outcome != Dead {
			continue
		}
		if m := r.marks[e.c]; m != nil { // the result makes its marks needless
			e.parts += m.parts()
			e.r.Facts = append(m.facts, e.r.Facts...)
			delete(r.marks, e.c)
		}
		if e.c.marked {
			gone = append(gone, e.c.ID)
		}
	}
	for c, m := range r.marks {
		c.marked = true
		all = append(all, m)
		delete(r.marks, c)
	}
	return all, gone
}

// recorded notes that Redis has the results and marks of a call that was made then, by the
// worker's clock.
func (r *results) recorded(c *call, made int64) {
	for _, m := range c.marks {
		r.count(-m.parts())
	}
	for i := range c.results {
		r.forget(&c.results[i])
	}
	r.refused = 0
	if r.since.Store(0); !r.none() {
		r.since.Store(max(made, 1)) // those came after the call was made
	}
	if r.none() {
		r.failing = false
	}
}

// putBack keeps the results and marks of a call that did not run: they leave again. It
// reports whether Redis refused them so often that the lease is to be given up.
func (r *results) putBack(c *call, refused bool) (giveUp bool) {
	if len(c.results)+len(c.marks) > 0 && refused {
		r.refused++
	}
	if giveUp = r.refused >= refusedTries; giveUp {
		r.refused = 0
	}
	r.waiting = append(c.results, r.waiting...)
	for _, m := range c.marks {
		if m.c.gone {
			r.count(-m.parts())
			continue
		}
		if later := r.marks[m.c]; later != nil {
			m.fields, m.facts = append(m.fields, later.fields...), append(m.facts, later.facts...)
			m.report = cmp.Or(later.report, m.report)
		}
		r.marks[m.c] = m
	}
	return giveUp
}

// takeGone removes the results and marks of jobs that other processes have now, and
// returns these results.
func (r *results) takeGone() (dropped []ended) {
	var kept []ended
	for _, e := range r.waiting {
		if e.c.gone {
			dropped = append(dropped, e)
			r.forget(&e)
		} else {
			kept = append(kept, e)
		}
	}
	for c, m := range r.marks {
		if c.gone {
			r.count(-m.parts())
			delete(r.marks, c)
		}
	}
	if r.waiting = kept; r.none() {
		r.since.Store(0)
	}
	return dropped
}

// finish hands in a result.
func (w *Worker) finish(c *Claimed, r Result) {
	w.mu.Lock()
	e := ended{c: c, r: r}
	if c.gone {
		delete(w.live, c)
		w.announce()
		w.mu.Unlock()
		w.lost(e)
		return
	}
	w.results.add(e, w.process.clock())
	w.mu.Unlock()
	w.sender.wake()
}

// nextCall makes a call with the waiting results, which claims jobs if more may wait.
func (w *Worker) nextCall() *call {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &call{ctx: w.process.writes, script: w.Scripts.finish, session: w.session, isolated: w.claims.isolated}
	defer func() {
		if c.room == 0 { // it may have been woken for places that another shard can use
			w.process.limiter.pass()
		}
	}()
	if w.session == nil || w.process.closed.Load() {
		return nil // the next session goes on, of this process or another
	}
	w.results.take(c)
	switch {
	case c.isolated != nil:
		w.claims.isolated = nil
	case !w.results.failing && !w.stopped.Load() && w.claims.some():
		w.takeRoom(c, w.Batch)
	}
	records, claims := len(c.results)+len(c.marks) > 0, c.room > 0 || c.isolated != nil
	if !records && !claims && !w.results.failing { // after a failure a call asks whether Redis is back
		return nil
	}
	w.fill(c)
	return c
}

// applyCall ends the jobs whose results are recorded and hands out the claimed ones.
func (w *Worker) applyCall(c *call, answer []any, sent time.Time) {
	w.Depth.Store(redisdb.Number(answer[callWaiting]))
	w.NoteParked(redisdb.Number(answer[callParked]))
	answers := redisdb.Text(answer[callAnswer])
	if len(answers) < len(c.results) {
		answers += strings.Repeat(string(finishLost), len(c.results)-len(answers))
	}
	if c.leaves {
		w.Left(w.n)
	}
	waits, back := false, false
	for i, e := range c.results {
		w.tell(e, answers[i])
		waits = waits || e.r.Outcome == Retry || e.r.Outcome == Defer
		back = back || e.r.Outcome == Release || e.r.Outcome == Continue || e.c.Key != ""
	}
	if back { // it, or the next of its key, may run
		w.CheckSoon(c.ctx)
	}
	if waits {
		w.WakeMaintainer(0) // the maintainer learns when they are due
	}
	w.mu.Lock()
	for _, e := range c.results {
		delete(w.live, e.c)
	}
	w.results.recorded(c, int64(c.began.Sub(w.process.started)))
	w.announce()
	w.mu.Unlock()
	for _, e := range c.results {
		e.c.conclude()
	}
	w.applyClaim(c, answer, sent)
}

// failCall keeps the results of a failed call: they leave again.
func (w *Worker) failCall(c *call, err error, over bool) {
	w.noteFailure()
	w.failClaim(c, over)
	if !over {
		w.failed("write results", err, "jobs", len(c.results))
		return
	}
	w.mu.Lock()
	giveUp := w.results.putBack(c, api.CodeOf(err) == api.CodeInternal)
	w.mu.Unlock()
	if giveUp {
		w.Logger.Error("Redis refuses results: the lease on their jobs is given up", "shard", w.n, "error", err)
		c.session.end()
	}
	w.dropGone()
	w.failed("write results", err, "jobs", len(c.results))
	if !w.process.closed.Load() {
		redisdb.Sleep(c.ctx, pauseAfterError)
	}
}

// awaitFlush waits until calls succeed again and every result that waited is recorded.
func (w *Worker) awaitFlush(ctx context.Context) {
	w.await(ctx, func() bool { return !w.results.failing })
}

// tell logs results that were lost or made a job dead.
func (w *Worker) tell(e ended, answer byte) {
	if answer == '1' {
		return
	}
	log := w.Logger.With("shard", w.n, "job", e.c.ID, "type", e.c.Type)
	switch answer {
	case finishLost:
		e.c.lost.Store(true)
		log.Warn("a result came too late: the job was taken over")
	case finishDead:
		log.Warn("job is dead", "reason", e.r.Reason, "error", e.r.Err, "attempt", e.c.Attempt)
	}
}
