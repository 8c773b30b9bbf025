package schedules

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"fanfare/api"
	"fanfare/store/record"
)

const (
	// lookEvery is how often a process looks for schedules, if it knows of none that is due sooner.
	lookEvery = 15 * time.Second
	// tryAgain is when it looks again after a failure.
	tryAgain = 5 * time.Second
	// lookSoon is when it looks again after it has advanced schedules, which may be due soon.
	lookSoon = 100 * time.Millisecond
	// abreast is how many schedules are run at once, and mostAway after how many failures of Redis or the database the
	// others wait for the next look.
	abreast, mostAway = 8, 32
	// mostTogether is how many schedules are advanced in one statement.
	mostTogether = 100
	// runTimeout bounds the enqueueing of one job, and such a statement, which go on while the process stops.
	runTimeout = 10 * time.Second
)

// Run enqueues the jobs of schedules that are due, until ctx ends. Any number of processes may do so at once.
func (s *Store) Run(ctx context.Context) error {
	failing := false
	for ctx.Err() == nil {
		wait, err := s.look(ctx)
		switch {
		case ctx.Err() != nil: // no failure: this process stops
		case err != nil && !failing:
			s.o.Logger.WarnContext(ctx, "a schedule's job is not enqueued yet; it is tried again", "error", err)
		case err == nil && failing:
			s.o.Logger.InfoContext(ctx, "schedules' jobs are enqueued again")
		}
		if failing = err != nil; failing {
			wait = min(wait, tryAgain/2+rand.N(tryAgain/2))
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-s.changed:
		}
		timer.Stop()
	}
	return nil
}

// look enqueues the jobs that are due. It returns when to look again, for one that is not due yet and for those that were
// advanced, and the first error. An error of one schedule does not hold up the others.
func (s *Store) look(ctx context.Context) (wait time.Duration, err error) {
	ahead := s.o.Ahead()
	known, err := s.o.Record.ScheduleTimes(ctx, ahead+lookEvery)
	if err != nil {
		return lookEvery, err
	}
	due, wait := known, lookEvery
	for i, one := range known {
		if left := time.Duration(one.NextAt-one.Now)*time.Millisecond - ahead; left > 0 {
			due, wait = known[:i], left
			break
		}
	}
	// In another order than other processes, so that they share the work.
	rand.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
	advanced, err := s.runAll(ctx, due)
	if advanced {
		wait = min(wait, lookSoon)
	}
	return wait, err
}

// runAll runs schedules until many have found Redis or the database away, and advances them until that fails. No job waits until
// the database has written what came before: the schedules that were run meanwhile are advanced together. advanced: one was, by this
// process or another.
func (s *Store) runAll(ctx context.Context, due []record.ScheduleTime) (advanced bool, err error) {
	ran, enqueued := make(chan record.ScheduleRun, len(due)), make(chan error, 1)
	var away, done atomic.Int64
	go func() {
		defer close(ran)
		var some errgroup.Group
		some.SetLimit(abreast)
		for _, one := range due {
			if ctx.Err() != nil || away.Load() >= mostAway {
				break
			}
			some.Go(func() error {
				run, err := s.run(ctx, one)
				switch {
				case err == nil && run != nil:
					ran <- *run
				case err == nil:
					done.Add(1)
				case api.Passing(err):
					away.Add(1)
				}
				return err
			})
		}
		enqueued <- some.Wait()
	}()
	for first := range ran {
		together := []record.ScheduleRun{first}
		for range min(len(ran), mostTogether-1) { // nobody else takes any
			together = append(together, <-ran)
		}
		if err != nil {
			continue // the next look enqueues them again, under the same Idempotency-Keys
		}
		if err = s.advance(ctx, together); err != nil {
			away.Store(mostAway)
			continue
		}
		done.Add(int64(len(together)))
	}
	return done.Load() > 0, cmp.Or(<-enqueued, err)
}

// advance notes what was run, also while the process stops.
func (s *Store) advance(ctx context.Context, runs []record.ScheduleRun) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), runTimeout)
	defer cancel()
	return s.o.Record.AdvanceSchedules(ctx, runs)
}

// run enqueues the job of a schedule's latest due time, after which the schedule has to be advanced. nil: it is gone or has
// been advanced meanwhile.
func (s *Store) run(ctx context.Context, seen record.ScheduleTime) (*record.ScheduleRun, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), runTimeout)
	defer cancel()
	schedule, now, err := s.o.Record.Schedule(ctx, seen.ID)
	if api.CodeOf(err) == api.CodeNotFound || err == nil && schedule.NextAt.UnixMilli() != seen.NextAt {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	due, next, err := timesOf(schedule, now.Add(s.o.Ahead()))
	if err != nil {
		return nil, fmt.Errorf("run schedule %s: %w", schedule.ID, err)
	}
	if err := s.enqueue(ctx, schedule, due); err != nil {
		return nil, fmt.Errorf("run schedule %s: %w", schedule.ID, err)
	}
	return &record.ScheduleRun{ID: schedule.ID, From: schedule.NextAt.Time, Last: due, Next: next}, nil
}

// timesOf is the latest due time of a schedule that is due, and the one after it.
func timesOf(schedule *api.Schedule, now time.Time) (due, next time.Time, err error) {
	cron, err := api.ParseCron(schedule.Cron, schedule.TimeZone)
	if err != nil {
		return due, next, err
	}
	if due, err = cron.Latest(schedule.NextAt.Time, now); err != nil {
		return due, next, err
	}
	next, err = cron.Next(due)
	return due, next, err
}

// enqueue stores the job of a due time, once. The Idempotency-Key does not depend on the content of the job, which may be
// changed before the schedule is advanced.
func (s *Store) enqueue(ctx context.Context, schedule *api.Schedule, due time.Time) error {
	job := api.JobRequest{Type: schedule.Type, Payload: schedule.Payload, Key: schedule.Key, MaxAttempts: schedule.MaxAttempts}
	once := api.Idempotency{Scope: "schedule", Key: schedule.ID + " " + strconv.FormatInt(due.Unix(), 10)}
	_, _, err := s.o.Enqueue(ctx, schedule.Queue, []api.JobRequest{job}, once)
	return err
}
