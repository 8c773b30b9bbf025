package jobs

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// known is a store whose process knows that Redis was there for an hour.
func known(t testing.TB, s *Store) *Store {
	t.Helper()
	s.begun = s.begun.Add(-time.Hour)
	return s
}

// The keys of a queue are those of no other one, whatever the names are.
func TestNoTwoQueuesShareAKey(t *testing.T) {
	t.Parallel()
	s := begin(t, storetest.Open(t, storetest.Redis(t).URL()))
	for n, names := 0, 0; names < 3; n++ {
		short := fmt.Sprint("a", n)
		long := short + ":r"
		if s.groupOf(short) != s.groupOf(long) {
			continue
		}
		names++
		for _, kind := range []string{"due", "meta", "jobs", "types", "held"} {
			enqueue(t, s, short, api.JobRequest{Type: kind, Key: kind})
			enqueue(t, s, long, api.JobRequest{Type: kind, Key: kind})
		}
		for _, q := range []string{long, short} {
			if jobs := claim(t, s, q, 100, time.Minute); len(jobs) != 5 {
				t.Errorf("claimed %d of 5 jobs of %s", len(jobs), q)
			}
			mustCount(t, s, q, api.JobQueue{Running: 5})
		}
	}
}

// J2: a script that runs once more, after others, gives out no job that somebody else has got, or could get, since.
func TestJ2_ALateRepeatGivesOutNothing(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Redis(t).URL())
	var between atomic.Pointer[func()]
	s, clean := known(t, begin(t, storetest.Faulty(t, db, func(what string, answered bool) error {
		if f := between.Swap(nil); f != nil && what == "jobs_run" && answered {
			(*f)()
			return storetest.ErrTwice
		} else if f != nil {
			between.Store(f)
		}
		return nil
	}))), known(t, begin(t, db))
	for _, kind := range []string{"t", "other"} { // it is claimed, or it may be claimed
		q, lease := named("q"), int64(20)
		id := enqueue(t, clean, q, api.JobRequest{})[0]
		f := func() {
			storetest.Eventually(t, soon, "the lease is over", func() bool { return *mustGet(t, clean, id).LeaseMS == 0 })
			claim(t, clean, q, 1, time.Hour, kind)
		}
		between.Store(&f)
		got, _, err := s.Claim(t.Context(), nil, q, &api.JobClaim{Worker: "w", LeaseMS: &lease}, api.Idempotency{})
		storetest.Must(t, err)
		if len(got.Jobs) != 0 {
			t.Errorf("after a claim of the type %s: %+v", kind, got)
		}
	}
}

// J1, Q3: jobs of a key with run_at go in the order of their enqueueing, also before one that came when they were due.
func TestJ1_OrderOfAKeyWithTimes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Store) {
		q, at := named("q"), api.At(time.Now().Add(50*time.Millisecond))
		later := api.At(at.Add(30 * time.Millisecond))
		ids := enqueue(t, s, q, append(slicesOf(4, api.JobRequest{Key: "k", RunAt: &later}), slicesOf(4, api.JobRequest{Key: "k", RunAt: &at})...)...)
		until(t, later.Add(50*time.Millisecond), "all are due, and nobody claims meanwhile")
		ids = append(ids, enqueue(t, s, q, api.JobRequest{Key: "k"})...)
		for _, id := range ids {
			j := one(t, s, q, time.Minute)
			mustEqual(t, "next", []string{j.ID}, []string{id})
			mustSay(t, s, q, j, api.JobComplete, api.JobOK)
		}
	})
}

// J2: the last holder's result counts after its lease, as long as nobody has claimed the job since, also if others have claimed other jobs.
func TestJ2_ALateResultCounts(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Store) {
		known(t, s)
		for _, outcome := range []api.JobOutcome{api.JobComplete, api.JobFail, api.JobRenew, api.JobRelease} {
			q := named("q")
			id := enqueue(t, s, q, api.JobRequest{Type: "t0", Key: "k0", Unique: "u"})[0]
			j := one(t, s, q, time.Millisecond)
			storetest.Eventually(t, soon, "the lease is over", func() bool {
				claim(t, s, q, 1, time.Minute, "other")
				return mustGet(t, s, id).State == api.JobQueued
			})
			mustSay(t, s, q, j, outcome, api.JobOK)
			want := map[api.JobOutcome]api.JobState{api.JobComplete: api.JobDone, api.JobFail: api.JobScheduled, api.JobRenew: api.JobRunning, api.JobRelease: api.JobQueued}[outcome]
			got := mustGet(t, s, id)
			if outcome == api.JobFail && got.State == api.JobQueued { // its backoff is over
				got.State = want
			}
			if got.State != want || got.LostLeases != 0 {
				t.Errorf("after %s: %+v", outcome, got)
			}
			mustBeConsistentOn(t, s, q)
			if again := claim(t, s, q, 1, time.Minute); outcome == api.JobRelease && len(again) == 1 {
				mustSay(t, s, q, j, api.JobComplete, api.JobLost)
			}
		}
	})
}

// mustBeConsistentOn is mustBeConsistent where a plain client can read all keys.
func mustBeConsistentOn(t *testing.T, s *Store, q string) {
	if !s.db.Cluster() {
		mustBeConsistent(t, s, q)
	}
}

// Jobs whose time has come, or whose worker is gone, count as waiting although no worker asks, and can be cancelled.
func TestQueuesWithoutWorkers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Store) {
		q, at := named("q"), api.At(time.Now().Add(20*time.Millisecond))
		first := enqueue(t, s, q, api.JobRequest{Unique: "u"})[0]
		one(t, s, q, time.Millisecond)
		enqueue(t, s, q, api.JobRequest{RunAt: &at})
		storetest.Eventually(t, soon, "both may be claimed", func() bool {
			got, err := s.Queue(t.Context(), q)
			return err == nil && got.Depth == 2 && got.Running == 0 && got.Scheduled == 0 && got.OldestAgeMS > 0
		})
		storetest.Must(t, s.Cancel(t.Context(), first))
		mustBe(t, s, first, api.JobEnded)
		if again := enqueue(t, s, q, api.JobRequest{Unique: "u"})[0]; again == first {
			t.Error("the unique name of a cancelled job is still known")
		}
	})
}

// J7: claims that share a script have one bound of bytes, and one run sees to some of what is due, also if all is due at once.
func TestJ7_BoundsOfARun(t *testing.T) {
	t.Parallel()
	s := begin(t, storetest.Open(t, storetest.Redis(t).URL()))
	q, large := named("q"), raw(fmt.Sprintf(`"%0*d"`, api.MaxJobPayload-2, 0))
	for range 10 {
		enqueue(t, s, q, slicesOf(20, api.JobRequest{Payload: large})...)
	}
	calls := make([]*call, 100)
	for i := range calls {
		n := int64(4)
		calls[i] = newClaim(q, &api.JobClaim{Worker: "w", Max: &n}, api.Idempotency{})
	}
	s.run(t.Context(), s.groupOf(q), series{"test", 1, keepRun}, calls)
	bytes, later := 0, 0
	for _, c := range calls {
		storetest.Must(t, c.err)
		claimed, err := c.claimed(q)
		storetest.Must(t, err)
		for _, j := range claimed.Jobs {
			bytes += len(j.Payload)
		}
		if c.status == noBytes {
			later++
		}
	}
	if bytes > api.MaxClaimBytes+4*api.MaxJobPayload || later == 0 {
		t.Errorf("one run gave out %d bytes, and %d claims wait for the next", bytes, later)
	}
	q = named("q")
	fill(t, s, q, "other", 3000, func(r *api.JobRequest) { at := api.At(time.Now().Add(300 * time.Millisecond)); r.RunAt = &at })
	mine := api.At(time.Now().Add(310 * time.Millisecond))
	id := enqueue(t, s, q, api.JobRequest{Type: "mine", RunAt: &mine})[0]
	until(t, mine.Add(20*time.Millisecond), "all are due, and nobody claims meanwhile")
	if jobs := claim(t, s, q, 1, time.Minute, "mine"); len(jobs) != 1 || jobs[0].ID != id {
		t.Errorf("behind 3,000 jobs that are due: %v", jobs)
	}
}

// J5: a wake-up is not lost with the claim that it started.
func TestJ5_AFailedClaimLosesNoWakeUp(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Redis(t).URL())
	var cut atomic.Bool
	s, other, q := begin(t, storetest.Faulty(t, db, func(what string, answered bool) error {
		if what == "jobs_run" && !answered && cut.Swap(false) {
			return storetest.ErrCut
		}
		return nil
	})), begin(t, db), named("q")
	out := make(chan int, 2)
	for range 2 {
		go func() {
			claimed, _, err := s.Claim(t.Context(), t.Context(), q, &api.JobClaim{Worker: "w"}, api.Idempotency{})
			if err != nil {
				out <- 0
				return
			}
			out <- len(claimed.Jobs)
		}()
	}
	storetest.Eventually(t, soon, "both wait", func() bool { return s.waiters(q) == 2 && s.listens(q) })
	until(t, time.Now().Add(100*time.Millisecond), "the first look is over")
	cut.Store(true)
	began := time.Now()
	enqueue(t, other, q, api.JobRequest{}, api.JobRequest{})
	if n := <-out + <-out; n != 1 {
		t.Errorf("%d jobs were claimed, one claim failed", n)
	}
	if took := time.Since(began); took > lookEvery/2 {
		t.Errorf("the other worker waited %v", took)
	}
}

// J9: retrying a letter is no error if its job is queued already.
func TestJ9_RetryingTwice(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Redis(t).URL())
	s, q, most := begin(t, storetest.Faulty(t, db, func(what string, answered bool) error {
		if what == "jobs_retry" && answered {
			return storetest.ErrTwice
		}
		return nil
	})), named("q"), int64(1)
	id := enqueue(t, s, q, api.JobRequest{MaxAttempts: &most})[0]
	mustSay(t, s, q, one(t, s, q, time.Minute), api.JobFail, api.JobOK)
	for range 2 {
		_, _, err := s.letters.RetryDead(t.Context(), s.letters.DeadID(s.groupOf(q), id), queue.Once{})
		storetest.Must(t, err)
	}
	mustCount(t, s, q, api.JobQueue{Depth: 1, Dead: 1})
}
