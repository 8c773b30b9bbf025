package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

const soon = 20 * time.Second

var counted atomic.Int64

// named is a queue that no other test uses.
func named(what string) string { return fmt.Sprintf("%s-%d", what, counted.Add(1)) }

// begin opens a store with short backoffs that ends with the test.
func begin(t testing.TB, db *redisdb.DB, change ...func(*Options)) *Store {
	t.Helper()
	o := Options{DB: db, RetryBase: 2 * time.Millisecond, RetryMax: 20 * time.Millisecond}
	for _, f := range change {
		f(&o)
	}
	s := New(o)
	t.Cleanup(s.Close)
	return s
}

// each runs a test on every kind of Redis.
func each(t *testing.T, test func(t *testing.T, s *Store)) {
	t.Helper()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) { test(t, begin(t, db)) })
}

// until waits for a time.
func until(t testing.TB, at time.Time, why string) {
	t.Helper()
	storetest.Eventually(t, soon, why, func() bool { return time.Now().After(at) })
}

// enqueue stores jobs of the type t, as the changes say, and returns their ids.
func enqueue(t testing.TB, s *Store, queue string, jobs ...api.JobRequest) []string {
	t.Helper()
	for i := range jobs {
		if jobs[i].Type == "" {
			jobs[i].Type = "t"
		}
	}
	accepted, _, err := s.Enqueue(t.Context(), queue, jobs, api.Idempotency{})
	storetest.Must(t, err)
	ids := make([]string, len(accepted))
	for i, a := range accepted {
		ids[i] = a.ID
	}
	return ids
}

// claim claims at once at most so many jobs, of some types or of all.
func claim(t testing.TB, s *Store, queue string, most int, lease time.Duration, types ...string) []api.ClaimedJob {
	t.Helper()
	n, ms := int64(most), lease.Milliseconds()
	claimed, _, err := s.Claim(t.Context(), nil, queue, &api.JobClaim{Worker: "w", Types: types, Max: &n, LeaseMS: &ms}, api.Idempotency{})
	storetest.Must(t, err)
	return claimed.Jobs
}

// one claims exactly one job.
func one(t testing.TB, s *Store, queue string, lease time.Duration) api.ClaimedJob {
	t.Helper()
	jobs := claim(t, s, queue, 1, lease)
	if len(jobs) != 1 {
		t.Fatalf("claimed %d jobs, want 1", len(jobs))
	}
	return jobs[0]
}

// eventually claims one job when there is one.
func eventually(t testing.TB, s *Store, queue string, lease time.Duration) api.ClaimedJob {
	t.Helper()
	ms := lease.Milliseconds()
	wait, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	claimed, _, err := s.Claim(t.Context(), wait, queue, &api.JobClaim{Worker: "w", LeaseMS: &ms}, api.Idempotency{})
	storetest.Must(t, err)
	if len(claimed.Jobs) != 1 {
		t.Fatalf("claimed %d jobs, want 1", len(claimed.Jobs))
	}
	return claimed.Jobs[0]
}

// say records one result and returns its answer.
func say(t testing.TB, s *Store, queue string, j api.ClaimedJob, outcome api.JobOutcome, change ...func(*api.JobResult)) api.JobStatus {
	t.Helper()
	r := api.JobResult{ID: j.ID, Token: j.Token, Outcome: outcome}
	for _, f := range change {
		f(&r)
	}
	answers, err := s.Results(t.Context(), queue, []api.JobResult{r})
	storetest.Must(t, err)
	return answers.Results[0].Status
}

func mustSay(t testing.TB, s *Store, queue string, j api.ClaimedJob, outcome api.JobOutcome, want api.JobStatus) {
	t.Helper()
	if got := say(t, s, queue, j, outcome); got != want {
		t.Errorf("%s of %s answered %s, want %s", outcome, j.ID, got, want)
	}
}

func mustGet(t testing.TB, s *Store, id string) *api.Job {
	t.Helper()
	j, err := s.Get(t.Context(), id)
	storetest.Must(t, err)
	return j
}

func mustBe(t testing.TB, s *Store, id string, want api.JobState) {
	t.Helper()
	if got := mustGet(t, s, id); got.State != want {
		t.Errorf("%s is %s, want %s", id, got.State, want)
	}
}

func mustCount(t testing.TB, s *Store, queue string, want api.JobQueue) {
	t.Helper()
	got, err := s.Queue(t.Context(), queue)
	storetest.Must(t, err)
	want.Queue, got.OldestAgeMS, got.LastHour = queue, 0, api.JobCounts{} // minutes_test.go looks at it
	if *got != want {
		t.Errorf("the queue is %+v,\nwant %+v", *got, want)
	}
}

func idsOf(jobs []api.ClaimedJob) []string {
	ids := make([]string, len(jobs))
	for i, j := range jobs {
		ids[i] = j.ID
	}
	return ids
}

func mustEqual(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func raw(text string) json.RawMessage { return json.RawMessage(text) }
