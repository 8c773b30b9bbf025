package targeting_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/targeting"
	"fanfare/store/events"
	"fanfare/store/events/render"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// mustHold lets a process claim the next event and do nothing with it; release ends the
// process, which hands the event back.
func (p *pipeline) mustHold() (release func()) {
	p.Helper()
	claimed, stop := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(p.Context())
	gone, claims := make(chan error, 1), sync.OnceFunc(func() { close(claimed) })
	q := p.process().queueOfEvents
	go func() {
		gone <- q.Run(ctx, func(_ context.Context, batch []*queue.Claimed) {
			claims()
			<-stop
			for _, c := range batch {
				c.Finish(queue.Result{Outcome: queue.Release})
			}
		})
	}()
	release = sync.OnceFunc(func() {
		close(stop)
		cancel()
		if err := <-gone; err != nil {
			p.Error(err)
		}
	})
	p.Cleanup(release)
	select {
	case <-claimed:
	case <-time.After(soon):
		p.Fatal("the event was not claimed")
	}
	return release
}

// fans names the first users of mustManyDevices.
func fans(n int) (users []string) {
	for i := range n {
		users = append(users, fmt.Sprintf("fan%06d", i))
	}
	return users
}

// TestP9_WhatWasBegunInTimeIsNotExpired: a process stored an event's notifications or parts and
// died before it recorded that. The process that finds the event after its expiry reports the
// notifications that were sent.
func TestP9_WhatWasBegunInTimeIsNotExpired(t *testing.T) {
	t.Parallel()
	const many = 150 // parts of 100 and of 50
	split := func(t *testing.T, p *pipeline, id string, audience events.Audience) {
		t.Helper()
		job := &events.Job{Type: "hello", Audience: audience, AcceptedAt: time.Now().UnixMilli(),
			Push: render.Push{Payload: []byte(`{"aps":{"alert":"x"}}`), PushType: "alert", Priority: 10}}
		if _, n, err := events.Split(t.Context(), p.first.queueOfEvents, id, job, fans(many), "", time.Hour); n != 2 || err != nil {
			t.Fatal(n, err)
		}
	}
	type begun struct {
		event *api.EventRequest
		begin func(t *testing.T, p *pipeline, id string) // the stored notifications do not expire, so that all are sent
		state api.EventState
		sent  int64
	}
	splitOf := func(f fanOut) begun {
		return begun{f.event(), func(t *testing.T, p *pipeline, id string) { t.Helper(); split(t, p, id, f.audience) }, api.EventDone, many}
	}
	for name, tt := range map[string]begun{
		"Nothing": {hello("bob"), func(*testing.T, *pipeline, string) {}, api.EventExpired, 0},
		"Stored": {hello("bob"), func(t *testing.T, p *pipeline, id string) {
			t.Helper()
			_, err := p.first.queueOfNotes.Enqueue(t.Context(), p.stored(id, "bob", p.device("bob", 1)))
			storetest.Must(t, err)
		}, api.EventDone, 1},
		"SplitUsers": {hello(fans(many)...), func(t *testing.T, p *pipeline, id string) {
			t.Helper()
			split(t, p, id, events.Audience{Pages: 1})
		}, api.EventDone, many},
		"SplitContacts": splitOf(fanOuts[0]), "SplitTopic": splitOf(fanOuts[1]), "SplitAll": splitOf(fanOuts[2]),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setup(t, options{idle: true})
			p.mustDevice("bob", 1)
			p.mustManyDevices(many)
			end := api.At(time.Now().Add(2 * time.Second))
			tt.event.ExpiresAt = &end
			id := p.mustPost(tt.event)
			release := p.mustHold()
			tt.begin(t, p, id)
			storetest.Eventually(t, soon, "the event's time to be over", func() bool { return time.Now().After(end.Time) })
			release()
			p.first.start()
			var r *api.EventReport
			storetest.Eventually(t, soon, "the event to end", func() bool {
				r = p.mustReport(id)
				return r.State == api.EventDone || r.State == api.EventExpired
			})
			p.mustCounts(r, counts{tt.sent, tt.sent, tt.sent, 0, 0})
			if n := int64(p.apns.Total()); r.State != tt.state || n != tt.sent {
				t.Errorf("%s with %d requests, want %s with %d", r.State, n, tt.state, tt.sent)
			}
		})
	}
}

// TestP8_BehindASlowDatabase: a process has claimed some events and waits for SQL, which reads the
// audience of one of them. Events that expire in the meantime are not sent, whether their audience
// was read before or is read later. An event that needs no SQL does not wait.
func TestP8_BehindASlowDatabase(t *testing.T) {
	t.Parallel()
	reading, release := make(chan bool), make(chan bool)
	p := setup(t, options{idle: true, target: func(o *targeting.Options) {
		o.Pagers = map[string]targeting.Pager{events.KindContactsOf: func(_ context.Context, id, _ string, _ int) ([]string, error) {
			if id == "nobody" {
				close(reading)
				<-release
				return nil, nil
			}
			return []string{"bob"}, nil
		}}
	}})
	p.mustDevice("bob", 1)
	p.mustCache("bob")
	end := api.At(time.Now().Add(6 * time.Second))
	at, named := *hello("bob"), *contactsOf("star")
	at.ExpiresAt, named.ExpiresAt = &end, &end
	batch := &api.EventBatchRequest{Events: []api.EventRequest{named, *contactsOf("nobody"), named, at}} // these are claimed together
	posted, _, err := p.first.events.AcceptBatch(t.Context(), batch, api.Idempotency{Scope: p.scope, Key: "batch"})
	storetest.Must(t, err)
	p.first.start()
	<-reading
	p.mustArrive(1, 1)
	// The process takes its time from the claim's answer, which may have been under way for
	// as long as a round trip may take.
	over := end.Add(p.db.Timeout())
	storetest.Eventually(t, soon, "the events' time to be over", func() bool { return time.Now().After(over) })
	close(release)
	for i, want := range []counts{{1, 1, 0, 0, 1}, {}, {}, {1, 1, 1, 0, 0}} {
		state := api.EventDone
		if i == 2 {
			state = api.EventExpired
		}
		p.mustCounts(p.mustEnd(posted.Items[i].ID, state), want)
	}
	if n := p.apns.Total(); n != 1 {
		t.Errorf("%d requests, want that of the event that needs no SQL", n)
	}
}

// TestP6_AFirstPageThatCouldNotBeReadIsSplit: an audience that could not be read at first is
// treated like a new one.
func TestP6_AFirstPageThatCouldNotBeReadIsSplit(t *testing.T) {
	t.Parallel()
	eachFanOut(t, func(t *testing.T, f fanOut) {
		var reads atomic.Int64
		p := setup(t, options{apns: apnstest.Options{TrackIDs: true}, target: readingBy(func(ctx context.Context, id, after string, limit int, read targeting.Pager) ([]string, error) {
			if reads.Add(1) == 1 {
				return nil, api.Errorf(api.CodeUnavailable, "SQL is away")
			}
			return read(ctx, id, after, limit)
		})})
		const many = 150
		p.mustManyDevices(many)
		id := p.mustPost(f.event())
		p.mustCounts(p.mustEnd(id, api.EventDone), counts{many, many, many, 0, 0})
		_, parts, found, err := events.SplitBefore(t.Context(), p.first.queueOfEvents, id, "")
		if err != nil || !found || parts != 2 || reads.Load() < 2 {
			t.Errorf("split %v into %d parts after %d readings, %v", found, parts, reads.Load(), err)
		}
	})
}
