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
			storetest.Eventually(t, soon, "a claim sees that the lease is over", func() bool {
				over := mustGet(t, clean, id).State == api.JobQueued
				return len(claim(t, clean, q, 1, time.Hour, kind)) == 1 || over && kind == "other"
			})
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

// J1, Q3: the order of a key holds among many jobs that come due before anybody claims.
func TestJ1_OrderOfAKeyAmongMany(t *testing.T) {
	t.Parallel()
	s, q := begin(t, storetest.Open(t, storetest.Redis(t).URL())), named("q")
	in := func(ms time.Duration) *api.Time { at := api.At(time.Now().Add(ms * time.Millisecond)); return &at }
	last := in(500)
	first := enqueue(t, s, q, api.JobRequest{Type: "keyed", Key: "k", RunAt: last})
	fill(t, s, q, "t", 310, func(r *api.JobRequest) { r.RunAt = in(300) })
	second := enqueue(t, s, q, api.JobRequest{Type: "keyed", Key: "k", RunAt: in(100)})
	until(t, last.Add(20*time.Millisecond), "all are due")
	claim(t, s, q, 1, time.Minute, "none")
	for _, want := range [][]string{first, second} {
		jobs := claim(t, s, q, 10, time.Minute, "keyed")
		mustEqual(t, "next", idsOf(jobs), want)
		mustSay(t, s, q, jobs[0], api.JobComplete, api.JobOK)
	}
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
			if of, err := s.Queue(t.Context(), q); err != nil || of.Recovered != 1 { // it is a counter
				t.Errorf("%+v, %v", of, err)
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

// J1: a dead letter that is retried comes after the jobs of its key that were enqueued before, also if these came due
// meanwhile and nobody has claimed since.
func TestJ1_ARetryComesAfterItsKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Store) {
		q, most := named("q"), int64(1)
		dead := enqueue(t, s, q, api.JobRequest{Key: "k", MaxAttempts: &most})[0]
		mustSay(t, s, q, one(t, s, q, time.Minute), api.JobFail, api.JobOK)
		at := api.At(time.Now().Add(30 * time.Millisecond))
		due := enqueue(t, s, q, api.JobRequest{Key: "k", RunAt: &at})[0]
		until(t, at.Add(20*time.Millisecond), "it is due")
		_, _, err := s.letters.RetryDead(t.Context(), s.letters.DeadID(s.groupOf(q), dead), queue.Once{})
		storetest.Must(t, err)
		for _, want := range []string{due, dead} {
			j := one(t, s, q, time.Minute)
			mustEqual(t, "next", []string{j.ID}, []string{want})
			mustSay(t, s, q, j, api.JobComplete, api.JobOK)
		}
		mustBeConsistentOn(t, s, q)
	})
}

// J8: a cancel after an absence leaves the holder its time, and a lease is extended once only.
func TestJ8_CancelAndTheSecondAbsence(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Store) {
		q := named("q")
		ids := enqueue(t, s, q, api.JobRequest{Key: "k"}, api.JobRequest{Key: "k"}, api.JobRequest{Type: "u"})
		first, second := claim(t, s, q, 1, 30*time.Millisecond, "t")[0], claim(t, s, q, 1, 30*time.Millisecond, "u")[0]
		over := func(id string) {
			storetest.Eventually(t, soon, "the lease is over", func() bool { return *mustGet(t, s, id).LeaseMS == 0 })
			until(t, time.Now().Add(3*time.Millisecond), "it is over by Redis' clock")
		}
		over(ids[0])
		// A process that has just begun knows of no time before its begin.
		begun := begin(t, s.db)
		begun.failedOf(s.groupOf(q)).Store(int64(time.Since(begun.begun)) + int64(time.Hour))
		storetest.Must(t, begun.Cancel(t.Context(), ids[0]))
		if j := mustGet(t, s, ids[0]); j.State != api.JobRunning || !j.Cancelled {
			t.Errorf("cancelled after an absence: %+v", j)
		}
		if next := claim(t, begun, q, 1, time.Minute, "t"); len(next) != 0 {
			t.Errorf("the next job of the key: %+v", next)
		}
		mustSay(t, s, q, first, api.JobComplete, api.JobOK)
		over(ids[2])
		another := begin(t, s.db)
		another.failedOf(s.groupOf(q)).Store(int64(time.Since(another.begun)) + int64(time.Hour))
		if taken := claim(t, another, q, 1, time.Minute, "u"); len(taken) != 1 || taken[0].Fence <= second.Fence {
			t.Errorf("after a second absence: %+v", taken)
		}
	})
}

// A cancelled job whose lease was over: its last holder hears that it was cancelled.
func TestCancelledAfterItsLease(t *testing.T) {
	t.Parallel()
	s := known(t, begin(t, storetest.Open(t, storetest.Redis(t).URL())))
	q := named("q")
	id := enqueue(t, s, q, api.JobRequest{})[0]
	j := one(t, s, q, time.Millisecond)
	storetest.Eventually(t, soon, "others may claim it", func() bool {
		claim(t, s, q, 1, time.Minute, "other")
		return mustGet(t, s, id).State == api.JobQueued
	})
	storetest.Must(t, s.Cancel(t.Context(), id))
	mustSay(t, s, q, j, api.JobRenew, api.JobCancelled)
	mustSay(t, s, q, j, api.JobComplete, api.JobCancelled)
	mustCount(t, s, q, api.JobQueue{Recovered: 1})
}

// Figures of a queue are never below 0, and ended leases only rise, whatever is due.
func TestFiguresOfWhatIsOver(t *testing.T) {
	t.Parallel()
	s := known(t, begin(t, storetest.Open(t, storetest.Redis(t).URL())))
	q := named("q")
	fill(t, s, q, "t", 1500)
	for range 15 {
		claim(t, s, q, 100, 2*time.Second)
	}
	until(t, time.Now().Add(2100*time.Millisecond), "all leases are over")
	got, err := s.Queue(t.Context(), q)
	storetest.Must(t, err)
	if got.Scheduled != 0 || got.Running < 0 || got.Depth+got.Running != 1500 {
		t.Errorf("%+v", got)
	}
	jobs := claim(t, s, q, 1, time.Minute)
	before, err := s.Queue(t.Context(), q)
	storetest.Must(t, err)
	if len(jobs) != 1 || before.Recovered != 300 {
		t.Errorf("%d jobs, and %d ended leases after one look", len(jobs), before.Recovered)
	}
}

// J4: fences rise though Redis' clock is behind the last one.
func TestJ4_AClockThatIsBehind(t *testing.T) {
	t.Parallel()
	s := begin(t, storetest.Open(t, storetest.Redis(t).URL()))
	q, far := named("q"), time.Now().Add(time.Hour).UnixMicro()
	enqueue(t, s, q, api.JobRequest{}, api.JobRequest{})
	storetest.Must(t, s.db.Client().HSet(t.Context(), s.letters.KeyBeside(s.groupOf(q), "w:"+q+"/meta"), "fence", far).Err())
	if a, b := one(t, s, q, time.Minute), one(t, s, q, time.Minute); a.Fence != far+1 || b.Fence != far+2 {
		t.Errorf("the fences are %d and %d after %d", a.Fence, b.Fence, far)
	}
}

// J2: answers of many results at once, with tokens that are wrong and jobs of other queues among them.
func TestJ2_ManyResults(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Store) {
		q := named("q")
		enqueue(t, s, q, slicesOf(6, api.JobRequest{})...)
		jobs := claim(t, s, q, 6, time.Minute)
		results := make([]api.JobResult, 6)
		for i, j := range jobs {
			results[i] = api.JobResult{ID: j.ID, Token: j.Token, Outcome: api.JobComplete}
		}
		results[1].Token += "1"
		results[3].ID = "other" + results[3].ID
		results[4].ID = "none"
		answers, err := s.Results(t.Context(), q, results)
		storetest.Must(t, err)
		for i, a := range answers.Results {
			if lost := i == 1 || i == 3 || i == 4; lost != (a.Status == api.JobLost) || !lost && a.Status != api.JobOK {
				t.Errorf("result %d is answered %s", i, a.Status)
			}
		}
		mustCount(t, s, q, api.JobQueue{Running: 3, Done: 3})
	})
}
