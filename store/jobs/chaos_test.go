package jobs

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// held is what the test knows of one conflict key.
type held struct {
	fence int64
	until time.Time // the end of the holder's lease, by the holder; zero: it has answered
}

// chaosTime is far more than the jobs need.
const chaosTime = 2 * time.Minute

// chaos has workers that complete, fail and release jobs, die with them, and lose answers.
type chaos struct {
	t     *testing.T
	s     *Store
	queue string

	mu   sync.Mutex
	keys map[string]*held
	done map[string]bool
}

func (c *chaos) work(all int) {
	for end := time.Now().Add(chaosTime); ; {
		c.mu.Lock()
		over := len(c.done) == all
		c.mu.Unlock()
		if over || time.Now().After(end) {
			return
		}
		lease := 5 * time.Second
		dies := rand.IntN(10) == 0
		if dies {
			lease = 30 * time.Millisecond
		}
		most, ms, begun := int64(1+rand.IntN(12)), lease.Milliseconds(), time.Now()
		claimed, _, err := c.s.Claim(c.t.Context(), nil, c.queue, &api.JobClaim{Worker: "w", Max: &most, LeaseMS: &ms}, api.Idempotency{})
		if err != nil {
			continue
		}
		for _, j := range claimed.Jobs {
			c.got(j, begun.Add(lease))
		}
		if dies && !slices.ContainsFunc(claimed.Jobs, func(j api.ClaimedJob) bool { return j.Attempt > 3 }) { // a job has eight leases
			continue
		}
		for _, j := range claimed.Jobs {
			c.answer(j, begun.Add(lease))
		}
	}
}

// got checks that nobody else holds the key of a job.
func (c *chaos) got(j api.ClaimedJob, until time.Time) {
	if j.Key == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().After(until) {
		return // the answer came too late for its lease
	}
	h := c.keys[j.Key]
	if h == nil {
		h = &held{}
		c.keys[j.Key] = h
	}
	if time.Now().Before(h.until) {
		c.t.Errorf("key %s is held twice, with the fences %d and %d", j.Key, h.fence, j.Fence)
	}
	if j.Fence <= h.fence {
		c.t.Errorf("the fence of key %s fell from %d to %d", j.Key, h.fence, j.Fence)
	}
	h.fence, h.until = j.Fence, until
}

// answer says something about a job until somebody has heard it.
func (c *chaos) answer(j api.ClaimedJob, until time.Time) {
	r := api.JobResult{ID: j.ID, Token: j.Token, Outcome: api.JobComplete}
	if n := rand.IntN(10); n < 2 {
		r.Outcome = []api.JobOutcome{api.JobFail, api.JobRelease}[n]
	}
	c.mu.Lock() // it holds the key no longer once the answer is under way
	if h := c.keys[j.Key]; h != nil && h.fence == j.Fence {
		h.until = time.Time{}
	}
	c.mu.Unlock()
	for {
		answers, err := c.s.Results(c.t.Context(), c.queue, []api.JobResult{r})
		if err != nil {
			continue
		}
		if status := answers.Results[0].Status; status == api.JobLost && time.Now().After(until) {
			return
		} else if r.Outcome != api.JobRelease && status != api.JobOK { // of a release whose answer was lost nothing is known
			c.t.Errorf("%s of %s: %s", r.Outcome, j.ID, status)
		}
		if r.Outcome == api.JobComplete {
			c.mu.Lock()
			c.done[j.ID] = true
			c.mu.Unlock()
		}
		return
	}
}

// J1, J2, Q1, Q16: every job is done in the end, no key is held twice at once, fences rise, and nothing is left behind, though workers
// die with jobs and answers of Redis are lost.
func TestJ2_Chaos(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		faulty := storetest.Faulty(t, db, func(what string, answered bool) error {
			switch n := rand.IntN(200); {
			case what != "jobs_run":
			case answered && n < 40:
				return storetest.ErrTwice
			case answered && n == 100:
				return storetest.ErrLost
			case !answered && n < 4:
				return storetest.ErrCut
			}
			return nil
		})
		s, q, most, all := begin(t, faulty), named("q"), int64(1000), storetest.Sized(2000, 300)
		s.begun = s.begun.Add(-time.Hour)
		c := &chaos{t: t, s: s, queue: q, keys: map[string]*held{}, done: map[string]bool{}}
		var ids []string
		for i := range all {
			r := api.JobRequest{Type: fmt.Sprint("t", i%3), Payload: raw(fmt.Sprint(i)), MaxAttempts: &most}
			if i%2 == 0 {
				r.Key = fmt.Sprint("k", i%10)
			}
			once := api.Idempotency{Scope: "chaos", Key: fmt.Sprint(i)}
			for {
				accepted, _, err := s.Enqueue(t.Context(), q, []api.JobRequest{r}, once)
				if err == nil {
					ids = append(ids, accepted[0].ID)
					break
				}
			}
		}
		var workers sync.WaitGroup
		for range 10 {
			workers.Go(func() { c.work(all) })
		}
		workers.Wait()
		for _, id := range ids {
			if !c.done[id] {
				t.Errorf("%s was never done", id)
			}
		}
		clean := begin(t, db)
		mustBeEmpty(t, clean, q)
	})
}

// mustBeEmpty checks that a queue has no job, and no key that only belongs to jobs.
func mustBeEmpty(t testing.TB, s *Store, q string) {
	t.Helper()
	got, err := s.Queue(t.Context(), q)
	storetest.Must(t, err)
	if got.Depth+got.Blocked+got.Scheduled+got.Running+got.DeadLetters != 0 {
		t.Errorf("the queue is %+v", got)
	}
	prefix := s.letters.KeyBeside(s.groupOf(q), "w:"+q+"/")
	for _, key := range storetest.KeysWith(t, s.db, "w:"+q+"/") {
		name, ours := strings.CutPrefix(key, prefix)
		if ours && name != "meta" && name != "minutes" && !strings.HasPrefix(name, "e/") {
			t.Errorf("%s is left", key)
		}
	}
}

// Q18: dead letters have a bound for each queue, whose own oldest leave first.
func TestJ9_AQueueDropsItsOwnOldestLetters(t *testing.T) {
	t.Parallel()
	s := begin(t, storetest.Open(t, storetest.Redis(t).URL()))
	q, other, once := named("q"), "", int64(1)
	for n := 0; other == ""; n++ { // another queue of the same group
		if name := fmt.Sprint("other", n); s.groupOf(name) == s.groupOf(q) {
			other = name
		}
	}
	die := func(queue, kind string, n int) (first string) {
		for ; n > 0; n -= 100 {
			ids := enqueue(t, s, queue, slicesOf(min(n, 100), api.JobRequest{Type: kind, MaxAttempts: &once})...)
			if first == "" {
				first = ids[0]
			}
			var results []api.JobResult
			for _, j := range claim(t, s, queue, 100, time.Minute) {
				results = append(results, api.JobResult{ID: j.ID, Token: j.Token, Outcome: api.JobFail, Error: "no"})
			}
			_, err := s.Results(t.Context(), queue, results)
			storetest.Must(t, err)
		}
		return first
	}
	oldest := die(other, "rare", 1)
	gone := die(q, "t", 10_005)
	if got, err := s.Queue(t.Context(), q); err != nil || got.DeadLetters != 10_000 || got.Dead != 10_005 {
		t.Errorf("%+v, %v", got, err)
	}
	if j, err := s.Get(t.Context(), oldest); err != nil || j.Reason != "max_attempts" {
		t.Errorf("the letter of another queue: %+v, %v", j, err)
	}
	if err := s.letters.DeleteDead(t.Context(), s.letters.DeadID(s.groupOf(q), gone)); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("the oldest letter: %v", err)
	}
	var list *api.DeadLetterList
	for _, filter := range []queue.DeadFilter{{Queue: other}, {Type: "rare"}} { // a page looks at some letters only
		list = &api.DeadLetterList{Next: "-"}
		pages := 0
		for cursor := ""; len(list.Items) == 0 && list.Next != ""; cursor = list.Next {
			var err error
			list, err = queue.DeadLetters(t.Context(), filter, cursor, 10, s.letters)
			storetest.Must(t, err)
			pages++
		}
		if pages > 11 { // all letters are in one shard, of which a page looks at 1,000
			t.Errorf("%d pages with %+v", pages, filter)
		}
	}
	if len(list.Items) != 1 || list.Items[0].Queue != other || list.Items[0].Kind != "job" {
		t.Errorf("letters of the other queue: %+v", list)
	}
	storetest.Must(t, s.letters.DeleteDead(t.Context(), s.letters.DeadID(s.groupOf(other), oldest)))
	if got, err := s.Queue(t.Context(), other); err != nil || got.DeadLetters != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	mustBeEmpty(t, s, other)
}

func slicesOf[T any](n int, one T) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = one
	}
	return all
}
