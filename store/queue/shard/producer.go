package shard

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

// Request has the jobs that one caller enqueues in one shard.
type Request struct {
	ctx     context.Context // the values of the caller's context, without its end
	once    Once
	entries []*Entry
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

// NewRequest makes a request of entries of one shard. ctx never ends.
func NewRequest(ctx context.Context, once Once, entries []*Entry) *Request {
	r := &Request{ctx: ctx, once: once, entries: entries, done: make(chan struct{})}
	for _, e := range entries {
		r.bytes += e.size()
	}
	return r
}

// Add adds an entry, unless the request would be too large for one call.
func (r *Request) Add(e *Entry) bool {
	size := e.size()
	if n := len(r.entries); n == enqueueJobs || n > 0 && r.bytes+size > enqueueBytes {
		return false
	}
	r.entries, r.bytes = append(r.entries, e), r.bytes+size
	return true
}

// Read puts an answer where the jobs were in the caller's list.
func (r *Request) Read(out []Enqueued, index []int) {
	known := r.known
	for n, i := range index {
		out[i] = Enqueued{ID: r.entries[n].Job.ID, New: true}
		if !r.entries[n].plain() && len(known) >= 2 {
			out[i] = Enqueued{ID: known[0], New: known[1] == "1"}
			known = known[2:]
		}
	}
}

// Once tells what became of an idempotent request: whether it was replayed, and the answer
// that is stored.
func (r *Request) Once() (replayed bool, stored string, err error) {
	switch r.status {
	case onceReplayed:
		return true, r.stored, nil
	case onceReused:
		return false, "", api.IdempotencyReused()
	}
	return false, r.once.Answer, nil
}

// OnceArgs are the idempotency record's name, digest, answer and lifetime.
func OnceArgs(once Once) []any {
	ttl := once.TTL
	if ttl <= 0 {
		ttl = api.IdempotencyTTL
	}
	return []any{onceName(once.Key), once.Body[:], once.Answer, MS(ttl)}
}

// end answers the caller. Only the first end counts: a call may be answered after its
// callers were told that it failed.
func (r *Request) end(err error) {
	if !r.over() {
		r.err = err
		close(r.done)
	}
}

// over reports whether the caller was answered.
func (r *Request) over() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// Producer enqueues the jobs of a process in one shard. If the process works on the shard
// too, the same script claims the next jobs there.
type Producer struct {
	sender
	mu      sync.Mutex
	waiting []*Request
	worker  *Worker // works on the shard in this process; nil: nobody does
}

func newProducer(s *Shard) *Producer {
	l := &Producer{}
	l.sender = sender{Shard: s, next: l.nextCall, apply: l.applyCall, fail: l.failCall, resolve: l.resolve}
	return l
}

// attach lets the calls that enqueue claim for a worker; nil: for none.
func (p *Producer) attach(w *Worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.worker = w
}

// Add hands in a request and wakes the sender.
func (p *Producer) Add(r *Request) {
	p.put(r)
	p.wake()
}

func (p *Producer) put(r *Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) == 0 {
		r.late = batch.NewLate()
	} else {
		r.late = p.waiting[0].late
	}
	p.waiting = append(p.waiting, r)
}

// Do hands in a request and waits for its end. If no call is in flight and the caller's
// deadline is far enough away, the caller makes the round trip itself, which saves waking
// another goroutine. It may have to wait for a round trip of other shards.
func (p *Producer) Do(ctx context.Context, r *Request) error {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < 2*p.db.Timeout() {
		p.Add(r)
	} else {
		p.put(r)
		p.lead()
	}
	return p.Wait(ctx, r)
}

// Wait ends with the answer or with the caller's context. A request that has not left by
// then is taken back.
func (p *Producer) Wait(ctx context.Context, r *Request) error {
	if r.late.Wait(r.done) {
		return r.err
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.over() {
		return r.err
	}
	if r.sent {
		return api.Errorf(api.CodeUnknownOutcome, "the answer of Redis did not come in time: %v", context.Cause(ctx))
	}
	p.waiting = slices.DeleteFunc(p.waiting, func(other *Request) bool { return other == r })
	return p.db.Err(context.Cause(ctx), redisdb.Write)
}

// nextCall makes a call of the waiting requests.
func (p *Producer) nextCall() *call {
	p.mu.Lock()
	taken, jobs, bytes := 0, 0, 0
	for _, r := range p.waiting {
		if taken > 0 && (jobs+len(r.entries) > enqueueJobs || bytes+r.bytes > enqueueBytes) {
			break
		}
		taken, jobs, bytes = taken+1, jobs+len(r.entries), bytes+r.bytes
		r.sent = true
	}
	all := slices.Clone(p.waiting[:taken])
	p.waiting = slices.Delete(p.waiting, 0, taken)
	worker := p.worker
	var together *batch.Late // the timer, if no waiting request shares it; stopped with the call's answer
	if taken > 0 && len(p.waiting) == 0 {
		together = all[taken-1].late
	}
	p.mu.Unlock()
	if taken == 0 && (!p.compareAfter || worker == nil) {
		return nil
	}
	c := &call{script: p.Scripts.enqueue, requests: all, late: together}
	if taken == 0 { // the call only asks whether Redis is back
		c.ctx = worker.process.writes
	} else if c.ctx = all[0].ctx; worker != nil {
		worker.claimWith(c, jobs)
	}
	p.fill(c, jobs)
	return c
}

// fill writes the arguments, in the order of call_enqueue.lua.
func (p *Producer) fill(c *call, jobs int) {
	o := &p.Options
	c.args = make([]any, 0, 3+5*len(c.requests)+2*jobs)
	c.args = append(c.args, MS(o.GroupRetention), MS(o.ReportTTL()), len(c.requests))
	if c.session != nil {
		c.stored = make(map[int]*Entry, jobs)
	}
	before := commonArgs + len(c.reclaim)
	for _, r := range c.requests {
		if r.once.Key == "" {
			c.args = append(c.args, "")
		} else {
			c.args = append(c.args, OnceArgs(r.once)...)
		}
		c.args = append(c.args, len(r.entries))
		for _, e := range r.entries {
			if c.stored != nil {
				// A claim answers with the position of a job's text in ARGV, which begins with 1.
				c.stored[before+len(c.args)+1] = e
			}
			c.args = appendEntry(c.args, e)
		}
	}
}

// appendEntry adds a job's arguments, in the order of part_enqueue.lua.
func appendEntry(args []any, e *Entry) []any {
	args = append(args, e.text())
	if e.plain() {
		if e.report {
			args = append(args, e.Job.Report)
		}
		return args
	}
	args = append(args, e.Job.Report, max(0, MS(e.Job.Delay)), countsText(e.Job.Counts), e.Job.Note, len(e.Job.Attachment))
	for _, a := range e.Job.Attachment {
		args = append(args, a)
	}
	return args
}

// applyCall answers each request and hands out the claimed jobs.
func (p *Producer) applyCall(c *call, answer []any, sent time.Time) {
	p.worked()
	p.Depth.Store(redisdb.Number(answer[callWaiting]))
	if c.session != nil {
		c.session.worker.applyClaim(c, answer, sent)
	}
	p.answerRequests(c, redisdb.Text(answer[callAnswer]))
	if c.session == nil && len(c.requests) > 0 {
		p.CheckSoon(c.ctx)
	}
}

// resolve compares what the shard's session holds with Redis, after a call may have
// claimed jobs that this process does not know of.
func (p *Producer) resolve() {
	p.mu.Lock()
	worker := p.worker
	p.mu.Unlock()
	if worker != nil {
		worker.resolve()
	}
}

func (p *Producer) answerRequests(c *call, text string) {
	if c.late != nil {
		c.late.Stop()
	}
	var answers [][]any
	if text != "" {
		if err := json.Unmarshal([]byte(text), &answers); err != nil || len(answers) != len(c.requests) {
			for _, r := range c.requests {
				r.end(fmt.Errorf("enqueue in %s shard %d: the answer %q is none", p.Name, p.n, text))
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
func (r *Request) read(answer []any) {
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
func (p *Producer) failCall(c *call, err error, over bool) {
	p.noteFailure()
	away := p.db.Away(err)
	if away {
		p.failed("enqueue", err)
	}
	for _, r := range c.requests {
		r.end(err)
	}
	if c.session != nil {
		c.session.worker.failClaim(c, over)
	}
	if away {
		p.mu.Lock()
		waiting := p.waiting
		p.waiting = nil
		p.mu.Unlock()
		for _, r := range waiting {
			r.end(p.db.Err(context.DeadlineExceeded, redisdb.Write))
		}
	}
	if len(c.requests) == 0 {
		redisdb.Sleep(c.ctx, pauseAfterError)
	}
}
