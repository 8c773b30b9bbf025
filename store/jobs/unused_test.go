package jobs

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/storetest"
)

const week = 7 * 24 * time.Hour

// usedAgo makes it long ago that a queue was used.
func usedAgo(t testing.TB, s *Store, q string, ago time.Duration) {
	t.Helper()
	at := redis.Z{Score: float64(time.Now().Add(-ago).UnixMilli()), Member: q}
	storetest.Must(t, s.db.Client().ZAddXX(t.Context(), s.registry(s.groupOf(q)), at).Err())
}

// mustKnow looks for unused queues, and checks whether a queue is there afterwards.
func mustKnow(t testing.TB, s *Store, q, what string, want bool) {
	t.Helper()
	storetest.Must(t, s.tidy(t.Context()))
	if _, err := s.Queue(t.Context(), q); want != (err == nil) || err != nil && api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("%s: the queue is there: %v, want %v: %v", what, err == nil, want, err)
	}
}

// used makes a queue that is empty.
func used(t testing.TB, s *Store) (q string) {
	t.Helper()
	q = named("q")
	enqueue(t, s, q, api.JobRequest{Key: "k", Unique: "u"})
	mustSay(t, s, q, one(t, s, q, time.Minute), api.JobComplete, api.JobOK)
	return q
}

// J6: an empty queue that nobody used for 7 days leaves nothing but notes of its ended jobs, which end by themselves. Calls of
// workers and operators are a use.
func TestJ6_UnusedQueuesLeaveNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Store) {
		q := used(t, s)
		usedAgo(t, s, q, week-time.Hour)
		mustKnow(t, s, q, "unused for less than a week", true)
		usedAgo(t, s, q, week+time.Minute)
		mustKnow(t, s, q, "unused for a week", false)
		for _, key := range storetest.KeysWith(t, s.db, q) {
			left := s.db.Client().PTTL(t.Context(), key).Val()
			if !strings.Contains(key, "/e/") && !strings.Contains(key, "run:") || left <= 0 || left > time.Hour {
				t.Errorf("%s is left for %v", key, left)
			}
		}
		for what, use := range map[string]func(q string){
			"a claim": func(q string) { claim(t, s, q, 1, time.Minute) },
			"a claim that waits": func(q string) {
				got, leave := waiting(t, s, q)
				storetest.Eventually(t, soon, "it waits", func() bool { return s.waiters(q) == 1 })
				leave()
				<-got
			},
			"a pause": func(q string) {
				_, err := s.Pause(t.Context(), q)
				storetest.Must(t, err)
				_, err = s.Resume(t.Context(), q)
				storetest.Must(t, err)
			},
			"a job":               func(q string) { storetest.Must(t, s.Cancel(t.Context(), enqueue(t, s, q, api.JobRequest{})[0])) },
			"nothing but a pause": func(q string) { _, err := s.Pause(t.Context(), q); storetest.Must(t, err); usedAgo(t, s, q, 2*week) },
			"a job that waits": func(q string) {
				at := api.At(time.Now().Add(time.Hour))
				enqueue(t, s, q, api.JobRequest{RunAt: &at})
				usedAgo(t, s, q, 2*week)
			},
		} {
			q := used(t, s)
			usedAgo(t, s, q, week+time.Minute)
			use(q)
			mustKnow(t, s, q, what, true)
		}
	})
}

// J9: dead letters are kept for 7 days, and their queue with them.
func TestJ9_DeadLettersAreKeptForAWeek(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Store) {
		q, once := named("q"), int64(1)
		var ids []string
		for range 3 {
			ids = append(ids, enqueue(t, s, q, api.JobRequest{MaxAttempts: &once})...)
			mustSay(t, s, q, one(t, s, q, time.Minute), api.JobFail, api.JobOK)
		}
		letters := s.letters.KeyBeside(s.groupOf(q), "deadof:"+q)
		died := func(id string, ago time.Duration) {
			eid := s.db.Client().HGet(t.Context(), s.letters.KeyBeside(s.groupOf(q), "deadids"), id).Val()
			at := redis.Z{Score: float64(time.Now().Add(-ago).UnixMilli()), Member: eid}
			storetest.Must(t, s.db.Client().ZAddXX(t.Context(), letters, at).Err())
		}
		usedAgo(t, s, q, week+time.Minute)
		died(ids[0], week+time.Minute)
		died(ids[1], week-time.Hour)
		mustKnow(t, s, q, "with dead letters", true)
		for i, want := range []string{"", "max_attempts", "max_attempts"} {
			if j := mustGet(t, s, ids[i]); j.State != api.JobDead || j.Reason != want { // the state alone is known for an hour
				t.Errorf("letter %d: %+v", i, j)
			}
		}
		mustCount(t, s, q, api.JobQueue{Dead: 3, DeadLetters: 2})
		died(ids[1], week+time.Minute)
		died(ids[2], week+time.Minute)
		mustKnow(t, s, q, "without dead letters", false)
		for _, id := range ids {
			for _, key := range storetest.KeysWith(t, s.db, id) {
				t.Errorf("%s has something of %s", key, id)
			}
		}
	})
}
