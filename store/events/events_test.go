package events_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/events"
	"fanfare/store/queue"
	"fanfare/store/record"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

type world struct {
	*testing.T
	server        *storetest.RedisServer
	db            *redisdb.DB
	rec           *record.DB
	queue, notes  *queue.Queue
	events        *events.Store
	now           atomic.Pointer[time.Time] // nil: the real clock
	url           string
	countAccepted atomic.Int64
}

func setup(t *testing.T) *world {
	t.Helper()
	server := storetest.Redis(t)
	w := setupOn(t, storetest.Open(t, server.URL()), storetest.SQLite(t))
	w.server = server
	return w
}

func setupOn(t *testing.T, db *redisdb.DB, sql string) *world {
	t.Helper()
	w := &world{T: t, url: sql, db: db}
	w.rec = w.mustRecord()
	if err := w.rec.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.queue, w.notes = queue.New(db, queue.Options{Name: "events"}), queue.New(db, queue.Options{Name: "notifications"})
	for _, q := range []*queue.Queue{w.queue, w.notes} {
		if err := q.Init(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.events = w.store(db, w.rec)
	return w
}

func (w *world) mustRecord() *record.DB {
	w.Helper()
	rec, err := record.Open(w.Context(), record.Options{URL: w.url})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = rec.Close() })
	return rec
}

func (w *world) store(db *redisdb.DB, rec *record.DB) *events.Store {
	return events.New(events.Options{
		DB: db, Queue: w.queue, Notifications: w.notes, Record: rec,
		OnAccepted: func(n int) { w.countAccepted.Add(int64(n)) },
		Now: func() time.Time {
			if now := w.now.Load(); now != nil {
				return *now
			}
			return time.Now()
		},
	})
}

func (w *world) mustType(name string, r api.EventTypeRequest) {
	w.Helper()
	if _, _, err := w.events.PutEventType(w.Context(), name, &r, api.Match{}); err != nil {
		w.Fatal(err)
	}
}

func event(users ...string) *api.EventRequest {
	return &api.EventRequest{Type: "t", Audience: api.Audience{Users: users}, Alert: &api.Alert{Title: "T"}}
}

func (w *world) mustAccept(r *api.EventRequest, once api.Idempotency) (id string, replayed bool) {
	w.Helper()
	a, replayed, err := w.events.Accept(w.Context(), r, once)
	if err != nil {
		w.Fatal(err)
	}
	return a.ID, replayed
}

// mustClaim takes n accepted events off the queue, with their attachments.
func (w *world) mustClaim(n int) map[string]*accepted {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	got := make(chan *accepted, 10_000)
	done := make(chan error, 1)
	go func() {
		done <- w.queue.Run(ctx, queue.Each(func(ctx context.Context, c *queue.Claimed) queue.Result {
			got <- w.read(ctx, c)
			return queue.Result{Outcome: queue.Done}
		}))
	}()
	all := map[string]*accepted{}
	for len(all) < n {
		select {
		case a := <-got:
			all[a.id] = a
		case <-time.After(20 * time.Second):
			w.Fatalf("%d of %d events came", len(all), n)
		}
	}
	cancel()
	if err := <-done; err != nil {
		w.Fatal(err)
	}
	return all
}

type accepted struct {
	id    string
	shard int
	job   *events.Job
	pages [][]string
}

func (w *world) read(ctx context.Context, c *queue.Claimed) *accepted {
	job, err := events.DecodeJob(c.Payload)
	if err != nil {
		w.Error(err)
		job = &events.Job{}
	}
	a := &accepted{id: c.ID, shard: c.Shard, job: job}
	for n := range job.Audience.Pages {
		item, err := w.queue.Attachment(ctx, c, n)
		if err != nil {
			w.Error(err)
		}
		a.pages = append(a.pages, events.SplitPage(item))
	}
	return a
}

func mustCode(t *testing.T, err error, code api.Code) *api.Error {
	t.Helper()
	var e *api.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("error %v, want %s", err, code)
	}
	return e
}

func TestP1_AcceptIsOneRoundTripWithoutSQL(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.mustType("t", api.EventTypeRequest{Title: "Hi {{.actor}}"})
	w.mustAccept(&api.EventRequest{Type: "t", Actor: "al", Audience: api.Audience{Users: []string{"a"}}}, api.Idempotency{}) // loads the scripts
	w.mustAccept(event("a"), api.Idempotency{Scope: "s", Key: "first"})
	if err := w.rec.Close(); err != nil { // from here on SQL is away
		t.Fatal(err)
	}
	users := make([]string, 5000)
	for i := range users {
		users[i] = fmt.Sprintf("user-%d", i)
	}
	for name, r := range map[string]*api.EventRequest{
		"one user":   {Type: "t", Actor: "al", Audience: api.Audience{Users: []string{"a"}}},
		"many users": {Type: "t", Actor: "al", Audience: api.Audience{Users: users}},
		"contacts":   {Type: "t", Actor: "al", Audience: api.Audience{ContactsOf: "a"}},
		"topic":      {Type: "t", Actor: "al", Audience: api.Audience{Topic: "a"}},
		"all":        {Type: "t", Actor: "al", Audience: api.Audience{All: true}},
		"own alert":  event("a"),
	} {
		for _, key := range []string{"", "key-" + name} {
			n := 0
			for try := 0; n != 1 && try < 10; try++ { // the queue's look after an earlier one may come between
				once := api.Idempotency{Scope: "s", Key: key}
				if key != "" {
					once.Key += fmt.Sprint(try)
				}
				before := storetest.Calls(t, w.server.Client(), "evalsha")
				w.mustAccept(r, once)
				n = storetest.Calls(t, w.server.Client(), "evalsha") - before
			}
			if n != 1 {
				t.Errorf("%s, key %q: %d script calls, want 1", name, key, n)
			}
		}
	}
}

func TestP1_EventTypesAreFreshWithinASecond(t *testing.T) {
	t.Parallel()
	storetest.EachSQL(t, func(t *testing.T, sql string) {
		db := storetest.Open(t, "")
		w := setupOn(t, db, sql)
		w.mustType("t", api.EventTypeRequest{Title: "one"}) // the other process has it from the start
		other := w.store(db, w.rec)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- other.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		plain := &api.EventRequest{Type: "t", Actor: "al", Audience: api.Audience{Users: []string{"a"}}}
		unknown := *plain
		unknown.Type = "u"
		_, _, err := other.Accept(t.Context(), &unknown, api.Idempotency{})
		mustCode(t, err, api.CodeUnknownEventType)
		w.mustType("u", api.EventTypeRequest{Title: "one"})
		// An unknown type is looked up once before it is refused: no waiting.
		if _, _, err := other.Accept(t.Context(), &unknown, api.Idempotency{}); err != nil {
			t.Errorf("a type made a moment ago: %v", err)
		}
		best := time.Hour
		for round := 0; round < 4 && best > 1500*time.Millisecond; round++ { // one that the machine did not disturb
			refused := round%2 == 0
			w.mustType("t", api.EventTypeRequest{Title: map[bool]string{true: "{{.data.gone}}", false: "one"}[refused]})
			changed := time.Now()
			storetest.Eventually(t, 30*time.Second, "the other process to see the change", func() bool {
				_, _, err := other.Accept(t.Context(), plain, api.Idempotency{})
				return (api.CodeOf(err) == api.CodeValidation) == refused
			})
			best = min(best, time.Since(changed))
		}
		if best > 1500*time.Millisecond {
			t.Errorf("the change was seen after %v", best)
		}
	})
}

func TestP1_UsersAreStoredBesideOncePerUser(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		w := setupOn(t, db, storetest.SQLite(t))
		var users []string
		for n := range 2500 {
			users = append(users, fmt.Sprintf("u%04d", 2499-n), fmt.Sprintf("u%04d", n))
		}
		big, _ := w.mustAccept(event(users...), api.Idempotency{})
		small, _ := w.mustAccept(event("b", "a", "b"), api.Idempotency{})
		got := w.mustClaim(2)
		if a := got[small].job.Audience; !slices.Equal(a.Users, []string{"a", "b"}) || a.Pages != 0 {
			t.Errorf("small audience %+v", a)
		}
		a := got[big]
		if len(a.job.Audience.Users) != 0 || len(a.pages) != 3 || len(a.pages[0]) != 1000 || len(a.pages[2]) != 500 {
			t.Fatalf("large audience in %d pages", len(a.pages))
		}
		all := slices.Concat(a.pages...)
		if !slices.IsSorted(all) || len(slices.Compact(all)) != 2500 {
			t.Error("the pages are not every user once, in order")
		}
	})
}

func TestP2_Idempotency(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		w := setupOn(t, db, storetest.SQLite(t))
		once := api.Idempotency{Scope: "key1 POST /v1/events", Key: "k {x}", Body: [32]byte{1}}
		first, replayed := w.mustAccept(event("a"), once)
		if replayed {
			t.Error("the first is no replay")
		}
		again, replayed := w.mustAccept(event("a"), once)
		if again != first || !replayed {
			t.Errorf("replay %q, %v; want %q", again, replayed, first)
		}
		other := once
		other.Body = [32]byte{2}
		_, _, err := w.events.Accept(t.Context(), event("b"), other)
		mustCode(t, err, api.CodeIdempotencyReused)
		other = once
		other.Scope = "key2 POST /v1/events"
		if id, replayed := w.mustAccept(event("a"), other); id == first || replayed {
			t.Error("another scope is another key")
		}
		shard, ok := queue.ParseID(first)
		got := w.mustClaim(2)
		if !ok || got[first] == nil || got[first].shard != shard {
			t.Errorf("event %s is not in its shard %d", first, shard)
		}
		if w.countAccepted.Load() != 2 {
			t.Errorf("%d events counted, want 2", w.countAccepted.Load())
		}
	})
}

func TestP2_BatchIsOneShardOneStep(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		w := setupOn(t, db, storetest.SQLite(t))
		batch := &api.EventBatchRequest{}
		for n := range 1000 {
			batch.Events = append(batch.Events, *event(fmt.Sprintf("u%d", n)))
		}
		once := api.Idempotency{Scope: "s", Key: "batch"}
		a, replayed, err := w.events.AcceptBatch(t.Context(), batch, once)
		if err != nil || replayed {
			t.Fatalf("replayed %v, error %v", replayed, err)
		}
		again, replayed, err := w.events.AcceptBatch(t.Context(), batch, once)
		if err != nil || !replayed || !reflect.DeepEqual(a, again) {
			t.Errorf("replay differs: %v, %v", replayed, err)
		}
		got := w.mustClaim(1000)
		shard, _ := queue.ParseID(a.Items[0].ID)
		for n, item := range a.Items {
			e := got[item.ID]
			if e == nil || e.shard != shard || e.job.Audience.Users[0] != fmt.Sprintf("u%d", n) {
				t.Fatalf("item %d: %+v", n, e)
			}
		}
	})
}

func TestP2_BadEventRefusesBatchByIndex(t *testing.T) {
	t.Parallel()
	w := setup(t)
	batch := &api.EventBatchRequest{Events: []api.EventRequest{*event("a"), *event("b")}}
	batch.Events[1].Alert = &api.Alert{Body: strings.Repeat("x", 4096)}
	_, _, err := w.events.AcceptBatch(t.Context(), batch, api.Idempotency{})
	e := mustCode(t, err, api.CodeValidation)
	if len(e.Fields) != 1 || e.Fields[0].Field != "events[1].payload" || !strings.HasPrefix(e.Detail, "events[1]: ") {
		t.Errorf("error %+v", e)
	}
	batch.Events[1] = api.EventRequest{Type: "nope", Audience: api.Audience{Users: []string{"a"}}}
	_, _, err = w.events.AcceptBatch(t.Context(), batch, api.Idempotency{})
	if e := mustCode(t, err, api.CodeUnknownEventType); !strings.Contains(e.Detail, "events[1]") || len(e.Fields) != 1 || e.Fields[0].Field != "events[1].type" {
		t.Errorf("%q and %+v do not name the event", e.Detail, e.Fields)
	}
	if w.countAccepted.Load() != 0 {
		t.Error("part of a refused batch was accepted")
	}
}

func TestAcceptRefuses(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.mustType("t", api.EventTypeRequest{Title: "T {{.data.n}}"})
	past := api.At(time.Now().Add(-time.Second))
	users := api.Audience{Users: []string{"a"}}
	for name, tt := range map[string]struct {
		r    api.EventRequest
		code api.Code
	}{
		"in the past":  {api.EventRequest{Type: "t", Audience: users, ExpiresAt: &past, Alert: &api.Alert{Title: "x"}}, api.CodeAlreadyExpired},
		"unknown type": {api.EventRequest{Type: "nope", Audience: users}, api.CodeUnknownEventType},
		"name missing": {api.EventRequest{Type: "t", Audience: users}, api.CodeValidation},
		"huge payload": {api.EventRequest{Type: "t", Audience: users, Alert: &api.Alert{Body: strings.Repeat("x", 4096)}}, api.CodeValidation},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := w.events.Accept(t.Context(), &tt.r, api.Idempotency{})
			mustCode(t, err, tt.code)
		})
	}
}

func TestP2_ReplayOutlivesTheReasonToRefuse(t *testing.T) {
	t.Parallel()
	w := setup(t)
	end := api.At(time.Now().Add(2 * time.Second))
	r := event("a")
	r.ExpiresAt = &end
	once := api.Idempotency{Scope: "s", Key: "k"}
	first, _ := w.mustAccept(r, once)
	keys := 0
	storetest.Eventually(t, time.Minute, "its time is over", func() bool {
		keys++
		_, _, err := w.events.Accept(t.Context(), r, api.Idempotency{Scope: "s", Key: fmt.Sprint("other", keys)})
		return api.CodeOf(err) == api.CodeAlreadyExpired
	})
	if again, replayed := w.mustAccept(r, once); again != first || !replayed {
		t.Errorf("replay %q, %v; want %q", again, replayed, first)
	}
}

func TestAcceptWithoutRedis(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.mustAccept(event("a"), api.Idempotency{})
	w.server.Kill()
	_, _, err := w.events.Accept(t.Context(), event("a"), api.Idempotency{})
	if code := api.CodeOf(err); code != api.CodeUnavailable && code != api.CodeUnknownOutcome {
		t.Errorf("error %v", err)
	}
	w.server.Restart()
	storetest.Eventually(t, 20*time.Second, "accepting again", func() bool {
		_, _, err := w.events.Accept(t.Context(), event("a"), api.Idempotency{})
		return err == nil
	})
}

func TestReport(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for name, id := range map[string]string{"no id": "nope", "unknown": queue.NewID(0, time.Now()), "shard beyond": queue.NewID(200, time.Now())} {
		t.Run("not found: "+name, func(t *testing.T) {
			t.Parallel()
			_, err := w.events.Report(t.Context(), id)
			mustCode(t, err, api.CodeNotFound)
		})
	}
	t.Run("queued", func(t *testing.T) {
		t.Parallel()
		id, _ := w.mustAccept(event("a"), api.Idempotency{})
		got, err := w.events.Report(t.Context(), id)
		want := &api.EventReport{ID: id, Type: "t", State: api.EventQueued, Recipients: new(int64)}
		if err != nil || got.AcceptedAt == nil {
			t.Fatalf("%+v, %v", got, err)
		}
		if got.AcceptedAt = nil; !reflect.DeepEqual(got, want) {
			t.Errorf("report %+v, %v; want %+v", got, err, want)
		}
	})
}

func TestAcceptRefusesWhenRedisIsNearlyFull(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.mustAccept(event("a"), api.Idempotency{})
	limit := func(to string) {
		if err := w.server.Client().ConfigSet(t.Context(), "maxmemory", to).Err(); err != nil {
			t.Fatal(err)
		}
	}
	limit("1mb")
	storetest.Eventually(t, 20*time.Second, "events to be refused", func() bool {
		_, _, err := w.events.Accept(t.Context(), event("a"), api.Idempotency{})
		return api.CodeOf(err) == api.CodeOverloaded
	})
	limit("1gb")
	storetest.Eventually(t, 20*time.Second, "events to be taken again", func() bool {
		_, _, err := w.events.Accept(t.Context(), event("a"), api.Idempotency{})
		return err == nil
	})
}

func TestP7_WhatIsSentIsTheRevisionAtAcceptance(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.mustType("t", api.EventTypeRequest{Title: "first"})
	id, _ := w.mustAccept(&api.EventRequest{Type: "t", Audience: api.Audience{Users: []string{"a"}}}, api.Idempotency{})
	w.mustType("t", api.EventTypeRequest{Title: "second"})
	later, _ := w.mustAccept(&api.EventRequest{Type: "t", Audience: api.Audience{Users: []string{"a"}}}, api.Idempotency{})
	if err := w.events.DeleteEventType(t.Context(), "t", api.Match{}); err != nil {
		t.Fatal(err)
	}
	got := w.mustClaim(2)
	for want, id := range map[string]string{"first": id, "second": later} {
		if payload := string(got[id].job.Push.Payload); !strings.Contains(payload, want) {
			t.Errorf("payload %s, want %s", payload, want)
		}
	}
	_, _, err := w.events.Accept(t.Context(), &api.EventRequest{Type: "t", Audience: api.Audience{Users: []string{"a"}}}, api.Idempotency{})
	mustCode(t, err, api.CodeUnknownEventType)
}

// Whether an event's time is over is a question to Redis' clock, which ends it later
// too: a server whose clock is wrong neither refuses what may be sent nor takes what
// may not.
func TestP8_ExpiryIsJudgedByRedisClock(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		w := setupOn(t, db, storetest.SQLite(t))
		for name, wrong := range map[string]time.Duration{"slow": -2 * time.Minute, "fast": 2 * time.Minute} {
			s := events.New(events.Options{DB: db, Queue: w.queue, Notifications: w.notes, Record: w.rec,
				Now: func() time.Time { return time.Now().Add(wrong) }})
			for in, want := range map[time.Duration]api.Code{-time.Minute: api.CodeAlreadyExpired, time.Minute: ""} {
				at, e := api.At(time.Now().Add(in)), event("a")
				e.ExpiresAt = &at
				if _, _, err := s.Accept(t.Context(), e, api.Idempotency{}); (err != nil || want != "") && api.CodeOf(err) != want {
					t.Errorf("a %s server says of an event that ends in %v: %v", name, in, err)
				}
			}
		}
	})
}
