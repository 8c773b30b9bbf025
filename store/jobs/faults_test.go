package jobs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// fill stores many jobs of a type.
func fill(t testing.TB, s *Store, queue, kind string, n int, change ...func(*api.JobRequest)) {
	t.Helper()
	for ; n > 0; n -= 1000 {
		jobs := slicesOf(min(n, 1000), api.JobRequest{Type: kind, Payload: raw(`{"a":1}`)})
		for i := range jobs {
			for _, f := range change {
				f(&jobs[i])
			}
		}
		enqueue(t, s, queue, jobs...)
	}
}

// J1: with 100,000 jobs of another type in front, and 10,000 behind one conflict key, a claim by types is as fast as ever.
func TestJ1_OtherTypesHoldUpNothing(t *testing.T) {
	t.Parallel()
	s, q := begin(t, storetest.Open(t, storetest.Redis(t).URL())), named("q")
	n := storetest.Sized(100_000, 20_000)
	fill(t, s, q, "other", n)
	fill(t, s, q, "other", n/10, func(r *api.JobRequest) { r.Key = "k" })
	id := enqueue(t, s, q, api.JobRequest{Type: "mine"})[0]
	best := time.Hour // of a few: the machine has other work, too
	for range 5 {
		begun := time.Now()
		jobs := claim(t, s, q, 1, time.Minute, "mine")
		best = min(best, time.Since(begun))
		if len(jobs) != 1 || jobs[0].ID != id {
			t.Fatalf("claimed %v", jobs)
		}
		mustSay(t, s, q, jobs[0], api.JobRelease, api.JobOK)
	}
	if best > 20*time.Millisecond {
		t.Errorf("a claim took %v", best)
	}
	mustCount(t, s, q, api.JobQueue{Depth: int64(n) + 2, Blocked: int64(n/10 - 1)})
}

// J6: a queue is full with a million jobs, there are a thousand queues, and what nobody uses is forgotten.
func TestJ6_Bounds(t *testing.T) {
	t.Parallel()
	s := begin(t, storetest.Open(t, storetest.Redis(t).URL()), func(o *Options) { o.Unused = time.Millisecond })
	q, once := named("q"), int64(1)
	dead := enqueue(t, s, q, api.JobRequest{MaxAttempts: &once})[0]
	mustSay(t, s, q, one(t, s, q, time.Minute), api.JobFail, api.JobOK)
	letter, walk := s.letters.DeadID(s.groupOf(q), dead), queue.DeadWalk{Shard: s.groupOf(q), Before: time.Now().Add(time.Hour)}
	fill(t, s, q, "t", 1)
	// The script asks for the number of fields: a million jobs are made of one text each.
	jobs := s.letters.KeyBeside(s.groupOf(q), "w:"+q+"/jobs")
	for n := 1; n < api.MaxJobs; {
		var fields []any
		for ; n < api.MaxJobs && len(fields) < 20_000; n++ {
			fields = append(fields, n, "")
		}
		storetest.Must(t, s.db.Client().HSet(t.Context(), jobs, fields...).Err())
	}
	if _, _, err := s.Enqueue(t.Context(), q, []api.JobRequest{{Type: "t", Unique: "u"}}, api.Idempotency{}); api.CodeOf(err) != api.CodeQueueFull {
		t.Errorf("a million and one jobs: %v", err)
	}
	if n := s.db.Client().Exists(t.Context(), s.letters.KeyBeside(s.groupOf(q), "w:"+q+"/unique")).Val(); n != 0 {
		t.Error("the unique name of a refused job is known")
	}
	if _, _, err := s.letters.RetryDead(t.Context(), letter, queue.Once{}); api.CodeOf(err) != api.CodeQueueFull {
		t.Errorf("a retry with a million jobs: %v", err)
	}
	if acted, err := s.letters.RetryDeadPage(t.Context(), walk); err != nil || acted.Kept != 1 || acted.Gone != 0 {
		t.Errorf("retries with a million jobs: %+v, %v", acted, err)
	}
	storetest.Must(t, s.db.Client().Unlink(t.Context(), jobs).Err())
	if acted, err := s.letters.RetryDeadPage(t.Context(), walk); err != nil || acted.Kept != 0 || acted.Gone != 1 {
		t.Errorf("retries with room: %+v, %v", acted, err)
	}
	mustBe(t, s, dead, api.JobQueued)

	for n := range api.MaxQueues - 1 {
		enqueue(t, s, fmt.Sprint("many", n), api.JobRequest{})
	}
	if _, _, err := s.Enqueue(t.Context(), "more", []api.JobRequest{{Type: "t"}}, api.Idempotency{}); api.CodeOf(err) != api.CodeTooManyNames {
		t.Errorf("a queue too many: %v", err)
	}
	if _, err := s.Pause(t.Context(), "more"); api.CodeOf(err) != api.CodeTooManyNames {
		t.Errorf("a paused queue too many: %v", err)
	}
	list, err := s.Queues(t.Context())
	storetest.Must(t, err)
	if len(list.Items) != api.MaxQueues || !slices.IsSortedFunc(list.Items, func(a, b api.JobQueue) int { return compare(a.Queue, b.Queue) }) {
		t.Errorf("there are %d queues", len(list.Items))
	}
	mustSay(t, s, "many1", one(t, s, "many1", time.Minute), api.JobComplete, api.JobOK)
	_, err = s.Pause(t.Context(), "many2")
	storetest.Must(t, err)
	mustSay(t, s, "many3", one(t, s, "many3", time.Minute), api.JobComplete, api.JobOK)
	until(t, time.Now().Add(5*time.Millisecond), "they are unused")
	storetest.Must(t, s.tidy(t.Context()))
	if _, err := s.Queue(t.Context(), "many1"); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("an empty queue that nobody uses: %v", err)
	}
	for _, kept := range []string{"many0", "many2"} { // one has a job, one is paused
		if _, err := s.Queue(t.Context(), kept); err != nil {
			t.Error(err)
		}
	}
	enqueue(t, s, "more", api.JobRequest{})
}

func compare(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}

// J6: connections and what is sent while nothing happens do not depend on the number of queues with waiting workers.
func TestJ6_WaitingAtManyQueues(t *testing.T) {
	t.Parallel()
	s := begin(t, storetest.Open(t, storetest.Redis(t).URL()))
	n := storetest.Sized(1000, 200)
	for i := range n {
		waiting(t, s, fmt.Sprint("q", i))
	}
	storetest.Eventually(t, soon, "all wait", func() bool {
		for i := range n {
			if s.waiters(fmt.Sprint("q", i)) != 1 || !s.listens(fmt.Sprint("q", i)) {
				return false
			}
		}
		return true
	})
	list, err := s.db.Client().ClientList(t.Context()).Result()
	storetest.Must(t, err)
	if conns := len(splitLines(list)); conns > 20 {
		t.Errorf("%d connections", conns)
	}
	got, _ := waiting(t, s, "q7")
	enqueue(t, s, "q7", api.JobRequest{}, api.JobRequest{})
	if jobs := <-got; len(jobs) != 1 {
		t.Errorf("woken with %v", jobs)
	}
}

func splitLines(text string) (lines []string) {
	for line := range strings.Lines(text) {
		lines = append(lines, line)
	}
	return lines
}

// J8: a lease that ended while Redis was away lasts once more, so that its worker can say something first.
func TestJ8_LeasesOutliveAnAbsence(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Store) {
		q, lease := named("q"), 400*time.Millisecond
		enqueue(t, s, q, api.JobRequest{})
		j := one(t, s, q, lease)
		storetest.Eventually(t, soon, "the lease is over", func() bool { return *mustGet(t, s, j.ID).LeaseMS == 0 })
		back := time.Now()
		s.failedOf(s.groupOf(q)).Store(int64(time.Since(s.begun))) // Redis was away until now
		if jobs := claim(t, s, q, 1, time.Minute); len(jobs) != 0 {
			t.Errorf("taken over at once: %+v", jobs)
		}
		if state := mustGet(t, s, j.ID); state.State != api.JobRunning {
			t.Errorf("%+v", state)
		}
		taken := eventually(t, s, q, time.Minute)
		if late := time.Since(back); late < lease || taken.Attempt != 2 {
			t.Errorf("taken over after %v: %+v", late, taken)
		}
		mustSay(t, s, q, j, api.JobComplete, api.JobLost)
	})
}

// J8: while one master is away, leases that end on another one are over.
func TestJ8_AnotherMasterIsAway(t *testing.T) {
	t.Parallel()
	cluster := storetest.PrivateCluster(t, 0, "--cluster-require-full-coverage", "no")
	db := storetest.Open(t, cluster.URL())
	s := known(t, begin(t, db))
	here, there := named("q"), named("q")
	keyOf := func(q string) string { return s.keys(s.groupOf(q))[0] }
	for cluster.MasterOf(t, keyOf(there)) == cluster.MasterOf(t, keyOf(here)) {
		there = named("q")
	}
	enqueue(t, s, here, api.JobRequest{})
	cluster.MasterOf(t, keyOf(there)).Kill()
	storetest.Eventually(t, soon, "it is known to be away", func() bool {
		_, away := db.BackSince(t.Context(), keyOf(there))
		return away
	})
	_, _, err := s.Enqueue(t.Context(), there, []api.JobRequest{{Type: "t"}}, api.Idempotency{})
	storetest.WantCode(t, err, api.CodeUnavailable)
	j := one(t, s, here, 30*time.Millisecond)
	storetest.Eventually(t, soon, "the lease is over", func() bool { return *mustGet(t, s, j.ID).LeaseMS == 0 })
	until(t, time.Now().Add(3*time.Millisecond), "it is over by Redis' clock")
	_, _, err = s.Enqueue(t.Context(), there, []api.JobRequest{{Type: "t"}}, api.Idempotency{})
	storetest.WantCode(t, err, api.CodeUnavailable)
	if jobs := claim(t, s, here, 1, time.Minute); len(jobs) != 1 || jobs[0].ID != j.ID {
		t.Errorf("not taken over: %+v", jobs)
	}
}

// J8: a process knows nothing of the time before its begin, so that a lease that ended then lasts once more as well.
func TestJ8_LeasesThatEndedBeforeTheProcessBegan(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Store) {
		q, lease := named("q"), time.Second
		enqueue(t, s, q, api.JobRequest{})
		j := one(t, s, q, lease)
		storetest.Eventually(t, soon, "the lease is over", func() bool { return *mustGet(t, s, j.ID).LeaseMS == 0 })
		until(t, time.Now().Add(3*time.Millisecond), "it is over by Redis' clock")
		began := time.Now()
		another := begin(t, s.db)
		// Nor is it taken over by a process that knows more, because the first one has said that the lease lasts on.
		for _, s := range []*Store{another, known(t, begin(t, s.db))} {
			jobs := claim(t, s, q, 1, time.Minute)
			switch late := time.Since(began) >= lease; {
			case late:
				return // the machine is too busy to tell
			case len(jobs) != 0:
				t.Fatalf("taken over at once: %+v", jobs)
			}
		}
		taken := eventually(t, another, q, time.Minute)
		if late := time.Since(began); late < lease || taken.Attempt != 2 || taken.Fence <= j.Fence {
			t.Errorf("taken over after %v: %+v", late, taken)
		}
	})
}

// J8: a full Redis takes no jobs. It takes results, and gives out the jobs that it has.
func TestJ8_AFullRedis(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	s, q, hour := begin(t, storetest.Open(t, server.URL())), named("q"), int64(3_600_000)
	enqueue(t, s, q, slicesOf(8, api.JobRequest{Key: "k"})...)
	enqueue(t, s, q, slicesOf(8, api.JobRequest{})...)
	jobs := claim(t, s, q, 5, time.Minute)
	storetest.Must(t, s.db.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())
	if _, _, err := s.Enqueue(t.Context(), q, []api.JobRequest{{Type: "t"}}, api.Idempotency{}); api.CodeOf(err) != api.CodeOverloaded {
		t.Errorf("a new job: %v", err)
	}
	if _, err := s.Pause(t.Context(), named("q")); err != nil && api.CodeOf(err) != api.CodeOverloaded {
		t.Errorf("a new queue: %v", err)
	}
	for i, outcome := range []api.JobOutcome{api.JobRenew, api.JobComplete, api.JobFail, api.JobRelease} {
		mustSay(t, s, q, jobs[i], outcome, api.JobOK)
	}
	if got := say(t, s, q, jobs[4], api.JobRelease, func(r *api.JobResult) { r.RetryAfterMS = &hour }); got != api.JobOK {
		t.Error(got)
	}
	if more := claim(t, s, q, 100, time.Minute); len(more) < 4 {
		t.Errorf("claimed %d jobs", len(more))
	}
	storetest.Must(t, s.Cancel(t.Context(), enqueuedFirst(t, s, q)))
}

// enqueuedFirst is a job of the queue that is blocked.
func enqueuedFirst(t testing.TB, s *Store, q string) string {
	t.Helper()
	ids, err := s.db.Client().ZRange(t.Context(), s.letters.KeyBeside(s.groupOf(q), "w:"+q+"/wait/k"), 0, 0).Result()
	storetest.Must(t, err)
	return idOf(q, ids[0])
}

// While the slot of a group moves, calls are refused before they do anything, and go on after it.
func TestASlotThatMoves(t *testing.T) {
	t.Parallel()
	cluster := storetest.PrivateCluster(t, 0)
	s, q := begin(t, storetest.Open(t, cluster.URL())), named("q")
	ids := enqueue(t, s, q, api.JobRequest{Key: "k"}, api.JobRequest{Key: "k"}, api.JobRequest{Type: "u", Unique: "u"})
	j := one(t, s, q, time.Minute)
	key := s.letters.KeyBeside(s.groupOf(q), "w:"+q+"/jobs")
	m := storetest.BeginMove(t, cluster, key)
	m.Move(key)
	once := api.Idempotency{Scope: "move", Key: "1"}
	_, _, refused := s.Enqueue(t.Context(), q, []api.JobRequest{{Type: "t"}}, once)
	r := []api.JobResult{{ID: j.ID, Token: j.Token, Outcome: api.JobComplete}}
	_, err := s.Results(t.Context(), q, r)
	if refused == nil || err == nil {
		t.Errorf("while the slot moves: %v, %v", refused, err)
	}
	m.Move(m.Rest()...)
	m.Finish()
	storetest.Eventually(t, soon, "the result is recorded", func() bool {
		answers, err := s.Results(t.Context(), q, r)
		return err == nil && answers.Results[0].Status == api.JobOK
	})
	next := claim(t, s, q, 10, time.Minute)
	mustEqual(t, "what is left", idsOf(next), ids[1:])
	for _, j := range next {
		mustSay(t, s, q, j, api.JobComplete, api.JobOK)
	}
	mustBeEmpty(t, s, q)
}

// A Redis that was emptied has no jobs, and fences go on rising.
func TestAnEmptiedRedis(t *testing.T) {
	t.Parallel()
	s, q := begin(t, storetest.Open(t, storetest.Redis(t).URL())), named("q")
	enqueue(t, s, q, api.JobRequest{})
	j := one(t, s, q, time.Minute)
	storetest.Must(t, s.db.Client().FlushAll(t.Context()).Err())
	mustSay(t, s, q, j, api.JobComplete, api.JobLost)
	enqueue(t, s, q, api.JobRequest{})
	if again := one(t, s, q, time.Minute); again.Fence <= j.Fence {
		t.Errorf("the fence fell from %d to %d", j.Fence, again.Fence)
	}
}

// J7: a queue with much work delays another one's claims by little: what one script does is bounded.
func TestJ7_ANoisyQueueDelaysNobody(t *testing.T) {
	t.Parallel()
	s := begin(t, storetest.Open(t, storetest.Redis(t).URL()))
	noisy, quiet := named("noisy"), named("quiet")
	stop := make(chan struct{})
	var work sync.WaitGroup
	for range 2 {
		work.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				fill(t, s, noisy, "t", 1000)
				jobs := claim(t, s, noisy, 100, time.Minute)
				results := make([]api.JobResult, len(jobs))
				for i, j := range jobs {
					results[i] = api.JobResult{ID: j.ID, Token: j.Token, Outcome: api.JobComplete}
				}
				_, err := s.Results(t.Context(), noisy, results)
				storetest.Must(t, err)
			}
		})
	}
	var took []time.Duration
	for range 40 {
		enqueue(t, s, quiet, api.JobRequest{})
		begun := time.Now()
		j := one(t, s, quiet, time.Minute)
		took = append(took, time.Since(begun))
		mustSay(t, s, quiet, j, api.JobComplete, api.JobOK)
	}
	close(stop)
	work.Wait()
	slices.Sort(took)
	if fast := took[len(took)/4]; fast > 20*time.Millisecond { // of the fastest quarter: the machine has other work, too
		t.Errorf("a claim beside a noisy queue takes %v", fast)
	}
}

// J8: without a Cluster a failed call of any group tells of the same Redis. A call with too little time tells of nothing.
func TestJ8_WhatTellsOfAnAbsence(t *testing.T) {
	t.Parallel()
	s := known(t, begin(t, storetest.Open(t, storetest.Redis(t).URL())))
	short, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	c := &call{}
	s.run(short, 1, series{"x", 1, keepLarge}, []*call{c})
	if c.err == nil || s.failedOf(1).Load() != 0 {
		t.Errorf("%v, and it tells of an absence at %d", c.err, s.failedOf(1).Load())
	}
	s.failedOf(1).Store(7)
	if s.failedOf(2).Load() != 7 {
		t.Error("another group does not know of it")
	}
}
