package targeting_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/targeting"
	"fanfare/store/devices"
	"fanfare/store/events"
	"fanfare/store/queue"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

// hangingSQL is a set-up whose SQL can be made to hang for longer than any test waits. Its queues
// have one shard, so that events that are posted before the start are one batch. The users user0,
// user1 and so on each have the device of that number. The users below cached are in the cache.
func hangingSQL(t *testing.T, users, cached int) (*pipeline, *storetest.Proxy) {
	t.Helper()
	proxy, url := storetest.ProxyTo(t, storetest.MySQL(t))
	p := setup(t, options{idle: true, sql: url, sqlTime: 10 * time.Minute, queue: func(o *queue.Options) { o.Shards = 1 }})
	for n := range users {
		p.mustDevice(fmt.Sprint("user", n), n)
		storetest.Must(t, p.db.Client().Del(t.Context(), fmt.Sprintf("ff:{u:user%d}:settings", n)).Err())
		if n < cached {
			p.mustCache(fmt.Sprint("user", n))
		}
	}
	return p, proxy
}

// mustCache fills the cache with a user's settings.
func (p *pipeline) mustCache(user string) {
	p.Helper()
	query := []devices.Query{{User: user}}
	storetest.Eventually(p, soon, "the user to be cached", func() bool {
		_, err := p.first.devices.Targets(p.Context(), query)
		storetest.Must(p, err)
		_, err = p.first.devices.CachedTargets(p.Context(), query)
		return err == nil
	})
}

// mustArrive waits until a number of requests have arrived for the n-th device.
func (p *pipeline) mustArrive(n, requests int) {
	p.Helper()
	storetest.Eventually(p, soon, fmt.Sprintf("%d requests for device %d", requests, n), func() bool {
		return len(p.apns.Of(token(n))) >= requests
	})
}

// TestP6_SQLHangs: an event that needs no SQL does not wait for others that do.
func TestP6_SQLHangs(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func(p *pipeline){
		"audiences": func(p *pipeline) {
			for n := range 20 {
				p.mustPost(fanOuts[n%len(fanOuts)].event())
			}
		},
		"settings": func(p *pipeline) {
			for n := range 20 {
				p.mustPost(hello(fmt.Sprint("user", 1+n)))
			}
		},
		"both": func(p *pipeline) {
			for n := range 20 {
				p.mustPost(contactsOf("star"))
				p.mustPost(hello(fmt.Sprint("user", 1+n)))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, proxy := hangingSQL(t, 21, 1)
			first(p)
			var want []string
			for _, id := range p.mustPostBatch(slices.Repeat([]api.EventRequest{*hello("user0")}, 16)...) {
				want = append(want, events.NotificationID(id, token(0)))
			}
			proxy.Hold(true)
			p.first.start()
			p.mustArrive(0, len(want))
			if n := p.apns.Total(); n != len(want) {
				t.Errorf("%d requests while SQL hangs, want %d", n, len(want))
			}
			for n, r := range p.apns.Of(token(0)) {
				if r.ID != want[n] {
					t.Fatalf("request %d is %s, want %s", n, r.ID, want[n])
				}
			}
			for range 16 { // for the next batches
				p.mustPost(hello("user0"))
			}
			p.mustArrive(0, 2*len(want))
			proxy.Hold(false)
			if name != "audiences" {
				p.mustArrive(20, 1)
			}
		})
	}
}

// TestP6_CachedUsersBesideAHundredAudiencesThatHang: each event to a cached user arrives within 100 ms,
// although SQL does not answer for any of the hundred events that were posted before. These arrive when
// it does.
func TestP6_CachedUsersBesideAHundredAudiencesThatHang(t *testing.T) {
	t.Parallel()
	p, proxy := hangingSQL(t, 1, 1)
	storetest.Must(t, p.rec.PutContacts(t.Context(), record.Contact{Owner: "user0", Contact: "star", Relationship: "contact"}))
	p.first.start()
	p.mustEnd(p.mustPost(hello("user0")), api.EventDone)
	proxy.Hold(true)
	for range 100 {
		p.mustPost(contactsOf("star"))
	}
	sent := 1
	storetest.InTime(t, 100*time.Millisecond, "each of 25 events is sent while SQL hangs", func(int) (most time.Duration) {
		for range 25 {
			began := time.Now()
			p.mustPost(hello("user0"))
			sent++
			storetest.Must(t, p.apns.WaitTotal(sent, soon))
			most = max(most, time.Since(began))
		}
		return most
	})
	if n := p.apns.Total(); n != sent {
		t.Errorf("%d requests while SQL hangs, want %d", n, sent)
	}
	proxy.Hold(false)
	p.mustArrive(0, sent+100)
}

// TestP5_EventsWithAUserInCommonKeepTheirOrder: within one batch an event to a cached user waits
// for an earlier event that goes to the same user and to one who is not cached, even if so many
// users are between them that their settings are read in several steps.
func TestP5_EventsWithAUserInCommonKeepTheirOrder(t *testing.T) {
	t.Parallel()
	p, proxy := hangingSQL(t, 3, 2)
	batch := []api.EventRequest{*hello("user0", "user2")}
	for range 11 {
		var strangers []string
		for n := range 100 {
			strangers = append(strangers, fmt.Sprint("stranger", n))
		}
		batch = append(batch, *hello(strangers...))
	}
	batch = append(batch, *hello("user0"), *hello("user1"))
	ids := p.mustPostBatch(batch...)
	want := []string{events.NotificationID(ids[0], token(0)), events.NotificationID(ids[12], token(0))}
	proxy.Hold(true)
	p.first.start()
	p.mustArrive(1, 1)
	proxy.Hold(false)
	p.mustArrive(0, 2)
	for n, r := range p.apns.Of(token(0)) {
		if r.ID != want[n] {
			t.Errorf("request %d is %s, want %s", n, r.ID, want[n])
		}
	}
}

// TestP6_AfterOneFailureTheRestIsNotRead: after SQL failed once, the other audiences of a batch
// wait without asking SQL.
func TestP6_AfterOneFailureTheRestIsNotRead(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	p := setup(t, options{
		idle:  true,
		queue: func(o *queue.Options) { o.Shards, o.RetryBase, o.RetryMax = 1, 24*time.Hour, 24*time.Hour },
		target: func(o *targeting.Options) {
			o.Pagers = map[string]targeting.Pager{events.KindContactsOf: func(context.Context, string, string, int) ([]string, error) {
				asked.Add(1)
				return nil, api.Errorf(api.CodeUnavailable, "SQL is away")
			}}
		},
	})
	const many = 20
	for range many {
		p.mustPost(contactsOf("star"))
	}
	p.first.start()
	storetest.Eventually(t, soon, "all events to wait", func() bool {
		s, err := p.first.queueOfEvents.Stats(t.Context())
		return err == nil && s.Scheduled == many
	})
	if n := asked.Load(); n != 1 {
		t.Errorf("SQL was asked %d times, want once", n)
	}
}

// TestA15_UsersWhoAreNotCachedAreSentToOnce: many events to users who are not cached, more than may
// wait for SQL at a time, lead to one request each.
func TestA15_UsersWhoAreNotCachedAreSentToOnce(t *testing.T) {
	t.Parallel()
	many, batch := storetest.Sized(3000, 1500), 100
	p := setup(t, options{apns: apnstest.Options{CountsOnly: true, TrackIDs: true}, target: func(o *targeting.Options) { o.InFlight = 400 }})
	p.mustManyDevices(many)
	users := fans(many)
	var ids []string
	for names := range slices.Chunk(users, batch) {
		r := &api.EventBatchRequest{}
		for _, user := range names {
			r.Events = append(r.Events, *hello(user))
		}
		posted, _, err := p.first.events.AcceptBatch(t.Context(), r, api.Idempotency{Scope: p.scope, Key: names[0]})
		storetest.Must(t, err)
		for _, item := range posted.Items {
			ids = append(ids, item.ID)
		}
	}
	for _, id := range ids {
		p.mustCounts(p.mustEnd(id, api.EventDone), counts{1, 1, 1, 0, 0})
	}
	if distinct, repeats := p.apns.IDs(); distinct != many || repeats != 0 {
		t.Errorf("%d notifications were sent, %d of them again; want %d once", distinct, repeats, many)
	}
}
