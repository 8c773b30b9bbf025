package delivery_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery"
	"fanfare/store/devices"
	"fanfare/store/events"
	"fanfare/store/queue"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

// hangingSQL is a world whose SQL can be made to hang for longer than any test waits. Its
// queues have one shard: what is posted before the start is one batch. The users user0,
// user1 ... have a device of that number; those below cached are in the cache.
func hangingSQL(t *testing.T, users, cached int) (*pipeline, *storetest.Proxy) {
	t.Helper()
	proxy, url := storetest.ProxyTo(t, storetest.MySQL(t))
	p := setup(t, options{idle: true, sql: url, sqlTime: 10 * time.Minute, queue: func(o *queue.Options) { o.Shards = 1 }})
	var warm []devices.Query
	for n := range users {
		p.mustDevice(fmt.Sprint("user", n), n)
		storetest.Must(t, p.db.Client().Del(t.Context(), fmt.Sprintf("ff:{u:user%d}:settings", n)).Err())
		if n < cached {
			warm = append(warm, devices.Query{User: fmt.Sprint("user", n)})
		}
	}
	storetest.Eventually(t, soon, "users to be cached", func() bool {
		_, err := p.first.devices.Targets(t.Context(), warm)
		storetest.Must(t, err)
		_, err = p.first.devices.CachedTargets(t.Context(), warm)
		return err == nil
	})
	storetest.Must(t, p.rec.PutContacts(t.Context(), record.Contact{Owner: "user0", Contact: "star", Relationship: "contact"}))
	return p, proxy
}

// followers is an event to those who call star a contact.
func followers() *api.EventRequest {
	return &api.EventRequest{Type: "hello", Audience: api.Audience{ContactsOf: "star"}, Alert: &api.Alert{Title: "Hello"}}
}

// mustArrive waits until so many requests have come for the n-th device.
func (p *pipeline) mustArrive(n, requests int) {
	p.Helper()
	storetest.Eventually(p, soon, fmt.Sprintf("%d requests for device %d", requests, n), func() bool {
		return len(p.apns.Of(token(n))) >= requests
	})
}

// TestSQLHangs: nobody waits for SQL who does not need it.
func TestSQLHangs(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func(p *pipeline){
		"audiences": func(p *pipeline) {
			for range 20 {
				p.mustPost(followers())
			}
		},
		"settings": func(p *pipeline) {
			for n := range 20 {
				p.mustPost(hello(fmt.Sprint("user", 1+n)))
			}
		},
		"both": func(p *pipeline) {
			for n := range 20 {
				p.mustPost(followers())
				p.mustPost(hello(fmt.Sprint("user", 1+n)))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, proxy := hangingSQL(t, 21, 1)
			first(p)
			var want []string
			for range 16 {
				want = append(want, delivery.NotificationID(p.mustPost(hello("user0")), token(0)))
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
			for range 16 { // the next batches
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

// TestSQLHangs_ReadersOfTheCacheAreFast measures events to a cached user beside a hundred
// that wait for SQL.
func TestSQLHangs_ReadersOfTheCacheAreFast(t *testing.T) {
	t.Parallel()
	p, proxy := hangingSQL(t, 1, 1)
	p.first.start()
	p.mustEnd(p.mustPost(hello("user0")), api.EventDone)
	proxy.Hold(true)
	for range 100 {
		p.mustPost(followers())
	}
	var took []time.Duration
	for n := range 200 {
		began := time.Now()
		p.mustPost(hello("user0"))
		if err := p.apns.WaitTotal(n+2, soon); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	t.Logf("p50 %v, p99 %v, most %v", took[100], took[198], took[199])
	proxy.Hold(false)
	p.mustArrive(0, 301)
}

// TestP5_UsersInCommonKeepTheirOrderWhileSQLHangs: of one batch an event to a cached user
// waits for an earlier one that he shares with somebody who is not cached.
func TestP5_UsersInCommonKeepTheirOrderWhileSQLHangs(t *testing.T) {
	t.Parallel()
	p, proxy := hangingSQL(t, 3, 2)
	var want []string
	for _, e := range []*api.EventRequest{hello("user0", "user2"), hello("user0")} {
		want = append(want, delivery.NotificationID(p.mustPost(e), token(0)))
	}
	p.mustPost(hello("user1"))
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

// TestSQLAway_TheRestOfABatchIsNotRead: after SQL failed once the other audiences of a
// batch wait without asking it.
func TestSQLAway_TheRestOfABatchIsNotRead(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	p := setup(t, options{
		idle:  true,
		queue: func(o *queue.Options) { o.Shards, o.RetryBase, o.RetryMax = 1, 24*time.Hour, 24*time.Hour },
		target: func(o *delivery.TargetingOptions) {
			o.Pagers = map[string]delivery.AudiencePager{events.KindContactsOf: func(context.Context, string, string, int) ([]string, error) {
				asked.Add(1)
				return nil, api.Errorf(api.CodeUnavailable, "SQL is away")
			}}
		},
	})
	const many = 20
	for range many {
		p.mustPost(followers())
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
