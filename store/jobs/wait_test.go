package jobs

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// waiting begins a claim that waits, for some types or all, and returns where its jobs arrive.
func waiting(t testing.TB, s *Store, queue string, types ...string) (got chan []api.ClaimedJob, leave context.CancelFunc) {
	t.Helper()
	got = make(chan []api.ClaimedJob, 1)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), soon)
	t.Cleanup(cancel)
	go func() {
		lease := int64(60_000)
		claimed, _, err := s.Claim(ctx, ctx, queue, &api.JobClaim{Worker: "w", Types: types, LeaseMS: &lease}, api.Idempotency{})
		if err != nil {
			t.Errorf("wait: %v", err)
			got <- nil
			return
		}
		got <- claimed.Jobs
	}()
	return got, cancel
}

// waiters is how many claims of a queue wait.
func (s *Store) waiters(queue string) int {
	s.rooms.mu.Lock()
	defer s.rooms.mu.Unlock()
	if r := s.rooms.open[queue]; r != nil {
		return r.waiting.Len()
	}
	return 0
}

func (s *Store) listens(queue string) bool { return s.rooms.line.Waiting(s.channel(queue)) > 0 }

// J5: each job wakes a waiting worker of its type, also one at another process, and a job that is given back does.
func TestJ5_WaitingWorkersAreWoken(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Store) {
		q, other := named("q"), begin(t, s.db)
		a, _ := waiting(t, s, q, "a")
		b, leave := waiting(t, s, q, "b")
		storetest.Eventually(t, soon, "both wait", func() bool { return s.waiters(q) == 2 && s.listens(q) })
		ids := enqueue(t, other, q, api.JobRequest{Type: "a"}, api.JobRequest{Type: "c"})
		jobs := <-a
		if len(jobs) != 1 || jobs[0].ID != ids[0] {
			t.Fatalf("woken with %v", jobs)
		}
		leave()
		if jobs := <-b; len(jobs) != 0 {
			t.Errorf("the other got %v", jobs)
		}
		again, _ := waiting(t, other, q, "a")
		storetest.Eventually(t, soon, "another waits", func() bool { return other.waiters(q) == 1 && other.listens(q) })
		s.GiveBack(t.Context(), q, &api.ClaimedJobs{Jobs: jobs})
		if jobs := <-again; len(jobs) != 1 || jobs[0].ID != ids[0] || jobs[0].Attempt != 1 {
			t.Errorf("given back: %+v", jobs)
		}
	})
}

// J2: a waiting worker gets a job when the lease of another one ends.
func TestJ2_AWaitingWorkerTakesOver(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Store) {
		s.begun = s.begun.Add(-time.Hour)
		q, other := named("q"), begin(t, s.db)
		other.begun = s.begun
		got, _ := waiting(t, other, q)
		storetest.Eventually(t, soon, "one waits", func() bool { return other.waiters(q) == 1 && other.listens(q) })
		_, err := s.Pause(t.Context(), q) // so that the waiter can't have it first
		storetest.Must(t, err)
		id := enqueue(t, s, q, api.JobRequest{})[0]
		_, err = s.Resume(t.Context(), q)
		storetest.Must(t, err)
		first := claim(t, s, q, 1, 300*time.Millisecond)
		if len(first) == 0 { // the waiter was faster
			if jobs := <-got; len(jobs) != 1 {
				t.Error("nobody got the job")
			}
			return
		}
		begun := time.Now()
		if jobs := <-got; len(jobs) != 1 || jobs[0].ID != id || jobs[0].Attempt != 2 {
			t.Errorf("taken over: %+v", jobs)
		}
		if late := time.Since(begun); late > 5*time.Second {
			t.Errorf("taken over after %v", late)
		}
	})
}

// J5: idle waiting workers hardly ask Redis.
func TestJ5_WaitingCostsNothing(t *testing.T) {
	t.Parallel()
	var commands atomic.Int64
	db := storetest.Faulty(t, storetest.Open(t, storetest.Redis(t).URL()), func(what string, answered bool) error {
		if what == "jobs_run" && answered {
			commands.Add(1)
		}
		return nil
	})
	s, q := begin(t, db), named("q")
	enqueue(t, s, q, api.JobRequest{Type: "other"})
	var leave []context.CancelFunc
	for range 100 {
		_, cancel := waiting(t, s, q, "a")
		leave = append(leave, cancel)
	}
	storetest.Eventually(t, soon, "all wait", func() bool { return s.waiters(q) == 100 && s.listens(q) })
	until(t, time.Now().Add(200*time.Millisecond), "the first look is over")
	before := commands.Load()
	until(t, time.Now().Add(2*time.Second), "two seconds of idleness are over")
	if n := commands.Load() - before; n > 2 {
		t.Errorf("%d scripts in 2 s with 100 waiting workers", n)
	}
	before = commands.Load()
	enqueue(t, s, q, api.JobRequest{Type: "a"})
	storetest.Eventually(t, soon, "one was woken", func() bool { return s.waiters(q) == 99 })
	if n := commands.Load() - before; n > 8 {
		t.Errorf("%d scripts for one job with 100 waiting workers", n)
	}
	for _, cancel := range leave {
		cancel()
	}
	storetest.Eventually(t, soon, "all have left", func() bool { return s.waiters(q) == 0 })
}

// J5: many jobs wake many waiting workers, and no job is left while workers wait.
func TestJ5_ManyJobsWakeMany(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Store) {
		q := named("q")
		var all []chan []api.ClaimedJob
		for i := range 50 {
			var types []string
			if i%5 == 0 {
				types = []string{"t", fmt.Sprint("x", i)}
			}
			got, _ := waiting(t, s, q, types...)
			all = append(all, got)
		}
		storetest.Eventually(t, soon, "all wait", func() bool { return s.waiters(q) == 50 && s.listens(q) })
		var requests sync.WaitGroup
		for range 5 {
			requests.Go(func() { enqueue(t, s, q, make([]api.JobRequest, 10)...) })
		}
		requests.Wait()
		ids := map[string]bool{}
		for _, got := range all {
			if jobs := <-got; len(jobs) != 1 || ids[jobs[0].ID] {
				t.Errorf("woken with %v", jobs)
			} else {
				ids[jobs[0].ID] = true
			}
		}
	})
}

// A message that is lost with its connection is no lost job.
func TestJ5_ALostMessage(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Redis(t).URL())
	s, q := begin(t, db), named("q")
	got, _ := waiting(t, s, q)
	storetest.Eventually(t, soon, "it waits", func() bool { return s.waiters(q) == 1 && s.listens(q) })
	// The message is sent while nobody listens: this is done by taking the channel away for a moment.
	c := &call{what: "pause", args: []any{q, "1", "1"}}
	storetest.Must(t, s.do(t.Context(), q, c, 1, 0))
	enqueue(t, s, q, api.JobRequest{})
	storetest.Must(t, db.Client().HSet(t.Context(), s.letters.KeyBeside(s.groupOf(q), "w:"+q+"/meta"), "paused", 0).Err())
	storetest.Must(t, db.Client().ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err())
	if jobs := <-got; len(jobs) != 1 {
		t.Errorf("after the connection was lost: %v", jobs)
	}
}
