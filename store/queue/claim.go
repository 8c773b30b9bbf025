package queue

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"fanfare/store/redisdb"
)

// Modes of the claiming script.
const (
	claimNext    = ""
	claimRecover = "recover"
	claimAlone   = "alone"
)

// claimHead is how many values stand before the jobs in a claim's answer.
const claimHead = 5

// caller is one sequence of claims. A claim whose answer was lost is repeated
// with the same number until it is answered, and then returns the same jobs.
type caller struct {
	owner string
	calls uint64 // that were answered
}

// claim takes up to most jobs.
func (s *shardWorker) claim(ctx context.Context, by *caller, most int, mode string, adopt []string) ([]*Claimed, error) {
	q := s.worker.q
	call := strconv.FormatUint(by.calls+1, 36)
	args := []any{by.owner, ms(q.o.Lease), call, most, claimBytes, mode}
	for _, place := range adopt {
		args = append(args, place)
	}
	cmd := q.scripts.claim.Cmd(ctx, q.keys(s.shard), args...)
	sent := time.Now()
	if err := q.trip(ctx, stepClaim, cmd); err != nil {
		return nil, err
	}
	answer, err := cmd.Slice()
	if err != nil {
		return nil, fmt.Errorf("claim in %s shard %d: %w", q.o.Name, s.shard, err)
	}
	by.calls++
	return s.begin(answer, sent), nil
}

// begin makes the claimed jobs of an answer, whose leases count from sent.
func (s *shardWorker) begin(answer []any, sent time.Time) []*Claimed {
	q := s.worker.q
	us, _ := strconv.ParseInt(redisdb.Text(answer[1]), 10, 64)
	now := time.UnixMicro(us)
	if due := redisdb.Number(answer[2]); due >= 0 {
		q.nudge(s.shard, time.Duration(due)*time.Millisecond)
	}
	if redisdb.Number(answer[3]) > 0 {
		q.nudge(s.shard, 0)
	}
	q.depths[s.shard].Store(redisdb.Number(answer[4]))
	batch := make([]*Claimed, 0, len(answer)-claimHead)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range answer[claimHead:] {
		c := s.claimed(one.([]any), now)
		c.extend(sent, q.o.Lease)
		s.live[c] = struct{}{}
		batch = append(batch, c)
	}
	return batch
}

// claimed reads one job of a claim's answer.
func (s *shardWorker) claimed(v []any, now time.Time) *Claimed {
	c := &Claimed{
		Job: Job{ID: redisdb.Text(v[1]), Shard: s.shard, Type: redisdb.Text(v[2]), Key: redisdb.Text(v[3]), Unique: redisdb.Text(v[4]),
			Group: redisdb.Text(v[5]), Guard: redisdb.Text(v[6]), Payload: []byte(redisdb.Text(v[9]))},
		Now: now, shard: s, place: redisdb.Text(v[0]), attachments: redisdb.Text(v[8]), ended: make(chan struct{}),
		Attempt: int(redisdb.Number(v[10])),
	}
	enqueued, _ := strconv.ParseInt(redisdb.Text(v[7]), 10, 64)
	c.EnqueuedAt = time.UnixMilli(enqueued)
	c.Fence, _ = strconv.ParseInt(redisdb.Text(v[11]), 10, 64)
	if len(v) > 12 {
		c.GuardValue = redisdb.Text(v[12])
	}
	return c
}

// forget removes a job whose result is recorded, or lost, for good.
func (s *shardWorker) forget(c *Claimed) {
	s.mu.Lock()
	delete(s.live, c)
	s.mu.Unlock()
	c.stop()
	close(c.ended)
	s.worker.gate.release(1)
}
