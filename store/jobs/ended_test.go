package jobs

import (
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// J3: complete is answered ok again until 10,000 later jobs of the queue have ended, and not for good.
func TestJ3_CompleteAgainAfterManyOthers(t *testing.T) {
	t.Parallel()
	s, q := begin(t, storetest.Open(t, storetest.Redis(t).URL())), named("q")
	endOthers := func(n int) {
		fill(t, s, q, "t", n)
		for ; n > 0; n -= 100 {
			jobs := claim(t, s, q, min(n, 100), time.Minute)
			results := make([]api.JobResult, len(jobs))
			for i, j := range jobs {
				results[i] = api.JobResult{ID: j.ID, Token: j.Token, Outcome: api.JobComplete}
			}
			_, err := s.Results(t.Context(), q, results)
			storetest.Must(t, err)
		}
	}
	endOthers(1234) // the bound does not depend on where a job is among them
	enqueue(t, s, q, api.JobRequest{})
	j := one(t, s, q, time.Minute)
	mustSay(t, s, q, j, api.JobComplete, api.JobOK)
	endOthers(10_000)
	mustSay(t, s, q, j, api.JobComplete, api.JobOK)
	mustBe(t, s, j.ID, api.JobDone)
	endOthers(2_000)
	mustSay(t, s, q, j, api.JobComplete, api.JobLost)
	if _, err := s.Get(t.Context(), j.ID); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("a job that ended long ago: %v", err)
	}
	kept := int64(0)
	for _, key := range storetest.KeysWith(t, s.db, "w:"+q+"/e/") {
		kept += s.db.Client().HLen(t.Context(), key).Val()
	}
	if kept < 10_000 || kept > 12_000 {
		t.Errorf("%d ended jobs are kept", kept)
	}
}

// J3: what is known of jobs that have ended is kept for an hour after each end.
func TestJ3_CompleteAgainForAnHour(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Store) {
		q := named("q")
		key := s.key(q, "e/0")
		for range 2 {
			enqueue(t, s, q, api.JobRequest{})
			j := one(t, s, q, time.Minute)
			mustSay(t, s, q, j, api.JobComplete, api.JobOK)
			if left := s.db.Client().PTTL(t.Context(), key).Val(); left < 59*time.Minute || left > time.Hour {
				t.Errorf("an end is known for %v", left)
			}
			storetest.Must(t, s.db.Client().PExpire(t.Context(), key, time.Minute).Err()) // 59 minutes later
			mustSay(t, s, q, j, api.JobComplete, api.JobOK)
		}
	})
}

// J3: fail is answered ok again until another attempt has failed, or the job has ended: also while the next attempt is
// under way, and after that one's lease is over or it was released.
func TestJ3_FailAgain(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Store) {
		known(t, s)
		q, most := named("q"), int64(100)
		enqueue(t, s, q, api.JobRequest{MaxAttempts: &most})
		first := one(t, s, q, time.Minute)
		for range 2 {
			mustSay(t, s, q, first, api.JobFail, api.JobOK)
		}
		lost := eventually(t, s, q, time.Millisecond)
		mustSay(t, s, q, first, api.JobFail, api.JobOK)
		mustSay(t, s, q, first, api.JobComplete, api.JobLost)
		third := eventually(t, s, q, time.Minute)
		if third.ID != first.ID || third.Attempt != 3 {
			t.Fatalf("after a failure and a lease that is over: %+v", third)
		}
		mustSay(t, s, q, lost, api.JobFail, api.JobLost)
		mustSay(t, s, q, first, api.JobFail, api.JobOK)
		mustSay(t, s, q, third, api.JobRelease, api.JobOK)
		mustSay(t, s, q, first, api.JobFail, api.JobOK)
		third = eventually(t, s, q, time.Minute)
		mustSay(t, s, q, third, api.JobFail, api.JobOK)
		mustSay(t, s, q, first, api.JobFail, api.JobLost)
		mustSay(t, s, q, third, api.JobFail, api.JobOK)
		mustSay(t, s, q, eventually(t, s, q, time.Minute), api.JobComplete, api.JobOK)
		mustSay(t, s, q, third, api.JobFail, api.JobLost)
	})
}

// A job that is dead because its leases ended begins again when its dead letter is retried: it has all its attempts, and
// all its leases.
func TestJ9_RetriedAfterItsLeasesEnded(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Store) {
		known(t, s)
		q := named("q")
		id := enqueue(t, s, q, api.JobRequest{})[0]
		last := api.ClaimedJob{}
		for round := range 2 {
			for n := 1; n <= 8; n++ {
				j := eventually(t, s, q, time.Millisecond)
				if j.ID != id || j.Attempt != n || j.Fence <= last.Fence {
					t.Fatalf("lease %d of round %d: %+v after %+v", n, round, j, last)
				}
				last = j
			}
			storetest.Eventually(t, soon, "the job is dead", func() bool {
				claim(t, s, q, 1, time.Minute)
				return mustGet(t, s, id).State == api.JobDead
			})
			if j := mustGet(t, s, id); j.Reason != "lost_leases" || j.Failures != 0 {
				t.Errorf("dead: %+v", j)
			}
			mustSay(t, s, q, last, api.JobFail, api.JobLost)
			if _, _, err := s.Letters().RetryDead(t.Context(), s.Letters().DeadID(s.groupOf(q), id), queue.Once{}); err != nil {
				t.Fatal(err)
			}
			if j := mustGet(t, s, id); j.State != api.JobQueued || j.Attempt != 1 || j.LostLeases != 0 {
				t.Errorf("retried: %+v", j)
			}
		}
		mustSay(t, s, q, one(t, s, q, time.Minute), api.JobComplete, api.JobOK)
		mustCount(t, s, q, api.JobQueue{Done: 1, Recovered: 16, Dead: 2})
	})
}
