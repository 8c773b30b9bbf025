package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// Answers of the finishing script, one digit per job.
const (
	finishLost      = '0'
	finishRecorded  = '1'
	finishDead      = '2'
	finishCancelled = '3'
)

// Names of the outcomes in the finishing script.
var outcomeNames = [...]string{Done: "done", Retry: "retry", Defer: "defer", Dead: "dead",
	Continue: "continue", Park: "park", Release: "release"}

// ended is a job with its result.
type ended struct {
	c *Claimed
	r Result
}

// results gathers a shard's results: what arrives while a script is on its way
// leaves with the next one.
type results struct {
	shard *shardWorker
	wake  chan struct{}
	calls uint64
	since atomic.Int64 // when the write under way began (worker's clock), 0: none

	mu      sync.Mutex
	waiting []ended
	added   uint64        // results so far
	written uint64        // of those, how many are recorded or given up
	failing bool          // the last write failed
	changed chan struct{} // closed, and made again, when written or failing change
}

func (q *results) add(c *Claimed, r Result) {
	q.mu.Lock()
	q.waiting = append(q.waiting, ended{c, r})
	q.added++
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *results) next() []ended {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.waiting), finishJobs)
	batch := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	if len(q.waiting) == 0 {
		q.waiting = nil
	}
	return batch
}

// settle waits while the writing of results fails: more is claimed, and ended
// leases are looked for, only after them. With all it waits for every result
// that is there now: after an absence of Redis nobody can tell yet whether the
// next write will fail.
func (q *results) settle(ctx context.Context, all bool) {
	q.mu.Lock()
	until := uint64(0)
	if all {
		until = q.added
	}
	for (q.failing || q.written < until) && ctx.Err() == nil {
		changed := q.changed
		q.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		q.mu.Lock()
	}
	q.mu.Unlock()
}

// note tells those who wait what became of a write.
func (q *results) note(written int, failing bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if written == 0 && failing == q.failing {
		return
	}
	q.written += uint64(written)
	q.failing = failing
	close(q.changed)
	q.changed = make(chan struct{})
}

// write writes results until ctx ends, which it does after the last job.
func (q *results) write(ctx context.Context) {
	for {
		batch := q.next()
		if len(batch) == 0 {
			select {
			case <-q.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		if !q.deliver(ctx, batch) {
			return
		}
	}
}

// deliver writes one batch, again and again until Redis has it. When Redis has
// answered that it can't, each result is written by itself, and one that is
// still refused is given up: its job's lease will end.
func (q *results) deliver(ctx context.Context, batch []ended) bool {
	w := q.shard.worker
	q.since.Store(max(w.clock(), 1))
	for refused := 0; ; {
		answers, err := q.finish(w.writes, batch)
		if err == nil {
			q.since.Store(0)
			q.note(len(batch), false)
			for i, e := range batch {
				q.shard.tell(e, answers[i])
				q.shard.forget(e.c)
			}
			return true
		}
		if api.CodeOf(err) == api.CodeInternal {
			refused++ // a lost answer is no refusal
		}
		if refused >= refusedTries {
			return q.split(ctx, batch, err)
		}
		q.note(0, true)
		w.q.o.Logger.Warn("write results", "shard", q.shard.shard, "jobs", len(batch), "error", err)
		if sleep(ctx, pauseAfterError); ctx.Err() != nil {
			return false
		}
	}
}

// refusedTries is how often Redis may refuse a batch before it is split.
const refusedTries = 3

func (q *results) split(ctx context.Context, batch []ended, err error) bool {
	q.calls++ // what comes next may not be taken for a repeat of this batch
	if len(batch) == 1 {
		q.shard.worker.q.o.Logger.Error("a result is refused and given up", "shard", q.shard.shard, "job", batch[0].c.ID, "error", err)
		q.since.Store(0)
		q.note(1, false)
		batch[0].c.lose()
		q.shard.forget(batch[0].c)
		return true
	}
	for i := range batch {
		if !q.deliver(ctx, batch[i:i+1]) {
			return false
		}
	}
	return true
}

// finish is one script for a batch of results. A batch whose answer was lost is
// repeated with the same number.
func (q *results) finish(ctx context.Context, batch []ended) (string, error) {
	o := &q.shard.worker.q.o
	age := int64(-1)
	if o.MaxAge > 0 {
		age = ms(o.MaxAge)
	}
	args := make([]any, 0, 6+15*len(batch))
	args = append(args, o.Owner, strconv.FormatUint(q.calls+1, 36), ms(o.Retention), ms(o.GroupRetention), o.MaxAttempts, age)
	for i := range batch {
		args = appendResult(args, batch[i].c, &batch[i].r)
	}
	main := q.shard.worker.q
	cmd := main.scripts.finish.Cmd(ctx, main.keys(q.shard.shard), args...)
	if err := main.trip(ctx, stepFinish, cmd); err != nil {
		return "", err
	}
	answer, err := cmd.Slice()
	if err != nil {
		return "", fmt.Errorf("finish in %s shard %d: %w", o.Name, q.shard.shard, err)
	}
	q.calls++
	main.look(q.shard.shard) // it may have started the next of a key
	if due := redisdb.Number(answer[1]); due >= 0 {
		main.nudge(q.shard.shard, time.Duration(due)*time.Millisecond)
	}
	answers := redisdb.Text(answer[2])
	if len(answers) != len(batch) {
		return "", fmt.Errorf("finish in %s shard %d: %d answers for %d jobs", o.Name, q.shard.shard, len(answers), len(batch))
	}
	return answers, nil
}

// appendResult adds a result's arguments, in the order of job_finish.lua.
func appendResult(args []any, c *Claimed, r *Result) []any {
	outcome, label := outcomeNames[r.Outcome], r.Label
	if r.Outcome == Dead && r.Discard {
		outcome = "discard"
	}
	if r.Outcome == Done && label == "" {
		label = "done"
	}
	extra, payload, delay := "", "", int64(0)
	if len(r.Counts) > 0 || len(r.Facts) > 0 {
		b, _ := json.Marshal(struct {
			C map[string]int64  `json:"c,omitempty"`
			F map[string]string `json:"f,omitempty"`
		}{r.Counts, r.Facts}) // numbers and strings always marshal
		extra = string(b)
	}
	if r.Payload != nil {
		payload = "1" + string(r.Payload)
	}
	if r.Outcome == Retry || r.Outcome == Defer {
		delay = ms(c.delay(r))
	}
	return append(args, c.place, c.ID, c.Fence, outcome, c.Key, c.Unique, c.Group, c.attachments, label,
		extra, delay, payload, r.Parked, r.Reason, r.Err)
}

// tell logs the results that are no routine.
func (s *shardWorker) tell(e ended, answer byte) {
	log := s.worker.q.o.Logger.With("shard", s.shard, "job", e.c.ID, "type", e.c.Type)
	switch answer {
	case finishLost:
		e.c.lost.Store(true)
		log.Warn("a result came too late: the job was taken over")
	case finishDead:
		log.Warn("job is dead", "reason", e.r.Reason, "error", e.r.Err, "attempt", e.c.Attempt)
	case finishCancelled:
		log.Info("job was cancelled while it ran")
	}
}
