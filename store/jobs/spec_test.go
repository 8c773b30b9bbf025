package jobs

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// J1: the life of a job, and what the queue counts.
func TestJ1_AJobIsClaimedAndCompleted(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Store) {
		q := named("q")
		ids := enqueue(t, s, q, api.JobRequest{Payload: raw(`{"n":1}`)}, api.JobRequest{Type: "other"})
		mustBe(t, s, ids[0], api.JobQueued)
		jobs := claim(t, s, q, 10, time.Minute)
		mustEqual(t, "in the order of the queue", idsOf(jobs), ids)
		j := jobs[0]
		if string(j.Payload) != `{"n":1}` || j.Type != "t" || j.Attempt != 1 || j.Fence < 1 || j.LeaseMS != 60_000 || jobs[1].Payload != nil {
			t.Errorf("claimed %+v", jobs)
		}
		mustBe(t, s, j.ID, api.JobRunning)
		mustCount(t, s, q, api.JobQueue{Running: 2})
		mustSay(t, s, q, j, api.JobComplete, api.JobOK)
		mustBe(t, s, j.ID, api.JobDone)
		mustCount(t, s, q, api.JobQueue{Running: 1, Done: 1})
		mustSay(t, s, q, j, api.JobComplete, api.JobOK) // a repeat
		mustSay(t, s, q, j, api.JobRenew, api.JobLost)
		mustSay(t, s, q, jobs[1], api.JobComplete, api.JobOK)
		if more := claim(t, s, q, 1, time.Minute); len(more) != 0 {
			t.Errorf("claimed %v of an empty queue", more)
		}
	})
}

// Q14 for jobs: a unique name is known until its job ends.
func TestJ1_AUniqueJobIsStoredOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Store) {
		q := named("q")
		accepted, _, err := s.Enqueue(t.Context(), q, []api.JobRequest{{Type: "t", Unique: "u"}, {Type: "t", Unique: "u"}, {Type: "t"}}, api.Idempotency{})
		storetest.Must(t, err)
		if accepted[0].New != nil || accepted[1].New == nil || *accepted[1].New || accepted[1].ID != accepted[0].ID || accepted[2].New != nil {
			t.Errorf("accepted %+v", accepted)
		}
		again := enqueue(t, s, q, api.JobRequest{Unique: "u"})
		mustEqual(t, "known", again, []string{accepted[0].ID})
		j := one(t, s, q, time.Minute)
		mustEqual(t, "while it is held", enqueue(t, s, q, api.JobRequest{Unique: "u"}), again)
		mustSay(t, s, q, j, api.JobComplete, api.JobOK)
		if next := enqueue(t, s, q, api.JobRequest{Unique: "u"}); next[0] == again[0] {
			t.Errorf("the name is not free after the end")
		}
	})
}

// Q1, Q3 and Q4 for jobs: one job of a key at a time, in their order; others are not held up.
func TestJ1_ConflictKeys(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Store) {
		q := named("q")
		ids := enqueue(t, s, q, api.JobRequest{Key: "k"}, api.JobRequest{Key: "k"}, api.JobRequest{Key: "l"}, api.JobRequest{}, api.JobRequest{Key: "k"})
		jobs := claim(t, s, q, 100, time.Minute)
		mustEqual(t, "the first of each key", idsOf(jobs), []string{ids[0], ids[2], ids[3]})
		mustBe(t, s, ids[1], api.JobBlocked)
		mustCount(t, s, q, api.JobQueue{Running: 3, Blocked: 2})
		mustSay(t, s, q, jobs[0], api.JobRelease, api.JobOK) // keeps its key and comes first
		back := one(t, s, q, time.Minute)
		mustEqual(t, "released", []string{back.ID}, ids[:1])
		if back.Attempt != 1 || back.Fence <= jobs[0].Fence {
			t.Errorf("after a release %+v", back)
		}
		if got := say(t, s, q, back, api.JobFail, func(r *api.JobResult) { n := int64(60_000); r.RetryAfterMS = &n }); got != api.JobOK {
			t.Error(got)
		}
		mustBe(t, s, ids[0], api.JobScheduled)
		second := one(t, s, q, time.Minute)
		mustEqual(t, "a job that waits for its next attempt gives up its key", []string{second.ID}, ids[1:2])
		storetest.Must(t, s.Cancel(t.Context(), ids[4])) // it waits behind the second
		mustCount(t, s, q, api.JobQueue{Running: 3, Scheduled: 1, Retries: 1})
		mustSay(t, s, q, second, api.JobComplete, api.JobOK)
		if more := claim(t, s, q, 1, time.Minute); len(more) != 0 {
			t.Errorf("claimed %v", more)
		}
	})
}

// Q10 for jobs: failures count, and the last one makes a dead letter, which is retried with the attempts at 0.
func TestJ1_FailuresCount(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Store) {
		q, most := named("q"), int64(3)
		id := enqueue(t, s, q, api.JobRequest{MaxAttempts: &most, Key: "k", Unique: "u", Payload: raw(`[1]`)})[0]
		var last api.ClaimedJob
		for n := 1; n <= 3; n++ {
			last = eventually(t, s, q, time.Minute)
			if last.Attempt != n {
				t.Errorf("attempt %d, want %d", last.Attempt, n)
			}
			if got := say(t, s, q, last, api.JobFail, func(r *api.JobResult) { r.Error = "no luck\x1e" + strings.Repeat("é", 600) }); got != api.JobOK {
				t.Error(got)
			}
			mustSay(t, s, q, last, api.JobFail, api.JobOK) // a repeat counts once
		}
		j := mustGet(t, s, id)
		if j.State != api.JobDead || j.Reason != "max_attempts" || !strings.HasPrefix(j.LastError, "no luck é") || j.Failures != 3 || string(j.Payload) != `[1]` {
			t.Errorf("dead: %+v", j)
		}
		mustCount(t, s, q, api.JobQueue{Retries: 2, Dead: 1, DeadLetters: 1})
		letter := s.Letters().DeadID(s.groupOf(q), id)
		if _, _, err := s.Letters().RetryDead(t.Context(), letter, queue.Once{}); err != nil {
			t.Fatal(err)
		}
		j = mustGet(t, s, id)
		if j.State != api.JobQueued || j.Failures != 0 || j.MaxAttempts != 3 || j.Key != "k" || j.Unique != "u" {
			t.Errorf("retried: %+v", j)
		}
		again := one(t, s, q, time.Minute)
		if again.Attempt != 1 || again.Fence <= last.Fence {
			t.Errorf("retried: %+v", again)
		}
		mustCount(t, s, q, api.JobQueue{Running: 1, Retries: 2, Dead: 1})
	})
}

// Q10 for jobs: a release with a wait does not count, until the job is too old.
func TestJ1_AReleaseWithAWaitDoesNotCount(t *testing.T) {
	t.Parallel()
	s := begin(t, storetest.Open(t, storetest.Redis(t).URL()), func(o *Options) { o.MaxAge = 300 * time.Millisecond })
	q, ms := named("q"), int64(20)
	id := enqueue(t, s, q, api.JobRequest{})[0]
	for n := 0; mustGet(t, s, id).State != api.JobDead; n++ {
		j := eventually(t, s, q, time.Minute)
		if j.Attempt != 1 || n > 30 {
			t.Fatalf("release %d: %+v", n, j)
		}
		if got := say(t, s, q, j, api.JobRelease, func(r *api.JobResult) { r.RetryAfterMS = &ms }); got != api.JobOK {
			t.Fatal(got)
		}
	}
	if j := mustGet(t, s, id); j.Reason != "max_age" {
		t.Errorf("%+v", j)
	}
}

// Q11 for jobs: a lease that ends lets another worker have the job, eight ended leases make a dead letter, and a result that comes
// late but before anybody else counts.
func TestJ2_LeasesEnd(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Store) {
		s.begun = s.begun.Add(-time.Hour) // as if this process had known Redis for long
		q := named("q")
		id := enqueue(t, s, q, api.JobRequest{Key: "k"})[0]
		blocked := enqueue(t, s, q, api.JobRequest{Key: "k"})[0]
		last := one(t, s, q, time.Millisecond)
		storetest.Eventually(t, soon, "the lease is over", func() bool { return *mustGet(t, s, id).LeaseMS == 0 })
		mustSay(t, s, q, last, api.JobRenew, api.JobOK) // nobody has taken it
		for n := 2; n <= 8; n++ {
			j := eventually(t, s, q, time.Millisecond)
			if j.ID != id || j.Attempt != n || j.Fence <= last.Fence {
				t.Fatalf("claim %d: %+v", n, j)
			}
			mustSay(t, s, q, last, api.JobComplete, api.JobLost)
			last = j
		}
		j := eventually(t, s, q, time.Minute)
		if j.ID != blocked {
			t.Errorf("claimed %+v, want the next of the key", j)
		}
		dead := mustGet(t, s, id)
		if dead.State != api.JobDead || dead.Reason != "lost_leases" {
			t.Errorf("dead: %+v", dead)
		}
		mustCount(t, s, q, api.JobQueue{Running: 1, Recovered: 8, Dead: 1, DeadLetters: 1})
	})
}

// J4: renewing moves the end of a lease.
func TestJ4_RenewingKeepsAJob(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Store) {
		q, lease := named("q"), int64(60_000)
		enqueue(t, s, q, api.JobRequest{})
		j := one(t, s, q, time.Second)
		answers, err := s.Results(t.Context(), q, []api.JobResult{{ID: j.ID, Token: j.Token, Outcome: api.JobRenew}})
		storetest.Must(t, err)
		if a := answers.Results[0]; a.Status != api.JobOK || a.LeaseMS != 1000 {
			t.Errorf("renewed: %+v", a)
		}
		answers, err = s.Results(t.Context(), q, []api.JobResult{{ID: j.ID, Token: j.Token, Outcome: api.JobRenew, LeaseMS: &lease}})
		storetest.Must(t, err)
		if a := answers.Results[0]; a.Status != api.JobOK || a.LeaseMS != 60_000 {
			t.Errorf("renewed: %+v", a)
		}
		if left := *mustGet(t, s, j.ID).LeaseMS; left < 2000 {
			t.Errorf("the lease lasts %d ms", left)
		}
	})
}

// Cancelling a job ends it where it is.
func TestACancelledJob(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Store) {
		q, later := named("q"), api.At(time.Now().Add(time.Hour))
		ids := enqueue(t, s, q, api.JobRequest{}, api.JobRequest{RunAt: &later, Unique: "u"}, api.JobRequest{Key: "k"}, api.JobRequest{Key: "k"}, api.JobRequest{})
		for _, id := range ids[:3] {
			storetest.Must(t, s.Cancel(t.Context(), id))
			storetest.Must(t, s.Cancel(t.Context(), id))
			mustBe(t, s, id, api.JobEnded)
		}
		mustCount(t, s, q, api.JobQueue{Depth: 2})
		jobs := claim(t, s, q, 10, time.Minute)
		mustEqual(t, "the others go on", idsOf(jobs), ids[3:])
		storetest.Must(t, s.Cancel(t.Context(), ids[3]))
		storetest.Must(t, s.Cancel(t.Context(), ids[4]))
		if j := mustGet(t, s, ids[3]); j.State != api.JobRunning || !j.Cancelled {
			t.Errorf("%+v", j)
		}
		mustSay(t, s, q, jobs[0], api.JobRenew, api.JobCancelled)
		mustSay(t, s, q, jobs[0], api.JobFail, api.JobCancelled)
		mustBe(t, s, ids[3], api.JobEnded)
		mustSay(t, s, q, jobs[1], api.JobComplete, api.JobOK)
		if err := s.Cancel(t.Context(), ids[4]); api.CodeOf(err) != api.CodeTooLate {
			t.Errorf("cancelling a job that is done: %v", err)
		}
		for _, unknown := range []string{"x", "x.y", ids[0] + "0", q + "." + strings.Repeat("0", idLength)} {
			if err := s.Cancel(t.Context(), unknown); api.CodeOf(err) != api.CodeNotFound {
				t.Errorf("cancelling %s: %v", unknown, err)
			}
		}
	})
}

// A claim gets jobs of its types alone, across types in the order of the queue, and at most a MiB.
func TestJ1_TypesAndBytes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Store) {
		q := named("q")
		ids := enqueue(t, s, q, api.JobRequest{Type: "a"}, api.JobRequest{Type: "b"}, api.JobRequest{Type: "a"}, api.JobRequest{Type: "c"}, api.JobRequest{Type: "b"})
		mustEqual(t, "of two types", idsOf(claim(t, s, q, 3, time.Minute, "b", "c", "d")), []string{ids[1], ids[3], ids[4]})
		mustEqual(t, "of all", idsOf(claim(t, s, q, 100, time.Minute)), []string{ids[0], ids[2]})
		large := raw(`"` + strings.Repeat("x", api.MaxJobPayload-2) + `"`)
		var many []api.JobRequest
		for range 40 {
			many = append(many, api.JobRequest{Payload: large})
		}
		enqueue(t, s, q, many...)
		n := len(claim(t, s, q, 100, time.Minute))
		if n < 16 || n > 17 {
			t.Errorf("claimed %d jobs of 60 KiB", n)
		}
		mustCount(t, s, q, api.JobQueue{Running: int64(5 + n), Depth: int64(40 - n)})
	})
}

// A paused queue gives no jobs, and takes jobs and results.
func TestAPausedQueue(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Store) {
		q := named("q")
		if _, err := s.Resume(t.Context(), q); api.CodeOf(err) != api.CodeNotFound {
			t.Errorf("resuming a queue that is not there: %v", err)
		}
		state, err := s.Pause(t.Context(), q)
		storetest.Must(t, err)
		if !state.Paused {
			t.Error("not paused")
		}
		id := enqueue(t, s, q, api.JobRequest{})[0]
		if jobs := claim(t, s, q, 1, time.Minute); len(jobs) != 0 {
			t.Errorf("claimed %v", jobs)
		}
		got := make(chan string, 1)
		go func() {
			ms := int64(60_000)
			wait, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), soon)
			defer cancel()
			claimed, _, err := s.Claim(wait, wait, q, &api.JobClaim{Worker: "w", LeaseMS: &ms}, api.Idempotency{})
			if err != nil || len(claimed.Jobs) != 1 {
				got <- "nothing"
				return
			}
			got <- claimed.Jobs[0].ID
		}()
		storetest.Eventually(t, soon, "the worker waits", func() bool { return s.rooms.line.Waiting(s.channel(q)) == 1 })
		if _, err := s.Resume(t.Context(), q); err != nil {
			t.Error(err)
		}
		if first := <-got; first != id {
			t.Errorf("after the pause: %s", first)
		}
		list, err := s.Queues(t.Context())
		storetest.Must(t, err)
		i := slices.IndexFunc(list.Items, func(of api.JobQueue) bool { return of.Queue == q })
		if i < 0 || list.Items[i].Running != 1 || list.Items[i].Paused {
			t.Errorf("queues: %+v", list)
		}
	})
}

// J3: a repeated call under its Idempotency-Key.
func TestJ3_RepeatedCalls(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Store) {
		q := named("q")
		once := api.Idempotency{Scope: "test", Key: "k", Body: [32]byte{1}}
		jobs := []api.JobRequest{{Type: "t"}, {Type: "t", Unique: "u"}, {Type: "t", Unique: "u"}}
		first, again, err := s.Enqueue(t.Context(), q, jobs, once)
		storetest.Must(t, err)
		second, repeated, err := s.Enqueue(t.Context(), q, jobs, once)
		storetest.Must(t, err)
		if again || !repeated || len(second) != 3 || second[0].ID != first[0].ID || second[1].ID != first[1].ID || second[2].ID != first[1].ID || second[2].New == nil {
			t.Errorf("first %+v, then %+v", first, second)
		}
		other := once
		other.Body = [32]byte{2}
		if _, _, err := s.Enqueue(t.Context(), q, jobs, other); api.CodeOf(err) != api.CodeIdempotencyReused {
			t.Errorf("another body: %v", err)
		}
		mustCount(t, s, q, api.JobQueue{Depth: 2})

		two, lease := int64(2), int64(60_000)
		claims := func(once api.Idempotency) ([]api.ClaimedJob, bool, error) {
			claimed, again, err := s.Claim(t.Context(), nil, q, &api.JobClaim{Worker: "w", Max: &two, LeaseMS: &lease}, once)
			if err != nil {
				return nil, again, err
			}
			return claimed.Jobs, again, nil
		}
		once.Scope = "claims"
		got, again, err := claims(once)
		storetest.Must(t, err)
		same, repeated, err := claims(once)
		storetest.Must(t, err)
		if again || !repeated || len(got) != 2 || len(same) != 2 || same[0].Token != got[0].Token || same[1].Token != got[1].Token {
			t.Errorf("first %+v, then %+v", got, same)
		}
		longer := int64(120_000)
		if status := say(t, s, q, got[1], api.JobRenew, func(r *api.JobResult) { r.LeaseMS = &longer }); status != api.JobOK {
			t.Error(status)
		}
		record := s.letters.KeyBeside(s.groupOf(q), "once:"+once.Name(q))
		if left := s.db.Client().PTTL(t.Context(), record).Val(); left < 100*time.Second {
			t.Errorf("the record ends in %v, before the last lease", left)
		}
		mustSay(t, s, q, got[0], api.JobComplete, api.JobOK)
		same, _, err = claims(once)
		storetest.Must(t, err)
		mustEqual(t, "an ended job is left out", idsOf(same), idsOf(got[1:]))
		if left := same[0].LeaseMS; left <= 60_000 || left > 120_000 {
			t.Errorf("the lease of the repeat lasts %d ms, which is not what is left of it", left)
		}
		other.Scope = "claims"
		if _, _, err := claims(other); api.CodeOf(err) != api.CodeIdempotencyReused {
			t.Errorf("another body: %v", err)
		}
	})
}
