package devices

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"fanfare/store/record"
	"fanfare/store/redisdb"
)

const (
	writes = redisdb.Write

	// sweepBatch rows are relayed at once.
	sweepBatch = 200
	// guardRounds is how often a guard is written again because the record
	// changed while it was written.
	guardRounds = 4
	// guardsAtOnce bounds concurrent guard writes; they share round trips.
	guardsAtOnce = 32
)

// Run sweeps the outbox until ctx ends: rows whose writer died or had no Redis
// are relayed. Any number of processes may run it; relaying twice does no harm.
func (s *Store) Run(ctx context.Context) error {
	wasAway := false
	for {
		err := s.Sweep(ctx)
		if away := err != nil && ctx.Err() == nil; away != wasAway {
			wasAway = away
			s.o.Logger.Info("outbox of settings", "held_up", away, "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(s.o.SweepEvery/2 + rand.N(s.o.SweepEvery/2)):
		}
	}
}

// Sweep relays every outbox row that is old enough, once.
func (s *Store) Sweep(ctx context.Context) error {
	return errors.Join(
		s.sweepKind(ctx, record.KindSettings, s.relayUsers),
		s.sweepKind(ctx, record.KindGuard, func(ctx context.Context, tokens []string) error { return s.writeGuards(ctx, tokens...) }),
	)
}

func (s *Store) sweepKind(ctx context.Context, kind string, relay func(context.Context, []string) error) error {
	for {
		due, err := s.rec.DueOutbox(ctx, kind, s.o.SweepAge.Milliseconds(), sweepBatch)
		if err != nil || len(due) == 0 {
			return err
		}
		ids, subjects := make([]string, len(due)), make(map[string]struct{}, len(due))
		for i, r := range due {
			ids[i], subjects[r.Subject] = r.ID, struct{}{}
		}
		if err := relay(ctx, slices.Sorted(maps.Keys(subjects))); err != nil {
			return err
		}
		if err := s.rec.DeleteOutbox(ctx, ids...); err != nil || len(due) < sweepBatch {
			return err
		}
	}
}

// relayUsers stores the versions on record. It reads them now, so that it may
// come late or twice.
func (s *Store) relayUsers(ctx context.Context, users []string) error {
	found, err := s.rec.UserVersions(ctx, users)
	if err != nil {
		return err
	}
	versions := make([]record.UserVersion, 0, len(found))
	for u, v := range found {
		versions = append(versions, record.UserVersion{User: u, Version: v})
	}
	return s.storeVersions(ctx, "", versions)
}

// writeGuards writes what is on record of these tokens into their guards. Two
// writers may do so at once in any order: each looks at the record again after
// writing and corrects what changed meanwhile.
func (s *Store) writeGuards(ctx context.Context, tokens ...string) error {
	truth, err := s.rec.DevicesByToken(ctx, tokens...)
	if err != nil {
		return err
	}
	for range guardRounds {
		if err := s.setGuards(ctx, tokens, truth); err != nil {
			return err
		}
		now, err := s.rec.DevicesByToken(ctx, tokens...)
		if err != nil {
			return err
		}
		tokens = slices.DeleteFunc(slices.Clone(tokens), func(t string) bool { return guardIn(truth, t) == guardIn(now, t) })
		if len(tokens) == 0 {
			return nil
		}
		truth = now
	}
	return errors.New("write guards: the devices keep changing")
}

func (s *Store) setGuards(ctx context.Context, tokens []string, truth map[string]record.OwnedDevice) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(guardsAtOnce)
	for _, t := range tokens {
		g.Go(func() error {
			return s.setGuard(ctx, t, guardIn(truth, t))
		})
	}
	return g.Wait()
}

func guardIn(truth map[string]record.OwnedDevice, token string) string {
	d, known := truth[token]
	return guardOf(d, known)
}
