package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// Statuses of the storing scripts.
const (
	onceStored   = 1
	onceReplayed = 2
	onceReused   = 3
)

// chunk is what one enqueueing script stores.
type chunk struct {
	shard int
	index []int // places in the caller's list
	bytes int
	cmd   *redis.Cmd
}

// Enqueue stores jobs, of any shards, in as few scripts as fit, all in one
// pipeline. Each script is atomic, the whole is not: after an error some jobs
// may be stored, and enqueueing the same ids again is safe. Jobs without an ID
// get theirs before the first try, so that a repeat by the client has no effect.
func (q *Queue) Enqueue(ctx context.Context, jobs ...Job) ([]Enqueued, error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	jobs, err := q.named(jobs)
	if err != nil {
		return nil, err
	}
	chunks := q.chunks(jobs)
	cmds := make([]redis.Cmder, len(chunks))
	for n, c := range chunks {
		args := []any{ms(q.o.Retention), ms(q.o.GroupRetention), randomText(3), len(c.index)}
		for _, i := range c.index {
			args = appendJob(args, &jobs[i])
		}
		c.cmd = q.scripts.enqueue.Cmd(ctx, q.keys(c.shard), args...)
		cmds[n] = c.cmd
	}
	if err := q.trip(ctx, stepEnqueue, cmds...); err != nil {
		return nil, err
	}
	out := make([]Enqueued, len(jobs))
	for _, c := range chunks {
		if err := q.readEnqueued(c, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// readEnqueued puts a script's answer where the jobs were in the caller's list.
func (q *Queue) readEnqueued(c *chunk, out []Enqueued) error {
	answer, err := c.cmd.Slice()
	if err != nil {
		return fmt.Errorf("enqueue in %s shard %d: %w", q.o.Name, c.shard, err)
	}
	q.depths[c.shard].Store(redisdb.Number(answer[1]))
	q.look(c.shard)
	for n, i := range c.index {
		out[i] = Enqueued{ID: redisdb.Text(answer[2+2*n]), New: redisdb.Number(answer[3+2*n]) == 1}
	}
	return nil
}

// EnqueueOnce stores jobs of one shard in one step, together with the record
// that makes the whole call idempotent. A replay stores nothing and returns the
// first call's answer; the key with another body is idempotency_key_reused.
// It travels with the shared round trip: one trip for a request.
func (q *Queue) EnqueueOnce(ctx context.Context, once Once, jobs ...Job) (replayed bool, stored string, err error) {
	if len(jobs) == 0 {
		return false, "", nil
	}
	if jobs, err = q.named(jobs); err != nil {
		return false, "", err
	}
	shard := jobs[0].Shard
	for i := range jobs {
		if jobs[i].Shard != shard {
			return false, "", fmt.Errorf("enqueue once in %s: jobs of shards %d and %d", q.o.Name, shard, jobs[i].Shard)
		}
	}
	cmd := q.onceCmd(ctx, shard, once, jobs)
	if err := q.db.Share(ctx, redisdb.Write, cmd); err != nil {
		return false, "", err
	}
	return q.readOnce(cmd, shard, once)
}

func (q *Queue) onceCmd(ctx context.Context, shard int, once Once, jobs []Job) *redis.Cmd {
	args := make([]any, 0, 8+jobArgs*len(jobs))
	args = append(args, ms(q.o.Retention), ms(q.o.GroupRetention), randomText(3), len(jobs))
	script := q.scripts.enqueue
	if once.Key != "" {
		script = q.scripts.once
		args = append(args, onceArgs(once)...)
	}
	for i := range jobs {
		args = appendJob(args, &jobs[i])
	}
	return script.Cmd(ctx, q.keys(shard), args...)
}

// onceArgs are the idempotency record's name, digest, answer and lifetime.
func onceArgs(once Once) []any {
	ttl := once.TTL
	if ttl <= 0 {
		ttl = defaultOnceTTL
	}
	return []any{onceName(once.Key), once.Body[:], once.Answer, ms(ttl)}
}

func (q *Queue) readOnce(cmd *redis.Cmd, shard int, once Once) (bool, string, error) {
	answer, err := cmd.Slice()
	if err != nil {
		return false, "", fmt.Errorf("enqueue in %s shard %d: %w", q.o.Name, shard, err)
	}
	switch redisdb.Number(answer[0]) {
	case onceReplayed:
		q.depths[shard].Store(redisdb.Number(answer[1]))
		return true, redisdb.Text(answer[2]), nil
	case onceReused:
		return false, "", api.IdempotencyReused()
	}
	q.depths[shard].Store(redisdb.Number(answer[1]))
	q.look(shard)
	return false, once.Answer, nil
}

// named checks jobs and gives each an id and a shard.
func (q *Queue) named(jobs []Job) ([]Job, error) {
	jobs = slices.Clone(jobs)
	now := time.Now()
	for i := range jobs {
		j := &jobs[i]
		if err := q.check(j); err != nil {
			return nil, err
		}
		if j.ID != "" {
			continue
		}
		switch {
		case j.Key != "":
			j.Shard = q.Route(j.Key)
		case j.Unique != "":
			j.Shard = q.Route(j.Unique)
		default:
			j.Shard = q.Route(randomText(9))
		}
		j.ID = NewID(j.Shard, now)
	}
	return jobs, nil
}

// check refuses what would not fit, or would break a record's text.
func (q *Queue) check(j *Job) error {
	names := []struct{ field, value, forbidden string }{
		{"id", j.ID, " :{}"}, {"type", j.Type, "{}"}, {"key", j.Key, "{}"},
		{"unique", j.Unique, "{}"}, {"group", j.Group, " {}"}, {"guard", j.Guard, "{}"},
	}
	for _, n := range names {
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

// chunks groups jobs by shard, keeping their order within it.
func (q *Queue) chunks(jobs []Job) []*chunk {
	var out []*chunk
	open := map[int]*chunk{}
	for i := range jobs {
		j := &jobs[i]
		size := len(j.Payload)
		for _, a := range j.Attachment {
			size += len(a)
		}
		c := open[j.Shard]
		if c == nil || len(c.index) == enqueueJobs || c.bytes+size > enqueueBytes {
			c = &chunk{shard: j.Shard}
			open[j.Shard] = c
			out = append(out, c)
		}
		c.index = append(c.index, i)
		c.bytes += size
	}
	return out
}

const jobArgs = 10

// appendJob adds a job's arguments, in the order of part_enqueue.lua.
func appendJob(args []any, j *Job) []any {
	facts := ""
	if len(j.Facts) > 0 {
		b, _ := json.Marshal(j.Facts) // strings always marshal
		facts = string(b)
	}
	args = append(args, j.ID, j.Type, j.Key, j.Unique, j.Group, j.Guard,
		max(0, ms(j.Delay)), j.Payload, facts, len(j.Attachment))
	for _, a := range j.Attachment {
		args = append(args, a)
	}
	return args
}

// ms is a duration in milliseconds; what is positive is at least 1.
func ms(d time.Duration) int64 {
	if d > 0 && d < time.Millisecond {
		return 1
	}
	return d.Milliseconds()
}
