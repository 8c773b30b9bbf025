package queue

import (
	"context"
	"encoding/json"
	"strings"
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
// after the lease has ended, and a job that makes scripts fail is soon run alone.
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

// results are the results and marks of a shard that wait for a call.
type results struct {
	waiting []ended
	marks   map[*Claimed]*marked
	refused int // how often a call with them was refused in a row
	// failing: the last call failed. Nothing is claimed until the waiting results are
	// stored.
	failing bool
}

// finish hands in a result.
func (s *shardWorker) finish(c *Claimed, r Result) {
	s.mu.Lock()
	e := ended{c: c, r: r}
	if c.gone {
		delete(s.live, c)
		s.announce()
		s.mu.Unlock()
		s.lost(e)
		return
	}
	s.results.waiting = append(s.results.waiting, e)
	s.writing.CompareAndSwap(0, max(s.worker.clock(), 1))
	s.mu.Unlock()
	s.sender.wake()
}

// nextCall makes a call with the waiting results, which claims jobs if more may wait.
func (s *shardWorker) nextCall() *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &call{ctx: s.worker.writes, script: s.scripts.finish, session: s.session, alone: s.alone}
	defer func() {
		if c.room == 0 { // it may have been woken for places that another shard can use
			s.worker.limiter.pass()
		}
	}()
	if s.session == nil || s.worker.closed.Load() {
		return nil // the next session goes on, of this process or another
	}
	r := &s.results
	n := min(len(r.waiting), finishJobs)
	c.results = r.waiting[:n:n]
	if r.waiting = r.waiting[n:]; len(r.waiting) == 0 {
		r.waiting = nil
	}
	c.marks, c.unmark = s.takeMarks(c.results)
	switch {
	case c.alone != nil:
		s.alone = nil
	case !r.failing && !s.stopped && (s.wantsMore || len(s.unclaimed) > 0):
		s.takeRoom(c, s.o.Batch)
	}
	records, claims := n > 0 || len(c.marks) > 0, c.room > 0 || c.alone != nil
	if !records && !claims && !r.failing { // after a failure a call asks whether Redis is back
		return nil
	}
	s.fill(c)
	return c
}

// none tells that no result and no mark waits to be recorded.
func (r *results) none() bool { return len(r.waiting) == 0 && len(r.marks) == 0 }

// fill writes the arguments, in the order of call_finish.lua: the jobs whose end
// changes nothing but their entry come first.
func (s *shardWorker) fill(c *call) {
	o := &s.o
	age := int64(-1)
	if o.MaxAge > 0 {
		age = ms(o.MaxAge)
	}
	var plain, other []ended
	reportTTL := o.ReportRetention
	for _, e := range c.results {
		reportTTL = max(reportTTL, e.r.ReportTTL)
		if e.plain() {
			plain = append(plain, e)
		} else {
			other = append(other, e)
		}
	}
	c.results = append(plain, other...)
	c.args = make([]any, 0, 9+3*len(plain)+12*len(other)+8*len(c.marks))
	c.args = append(c.args, ms(o.Retention), ms(o.GroupRetention), ms(reportTTL), o.MaxAttempts, age, len(plain), len(other), len(c.marks), len(c.unmark))
	for _, e := range plain {
		c.args = append(c.args, e.c.place, e.c.ID, e.r.Report)
	}
	for i := range other {
		c.args = appendResult(c.args, other[i].c, &other[i].r)
	}
	for _, m := range c.marks {
		c.args = append(append(c.args, m.c.ID, m.report, len(m.fields)), m.fields...)
	}
	for _, id := range c.unmark {
		c.args = append(c.args, id)
	}
}

// plain tells that the job is done and nothing but its entry and report has to change.
func (e *ended) plain() bool {
	return e.r.Outcome == Done && e.c.entry.bare() && len(e.r.Counts) == 0
}

// appendResult adds a result's arguments, in the order of call_finish.lua.
func appendResult(args []any, c *Claimed, r *Result) []any {
	outcome, label := outcomeNames[r.Outcome], r.Label
	if r.Outcome == Done && label == "" {
		label = "done"
	}
	payload, fence := "", c.Fence
	if r.Untouched {
		fence = c.entry.fence
	}
	if r.Payload != nil {
		payload = "1" + string(r.Payload)
	}
	return append(args, c.place, outcome, c.entry.head(), fence, label, countsText(r.Counts), ms(c.Wait(*r)), payload, r.Parked, r.Reason, r.Err, r.Report)
}

// countsText is what changes in a group, as scripts read it; "": nothing does.
func countsText(counts map[string]int64) string {
	if len(counts) == 0 {
		return ""
	}
	b, _ := json.Marshal(counts) // numbers always marshal
	return string(b)
}

// applyCall ends the jobs whose results are recorded and hands out the claimed ones.
func (s *shardWorker) applyCall(c *call, answer []any, sent time.Time) {
	s.depth.Store(redisdb.Number(answer[callWaiting]))
	s.parked.tell(redisdb.Number(answer[callParked]))
	answers := redisdb.Text(answer[callAnswer])
	if len(answers) < len(c.results) {
		answers += strings.Repeat(string(finishLost), len(c.results)-len(answers))
	}
	waits, back := false, false
	for i, e := range c.results {
		s.tell(e, answers[i])
		waits = waits || e.r.Outcome == Retry || e.r.Outcome == Defer
		back = back || e.r.Outcome == Release || e.r.Outcome == Continue || e.c.Key != ""
	}
	if back { // it, or the next of its key, may run
		s.checkSoon(c.ctx)
	}
	if waits {
		s.wakeMaintainer(0) // the maintainer learns when they are due
	}
	s.mu.Lock()
	for _, e := range c.results {
		delete(s.live, e.c)
	}
	for _, m := range c.marks {
		s.unrecorded.Add(-m.parts())
	}
	for _, e := range c.results {
		s.unrecorded.Add(-e.parts)
	}
	s.results.refused = 0
	if s.writing.Store(0); !s.results.none() {
		s.writing.Store(max(int64(c.began.Sub(s.worker.started)), 1)) // those came after the call was made
	}
	if s.results.none() {
		s.results.failing = false
	}
	s.announce()
	s.mu.Unlock()
	for _, e := range c.results {
		e.c.conclude()
	}
	s.applyClaim(c, answer, sent)
}

// failCall keeps the results of a failed call: they leave again.
func (s *shardWorker) failCall(c *call, err error, over bool) {
	s.noteFailure()
	s.failClaim(c, over)
	if !over {
		s.failed("write results", err, "jobs", len(c.results))
		return
	}
	s.mu.Lock()
	r := &s.results
	if len(c.results)+len(c.marks) > 0 && api.CodeOf(err) == api.CodeInternal {
		r.refused++
	}
	giveUp := r.refused >= refusedTries
	if giveUp {
		r.refused = 0
	}
	s.putMarksBack(c.marks)
	r.waiting = append(c.results, r.waiting...)
	s.mu.Unlock()
	if giveUp {
		s.o.Logger.Error("Redis refuses results: the lease on their jobs is given up", "shard", s.n, "error", err)
		c.session.end()
	}
	s.dropGone()
	s.failed("write results", err, "jobs", len(c.results))
	if !s.worker.closed.Load() {
		sleep(c.ctx, pauseAfterError)
	}
}

// awaitFlush waits until calls succeed again and every result that waited is recorded.
func (s *shardWorker) awaitFlush(ctx context.Context) {
	s.mu.Lock()
	for s.results.failing && ctx.Err() == nil {
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		s.mu.Lock()
	}
	s.mu.Unlock()
}

// tell logs results that were lost or made a job dead.
func (s *shardWorker) tell(e ended, answer byte) {
	if answer == '1' {
		return
	}
	log := s.o.Logger.With("shard", s.n, "job", e.c.ID, "type", e.c.Type)
	switch answer {
	case finishLost:
		e.c.lost.Store(true)
		log.Warn("a result came too late: the job was taken over")
	case finishDead:
		log.Warn("job is dead", "reason", e.r.Reason, "error", e.r.Err, "attempt", e.c.Attempt)
	}
}
