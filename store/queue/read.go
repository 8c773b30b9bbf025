package queue

import (
	"context"
	"fmt"
	"time"
)

const (
	// blockTime is how long a blocking read waits. Every new entry ends it, so
	// it only decides how often an idle process asks again; that its connection
	// is dead is noticed by the look after an enqueueing.
	blockTime = 2 * time.Minute
	// embeddedBlockTime is short because the embedded Redis cannot be told to
	// end a blocking read; its answers cost no network.
	embeddedBlockTime = 250 * time.Millisecond
	// pauseAfterError lies between tries while Redis is away.
	pauseAfterError = 100 * time.Millisecond
)

// read claims and hands out jobs of one shard until ctx ends. While there is
// work it claims batch after batch; then it waits in a blocking read.
func (s *shardWorker) read(ctx context.Context) {
	line := &reader{shard: s}
	defer line.close()
	mode, adopt := claimNext, []string(nil)
	for {
		s.results.settle(ctx, mode == claimRecover) // results before claims
		n, err := s.take(ctx, mode, adopt)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.recoverFrom(ctx, err)
			mode = claimRecover
			continue
		}
		mode, adopt = claimNext, nil
		if n > 0 {
			continue
		}
		if adopt, err = line.wait(ctx); err != nil {
			s.recoverFrom(ctx, err)
			mode = claimRecover
		}
	}
}

// take claims a batch, as large as there are places, and hands it out.
func (s *shardWorker) take(ctx context.Context, mode string, adopt []string) (int, error) {
	places := s.worker.gate.acquire(ctx, s.worker.q.o.Batch)
	if places == 0 {
		return 0, nil
	}
	batch, err := s.claim(s.worker.writes, &s.calls, places, mode, adopt)
	if over := len(batch) - places; over > 0 {
		s.worker.gate.force(over) // a repeated claim returns what it had
		places = len(batch)
	}
	s.worker.gate.release(places - len(batch))
	if err != nil || len(batch) == 0 {
		return 0, err
	}
	if ctx.Err() != nil {
		for _, c := range batch {
			c.Finish(Result{Outcome: Release})
		}
		return len(batch), nil
	}
	if len(adopt) > 0 {
		s.worker.q.noteWakeup(batch[0])
	}
	s.worker.handle(s.worker.jobs, batch)
	return len(batch), nil
}

// recoverFrom waits after an error and makes again what Redis lost.
func (s *shardWorker) recoverFrom(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	q := s.worker.q
	if isNoGroup(err) {
		healing, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if err = q.heal(healing, s.shard); err == nil {
			q.o.Logger.Warn("made the groups of an emptied Redis again", "shard", s.shard)
			return
		}
	}
	q.o.Logger.Warn("read shard", "shard", s.shard, "error", err)
	sleep(ctx, pauseAfterError)
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// noteWakeup keeps a moving mean of the time from enqueueing to claiming of
// jobs that woke an idle reader.
func (q *Queue) noteWakeup(c *Claimed) {
	if c.Attempt > 1 {
		return
	}
	took := c.Now.Sub(c.EnqueuedAt).Microseconds()
	old := q.wakeup.Load()
	if old == 0 {
		old = took
	}
	q.wakeup.Store((old*7 + took) / 8)
}

// leave gives up the shard at the end of Run.
func (s *shardWorker) leave(ctx context.Context) error {
	q := s.worker.q
	for _, owner := range []string{q.o.Owner, q.o.Owner + "+"} {
		cmd := q.scripts.leave.Cmd(ctx, q.keys(s.shard), owner)
		if err := q.trip(ctx, stepLeave, cmd); err != nil {
			return err
		}
		if err := cmd.Err(); err != nil && !isNoGroup(err) {
			return fmt.Errorf("leave %s shard %d: %w", q.o.Name, s.shard, err)
		}
	}
	return nil
}
