package facts

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/jobs"
	"fanfare/store/queue"
	"fanfare/store/queue/queuetest"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// results are queues that tell what becomes of their jobs: the queue of events, whose shards have the lanes, and another one.
type results struct {
	*world
	events, other *queue.Queue // of the process that works
}

// setupResults makes them; the process that works loses answers of Redis.
func setupResults(t testing.TB, db *redisdb.DB) *results {
	t.Helper()
	w := setup(t, db, func(o *Options) {
		o.Over = func(context.Context, []string) (map[string]json.RawMessage, error) { return nil, nil }
		o.Failed = func(*api.DeadLetter) json.RawMessage { return nil }
	})
	faulty := storetest.Faulty(t, db, func(name string, answered bool) error {
		if name == "call_finish_told" && answered && rand.IntN(3) == 0 {
			return storetest.ErrLost
		}
		return nil
	})
	eo := queuetest.Options(t)
	eo.Name, eo.Shards, eo.Lanes, eo.Tells, eo.Lease, eo.MaxAttempts = w.q.Name(), 4, true, func() string { return "le" }, time.Minute, 2
	eo.Logger = nil
	no := eo
	no.Name, no.Kind, no.Lanes = w.q.Name()+"n", "notification", false
	r := &results{world: w, events: queue.New(faulty, eo), other: queue.New(faulty, no)}
	w.s.o.Outboxes = OutboxesOf(r.events, r.other)
	storetest.Must(t, r.events.Init(t.Context()))
	storetest.Must(t, r.other.Init(t.Context()))
	return r
}

// mustRun runs a queue until it has done so many jobs or given them up.
func (r *results) mustRun(q *queue.Queue, n int, work func(c *queue.Claimed) queue.Result) {
	r.t.Helper()
	ctx, stop := context.WithCancel(r.t.Context())
	var wg sync.WaitGroup
	var mu sync.Mutex
	ended := map[string]bool{}
	wg.Go(func() {
		_ = q.Run(ctx, queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result {
			result := work(c)
			mu.Lock()
			defer mu.Unlock()
			if result.Outcome == queue.Done || result.Outcome == queue.Dead || c.Attempt == q.MaxAttempts() {
				ended[c.ID] = true
			}
			return result
		}))
	})
	defer wg.Wait()
	defer stop()
	storetest.Eventually(r.t, time.Minute, "all jobs have ended", func() bool {
		stats, err := q.Stats(r.t.Context())
		mu.Lock()
		defer mu.Unlock()
		return err == nil && len(ended) == n && stats.InFlight+stats.Depth+stats.Scheduled == 0
	})
}

// H1: a result's facts are told with it, once, whatever answers are lost: those of marks, too, and none of a job that becomes a
// dead letter instead. The letter is told by its queue.
func TestH1_ResultsTellOnce(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		r := setupResults(t, db)
		const n = 300
		want := map[string][]string{}
		for name, q := range map[string]*queue.Queue{"here": r.events, "elsewhere": r.other} {
			list := make([]queue.Job, n)
			for i := range list {
				list[i] = queue.Job{ID: queue.NewID(i%4, time.Now()), Shard: i % 4, Fresh: true, Payload: []byte(fmt.Sprint(i))}
			}
			ids := queuetest.MustEnqueue(t, q, list...)
			number := map[string]int{}
			for i, id := range ids {
				number[id] = i
				key := name + id
				switch i % 3 {
				case 0:
					want[key] = []string{"part 1", "part 2", "done"}
				case 1:
					want[key] = []string{"done"}
				default:
					want[id] = []string{api.FactDeadLetterCreated}
					if name == "elsewhere" { // they are notifications
						want[id] = []string{api.FactNotificationFailed, api.FactDeadLetterCreated}
					}
				}
			}
			r.mustRun(q, n, func(c *queue.Claimed) queue.Result {
				tell := func(typ string) queue.Fact {
					return queue.Fact{Lane: r.events.LaneOf(name + c.ID), Type: typ, Key: name + c.ID, Data: []byte("{}")}
				}
				i := number[c.ID]
				if i%3 == 0 {
					c.Mark("1", "x", "", tell("part 1"))
					if i%2 == 0 {
						<-time.After(5 * time.Millisecond) // the mark may leave before the result
					}
					c.Mark("2", "x", "", tell("part 2"))
				}
				if i%3 == 2 && c.Attempt == 1 {
					return queue.Result{Outcome: queue.Retry, Reason: "broken"}
				} else if i%3 == 2 { // its last attempt: it is not what the result says
					return queue.Result{Outcome: queue.Retry, Reason: "broken", Facts: []queue.Fact{tell("done")}}
				}
				return queue.Result{Facts: []queue.Fact{tell("done")}}
			})
		}
		storetest.Must(t, r.s.Sweep(t.Context()))
		facts, _, gap := r.mustReadAll("", 1000)
		got := map[string][]string{}
		for _, f := range facts {
			got[f.Key] = append(got[f.Key], f.Type)
		}
		wrong := 0
		for key, types := range want {
			if !slices.Equal(got[key], types) {
				if wrong++; wrong < 4 {
					t.Errorf("%s has %v, want %v", key, got[key], types)
				}
			}
		}
		if len(got) != len(want) || gap != 0 || wrong > 0 {
			t.Errorf("%d keys have facts, want %d; %d are wrong, gap %d", len(got), len(want), wrong, gap)
		}
	})
}

// The last job of a group leaves a note, however it ends, and so does a job with a report that is too old.
func TestTheLastOfAGroupLeavesANote(t *testing.T) {
	t.Parallel()
	r := setupResults(t, storetest.Open(t, storetest.Redis(t).URL()))
	for i, label := range []string{"delivered", "failed", "expired", "cancelled", "ended"} {
		group := queue.NewID(1, time.Now())
		for range 3 {
			queuetest.MustEnqueue(t, r.other, queue.Job{ID: queue.NewID(2, time.Now()), Shard: 2, Fresh: true, Group: group})
		}
		var ran atomic.Int32
		r.mustRun(r.other, 3, func(*queue.Claimed) queue.Result {
			if ran.Add(1) == 3 && i == 1 {
				return queue.Result{Outcome: queue.Dead, Label: label}
			}
			return queue.Result{Label: label}
		})
		found, err := r.s.readOutboxes(t.Context(), r.s.o.Outboxes, nil)
		storetest.Must(t, err)
		notes := 0
		for _, page := range found {
			for _, e := range page {
				if e.typ == noteEnded && e.key == group {
					notes++
				}
			}
		}
		if notes < 1 || notes > 3 {
			t.Errorf("%s: %d notes", label, notes)
		}
	}
}

// H1: dead letters of callers' queues are told, too.
func TestH1_DeadLettersOfCallers(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		on := false
		callers := jobs.New(jobs.Options{DB: db, Tells: func() string {
			if on {
				return "l"
			}
			return ""
		}})
		t.Cleanup(callers.Close)
		w := setup(t, db, func(o *Options) { o.Outboxes = OutboxesOf(callers.Letters()) })
		name := "q" + w.q.Name()
		die := func() string {
			_, _, err := callers.Enqueue(t.Context(), name, []api.JobRequest{{Type: "mail", MaxAttempts: new(int64(1))}}, api.Idempotency{})
			storetest.Must(t, err)
			claimed, _, err := callers.Claim(t.Context(), nil, name, &api.JobClaim{Worker: "w"}, api.Idempotency{})
			storetest.Must(t, err)
			_, err = callers.Results(t.Context(), name, []api.JobResult{{ID: claimed.Jobs[0].ID, Token: claimed.Jobs[0].Token, Outcome: "fail", Error: "no"}})
			storetest.Must(t, err)
			return claimed.Jobs[0].ID
		}
		die() // nobody wants to hear of it
		on = true
		id := die()
		storetest.Must(t, w.s.Sweep(t.Context()))
		facts, _, _ := w.mustReadAll("", 10)
		facts = slices.DeleteFunc(facts, func(f api.Fact) bool { return f.Key != id })
		var d deadFact
		if len(facts) == 1 {
			storetest.Must(t, json.Unmarshal(facts[0].Data, &d))
		}
		want := deadFact{ID: d.ID, Kind: api.DeadJob, Type: "mail", Queue: name, Reason: "max_attempts", Attempts: 1}
		if len(facts) != 1 || d != want || facts[0].Type != api.FactDeadLetterCreated || time.Since(facts[0].At.Time) > time.Hour {
			t.Errorf("the facts are %v, want %+v", facts, want)
		}
	})
}

// An event that waits for too long leaves a note: it has expired.
func TestAnEventThatIsTooOldLeavesANote(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "embedded")
	w := setup(t, db)
	o := queuetest.Options(t)
	o.Tells, o.MaxAge = func() string { return "e" }, time.Millisecond
	q := queue.New(db, o)
	storetest.Must(t, q.Init(t.Context()))
	r := &results{world: w, other: q}
	w.s.o.Outboxes = OutboxesOf(q)
	id := queue.NewID(0, time.Now())
	queuetest.MustEnqueue(t, q, queue.Job{ID: id, Fresh: true, Report: "Qtype"})
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = q.Run(ctx, queue.Each(func(context.Context, *queue.Claimed) queue.Result {
			return queue.Result{Outcome: queue.Defer, Delay: 5 * time.Millisecond}
		}))
	})
	defer wg.Wait()
	defer stop()
	storetest.Eventually(t, soon, "it leaves a note", func() bool {
		found, err := r.s.readOutboxes(t.Context(), w.s.o.Outboxes, nil)
		storetest.Must(t, err)
		page := found[w.s.o.Outboxes[0]]
		return len(page) == 1 && page[0].typ == noteEnded && page[0].key == id
	})
}
