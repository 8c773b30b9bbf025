package jobs

import (
	"context"
	"strings"
	"time"

	"fanfare/api"
	"fanfare/store/redisdb"
)

const (
	defaultLease = 30 * time.Second
	// mostTries bounds how often a claim is made again because there is more to see to first.
	mostTries = 1000
	// giveBack bounds how long jobs are given back whose caller has left.
	giveBackTime = 5 * time.Second
)

// Claim asks once for jobs, and then waits for them until the context wait ends; nil: it does not wait. The end of a wait
// is no error: the answer has no jobs then. A request with an Idempotency-Key gets the same jobs again while their leases
// last, and the error is api.CodeIdempotencyReused for another body.
func (s *Store) Claim(ctx, wait context.Context, queue string, claim *api.JobClaim, once api.Idempotency) (claimed *api.ClaimedJobs, again bool, err error) {
	c, seen := newClaim(queue, claim, once), s.rooms.changes(queue)
	if err := s.claimInTime(ctx, queue, c, once.Key != ""); err != nil {
		return nil, false, err
	}
	if wait != nil && len(c.jobs) == 0 && c.status == done {
		if err = s.rooms.await(wait, queue, c, seen); err != nil {
			return nil, false, err
		}
	}
	claimed, err = c.claimed(queue)
	return claimed, c.status == replayed, err
}

func newClaim(queue string, claim *api.JobClaim, once api.Idempotency) *call {
	most, lease := int64(1), defaultLease.Milliseconds()
	if claim.Max != nil {
		most = *claim.Max
	}
	if claim.LeaseMS != nil {
		lease = *claim.LeaseMS
	}
	c := &call{what: "claim", args: []any{queue, claim.Worker, most, lease, "", ""}}
	if once.Key != "" {
		c.args[4], c.args[5] = once.Name(queue), once.Body[:]
	}
	for _, kind := range claim.Types {
		c.args = append(c.args, kind)
	}
	return c
}

// claimInTime makes a claim, and gives up at the deadline of ctx. Jobs that come after it are given back, unless the caller may
// ask for them again.
func (s *Store) claimInTime(ctx context.Context, queue string, c *call, mayRepeat bool) error {
	if _, has := ctx.Deadline(); !has {
		return s.claim(ctx, queue, c)
	}
	limit, cancel := untilDeadline(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.claim(ctx, queue, c) }()
	select {
	case err := <-done:
		return err
	case <-limit.Done():
	}
	go func() {
		if err := <-done; err != nil || mayRepeat {
			return
		}
		if claimed, err := c.claimed(queue); err == nil {
			s.GiveBack(ctx, queue, claimed)
		}
	}()
	return api.Errorf(api.CodeUnknownOutcome, "Redis did not answer in time").Because(context.Cause(limit))
}

// claim makes a claim. A caller whose context has ended may get jobs.
func (s *Store) claim(ctx context.Context, queue string, c *call) error {
	most, _ := c.args[2].(int64)
	for range mostTries {
		if err := s.do(context.WithoutCancel(ctx), queue, c, int(most), 0); err != nil {
			return err
		}
		switch {
		case c.status == reused:
			return api.IdempotencyReused()
		case c.status == noBytes, c.status == done && len(c.jobs) == 0 && c.due == 0: // more is due than one run sees to
		default:
			return nil
		}
	}
	return nil
}

// claimed reads the jobs of a claim.
func (c *call) claimed(queue string) (*api.ClaimedJobs, error) {
	out := &api.ClaimedJobs{Jobs: make([]api.ClaimedJob, 0, len(c.jobs)/4)}
	fence := parse(c.fence)
	for i := 0; i+3 < len(c.jobs); i += 4 {
		t, err := parseText(redisdb.TextAt(c.jobs, i+2))
		if err != nil {
			return nil, err
		}
		h := parseHistory(redisdb.TextAt(c.jobs, i+1))
		out.Jobs = append(out.Jobs, api.ClaimedJob{
			ID: idOf(queue, redisdb.TextAt(c.jobs, i)), Token: c.fence, Fence: fence, Attempt: h.failures + h.lost + 1,
			Type: t.kind, Key: t.key, Payload: t.payload, Traceparent: t.traceparent, LeaseMS: parse(redisdb.TextAt(c.jobs, i+3)),
		})
	}
	return out, nil
}

// GiveBack releases jobs that were claimed for a caller who has left. If that fails, they come back when their
// leases are over.
func (s *Store) GiveBack(ctx context.Context, queue string, claimed *api.ClaimedJobs) {
	if len(claimed.Jobs) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
	defer cancel()
	results := make([]api.JobResult, len(claimed.Jobs))
	for i, j := range claimed.Jobs {
		results[i] = api.JobResult{ID: j.ID, Token: j.Token, Outcome: api.JobRelease}
	}
	if _, err := s.Results(ctx, queue, results); err != nil {
		s.o.Logger.WarnContext(ctx, "jobs were not given back and wait for the end of their leases", "queue", queue, "jobs", len(results), "error", strings.TrimSpace(err.Error()))
	}
}
