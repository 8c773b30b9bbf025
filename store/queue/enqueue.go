package queue

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fanfare/api"
)

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
		if err = q.shards[parts[0].shard].producer.do(ctx, parts[0].request); err == nil {
			parts[0].read(out)
		}
		return out, err
	}
	for _, p := range parts {
		q.shards[p.shard].producer.add(p.request)
	}
	for _, p := range parts {
		if waitErr := q.shards[p.shard].producer.wait(ctx, p.request); waitErr != nil {
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
	if err := q.shards[shard].producer.do(ctx, r); err != nil {
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

// entries checks jobs and gives each an id and a shard.
func (q *Queue) entries(jobs []Job) ([]*entry, error) {
	now := time.Now()
	all := make([]entry, len(jobs))
	out := make([]*entry, len(jobs))
	for i := range jobs {
		e := &all[i]
		e.job, e.failures, out[i] = jobs[i], jobs[i].Failures, e
		j := &e.job
		if err := q.check(j); err != nil {
			return nil, err
		}
		fresh := j.Fresh || j.ID == ""
		if j.ID == "" {
			j.Shard = q.shardOf(j)
			j.ID = NewID(j.Shard, now)
		}
		if !fresh {
			e.named = named
		}
		if e.report = j.Report != ""; len(j.Attachment) > 0 {
			e.attachments = strconv.Itoa(len(j.Attachment))
		}
	}
	return out, nil
}

// shardOf is where a job without an id goes.
func (q *Queue) shardOf(j *Job) int {
	switch {
	case j.Key != "":
		return q.Route(j.Key)
	case j.Unique != "":
		return q.Route(j.Unique)
	}
	return q.Route(randomText(9))
}

// check refuses what would not fit, or would break a job's text.
func (q *Queue) check(j *Job) error {
	names := [...]struct{ field, value, forbidden string }{
		{"id", j.ID, " :{}\x1f\x00"}, {"type", j.Type, "{}\x1f\x00"}, {"key", j.Key, "{}\x1f\x00"},
		{"unique", j.Unique, "{}\x1f\x00"}, {"group", j.Group, " {}\x1f\x00"}, {"guard", j.Guard, "{}\x1f\x00"},
	}
	for i := range names {
		n := &names[i]
		if n.value == "" {
			continue
		}
		if len(n.value) > MaxName {
			return api.Invalid(n.field, "max", "of a job must be at most %d bytes", MaxName)
		}
		if strings.ContainsAny(n.value, n.forbidden) {
			return api.Invalid(n.field, "identifier", "of a job must not contain any of %q", n.forbidden)
		}
	}
	if len(j.Payload) > MaxPayload {
		return api.Invalid("payload", "max", "of a job must be at most %d bytes", MaxPayload)
	}
	if j.ID != "" && (j.Shard < 0 || j.Shard >= q.o.Shards) {
		return api.Invalid("shard", "max", "%d does not exist: queue %s has %d", j.Shard, q.o.Name, q.o.Shards)
	}
	return nil
}

// ms is a duration in milliseconds; what is positive is at least 1.
func ms(d time.Duration) int64 {
	if d > 0 && d < time.Millisecond {
		return 1
	}
	return d.Milliseconds()
}
