package events_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/events"
	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// mustBeIn waits until an event is in a state, and returns its report.
func (w *world) mustBeIn(id string, state api.EventState) (r *api.EventReport) {
	w.Helper()
	storetest.Eventually(w, time.Minute, "the event is "+string(state), func() bool {
		var err error
		r, err = w.events.Report(w.Context(), id)
		return err == nil && r.State == state
	})
	return r
}

// works runs the events' work as work says, until the test's end.
func (w *world) works() {
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan error, 1)
	go func() {
		done <- w.queue.Run(ctx, queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result { return w.work(c) }))
	}()
	w.Cleanup(func() {
		cancel()
		storetest.Must(w, <-done)
	})
}

// N11: an event that is not over is cancelled, whatever its state is, and again with the same answer. One that is
// over stays as it is, and one that nobody knows is not found. Every process learns of it.
func TestN11_WhatCanBeCancelled(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		w := setupOn(t, db, storetest.SQLite(t))
		other := w.store(db, w.rec)
		w.works()
		for name, state := range map[string]api.EventState{"scheduled": api.EventScheduled, "queued": api.EventQueued, "targeting": api.EventTargeting,
			"parts": api.EventTargeting, "sending": api.EventSending} {
			r := event(name)
			if name == "scheduled" {
				r.SendAt = in(time.Hour)
			}
			id, _ := w.mustAccept(r, api.Idempotency{})
			if name == "queued" {
				storetest.Eventually(t, time.Minute, "it waits", func() bool {
					s, err := w.queue.Stats(t.Context())
					return err == nil && s.Depth+s.InFlight == 0
				})
			}
			want := *w.mustBeIn(id, state)
			want.State = api.EventCancelled
			for i := range 3 {
				by := []*events.Store{w.events, w.events, other}[i]
				got, made, err := by.Cancel(t.Context(), id)
				if err != nil || made != (i == 0) || asJSON(got) != asJSON(&want) {
					t.Errorf("%s: %+v, %t, %v; want %+v", name, got, made, err, want)
				}
			}
			shard, _ := queue.ParseID(id)
			if !w.isCancelled(w.events.PlaceOfEvents(shard), id) {
				t.Errorf("%s: another process does not know it", name)
			}
			if all, _ := w.mustList(events.ListQuery{Limit: 100, State: api.EventCancelled}); !slices.ContainsFunc(all, func(e api.ListedEvent) bool { return e.ID == id }) {
				t.Errorf("%s: not in the list %+v", name, all)
			}
		}
		for name, state := range map[string]api.EventState{"done": api.EventDone, "sent": api.EventDone, "expired": api.EventExpired} {
			id, _ := w.mustAccept(event(name), api.Idempotency{})
			before := w.mustBeIn(id, state)
			_, _, err := w.events.Cancel(t.Context(), id)
			mustCode(t, err, api.CodeTooLate)
			if after, err := w.events.Report(t.Context(), id); err != nil || asJSON(before) != asJSON(after) {
				t.Errorf("%s: %+v, %v; before %+v", name, after, err, before)
			}
			for _, at := range w.places() {
				if w.isCancelled(at, id) {
					t.Errorf("%s: it is cancelled", name)
				}
			}
		}
		for _, id := range []string{"x", queue.NewID(3, time.Now())} {
			_, _, err := w.events.Cancel(t.Context(), id)
			mustCode(t, err, api.CodeNotFound)
		}
	})
}

func asJSON(r *api.EventReport) string {
	b, _ := json.Marshal(r)
	return string(b)
}

// places are all shards that work on events comes from.
func (w *world) places() (all []events.Place) {
	for shard := range w.queue.Shards() {
		all = append(all, w.events.PlaceOfEvents(shard))
	}
	for shard := range w.notes.Shards() {
		all = append(all, w.events.PlaceOfNotifications(shard))
	}
	return all
}

// isCancelled reports whether a process that has work of one shard alone knows that an event was cancelled.
func (w *world) isCancelled(at events.Place, id string) bool {
	w.Helper()
	s := w.store(w.db, w.rec)
	s.RefreshCancelled(w.Context(), at)
	is, fresh := s.Cancelled(at, id)
	if !fresh {
		w.Errorf("place %d was not read", at)
	}
	return is
}

// N11: a process knows an event as cancelled, whichever shard it has work of, and reads nothing beside other shards.
func TestN11_EachShardKnows(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		w := setupOn(t, db, storetest.SQLite(t))
		id, _ := w.mustAccept(event("a"), api.Idempotency{})
		other, _ := w.mustAccept(event("b"), api.Idempotency{})
		_, _, err := w.events.Cancel(t.Context(), id)
		storetest.Must(t, err)
		all := w.places()
		if len(all) != w.queue.Shards()+w.notes.Shards() {
			t.Errorf("%d places", len(all))
		}
		for i, at := range all {
			if !w.isCancelled(at, id) || w.isCancelled(at, other) {
				t.Errorf("place %d", at)
			}
			s := w.store(w.db, w.rec)
			s.RefreshCancelled(t.Context(), at)
			if _, fresh := s.Cancelled(all[(i+1)%len(all)], id); fresh {
				t.Errorf("place %d: another one is known as well", at)
			}
		}
	})
}

// N11: the process that works on an event writes its report, and the event stays cancelled, with what it did.
func TestN11_ItStaysCancelled(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id, _ := w.mustAccept(event("done"), api.Idempotency{})
	_, _, err := w.events.Cancel(t.Context(), id)
	storetest.Must(t, err)
	w.works()
	storetest.Eventually(t, time.Minute, "it is over", func() bool {
		r, err := w.events.Report(t.Context(), id)
		return err == nil && r.Notifications > 0
	})
	if r := w.mustBeIn(id, api.EventCancelled); r.Delivered != 1 || r.Failed != 1 || r.Notifications != 2 {
		t.Errorf("%+v", r)
	}
	if _, made, err := w.events.Cancel(t.Context(), id); made || err != nil {
		t.Errorf("again: %t, %v", made, err)
	}
}

// N11: while events end, they are cancelled by several processes. Each is either cancelled for all callers, or
// too late for all.
func TestN11_AgainstItsEnd(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const n = 200
	ids := make([]string, n)
	for i := range ids {
		ids[i], _ = w.mustAccept(event("done"), api.Idempotency{})
	}
	w.works()
	var all sync.WaitGroup
	states := make([][2]api.EventState, n)
	for by := range 2 {
		s := w.store(storetest.Open(t, w.server.URL()), w.rec)
		all.Go(func() {
			for i, id := range ids {
				r, _, err := s.Cancel(t.Context(), id)
				switch api.CodeOf(err) {
				case "":
					states[i][by] = r.State
				case api.CodeTooLate:
					states[i][by] = api.EventDone
				default:
					t.Errorf("event %d: %v", i, err)
				}
			}
		})
	}
	all.Wait()
	cancelled, reader := 0, w.store(w.db, w.rec)
	for _, at := range w.places() {
		reader.RefreshCancelled(t.Context(), at)
	}
	for i, id := range ids {
		r, err := w.events.Report(t.Context(), id)
		storetest.Must(t, err)
		if states[i][0] != r.State || states[i][1] != r.State {
			t.Errorf("event %d is %s, the callers were told %v", i, r.State, states[i])
		}
		if r.State == api.EventCancelled {
			cancelled++
		} else if is, _ := reader.Cancelled(w.places()[0], id); is {
			t.Errorf("event %d is %s, and processes do not send it", i, r.State)
		}
	}
	t.Logf("%d of %d were cancelled", cancelled, n)
}

// N11: a call fails at one of its steps, or dies there. Its answer is no success, also while other shards know of the
// cancel, and the next call takes the missing steps, even if the event ended meanwhile.
func TestN11_HalfACancel(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		w := setupOn(t, db, storetest.SQLite(t))
		for _, step := range []string{"the event's shard", "a shard of notifications", "the last mark"} {
			id, _ := w.mustAccept(event("done"), api.Idempotency{})
			shard, _ := queue.ParseID(id)
			fails := map[string]string{
				"the event's shard": w.queue.KeyBeside(shard, "cancelled"), "a shard of notifications": w.notes.KeyBeside(3, "cancelled"), "the last mark": "2",
			}[step]
			steps := func(c redis.Cmder) string {
				name := storetest.NameOf(c)
				if all := c.Args(); name == "set_add" && all[3] == fails || name == "report_cancel" && fmt.Sprint(all[len(all)-1]) == fails {
					return name
				}
				return ""
			}
			faulty := storetest.FaultyBy(t, db, steps, func(_ string, answered bool) error {
				if !answered {
					return storetest.ErrCut
				}
				return nil
			})
			half := events.New(events.Options{DB: faulty, Queue: queue.New(faulty, queue.Options{Name: "events"}), Notifications: w.notes, Record: w.rec})
			for range 2 {
				if _, made, err := half.Cancel(t.Context(), id); api.CodeOf(err) != api.CodeUnknownOutcome || made {
					t.Errorf("%s: half a cancel: %t, %v", step, made, err)
				}
			}
			known := 0
			for _, at := range w.places() {
				if w.isCancelled(at, id) {
					known++
				}
			}
			if want := len(w.places()); step != "the last mark" && known != want-1 || step == "the last mark" && known != want {
				t.Errorf("%s: %d places know", step, known)
			}
			if step == "the last mark" {
				w.works()
				storetest.Eventually(t, time.Minute, "it is over", func() bool {
					r, err := w.events.Report(t.Context(), id)
					return err == nil && r.Notifications > 0
				})
			}
			for i := range 2 {
				r, made, err := w.events.Cancel(t.Context(), id)
				if err != nil || made != (i == 0) || r.State != api.EventCancelled {
					t.Errorf("%s: %+v, %t, %v", step, r, made, err)
				}
			}
			for _, at := range w.places() {
				if !w.isCancelled(at, id) {
					t.Errorf("%s: place %d does not know", step, at)
				}
			}
		}
	})
}

// N11: all steps of a cancel are taken, and who opened the event cannot be read. The answer does not say that nothing happened.
func TestN11_CancelledAndNotTold(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		w := setupOn(t, db, storetest.SQLite(t))
		w.mustType("opens", api.EventTypeRequest{Opened: true, Title: "T"})
		r := event("bob")
		r.Type = "opens"
		id, _ := w.mustAccept(r, api.Idempotency{})
		openings := func(c redis.Cmder) string {
			if storetest.NameOf(c) == "hmget" && strings.Contains(fmt.Sprint(c.Args()[1]), "opened:") {
				return "openings"
			}
			return ""
		}
		faulty := storetest.FaultyBy(t, db, openings, func(_ string, answered bool) error {
			if !answered {
				return storetest.ErrCut
			}
			return nil
		})
		half := events.New(events.Options{DB: faulty, Queue: queue.New(faulty, queue.Options{Name: "events"}), Notifications: w.notes, Record: w.rec})
		if _, made, err := half.Cancel(t.Context(), id); api.CodeOf(err) != api.CodeUnknownOutcome || !made {
			t.Errorf("a cancel whose report cannot be read: %t, %v", made, err)
		}
		if got, err := w.events.Report(t.Context(), id); err != nil || got.State != api.EventCancelled {
			t.Errorf("it is %+v, %v", got, err)
		}
	})
}

// N11: a master lost its last second, and with it the cancel that the event's mark says it has. A repeated call writes
// it again.
func TestN11_LostByAFailOver(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		w := setupOn(t, db, storetest.SQLite(t))
		id, _ := w.mustAccept(event("lost"), api.Idempotency{})
		_, _, err := w.events.Cancel(t.Context(), id)
		storetest.Must(t, err)
		storetest.Must(t, db.Client().Del(t.Context(), w.notes.KeyBeside(3, "cancelled")).Err())
		if w.isCancelled(w.events.PlaceOfNotifications(3), id) {
			t.Fatal("nothing was lost")
		}
		_, made, err := w.store(db, w.rec).Cancel(t.Context(), id)
		if storetest.Must(t, err); made {
			t.Error("a repeated call made the cancel")
		}
		if !w.isCancelled(w.events.PlaceOfNotifications(3), id) {
			t.Error("it was not written again")
		}
	})
}

// N11: at most 100,000 events can be cancelled at a time; one more stays as it is.
func TestN11_TooMany(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id, _ := w.mustAccept(event("a"), api.Idempotency{})
	shard, _ := queue.ParseID(id)
	c := w.server.Client()
	_, err := c.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := range 100_000 {
			p.XAdd(t.Context(), &redis.XAddArgs{Stream: w.queue.KeyBeside(shard, "cancelled"), Values: []string{"e", fmt.Sprint("e", i)}})
		}
		return nil
	})
	storetest.Must(t, err)
	_, _, err = w.events.Cancel(t.Context(), id)
	mustCode(t, err, api.CodeOverloaded)
	w.mustBeIn(id, api.EventQueued)
}

// N11: only an event that this process accepted within the last second need not be looked up. The clock of the
// master does not matter: one that took over may have ids of entries ahead of its time.
func TestN11_YoungEvents(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ahead := &redis.XAddArgs{ID: fmt.Sprint(time.Now().Add(time.Hour).UnixMilli(), "-1"), Values: []string{"e", "W\x00"}}
	for shard := range w.queue.Shards() {
		ahead.Stream = w.queue.KeyBeside(shard, "main")
		storetest.Must(t, w.server.Client().XAdd(t.Context(), ahead).Err())
	}
	w.mustAccept(event("a"), api.Idempotency{})
	claims, jobs := make(chan *queue.Claimed, 2), make(chan *events.Job, 2)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- w.queue.Run(ctx, queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result {
			claims <- &queue.Claimed{Job: c.Job, Now: c.Now, EnqueuedAt: c.EnqueuedAt}
			j, err := events.JobOf(c)
			storetest.Must(t, err)
			jobs <- j
			return queue.Result{}
		}))
	}()
	if c, j := <-claims, <-jobs; !c.EnqueuedAt.After(c.Now) || j.Young() {
		t.Errorf("enqueued at %v, claimed at %v: it need not be looked up: %t", c.EnqueuedAt, c.Now, j.Young())
	}
	began := time.Now()
	w.mustAccept(event("b"), api.Idempotency{})
	c, j := <-claims, <-jobs
	if _, here := c.Value.(*events.Job); here && !j.Young() && time.Since(began) < time.Second {
		t.Error("a new event has to be looked up")
	}
	storetest.Eventually(t, time.Minute, "a second", func() bool { return time.Since(began) > 1100*time.Millisecond })
	if j.Young() {
		t.Error("after a second it need not be looked up")
	}
	cancel()
	storetest.Must(t, <-ended)
}
