package events_test

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/events"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// mustList reads a whole list in pages of n, and how many events each page has.
func (w *world) mustList(q events.ListQuery) (all []api.ListedEvent, pages []int) {
	w.Helper()
	for {
		list, next, err := w.events.List(w.Context(), q)
		storetest.Must(w, err)
		all, pages = append(all, list.Items...), append(pages, len(list.Items))
		if q.After = next; next == "" {
			return all, pages
		}
	}
}

func mustNewestFirst(t *testing.T, all []api.ListedEvent) {
	t.Helper()
	if !slices.IsSortedFunc(all, func(a, b api.ListedEvent) int { return cmp.Compare(b.ID, a.ID) }) {
		t.Error("the list is not in order")
	}
}

// work ends the events that wait as the first user of their audience says, and leaves "queued" ones.
func (w *world) work(c *queue.Claimed) queue.Result {
	job, err := events.DecodeJob(c.Payload)
	storetest.Must(w, err)
	one, sent := events.Counts{Recipients: 3, OptedOut: 1}, events.Sent{Ends: events.Ends{Delivered: 1, Failed: 1, Made: 2}}
	switch job.Audience.Users[0] {
	case "queued":
		return queue.Result{Outcome: queue.Defer, Delay: time.Hour}
	case "targeting":
		return queue.Result{Outcome: queue.Defer, Delay: time.Hour, Report: job.ReportTargeting(one, events.Sent{})}
	case "parts": // two parts, of which one has ended
		job.Parts = 2
		_, err := w.queue.Enqueue(w.Context(), queue.Job{Shard: 3, Group: c.ID, Delay: time.Hour, Counts: map[string]int64{events.LabelPart: 1, "recipients": 3}})
		storetest.Must(w, err)
		return queue.Result{Report: job.ReportTargeted(events.Counts{}, events.Sent{})}
	case "sending", "sent":
		note := queue.Job{Shard: 5, Group: c.ID, Delay: time.Hour}
		if job.Audience.Users[0] == "sent" {
			note.Counts = map[string]int64{events.LabelDelivered: 1}
		}
		_, err := w.notes.Enqueue(w.Context(), note)
		storetest.Must(w, err)
		return queue.Result{Report: job.ReportTargeted(one, events.Sent{})}
	case "expired":
		return queue.Result{Report: job.ReportExpired()}
	}
	return queue.Result{Report: job.ReportDone(one, sent)}
}

// TestN9_EventsAreListed lists events of all states, of several shards, of single posts and of a batch:
// each once, newest first, with the numbers of its report, and with filters those that match.
func TestN9_EventsAreListed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	states := map[string]api.EventState{"queued": api.EventQueued, "targeting": api.EventTargeting, "parts": api.EventTargeting,
		"sending": api.EventSending, "sent": api.EventDone, "done": api.EventDone, "expired": api.EventExpired}
	names := []string{"queued", "targeting", "parts", "sending", "sent", "done", "expired"}
	began := time.Now()
	state, typ := map[string]api.EventState{}, map[string]string{}
	batch := api.EventBatchRequest{}
	for i := range 140 {
		e := event(names[i%len(names)])
		e.Type = []string{"t", "t.other"}[i%2]
		batch.Events = append(batch.Events, *e)
	}
	accepted, _, err := w.events.AcceptBatch(t.Context(), &batch, api.Idempotency{})
	storetest.Must(t, err)
	for i, a := range accepted.Items {
		state[a.ID], typ[a.ID] = states[names[i%len(names)]], batch.Events[i].Type
	}
	for i := range 70 {
		now := began.Add(time.Duration(i) * -10 * time.Millisecond)
		w.now.Store(&now)
		id, _ := w.mustAccept(event(names[i%len(names)]), api.Idempotency{})
		state[id], typ[id] = states[names[i%len(names)]], "t"
	}

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- w.queue.Run(ctx, queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result { return w.work(c) }))
	}()
	storetest.Eventually(t, time.Minute, "all events are in their states", func() bool {
		all, _ := w.mustList(events.ListQuery{Limit: 500})
		return len(all) == len(state) && !slices.ContainsFunc(all, func(e api.ListedEvent) bool { return e.State != state[e.ID] })
	})
	cancel()
	storetest.Must(t, <-done)

	for _, q := range []events.ListQuery{
		{Limit: 7}, {Limit: 500}, {Limit: 9, Type: "t"}, {Limit: 500, Type: "t.other"}, {Limit: 50, Type: "t.third"},
		{Limit: 4, State: api.EventQueued}, {Limit: 4, State: api.EventTargeting}, {Limit: 100, State: api.EventSending}, {Limit: 8, State: api.EventDone},
		{Limit: 1, State: api.EventExpired}, {Limit: 3, State: api.EventDone, Type: "t.other"},
	} {
		want := 0
		for id := range state {
			if (q.Type == "" || q.Type == typ[id]) && (q.State == "" || q.State == state[id]) {
				want++
			}
		}
		all, pages := w.mustList(q)
		if mustNewestFirst(t, all); len(all) != want || slices.ContainsFunc(pages[:len(pages)-1], func(n int) bool { return n != q.Limit }) {
			t.Errorf("%+v: %d events in pages of %v, want %d", q, len(all), pages, want)
		}
		for _, e := range all {
			r, err := w.events.Report(t.Context(), e.ID)
			storetest.Must(t, err)
			if e.Type != typ[e.ID] || e.State != state[e.ID] || r.State != e.State || *r.Recipients != *e.Recipients || r.Notifications != e.Notifications ||
				r.Delivered != e.Delivered || r.Failed != e.Failed || r.Expired != e.Expired {
				t.Fatalf("%+v: listed is %+v, the report is %+v", q, e, r)
			}
			if d := e.AcceptedAt.Sub(began); d < -time.Second || d > time.Minute {
				t.Fatalf("an event of %v was accepted at %v", began, e.AcceptedAt)
			}
		}
	}
}

// TestN9_APageLooksAtAThousandEvents looks for an event behind many others.
func TestN9_APageLooksAtAThousandEvents(t *testing.T) {
	t.Parallel()
	w := setup(t)
	past := time.Now().Add(-time.Minute)
	w.now.Store(&past)
	rare := event("bob")
	rare.Type = "rare"
	id, _ := w.mustAccept(rare, api.Idempotency{})
	w.now.Store(nil)
	batch := api.EventBatchRequest{Events: slices.Repeat([]api.EventRequest{*event("bob")}, 650)}
	for range 2 {
		_, _, err := w.events.AcceptBatch(t.Context(), &batch, api.Idempotency{})
		storetest.Must(t, err)
	}
	all, pages := w.mustList(events.ListQuery{Limit: 50, Type: "rare"})
	if len(all) != 1 || all[0].ID != id || !slices.Equal(pages, []int{0, 1}) {
		t.Errorf("pages of %v have %+v", pages, all)
	}
	if all, pages = w.mustList(events.ListQuery{Limit: 500}); len(all) != 1301 || !slices.Equal(pages, []int{500, 500, 301}) {
		t.Errorf("without a filter pages of %v have %d events", pages, len(all))
	}
}

// TestN9_EventsOfEarlierBuilds accepts an event as a build did that noted no parts of time: it is not
// listed, and neither is another event of its part, but all others are.
func TestN9_EventsOfEarlierBuilds(t *testing.T) {
	t.Parallel()
	w := setup(t)
	at := time.Now().Add(-time.Minute)
	w.now.Store(&at)
	w.mustAccept(event("bob"), api.Idempotency{})
	client := storetest.Open(t, w.server.URL()).Client()
	for _, key := range client.Keys(t.Context(), "*:reported").Val() {
		storetest.Must(t, client.Del(t.Context(), key).Err())
	}
	w.mustAccept(event("bob"), api.Idempotency{})
	w.now.Store(nil)
	id, _ := w.mustAccept(event("bob"), api.Idempotency{})
	if all, _ := w.mustList(events.ListQuery{Limit: 50}); len(all) != 1 || all[0].ID != id {
		t.Errorf("listed are %+v, want %s", all, id)
	}
}
