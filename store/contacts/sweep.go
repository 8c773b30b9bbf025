package contacts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"fanfare/store/queue"
	"fanfare/store/record"
)

// sweepBatch is how many outbox rows one step announces again.
const sweepBatch = 500

// purgeEvery is how often old idempotency records are removed.
const purgeEvery = 10 * time.Minute

// kinds are the outbox rows that this package answers for.
func kinds() []string { return []string{record.KindContact, record.KindUpload} }

// Run announces again, until ctx ends, every change whose job is not done after
// SweepAge: the process that committed it died, or Redis lost the job. It also
// removes idempotency records that no longer count. Any number of processes may
// run it; a change has one live job at most.
func (s *Store) Run(ctx context.Context) error {
	wasAway := false
	purged := time.Time{}
	for {
		err := s.Sweep(ctx)
		if err == nil && time.Since(purged) > purgeEvery {
			purged = time.Now()
			_, err = s.rec.PurgeIdempotency(ctx)
		}
		if away := err != nil && ctx.Err() == nil; away != wasAway {
			wasAway = away
			s.o.Logger.InfoContext(ctx, "outbox of contacts", "held_up", away, "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(s.o.SweepEvery/2 + rand.N(s.o.SweepEvery)):
		}
	}
}

// Sweep takes one step for each kind of change: it announces the next rows that
// are old enough, going round and round, so that rows whose work takes long hold
// up no others.
func (s *Store) Sweep(ctx context.Context) error {
	var all error
	for _, kind := range kinds() {
		all = errors.Join(all, s.sweepKind(ctx, kind))
	}
	return all
}

func (s *Store) sweepKind(ctx context.Context, kind string) error {
	page, err := s.rec.OutboxPage(ctx, kind, s.o.SweepAge.Milliseconds(), s.sweep[kind], sweepBatch)
	if err != nil {
		return err
	}
	jobs := make([]queue.Job, 0, len(page))
	for _, row := range page {
		job, err := jobOf(row)
		if err != nil {
			return err
		}
		jobs = append(jobs, job)
	}
	if _, err := s.jobs.Enqueue(ctx, jobs...); err != nil {
		return err
	}
	s.sweep[kind] = record.OpenRow{}
	if len(page) == sweepBatch {
		s.sweep[kind] = page[sweepBatch-1]
	}
	return nil
}

// jobOf makes the job that an outbox row stands for.
func jobOf(row record.OpenRow) (queue.Job, error) {
	if row.Kind == record.KindUpload {
		return uploadJob(row.ID, row.Subject), nil
	}
	var p record.Pair
	if err := json.Unmarshal([]byte(row.Payload), &p); err != nil {
		return queue.Job{}, fmt.Errorf("read outbox row %s: %w", row.ID, err)
	}
	return contactJob(row.ID, p), nil
}
