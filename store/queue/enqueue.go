package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/queue/shard"
	"fanfare/store/redisdb"
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
		if err = parts[0].producer.Do(ctx, parts[0].Request); err == nil {
			parts[0].Read(out, parts[0].index)
		}
		return out, err
	}
	for _, p := range parts {
		p.producer.Add(p.Request)
	}
	for _, p := range parts {
		if waitErr := p.producer.Wait(ctx, p.Request); waitErr != nil {
			err = waitErr
			continue
		}
		p.Read(out, p.index)
	}
	return out, err
}

// part has the jobs that one call of Enqueue stores with one script.
type part struct {
	*shard.Request
	producer *shard.Producer
	index    []int // places in the caller's list
}

// parts groups jobs by shard, keeping their order within it.
func (q *Queue) parts(ctx context.Context, entries []*shard.Entry) []*part {
	var out []*part
	open := map[int]*part{}
	for i, e := range entries {
		p := open[e.Job.Shard]
		if p == nil || !p.Add(e) {
			p = &part{Request: shard.NewRequest(ctx, Once{}, nil), producer: q.shards[e.Job.Shard].Producer}
			p.Add(e)
			open[e.Job.Shard] = p
			out = append(out, p)
		}
		p.index = append(p.index, i)
	}
	return out
}

// EnqueueOnce stores jobs of one shard in one step, together with the record
// that makes the whole call idempotent. A replay stores nothing and returns the
// first call's answer; the key with another body is idempotency_key_reused.
// The jobs are sent together with other callers' jobs for the shard, in one round trip.
func (q *Queue) EnqueueOnce(ctx context.Context, once Once, jobs ...Job) (replayed bool, stored string, err error) {
	if len(jobs) == 0 {
		return false, "", nil
	}
	entries, err := q.entries(jobs)
	if err != nil {
		return false, "", err
	}
	n := entries[0].Job.Shard
	for _, e := range entries {
		if e.Job.Shard != n {
			return false, "", fmt.Errorf("enqueue once in %s: jobs of shards %d and %d", q.o.Name, n, e.Job.Shard)
		}
	}
	r := shard.NewRequest(context.WithoutCancel(ctx), once, entries)
	if err := q.shards[n].Producer.Do(ctx, r); err != nil {
		return false, "", err
	}
	return r.Once()
}

// Replay reads what EnqueueOnce stored under a key in a shard. It writes nothing. It serves
// requests that would be refused now but were accepted before. The same key with another
// body is idempotency_key_reused.
func (q *Queue) Replay(ctx context.Context, n int, once Once) (stored string, found bool, err error) {
	value, err := redisdb.Value(ctx, q.db, redisdb.Read, redis.NewStringCmd(ctx, "get", q.shards[n].OnceKey(once.Key)))
	if errors.Is(err, redis.Nil) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("read idempotency record in %s shard %d: %w", q.o.Name, n, err)
	}
	rest, same := strings.CutPrefix(value, string(once.Body[:]))
	if !same {
		return "", false, api.IdempotencyReused()
	}
	return rest, true, nil
}

// entries checks jobs and gives each an id and a shard.
func (q *Queue) entries(jobs []Job) ([]*shard.Entry, error) {
	now := time.Now()
	all := make([]shard.Entry, len(jobs))
	out := make([]*shard.Entry, len(jobs))
	for i := range jobs {
		all[i].Job, out[i] = jobs[i], &all[i]
		j := &all[i].Job
		if err := q.check(j); err != nil {
			return nil, err
		}
		fresh := j.Fresh || j.ID == ""
		if j.ID == "" {
			j.Shard = q.shardOf(j)
			j.ID = NewID(j.Shard, now)
		}
		all[i].Init(fresh)
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
	return rand.IntN(q.o.Shards)
}

// check refuses jobs whose fields are too long or contain a separator.
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

// CountNew counts those that were not there before.
func CountNew(made []Enqueued) (n int) {
	for _, m := range made {
		if m.New {
			n++
		}
	}
	return n
}

// Guard is a companion record of jobs in a shard.
type Guard struct {
	Shard       int
	Name, Value string
	// Old is what a caller read of the record before it looked up the Value, "" for nothing. SetGuards
	// sets it to what is there now, which is the Value if it was stored, and Err if Redis did not answer.
	Old string
	Err error
}

// GuardCmd is the command that reads a companion record and lets it live for ttl from now. A Redis
// that refuses to store the record refuses this command, too.
func (q *Queue) GuardCmd(ctx context.Context, ttl time.Duration, g Guard) *redis.StringCmd {
	return redis.NewStringCmd(ctx, "getex", q.shards[g.Shard].GuardKey(g.Name), "px", shard.MS(ttl))
}

// SetGuards stores, for ttl and in one round trip, the companion records that claims of jobs with
// these guards return. A record that is no longer Old stays as it is. So a command that Redis runs late,
// when its caller has given up, changes nothing that was stored meanwhile. This needs values that do not
// come back. The error is the first one of the guards.
func (q *Queue) SetGuards(ctx context.Context, ttl time.Duration, guards ...Guard) error {
	cmds := make([]redis.Cmder, len(guards))
	for i, g := range guards {
		cmds[i] = q.common.Scripts.GuardSet.Cmd(ctx, []string{q.shards[g.Shard].GuardKey(g.Name)}, g.Old, g.Value, shard.MS(ttl))
	}
	first := q.db.Pipeline(ctx, redisdb.Write, cmds...)
	for i, cmd := range cmds {
		g := &guards[i]
		if g.Old, g.Err = cmd.(*redis.Cmd).Text(); g.Err != nil {
			first = cmp.Or(first, fmt.Errorf("set guard in %s shard %d: %w", q.o.Name, g.Shard, g.Err))
		}
	}
	return first
}
