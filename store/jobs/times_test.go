package jobs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/storetest"
)

// J1: a job waits for its run_at, and a waiting worker gets it at most a second later.
func TestJ1_RunAt(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Store) {
		q := named("q")
		at := api.At(time.Now().Add(300 * time.Millisecond))
		id := enqueue(t, s, q, api.JobRequest{RunAt: &at})[0]
		if j := mustGet(t, s, id); j.State != api.JobScheduled && time.Now().Before(at.Time) {
			t.Errorf("before its time: %+v", j)
		}
		if j := eventually(t, s, q, time.Minute); j.ID != id || time.Now().Before(at.Time) {
			t.Errorf("claimed %+v before its time", j)
		}
		// A worker waits before the job comes, at another process. One wake-up may be late on a busy machine; without any, the
		// worker would look again after lookEvery.
		other, best := begin(t, s.db), time.Hour
		for n := 0; n < 3 && best > time.Second; n++ {
			q := named("q")
			got, _ := waiting(t, other, q)
			storetest.Eventually(t, soon, "it waits", func() bool { return other.waiters(q) == 1 && other.listens(q) })
			at = api.At(time.Now().Add(500 * time.Millisecond))
			second := enqueue(t, s, q, api.JobRequest{RunAt: &at})
			mustEqual(t, "woken", idsOf(<-got), second)
			late := time.Since(at.Time)
			if best = min(best, late); late < 0 {
				t.Errorf("claimed %v before its time", -late)
			}
		}
		if best > time.Second {
			t.Errorf("claimed %v after its time", best)
		}
		far := api.At(time.Now().Add(api.MaxJobDelay + time.Hour))
		_, _, err := s.Enqueue(t.Context(), q, []api.JobRequest{{Type: "t"}, {Type: "t", RunAt: &far}}, api.Idempotency{})
		if late, is := errors.AsType[TooFarError](err); !is || late.Index != 1 {
			t.Errorf("too far ahead: %v", err)
		}
		mustCount(t, s, q, api.JobQueue{Running: 1})
	})
}

// key is a key of a queue.
func (s *Store) key(queue, name string) string {
	return s.letters.KeyBeside(s.groupOf(queue), "w:"+queue+"/"+name)
}

// failAll lets all jobs of a queue be claimed now, and fail. It returns in how many hours each of them is due again, from the
// soonest on.
func failAll(t testing.TB, s *Store, q string, ids []string, after *int64) (hours []float64) {
	t.Helper()
	c := s.db.Client()
	for _, id := range ids {
		_, short, _ := parseID(id)
		if c.ZScore(t.Context(), s.key(q, "due"), short).Err() == nil {
			storetest.Must(t, c.ZAdd(t.Context(), s.key(q, "due"), redis.Z{Score: 1, Member: short}).Err())
		}
	}
	jobs := claim(t, s, q, len(ids), time.Minute)
	results := make([]api.JobResult, len(jobs))
	for i, j := range jobs {
		results[i] = api.JobResult{ID: j.ID, Token: j.Token, Outcome: api.JobFail, RetryAfterMS: after}
	}
	begun := time.Now()
	_, err := s.Results(t.Context(), q, results)
	storetest.Must(t, err)
	for _, id := range ids {
		hours = append(hours, mustGet(t, s, id).RunAt.Sub(begun).Hours())
	}
	slices.Sort(hours)
	return hours
}

// J1: after each failure a job waits for any time up to a bound, which doubles until it is the longest backoff, or for
// retry_after_ms if that is longer. The units are hours, so that no machine is too slow.
func TestJ1_BackoffsGrow(t *testing.T) {
	t.Parallel()
	s := begin(t, storetest.Open(t, storetest.Redis(t).URL()), func(o *Options) { o.RetryBase, o.RetryMax = time.Hour, 6*time.Hour })
	q, most := named("q"), int64(1000)
	ids := enqueue(t, s, q, slicesOf(100, api.JobRequest{MaxAttempts: &most})...)
	for n, bound := range []float64{1, 2, 4, 6, 6} {
		hours := failAll(t, s, q, ids, nil)
		first, middle, last := hours[0], hours[50], hours[99]
		// Of a hundred times up to the bound all are above a fifth of it, or below four fifths, once in 10^9 runs.
		if first > bound/5 || middle < bound/5 || middle > 0.8*bound || last < 0.8*bound || last > bound+0.1 {
			t.Errorf("after failure %d the jobs wait for %.2f to %.2f h, in the middle %.2f, and not for any time up to %.0f h", n+1, first, last, middle, bound)
		}
	}
	three, ten := (3 * time.Hour).Milliseconds(), (10 * time.Hour).Milliseconds()
	hours := failAll(t, s, q, ids, &three)
	waits := slices.IndexFunc(hours, func(h float64) bool { return h > 3.1 })
	if hours[0] < 2.99 || waits < 20 || waits > 80 || hours[99] > 6.1 { // half of the backoffs are shorter
		t.Errorf("with a wait of 3 h at least the jobs wait for %.2f h", hours)
	}
	if hours = failAll(t, s, q, ids, &ten); hours[0] < 9.99 || hours[99] > 10.1 {
		t.Errorf("with a wait of 10 h at least the jobs wait for %.2f to %.2f h", hours[0], hours[99])
	}
}

// J1: the age of a job counts from its run_at, and without one from when it was enqueued.
func TestJ1_AgeCountsFromRunAt(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Store) {
		s = begin(t, s.db, func(o *Options) { o.MaxAge = time.Hour })
		q, wait := named("q"), int64(3_600_000)
		hour := func(n time.Duration) *api.Time { at := api.At(time.Now().Add(n * time.Hour)); return &at }
		for _, c := range []struct {
			enqueued int // hours ago
			runAt    *api.Time
			want     api.JobState
		}{
			{0, hour(-2), api.JobDead},
			{2, hour(0), api.JobScheduled},
			{2, nil, api.JobDead},
			{0, nil, api.JobScheduled},
		} {
			id := enqueue(t, s, q, api.JobRequest{RunAt: c.runAt})[0]
			_, short, _ := parseID(id)
			text := s.db.Client().HGet(t.Context(), s.key(q, "jobs"), short).Val()
			f := strings.SplitN(text, fieldSep, 3) // the second is when it was enqueued
			f[1] = fmt.Sprint(parse(f[1]) - int64(c.enqueued)*wait)
			storetest.Must(t, s.db.Client().HSet(t.Context(), s.key(q, "jobs"), short, strings.Join(f, fieldSep)).Err())
			j := one(t, s, q, time.Minute)
			if got := say(t, s, q, j, api.JobRelease, func(r *api.JobResult) { r.RetryAfterMS = &wait }); got != api.JobOK {
				t.Error(got)
			}
			if got := mustGet(t, s, id); got.State != c.want || got.State == api.JobDead && got.Reason != "max_age" {
				t.Errorf("enqueued %d h ago, for %v: %+v", c.enqueued, c.runAt, got)
			}
		}
	})
}
