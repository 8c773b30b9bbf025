package jobs

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// anything has callers that do anything with the jobs of a queue.
type anything struct {
	t     *testing.T
	s     *Store
	queue string

	mu   sync.Mutex
	ids  []string
	held []api.ClaimedJob
}

// late is one of the last few of a list.
func late[T any](list []T) (one T, ok bool) {
	if len(list) == 0 {
		return one, false
	}
	return list[max(0, len(list)-1-rand.IntN(20))], true
}

func (a *anything) do() {
	switch rand.IntN(9) {
	case 0, 1:
		a.enqueue()
	case 2, 3:
		a.claim()
	case 4, 5, 6:
		a.answer()
	case 7:
		a.mu.Lock()
		id, ok := late(a.ids)
		a.mu.Unlock()
		if ok {
			err := a.s.Cancel(a.t.Context(), id)
			if code := api.CodeOf(err); err != nil && code != api.CodeTooLate && code != api.CodeNotFound {
				a.t.Error(err)
			}
		}
	default:
		list, err := queue.DeadLetters(a.t.Context(), queue.DeadFilter{Queue: a.queue}, "", 5, a.s.letters)
		storetest.Must(a.t, err)
		for _, letter := range list.Items {
			_, _, _ = a.s.letters.RetryDead(a.t.Context(), letter.ID, queue.Once{}) // another caller may have been faster
		}
	}
}

func (a *anything) enqueue() {
	most, jobs := int64(2), make([]api.JobRequest, 1+rand.IntN(3))
	for i := range jobs {
		r := &jobs[i]
		r.Type, r.MaxAttempts = fmt.Sprint("t", rand.IntN(3)), &most
		if rand.IntN(3) > 0 {
			r.Key = fmt.Sprint("k", rand.IntN(3))
		}
		if rand.IntN(4) == 0 {
			r.Unique = fmt.Sprint("u", rand.IntN(4))
		}
		if rand.IntN(3) == 0 {
			at := api.At(time.Now().Add(time.Duration(rand.IntN(10)) * time.Millisecond))
			r.RunAt = &at
		}
	}
	ids := enqueue(a.t, a.s, a.queue, jobs...)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ids = append(a.ids, ids...)
}

func (a *anything) claim() {
	var types []string
	if rand.IntN(2) == 0 {
		types = []string{"t0", "t2"}
	}
	lease := time.Duration(1+rand.IntN(2)*rand.IntN(30)) * time.Millisecond
	jobs := claim(a.t, a.s, a.queue, 1+rand.IntN(12), lease, types...)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held = append(a.held, jobs...)
}

func (a *anything) answer() {
	var results []api.JobResult
	a.mu.Lock()
	for range 1 + rand.IntN(5) {
		j, ok := late(a.held)
		if !ok {
			break
		}
		r := api.JobResult{ID: j.ID, Token: j.Token, Outcome: api.JobComplete}
		if rand.IntN(3) > 0 {
			r.Outcome = []api.JobOutcome{api.JobFail, api.JobRelease, api.JobRenew}[rand.IntN(3)]
		}
		if n := int64(5); r.Outcome == api.JobRelease && rand.IntN(2) == 0 {
			r.RetryAfterMS = &n
		}
		results = append(results, r)
	}
	a.mu.Unlock()
	if len(results) > 0 {
		_, err := a.s.Results(a.t.Context(), a.queue, results)
		storetest.Must(a.t, err)
	}
}

// Q16 for jobs: whatever callers do, also with scripts that run twice, every job is in exactly one place, every key that is held has a live
// job at its head, and nothing is known of jobs that have ended.
func TestJ2_Consistency(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Redis(t).URL())
	faulty := storetest.Faulty(t, db, func(what string, answered bool) error {
		if what == "jobs_run" && answered && rand.IntN(5) == 0 {
			return storetest.ErrTwice
		}
		return nil
	})
	a := &anything{t: t, s: begin(t, faulty), queue: named("q")}
	a.s.begun = a.s.begun.Add(-time.Hour)
	for round := range storetest.Sized(300, 60) {
		if round%8 == 7 {
			pass(t, a.s, a.queue, 1)
		}
		var callers sync.WaitGroup
		for range 8 {
			callers.Go(func() {
				for range 5 {
					a.do()
				}
			})
		}
		callers.Wait()
		if mustBeConsistent(t, a.s, a.queue); t.Failed() {
			return
		}
	}
}

// mustBeConsistent checks the keys of a queue against each other.
func mustBeConsistent(t *testing.T, s *Store, q string) {
	t.Helper()
	c, ctx, prefix := s.db.Client(), t.Context(), s.letters.KeyBeside(s.groupOf(q), "w:"+q+"/")
	hash := func(name string) map[string]string { return c.HGetAll(ctx, prefix+name).Val() }
	list := func(name string) []string { return c.ZRange(ctx, prefix+name, 0, -1).Val() }
	jobs, held, heads := hash("jobs"), hash("held"), hash("heads")
	place, blocked := map[string]string{}, 0
	for i := range 3 {
		kind, key := fmt.Sprint("t", i), fmt.Sprint("k", i)
		ready, waiting := list("r/"+kind), list("wait/"+key)
		for _, id := range ready {
			place[id] += "r"
		}
		for _, id := range waiting {
			place[id] += "w"
		}
		blocked += len(waiting)
		if len(waiting) > 0 && heads[key] == "" {
			t.Errorf("jobs of the key %s wait behind nobody", key)
		}
		first, known := c.ZRangeWithScores(ctx, prefix+"r/"+kind, 0, 0).Val(), c.ZScore(ctx, prefix+"types", kind)
		if len(first) == 1 && first[0].Score != known.Val() || len(first) == 0 && known.Err() == nil {
			t.Errorf("the first job of the type %s is %v, and %v is known", kind, first, known.Val())
		}
	}
	for _, id := range list("due") {
		if place[id] += "d"; held[id] != "" {
			place[id] = place[id][:len(place[id])-1] + "h"
		}
	}
	for id, text := range jobs {
		j, err := parseText(text)
		storetest.Must(t, err)
		if len(place[id]) != 1 {
			t.Errorf("%s is in the places %q", id, place[id])
		}
		if j.key != "" && (place[id] == "r" || place[id] == "h") != (heads[j.key] == id) {
			t.Errorf("%s is in the place %s, and the head of its key is %s", id, place[id], heads[j.key])
		}
		if j.unique != "" && hash("unique")[j.unique] != id {
			t.Errorf("the unique name of %s is not known", id)
		}
	}
	known := map[string]map[string]string{"held": held, "hist": hash("hist"), "lost": hash("lost"), "placed": place}
	for what, ids := range known {
		for id := range ids {
			if jobs[id] == "" || what == "held" && place[id] != "h" || what == "lost" && place[id] != "r" {
				t.Errorf("%s is %s, in the place %q", id, what, place[id])
			}
		}
	}
	for what, ids := range map[string]map[string]string{"head": heads, "unique": hash("unique")} {
		for name, id := range ids {
			if jobs[id] == "" {
				t.Errorf("the %s of %s has ended", what, name)
			}
		}
	}
	if n, _ := c.HGet(ctx, prefix+"meta", "blocked").Int(); n != blocked {
		t.Errorf("%d jobs are blocked, and %d count", blocked, n)
	}
	mustAddUp(t, s, q)
}

// mustAddUp checks that the minutes of a queue that was made less than an hour ago have all that it counted, each once.
func mustAddUp(t *testing.T, s *Store, q string) {
	t.Helper()
	answer, err := s.listed(t.Context(), q, minutesKept+1)
	storetest.Must(t, err)
	present, total, marks, err := readMarks(answer)
	storetest.Must(t, err)
	sum := api.JobCounts{}
	for i, m := range marks {
		until := total
		if i+1 < len(marks) {
			until = marks[i+1].before
		}
		n := less(until, m.before)
		if m.minute > present || min(n.Enqueued, n.Done, n.Retries, n.Recovered, n.Dead) < 0 || n == (api.JobCounts{}) {
			t.Errorf("the minute %d of %d has %+v", m.minute, present, n)
		}
		sum = less(sum, less(api.JobCounts{}, n))
	}
	if sum != total || since(total, marks) != total {
		t.Errorf("the minutes have %+v, and the queue %+v", sum, total)
	}
}
