package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"fanfare/api"
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
	ctx     context.Context // of the caller, but it never ends
	once    Once
	entries []*entry
	bytes   int
	sent    bool // guarded by its line
	done    chan struct{}
	late    *late // when its caller looks whether he still wants to wait

	// valid once done is closed
	err    error
	status int64
	stored string   // the answer of an earlier call (onceReplayed)
	known  []string // for every entry that is not plain: its id, and "1" if it is new
}

// end tells the caller, once: a call that goes on without him may be answered.
func (r *request) end(err error) {
	if !r.over() {
		r.err = err
		close(r.done)
	}
}

// over tells whether the caller was told.
func (r *request) over() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// mayGiveUp is how long callers wait until they look whether their contexts have ended:
// one with a deadline makes a channel and a timer for who asks, and most calls have been
// answered by then.
const mayGiveUp = 20 * time.Millisecond

// late is shared by the requests that wait together.
type late struct {
	passed chan struct{}
	timer  *time.Timer
}

func newLate() *late {
	l := &late{passed: make(chan struct{})}
	l.timer = time.AfterFunc(mayGiveUp, func() { close(l.passed) })
	return l
}

// line is what a process enqueues in one shard. When it works on the shard too,
// the same script claims what is next there.
type line struct {
	lane
	mu      sync.Mutex
	waiting []*request
	worker  *shardWorker // who works on the shard in this process; nil: nobody
	avoided atomic.Int64 // until when others go before it, from made on; 0: never, see Avoid
}

func newLine(q *Queue, shard int) *line {
	l := &line{}
	l.lane = lane{q: q, shard: shard, next: l.nextCall, apply: l.applyCall, fail: l.failCall, resolve: l.resolve}
	return l
}

// add hands in a request.
func (l *line) add(r *request) {
	l.put(r)
	l.kick()
}

func (l *line) put(r *request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		r.late = newLate()
	} else {
		r.late = l.waiting[0].late
	}
	l.waiting = append(l.waiting, r)
}

// do hands in a request and waits for its end. A caller who has the time makes the round
// trip himself, if none is under way: that saves waking others.
func (l *line) do(ctx context.Context, r *request) error {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < l.q.db.Timeout() {
		l.add(r)
	} else {
		l.put(r)
		l.lead()
	}
	return l.wait(ctx, r)
}

// wait ends with the answer or with the caller's context. What has not left by
// then never does.
func (l *line) wait(ctx context.Context, r *request) error {
	if r.over() { // he made the round trip himself
		return r.err
	}
	select {
	case <-r.done:
		return r.err
	case <-r.late.passed:
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
	return l.q.db.Err(context.Cause(ctx), redisdb.Write)
}

// nextCall makes a call of what waits.
func (l *line) nextCall() *call {
	l.mu.Lock()
	taken, jobs, bytes := 0, 0, 0
	for _, r := range l.waiting {
		if taken > 0 && (jobs+len(r.entries) > enqueueJobs || bytes+r.bytes > enqueueBytes) {
			break
		}
		taken, jobs, bytes = taken+1, jobs+len(r.entries), bytes+r.bytes
		r.sent = true
	}
	batch := slices.Clone(l.waiting[:taken])
	l.waiting = slices.Delete(l.waiting, 0, taken)
	worker := l.worker
	var timer *late // nobody waits for any more, once the call is answered
	if taken > 0 && len(l.waiting) == 0 {
		timer = batch[taken-1].late
	}
	l.mu.Unlock()
	if taken == 0 && (!l.doubtful || worker == nil) {
		return nil
	}
	c := &call{step: stepEnqueue, script: l.q.scripts.enqueue, requests: batch, late: timer}
	if taken > 0 {
		c.ctx = batch[0].ctx
	} else { // it only asks whether Redis is back
		c.ctx = worker.worker.writes
		l.fill(c, 0)
		return c
	}
	if worker != nil {
		worker.claimWith(c, jobs)
	}
	l.fill(c, jobs)
	return c
}

// readAhead lets the call read what the first n of its jobs ask for.
func (c *call) readAhead(n int) {
	for _, r := range c.requests {
		for _, e := range r.entries[:min(n, len(r.entries))] {
			if a := e.job.Ahead; a != nil && e.plain() {
				c.ahead, c.reads = append(c.ahead, a), append(c.reads, a.Commands(c.ctx)...)
			}
		}
		n -= min(n, len(r.entries))
	}
}

// fill writes the arguments, in the order of call_enqueue.lua.
func (l *line) fill(c *call, jobs int) {
	o := &l.q.o
	c.args = make([]any, 0, 3+5*len(c.requests)+2*jobs)
	c.args = append(c.args, ms(o.GroupRetention), ms(o.reportTTL()), len(c.requests))
	if c.life != nil {
		c.stored = make(map[int]*entry, jobs)
	}
	common := 11 + len(c.adopt) // the arguments before these
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

// applyCall tells each request what became of it and hands out what was claimed.
func (l *line) applyCall(c *call, answer []any, sent time.Time) {
	l.avoided.Store(0)
	l.q.depths[l.shard].Store(redisdb.Number(answer[callWaiting]))
	for _, a := range c.ahead {
		a.Sent(sent)
	}
	l.answerRequests(c, redisdb.Text(answer[callAnswer]))
	switch {
	case c.life != nil:
		c.life.shard.applyClaim(c, answer, sent)
	case len(c.requests) > 0:
		l.q.checkSoon(c.ctx, l.shard)
	}
}

// resolve compares what the shard's life holds after a call of the lane may have
// claimed jobs that nobody here knows of.
func (l *line) resolve() {
	l.mu.Lock()
	worker := l.worker
	l.mu.Unlock()
	if worker != nil {
		worker.resolve()
	}
}

func (l *line) answerRequests(c *call, text string) {
	if c.late != nil {
		c.late.timer.Stop()
	}
	var answers [][]any
	if text != "" {
		if err := json.Unmarshal([]byte(text), &answers); err != nil || len(answers) != len(c.requests) {
			for _, r := range c.requests {
				r.end(fmt.Errorf("enqueue in %s shard %d: the answer %q is none", l.q.o.Name, l.shard, text))
			}
			return
		}
	}
	for i, r := range c.requests {
		if r.over() {
			continue // he was told that the answer was lost
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

// failCall tells the callers at once; a call that may have claimed jobs goes on
// without them. What waits behind it has not left: it is refused.
func (l *line) failCall(c *call, err error, over bool) {
	l.q.noteTrouble()
	if code := api.CodeOf(err); code == api.CodeUnavailable || code == api.CodeUnknownOutcome {
		l.avoided.Store(int64(time.Since(l.q.made) + tryAgainAfter))
	}
	for _, r := range c.requests {
		r.end(err)
	}
	if c.life != nil {
		c.life.shard.failClaim(c, over)
	}
	l.mu.Lock()
	waiting := l.waiting
	l.waiting = nil
	l.mu.Unlock()
	for _, r := range waiting {
		r.end(l.q.db.Err(context.DeadlineExceeded, redisdb.Write))
	}
	if len(c.requests) == 0 {
		sleep(c.ctx, pauseAfterError)
	}
}

// Enqueue stores jobs, of any shards. Those of one shard are stored together, in
// parts of 100; the whole is not atomic: after an error some jobs may be stored,
// and enqueueing the same ids again is safe. Jobs without an ID get theirs before
// the first try, so that a repeat by the client has no effect.
func (q *Queue) Enqueue(ctx context.Context, jobs ...Job) ([]Enqueued, error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	entries, err := q.entries(jobs)
	if err != nil {
		return nil, err
	}
	out := make([]Enqueued, len(jobs))
	parts := q.parts(context.WithoutCancel(ctx), entries)
	if len(parts) == 1 {
		if err = q.lines[parts[0].shard].do(ctx, parts[0].request); err == nil {
			parts[0].read(out)
		}
		return out, err
	}
	for _, p := range parts {
		q.lines[p.shard].add(p.request)
	}
	for _, p := range parts {
		if waitErr := q.lines[p.shard].wait(ctx, p.request); waitErr != nil {
			err = waitErr
			continue
		}
		p.read(out)
	}
	return out, err
}

// part is what one call of Enqueue stores in one script.
type part struct {
	*request
	shard int
	index []int // places in the caller's list
}

// parts groups jobs by shard, keeping their order within it.
func (q *Queue) parts(ctx context.Context, entries []*entry) []*part {
	var out []*part
	open := map[int]*part{}
	for i, e := range entries {
		size := e.size()
		p := open[e.job.Shard]
		if p == nil || len(p.index) == enqueueJobs || p.bytes+size > enqueueBytes {
			p = &part{request: &request{ctx: ctx, done: make(chan struct{})}, shard: e.job.Shard}
			open[e.job.Shard] = p
			out = append(out, p)
		}
		p.index, p.entries, p.bytes = append(p.index, i), append(p.entries, e), p.bytes+size
	}
	return out
}

// size is about how many bytes the job takes on the wire.
func (e *entry) size() int {
	size := len(e.job.Payload) + 64
	for _, a := range e.job.Attachment {
		size += len(a)
	}
	return size
}

// read puts an answer where the jobs were in the caller's list.
func (p *part) read(out []Enqueued) {
	known := p.known
	for n, i := range p.index {
		out[i] = Enqueued{ID: p.entries[n].job.ID, New: true}
		if !p.entries[n].plain() && len(known) >= 2 {
			out[i] = Enqueued{ID: known[0], New: known[1] == "1"}
			known = known[2:]
		}
	}
}

// EnqueueOnce stores jobs of one shard in one step, together with the record
// that makes the whole call idempotent. A replay stores nothing and returns the
// first call's answer; the key with another body is idempotency_key_reused.
// It leaves with what others enqueue in the shard: one round trip for a request.
func (q *Queue) EnqueueOnce(ctx context.Context, once Once, jobs ...Job) (replayed bool, stored string, err error) {
	if len(jobs) == 0 {
		return false, "", nil
	}
	entries, err := q.entries(jobs)
	if err != nil {
		return false, "", err
	}
	r := &request{ctx: context.WithoutCancel(ctx), once: once, entries: entries, done: make(chan struct{})}
	shard := entries[0].job.Shard
	for _, e := range entries {
		r.bytes += e.size()
		if e.job.Shard != shard {
			return false, "", fmt.Errorf("enqueue once in %s: jobs of shards %d and %d", q.o.Name, shard, e.job.Shard)
		}
	}
	if err := q.lines[shard].do(ctx, r); err != nil {
		return false, "", err
	}
	switch r.status {
	case onceReplayed:
		return true, r.stored, nil
	case onceReused:
		return false, "", api.IdempotencyReused()
	}
	return false, once.Answer, nil
}

// onceArgs are the idempotency record's name, digest, answer and lifetime.
func onceArgs(once Once) []any {
	ttl := once.TTL
	if ttl <= 0 {
		ttl = defaultOnceTTL
	}
	return []any{onceName(once.Key), once.Body[:], once.Answer, ms(ttl)}
}
