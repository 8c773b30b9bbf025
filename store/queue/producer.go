package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"fanfare/api"
	"fanfare/store/batch"
	"fanfare/store/redisdb"
)

// Statuses of a request in the answer of call_enqueue.lua.
const (
	onceStored   = 1
	onceReplayed = 2
	onceReused   = 3
)

// request is what one caller enqueues in one shard.
type request struct {
	ctx     context.Context // the values of the caller's context, without its end
	once    Once
	entries []*entry
	bytes   int
	sent    bool // guarded by its producer
	done    chan struct{}
	late    *batch.Late // decides when the caller stops waiting and looks at its context

	// valid once done is closed
	err    error
	status int64
	stored string   // the answer of an earlier call (onceReplayed)
	known  []string // for every entry that is not plain: its id, and "1" if it is new
}

// end answers the caller. Only the first end counts: a call may be answered after its
// callers were told that it failed.
func (r *request) end(err error) {
	if !r.over() {
		r.err = err
		close(r.done)
	}
}

// over tells whether the caller was answered.
func (r *request) over() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// producer enqueues the jobs of a process in one shard. If the process works on the shard
// too, the same script claims the next jobs there.
type producer struct {
	sender
	mu      sync.Mutex
	waiting []*request
	worker  *worker // works on the shard in this process; nil: nobody does
}

func newProducer(s *shard) *producer {
	l := &producer{}
	l.sender = sender{shard: s, next: l.nextCall, apply: l.applyCall, fail: l.failCall, resolve: l.resolve}
	return l
}

// add hands in a request and wakes the sender.
func (l *producer) add(r *request) {
	l.put(r)
	l.wake()
}

func (l *producer) put(r *request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		r.late = batch.NewLate()
	} else {
		r.late = l.waiting[0].late
	}
	l.waiting = append(l.waiting, r)
}

// do hands in a request and waits for its end. If no call is in flight and the caller's
// deadline is far enough away, the caller makes the round trip itself, which saves waking
// another goroutine. It may have to wait for a round trip of other shards.
func (l *producer) do(ctx context.Context, r *request) error {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < 2*l.db.Timeout() {
		l.add(r)
	} else {
		l.put(r)
		l.lead()
	}
	return l.wait(ctx, r)
}

// wait ends with the answer or with the caller's context. A request that has not left by
// then is taken back.
func (l *producer) wait(ctx context.Context, r *request) error {
	if r.late.Wait(r.done) {
		return r.err
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.over() {
		return r.err
	}
	if r.sent {
		return api.Errorf(api.CodeUnknownOutcome, "the answer of Redis did not come in time: %v", context.Cause(ctx))
	}
	l.waiting = slices.DeleteFunc(l.waiting, func(other *request) bool { return other == r })
	return l.db.Err(context.Cause(ctx), redisdb.Write)
}

// nextCall makes a call of the waiting requests.
func (l *producer) nextCall() *call {
	l.mu.Lock()
	taken, jobs, bytes := 0, 0, 0
	for _, r := range l.waiting {
		if taken > 0 && (jobs+len(r.entries) > enqueueJobs || bytes+r.bytes > enqueueBytes) {
			break
		}
		taken, jobs, bytes = taken+1, jobs+len(r.entries), bytes+r.bytes
		r.sent = true
	}
	all := slices.Clone(l.waiting[:taken])
	l.waiting = slices.Delete(l.waiting, 0, taken)
	worker := l.worker
	var together *batch.Late // the timer, if no waiting request shares it; stopped with the call's answer
	if taken > 0 && len(l.waiting) == 0 {
		together = all[taken-1].late
	}
	l.mu.Unlock()
	if taken == 0 && (!l.unresolved || worker == nil) {
		return nil
	}
	c := &call{script: l.scripts.enqueue, requests: all, late: together}
	if taken > 0 {
		c.ctx = all[0].ctx
	} else { // the call only asks whether Redis is back
		c.ctx = worker.process.writes
		l.fill(c, 0)
		return c
	}
	if worker != nil {
		worker.claimWith(c, jobs)
	}
	l.fill(c, jobs)
	return c
}

// fill writes the arguments, in the order of call_enqueue.lua.
func (l *producer) fill(c *call, jobs int) {
	o := &l.o
	c.args = make([]any, 0, 3+5*len(c.requests)+2*jobs)
	c.args = append(c.args, ms(o.GroupRetention), ms(o.reportTTL()), len(c.requests))
	if c.session != nil {
		c.stored = make(map[int]*entry, jobs)
	}
	common := 10 + len(c.reclaim) // how many arguments come before these
	for _, r := range c.requests {
		if r.once.Key == "" {
			c.args = append(c.args, "")
		} else {
			c.args = append(c.args, onceArgs(r.once)...)
		}
		c.args = append(c.args, len(r.entries))
		for _, e := range r.entries {
			if c.stored != nil {
				c.stored[common+len(c.args)+1] = e
			}
			c.args = appendEntry(c.args, e)
		}
	}
}

// appendEntry adds a job's arguments, in the order of part_enqueue.lua.
func appendEntry(args []any, e *entry) []any {
	args = append(args, e.text())
	if e.plain() {
		if e.report {
			args = append(args, e.job.Report)
		}
		return args
	}
	args = append(args, e.job.Report, max(0, ms(e.job.Delay)), countsText(e.job.Counts), len(e.job.Attachment))
	for _, a := range e.job.Attachment {
		args = append(args, a)
	}
	return args
}

// applyCall answers each request and hands out the claimed jobs.
func (l *producer) applyCall(c *call, answer []any, sent time.Time) {
	l.worked()
	l.depth.Store(redisdb.Number(answer[callWaiting]))
	if c.session != nil {
		c.session.worker.applyClaim(c, answer, sent) // before the callers are answered, see RunNoticing
	}
	l.answerRequests(c, redisdb.Text(answer[callAnswer]))
	if c.session == nil && len(c.requests) > 0 {
		l.checkSoon(c.ctx)
	}
}

// resolve compares what the shard's session holds with Redis, after a call may have
// claimed jobs that this process does not know of.
func (l *producer) resolve() {
	l.mu.Lock()
	worker := l.worker
	l.mu.Unlock()
	if worker != nil {
		worker.resolve()
	}
}

func (l *producer) answerRequests(c *call, text string) {
	if c.late != nil {
		c.late.Stop()
	}
	var answers [][]any
	if text != "" {
		if err := json.Unmarshal([]byte(text), &answers); err != nil || len(answers) != len(c.requests) {
			for _, r := range c.requests {
				r.end(fmt.Errorf("enqueue in %s shard %d: the answer %q is none", l.o.Name, l.n, text))
			}
			return
		}
	}
	for i, r := range c.requests {
		if r.over() {
			continue // the caller was told that the answer was lost
		}
		r.status = onceStored
		if answers != nil {
			r.read(answers[i])
		}
		r.end(nil)
	}
}

// read notes a request's own answer.
func (r *request) read(answer []any) {
	status, _ := answer[0].(float64)
	r.status = int64(status)
	if r.status == onceReplayed && len(answer) > 1 {
		r.stored, _ = answer[1].(string)
		return
	}
	for _, v := range answer[1:] {
		switch v := v.(type) {
		case string:
			r.known = append(r.known, v)
		case float64:
			r.known = append(r.known, strconv.Itoa(int(v)))
		}
	}
}

// failCall tells the callers at once; a call that may have claimed jobs goes on without
// them. Requests that wait behind it have not left: they are refused while Redis is away,
// else they leave with the next call.
func (l *producer) failCall(c *call, err error, over bool) {
	l.noteFailure()
	away := l.db.Away(err)
	if away {
		l.failed("enqueue", err)
	}
	for _, r := range c.requests {
		r.end(err)
	}
	if c.session != nil {
		c.session.worker.failClaim(c, over)
	}
	if away {
		l.mu.Lock()
		waiting := l.waiting
		l.waiting = nil
		l.mu.Unlock()
		for _, r := range waiting {
			r.end(l.db.Err(context.DeadlineExceeded, redisdb.Write))
		}
	}
	if len(c.requests) == 0 {
		sleep(c.ctx, pauseAfterError)
	}
}
