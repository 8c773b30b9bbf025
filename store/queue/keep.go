package queue

import (
	"context"
	"time"

	"fanfare/store/redisdb"

	"github.com/redis/go-redis/v9"
)

// Leases are renewed after a quarter of their time, looked at ten times in it: a
// lease whose renewals come through never has less than half left (Fresh).
const (
	renewParts = 4
	lookParts  = 10
)

// renewal is one script for some leases of a shard.
type renewal struct {
	shard *shardWorker
	jobs  []*Claimed
	cmd   *redis.Cmd
}

// keep renews the leases of unfinished jobs and ends the contexts of those
// whose lease is over.
func (w *worker) keep(ctx context.Context) {
	ticker := time.NewTicker(max(w.q.o.Lease/lookParts, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			w.renew(ctx)
		case <-ctx.Done():
			return
		}
	}
}

func (w *worker) renew(ctx context.Context) {
	var all []renewal
	var cmds []redis.Cmder
	sent := time.Now()
	for _, s := range w.shards {
		for _, r := range s.due(ctx) {
			all = append(all, r)
			cmds = append(cmds, r.cmd)
		}
	}
	if len(cmds) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, w.q.o.Lease/2)
	defer cancel()
	if err := w.q.trip(ctx, stepRenew, cmds...); err != nil {
		w.q.o.Logger.Warn("renew leases", "error", err)
		return
	}
	for _, r := range all {
		r.apply(sent, w.q.o.Lease)
	}
}

// due lists the leases that are to be renewed now, in chunks, and ends those
// that are over.
func (s *shardWorker) due(ctx context.Context) (out []renewal) {
	q, clock := s.worker.q, s.worker.clock()
	var args []any
	var jobs []*Claimed
	flush := func() {
		if len(jobs) > 0 {
			cmd := q.scripts.renew.Cmd(ctx, q.keys(s.shard), append([]any{ms(q.o.Lease)}, args...)...)
			out = append(out, renewal{s, jobs, cmd})
			args, jobs = nil, nil
		}
	}
	for _, c := range s.unfinished() {
		switch {
		case c.lost.Load():
		case clock >= c.deadline.Load():
			c.lose()
		case clock-c.renewed.Load() >= int64(q.o.Lease/renewParts):
			args, jobs = append(args, c.ID, c.Fence), append(jobs, c)
			if len(jobs) == renewJobs {
				flush()
			}
		}
	}
	flush()
	return out
}

// apply notes the new ends of leases, and those that were lost.
func (r *renewal) apply(sent time.Time, lease time.Duration) {
	answer, err := r.cmd.Slice()
	if err != nil || len(answer) != len(r.jobs)+1 {
		r.shard.worker.q.o.Logger.Warn("renew leases", "shard", r.shard.shard, "error", err)
		return
	}
	for i, c := range r.jobs {
		if redisdb.Number(answer[i+1]) == 1 {
			c.extend(sent, lease)
			continue
		}
		if !c.finished.Load() {
			r.shard.worker.q.o.Logger.Warn("lease lost", "shard", r.shard.shard, "job", c.ID)
		}
		c.lose()
	}
}
