package schedules

import (
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
	// runTimeout bounds the enqueueing of one job, which goes on while the process stops.
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

// runAll runs schedules, some at once, until many have found Redis or the database away. advanced: one was run.
func (s *Store) runAll(ctx context.Context, due []record.ScheduleTime) (advanced bool, err error) {
	var some errgroup.Group
	some.SetLimit(abreast)
	var away, run atomic.Int64
	for _, one := range due {
		if ctx.Err() != nil || away.Load() >= mostAway {
			break
		}
		some.Go(func() error {
			err := s.run(ctx, one)
			if err == nil {
				run.Add(1)
			} else if api.Passing(err) {
				away.Add(1)
			}
			return err
		})
	}
	err = some.Wait()
	return run.Load() > 0, err
}

// run enqueues the job of a schedule's latest due time and advances the schedule. It does nothing if the schedule is gone or
// has been advanced meanwhile.
func (s *Store) run(ctx context.Context, seen record.ScheduleTime) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), runTimeout)
	defer cancel()
	schedule, now, err := s.o.Record.Schedule(ctx, seen.ID)
	if api.CodeOf(err) == api.CodeNotFound || err == nil && schedule.NextAt.UnixMilli() != seen.NextAt {
		return nil
	}
	if err != nil {
		return err
	}
	due, next, err := timesOf(schedule, now.Add(s.o.Ahead()))
	if err != nil {
		return fmt.Errorf("run schedule %s: %w", schedule.ID, err)
	}
	if err := s.enqueue(ctx, schedule, due); err != nil {
		return fmt.Errorf("run schedule %s: %w", schedule.ID, err)
	}
	return s.o.Record.AdvanceSchedule(ctx, schedule.ID, schedule.NextAt.Time, due, next)
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
