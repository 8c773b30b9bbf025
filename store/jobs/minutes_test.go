package jobs

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// pass lets minutes pass for a queue: all that it knows of them becomes so much older.
func pass(t testing.TB, s *Store, q string, minutes int64) {
	t.Helper()
	c, prefix := s.db.Client(), s.letters.KeyBeside(s.groupOf(q), "w:"+q+"/")
	marks := c.ZRangeWithScores(t.Context(), prefix+"minutes", 0, -1).Val()
	_, err := c.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.HIncrBy(t.Context(), prefix+"meta", "minute", -minutes)
		for _, m := range marks {
			minute, totals, _ := strings.Cut(m.Member.(string), " ")
			n, err := strconv.ParseInt(minute, 10, 64)
			storetest.Must(t, err)
			p.ZRem(t.Context(), prefix+"minutes", m.Member)
			p.ZAdd(t.Context(), prefix+"minutes", redis.Z{Score: float64(n - minutes), Member: fmt.Sprintf("%d %s", n-minutes, totals)})
		}
		return nil
	})
	storetest.Must(t, err)
}

// lasting makes something again until no minute has ended meanwhile by Redis' clock.
func lasting(t testing.TB, s *Store, f func()) {
	t.Helper()
	present := func() int64 {
		now, err := s.db.Client().Time(t.Context()).Result()
		storetest.Must(t, err)
		return now.Unix() / 60
	}
	for before := int64(0); before != present(); {
		before = present()
		f()
	}
}

func mustMinutes(t testing.TB, s *Store, q string) []api.JobMinute {
	t.Helper()
	series, err := s.Minutes(t.Context(), q)
	storetest.Must(t, err)
	return series.Items
}

func mustHour(t testing.TB, s *Store, q string) api.JobCounts {
	t.Helper()
	of, err := s.Queue(t.Context(), q)
	storetest.Must(t, err)
	return of.LastHour
}

// countAll makes a queue count one of everything but 11 jobs that are enqueued, and 2 that are done.
func countAll(t testing.TB, s *Store, q string) {
	t.Helper()
	once := int64(1)
	for range 2 {
		enqueue(t, s, q, api.JobRequest{})
		mustSay(t, s, q, one(t, s, q, time.Minute), api.JobComplete, api.JobOK)
	}
	enqueue(t, s, q, api.JobRequest{MaxAttempts: &once})
	mustSay(t, s, q, one(t, s, q, time.Minute), api.JobFail, api.JobOK)
	enqueue(t, s, q, api.JobRequest{})
	later := func(r *api.JobResult) { r.RetryAfterMS = new(time.Hour.Milliseconds()) }
	if got := say(t, s, q, one(t, s, q, time.Minute), api.JobFail, later); got != api.JobOK {
		t.Errorf("a failure is answered %s", got)
	}
	enqueue(t, s, q, api.JobRequest{})
	lost := one(t, s, q, time.Millisecond)
	storetest.Eventually(t, soon, "the lease is over", func() bool {
		again := claim(t, s, q, 1, time.Minute)
		return len(again) == 1 && again[0].ID == lost.ID
	})
	enqueue(t, s, q, make([]api.JobRequest, 6)...)
}

var allCounted = api.JobCounts{Enqueued: 11, Done: 2, Retries: 1, Recovered: 1, Dead: 1}

// J11: what a queue counts is shown in the minute in which it happened, as soon as that is over, and for an hour. The last hour
// has the present minute as well.
func TestJ11_Minutes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Store) {
		var q string
		var present, past, older, gone []api.JobMinute
		var hours [4]api.JobCounts
		look := func(i int, minutes *[]api.JobMinute) { hours[i], *minutes = mustHour(t, s, q), mustMinutes(t, s, q) }
		lasting(t, s, func() {
			q = named("q")
			countAll(t, s, q)
			look(0, &present)
			pass(t, s, q, 3)
			look(1, &past)
			enqueue(t, s, q, api.JobRequest{})
			pass(t, s, q, 57)
			look(2, &older)
			pass(t, s, q, 1)
			look(3, &gone)
		})
		more := allCounted
		more.Enqueued++
		if want := [4]api.JobCounts{allCounted, allCounted, more, {Enqueued: 1}}; hours != want {
			t.Errorf("hours %+v,\nwant %+v", hours, want)
		}
		for _, tc := range []struct {
			what    string
			minutes []api.JobMinute
			want    map[int]api.JobCounts // by how many minutes ago
		}{
			{"present", present, nil}, {"3 minutes ago", past, map[int]api.JobCounts{3: allCounted}},
			{"an hour ago", older, map[int]api.JobCounts{60: allCounted, 57: {Enqueued: 1}}}, {"61 minutes ago", gone, map[int]api.JobCounts{58: {Enqueued: 1}}},
		} {
			if len(tc.minutes) != 60 {
				t.Fatalf("%s: %d minutes", tc.what, len(tc.minutes))
			}
			for i, m := range tc.minutes {
				if m.JobCounts != tc.want[60-i] {
					t.Errorf("%s: %+v, want %+v", tc.what, m, tc.want[60-i])
				}
				if i > 0 && m.At.Sub(tc.minutes[i-1].At.Time) != time.Minute || m.At.Unix()%60 != 0 {
					t.Errorf("%s: a minute begins at %v", tc.what, m.At)
				}
			}
		}
		if ago := time.Since(past[59].At.Time); ago < time.Minute || ago > 5*time.Minute {
			t.Errorf("the last minute began %v ago", ago)
		}
		if _, err := s.Minutes(t.Context(), "none"); api.CodeOf(err) != api.CodeNotFound {
			t.Errorf("of no queue: %v", err)
		}
	})
}

// J11: a dead letter that is retried counts as enqueued, in the minute of the retry.
func TestJ11_ARetryIsEnqueued(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Store) {
		q, once := named("q"), int64(1)
		id := enqueue(t, s, q, api.JobRequest{MaxAttempts: &once})[0]
		mustSay(t, s, q, one(t, s, q, time.Minute), api.JobFail, api.JobOK)
		pass(t, s, q, 5)
		_, _, err := s.letters.RetryDead(t.Context(), s.letters.DeadID(s.groupOf(q), id), queue.Once{})
		storetest.Must(t, err)
		pass(t, s, q, 5)
		sum := api.JobCounts{}
		for _, m := range mustMinutes(t, s, q)[54:] { // some may be over that were not before
			sum.Enqueued += m.Enqueued
		}
		if want := (api.JobCounts{Enqueued: 2, Dead: 1}); mustHour(t, s, q) != want || sum.Enqueued != 1 {
			t.Errorf("%+v, and %+v since the retry", mustHour(t, s, q), sum)
		}
	})
}

// J11: minutes take bounded room, for two hours. If Redis' clock is set back, nothing is counted twice or below zero.
func TestJ11_BoundsOfMinutes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Store) {
		q := named("q")
		key := s.letters.KeyBeside(s.groupOf(q), "w:"+q+"/minutes")
		for range 100 {
			enqueue(t, s, q, api.JobRequest{})
			pass(t, s, q, 1)
		}
		enqueue(t, s, q, api.JobRequest{})
		if n := s.db.Client().ZCard(t.Context(), key).Val(); n > 62 {
			t.Errorf("%d minutes are kept", n)
		}
		if left := s.db.Client().PTTL(t.Context(), key).Val(); left <= time.Hour || left > 2*time.Hour {
			t.Errorf("minutes are kept for %v", left)
		}
		if hour := mustHour(t, s, q); hour.Enqueued < 60 || hour.Enqueued > 61 {
			t.Errorf("the last hour has %+v", hour)
		}
		pass(t, s, q, -10) // the marks are those of later minutes now
		for range 20 {
			enqueue(t, s, q, api.JobRequest{})
			pass(t, s, q, 1)
		}
		sum := int64(0)
		for i, m := range mustMinutes(t, s, q) {
			if sum += m.Enqueued; m.Enqueued < 0 || i >= 45 && m.Enqueued > 1 {
				t.Errorf("%d minutes ago: %+v", 60-i, m)
			}
		}
		// Of the 101 jobs that were enqueued once a minute, the last 11 are in the minute to which the clock was set back.
		if hour := mustHour(t, s, q); hour.Enqueued < 69 || hour.Enqueued > 71 || sum < hour.Enqueued-1 || sum > hour.Enqueued {
			t.Errorf("the last hour has %+v, and its minutes %d", hour, sum)
		}
	})
}
