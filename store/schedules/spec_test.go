package schedules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

// J10: any number of processes, whose clocks differ, enqueue one job for each due time.
func TestJ10_OneJobForEachDueTime(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		const processes, rounds = 8, 5
		var all [processes]*Store
		var ahead [processes]*atomic.Int64
		for i := range all {
			all[i], ahead[i] = w.process()
		}
		s := w.mustPut("s", "* * * * *", payload(`{"a":"<&>"}`))
		for range rounds {
			// Some of the processes are 500 ms early and find nothing; the last time they are as late.
			for _, shift := range []time.Duration{0, time.Second} {
				for i := range ahead {
					ahead[i].Store(w.until(s.NextAt.Add(shift + time.Duration(i%2-1)*500*time.Millisecond)))
				}
				storetest.AtOnce(w.t, 2*processes, func(ctx context.Context, i int) error {
					_, err := all[i%processes].look(ctx)
					return err
				})
			}
			w.wantTimes("s", s.NextAt.Time, s.NextAt.Add(time.Minute))
			s = w.mustGet("s")
		}
		if got := w.payloads("s"); !slices.Equal(got, slices.Repeat([]string{`{"a":"<&>"}`}, rounds)) {
			w.t.Errorf("the jobs are %v", got)
		}
	})
}

// J10: a process that dies after it enqueued the job, or whose answer is lost, leaves the schedule to others, who enqueue
// nothing more. The job may be changed meanwhile.
func TestJ10_KilledBeforeItAdvances(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		lost := api.Errorf(api.CodeUnknownOutcome, "no answer")
		dying, ahead := w.process(func(o *Options) {
			o.Enqueue = func(ctx context.Context, queue string, all []api.JobRequest, once api.Idempotency) ([]api.JobAccepted, bool, error) {
				_, _, err := w.jobs.Enqueue(ctx, queue, all, once)
				return nil, false, errors.Join(lost, err)
			}
		})
		s := w.mustPut("s", "0 * * * *", payload("1"))
		ahead.Store(w.until(s.NextAt.Add(time.Minute)))
		if _, err := dying.look(w.t.Context()); !errors.Is(err, lost) {
			w.t.Fatalf("the process goes on: %v", err)
		}
		w.wantTimes("s", time.Time{}, s.NextAt.Time)
		w.mustPut("s", "0 * * * *", payload("2"))
		w.at(s.NextAt.Add(50 * time.Minute))
		w.mustLook()
		w.wantTimes("s", s.NextAt.Time, s.NextAt.Add(time.Hour))
		if got := w.payloads("s"); !slices.Equal(got, []string{"1"}) {
			w.t.Errorf("the jobs are %v", got)
		}
	})
}

// J10: after an absence only the latest due time counts.
func TestJ10_AwayForDays(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		hourly, daily, monthly := w.mustPut("hourly", "0 * * * *"), w.mustPut("daily", "0 3 * * *"), w.mustPut("monthly", "0 0 1 * *")
		w.at(daily.NextAt.Add(72*time.Hour + time.Minute))
		w.mustLook()
		w.mustLook()
		w.wantTimes("daily", daily.NextAt.Add(72*time.Hour), daily.NextAt.Add(96*time.Hour))
		w.wantTimes("hourly", daily.NextAt.Add(72*time.Hour), daily.NextAt.Add(73*time.Hour))
		w.wants("hourly", 1)
		w.wants("daily", 1)
		w.at(monthly.NextAt.Add(10 * 24 * time.Hour))
		w.mustLook()
		w.wantTimes("monthly", monthly.NextAt.Time, monthly.NextAt.AddDate(0, 1, 0))
		w.wants("monthly", 1)
		w.at(hourly.NextAt.Time) // the clock was set back
		w.mustLook()
		w.wants("monthly", 1)
	})
}

// J10: a job that cannot be enqueued is tried again, and then the latest due time counts. It holds up no others.
func TestJ10_TheQueueIsFull(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		var full atomic.Bool
		full.Store(true)
		w.Store, w.ahead = w.process(func(o *Options) {
			o.Enqueue = func(ctx context.Context, queue string, all []api.JobRequest, once api.Idempotency) ([]api.JobAccepted, bool, error) {
				if queue == "full" && full.Load() {
					return nil, false, api.Errorf(api.CodeQueueFull, "full")
				}
				return w.jobs.Enqueue(ctx, queue, all, once)
			}
		})
		s := w.mustPut("full", "* * * * *")
		w.mustPut("other", "* * * * *")
		w.at(s.NextAt.Time)
		if _, err := w.look(w.t.Context()); api.CodeOf(err) != api.CodeQueueFull {
			w.t.Errorf("the error is %v", err)
		}
		w.wants("other", 1)
		w.wantTimes("full", time.Time{}, s.NextAt.Time)
		full.Store(false)
		w.at(s.NextAt.Add(10 * time.Minute))
		w.mustLook()
		w.wants("full", 1)
		w.wantTimes("full", s.NextAt.Add(10*time.Minute), s.NextAt.Add(11*time.Minute))
	})
}

// J10: a schedule that was changed or deleted since a process read its due time is left alone.
func TestJ10_ChangedAndDeleted(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		first := w.mustPut("s", "0 * * * *")
		w.at(first.NextAt.Time)
		seen, err := w.o.Record.ScheduleTimes(w.t.Context(), time.Duration(w.ahead.Load()))
		if err != nil || len(seen) != 1 || seen[0].ID != "s" {
			w.t.Fatalf("due are %v, %v", seen, err)
		}
		if again := w.mustPut("s", "0 * * * *", payload("1")); again.NextAt != first.NextAt {
			w.t.Errorf("the due time is %s, want %s", again.NextAt, first.NextAt)
		}
		moved := w.mustPut("s", "30 * * * *", payload("1"))
		if want := first.NextAt.Add(30 * time.Minute); !moved.NextAt.Equal(want) {
			w.t.Errorf("the due time is %s, want %s", moved.NextAt, want)
		}
		alone := func() {
			w.t.Helper()
			run, err := w.run(w.t.Context(), seen[0])
			if storetest.Must(w.t, err); run != nil {
				w.t.Errorf("it is run: %+v", run)
			}
			w.wants("s", 0)
		}
		alone()
		storetest.Must(w.t, w.o.Record.AdvanceSchedules(w.t.Context(), []record.ScheduleRun{
			{ID: "s", From: first.NextAt.Time, Last: first.NextAt.Time, Next: first.NextAt.Add(time.Hour)},
		}))
		w.wantTimes("s", time.Time{}, moved.NextAt.Time)

		storetest.Must(w.t, w.Delete(w.t.Context(), "s"))
		storetest.Must(w.t, w.Delete(w.t.Context(), "s"))
		alone()
		if _, err := w.Get(w.t.Context(), "s"); api.CodeOf(err) != api.CodeNotFound {
			w.t.Errorf("a deleted schedule: %v", err)
		}
		w.wants("s", 0)
	})
}

// J10: a schedule that is put again after its job was enqueued is due later, also if the clock was set back.
func TestJ10_PutAgain(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		s := w.mustPut("s", "0 * * * *")
		w.at(s.NextAt.Time)
		w.mustLook()
		w.at(s.NextAt.Add(-time.Minute))
		again := w.mustPut("s", "0,30 * * * *")
		w.wantTimes("s", s.NextAt.Time, s.NextAt.Add(30*time.Minute))
		if !again.NextAt.Equal(s.NextAt.Add(30 * time.Minute)) {
			w.t.Errorf("the due time is %s", again.NextAt)
		}
	})
}

// J10: a due time is met while processes run, also of a schedule that was put just before it. When one stops, others go on.
func TestJ10_Run(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		other, ahead := w.process()
		ctx, cancel := context.WithCancel(w.t.Context())
		var running sync.WaitGroup
		for _, s := range []*Store{w.Store, other} {
			running.Go(func() {
				if err := s.Run(ctx); err != nil {
					w.t.Error(err)
				}
			})
		}
		defer running.Wait()
		defer cancel()
		shift := w.until(time.Now().Truncate(time.Minute).Add(59500 * time.Millisecond))
		w.ahead.Store(shift)
		ahead.Store(shift)
		begun := time.Now()
		first := w.mustPut("s", "* * * * *").NextAt
		storetest.Eventually(w.t, soon, "the first job is enqueued", func() bool { return w.mustGet("s").LastAt != nil })
		if took := time.Since(begun); took > 5*time.Second {
			w.t.Errorf("a due time 500 ms ahead was met after %s", took)
		}
		w.wantTimes("s", first.Time, first.Add(time.Minute))
		w.wants("s", 1)
	})
}

// J10: many are due at one time. No job waits until the database has noted those before it, as one with a slow disk does late.
func TestJ10_ManyAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		const many = mostTogether + 50
		var enqueued atomic.Int64
		s, ahead := w.process(func(o *Options) {
			o.Record = w.mustOpen(time.Minute)
			o.Enqueue = func(ctx context.Context, queue string, jobs []api.JobRequest, once api.Idempotency) ([]api.JobAccepted, bool, error) {
				defer enqueued.Add(1)
				return w.jobs.Enqueue(ctx, queue, jobs, once)
			}
		})
		first := w.mustPutDue(many, ahead)
		unlock := func() {}
		if strings.HasPrefix(w.url, "sqlite:") {
			unlock = storetest.LockSQLite(w.t, w.url)
		}
		looked := make(chan error, 1)
		go func() {
			_, err := s.look(w.t.Context())
			looked <- err
		}()
		storetest.Eventually(w.t, soon, "jobs to be enqueued while the database writes nothing", func() bool { return enqueued.Load() >= 5*abreast })
		unlock()
		if err := <-looked; err != nil { // of a busy machine: the database was away for long
			w.t.Log(err)
			_, err = s.look(w.t.Context())
			storetest.Must(w.t, err)
		}
		w.wantRun(many, first)
	})
}

// J10: what was enqueued while the database writes nothing is noted by a later look, and is not enqueued again. The look that
// meets it ends at the first write that fails.
func TestJ10_TheDatabaseWritesNothing(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		if !strings.HasPrefix(w.url, "sqlite:") {
			w.t.Skip("SQLite is the database whose writer a test can lock")
		}
		const many = 3*mostTogether + 50
		s, ahead := w.process(func(o *Options) { o.Record = w.mustOpen(time.Second) })
		first := w.mustPutDue(many, ahead)
		unlock := storetest.LockSQLite(w.t, w.url)
		if _, err := s.look(w.t.Context()); !api.Passing(err) {
			w.t.Errorf("while the database writes nothing: %v", err)
		}
		for i := range many {
			w.wantTimes(fmt.Sprint("s", i), time.Time{}, first)
		}
		unlock()
		storetest.Eventually(w.t, soon, "a look that notes all", func() bool {
			_, err := s.look(w.t.Context())
			return err == nil
		})
		w.wantRun(many, first)
	})
}

// J10: schedules whose queues cannot take a job, or are out of reach, delay no others.
func TestJ10_OneThatFailsDelaysNoOther(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		s, ahead := w.process(func(o *Options) {
			o.Enqueue = func(ctx context.Context, queue string, jobs []api.JobRequest, once api.Idempotency) ([]api.JobAccepted, bool, error) {
				switch {
				case queue == "full":
					return nil, false, api.Errorf(api.CodeQueueFull, "full")
				case strings.HasPrefix(queue, "away"):
					return nil, false, api.Errorf(api.CodeUnavailable, "away")
				}
				return w.jobs.Enqueue(ctx, queue, jobs, once)
			}
		})
		first := w.mustPut("full", "*/2 * * * *").NextAt
		for i := range 20 {
			w.mustPut(fmt.Sprint("away", i), "*/2 * * * *")
			w.mustPut(fmt.Sprint("good", i), "*/2 * * * *")
		}
		w.mustPut("next", "1-59/2 * * * *")
		ahead.Store(w.until(first.Add(57 * time.Second))) // 3 s before the time of next
		if _, err := s.look(w.t.Context()); err == nil {
			w.t.Error("no error of those that fail")
		}
		for i := range 20 {
			w.wants(fmt.Sprint("good", i), 1)
		}
		wait, err := s.look(w.t.Context())
		if err == nil || wait > 3*time.Second {
			w.t.Errorf("the next look is in %v, after %v", wait, err)
		}
	})
}

func TestTooManySchedules(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		for i := range api.MaxSchedules {
			w.mustPut(fmt.Sprintf("s%d", i), "0 0 1 1 *")
		}
		_, _, err := w.Put(w.t.Context(), "one-more", &api.ScheduleRequest{Queue: "q", Type: "t", Cron: "* * * * *"})
		if api.CodeOf(err) != api.CodeTooManyNames {
			w.t.Errorf("one schedule too many: %v", err)
		}
		w.mustPut("s0", "0 0 2 1 *", payload("1"))
		list, err := w.List(w.t.Context(), "s998", 10)
		if err != nil || len(list) != 1 || list[0].ID != "s999" {
			w.t.Errorf("the last page is %v, %v", list, err)
		}
	})
}
