package targeting_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"fanfare/delivery"
	"fanfare/delivery/apns/apnstest"
	"fanfare/store/events"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

func TestP5_OneDeviceInOrder(t *testing.T) {
	t.Parallel()
	p := setup(t, options{idle: true})
	p.mustDevice("bob", 1)
	shard, again := p.first.queueOfNotes.Route(token(1)), p.process().queueOfNotes.Route(token(1))
	if shard != again {
		t.Errorf("shards %d and %d of one token", shard, again)
	}
	want := p.mustNotes(50)
	p.first.start()
	p.mustArriveAs(want)
}

// TestP5_InOrderAgainAfterABackoff: what waits may be overtaken. Once nothing waits
// any more the order holds as before.
func TestP5_InOrderAgainAfterABackoff(t *testing.T) {
	t.Parallel()
	p := setup(t, options{})
	p.mustDevice("bob", 1)
	p.apns.Script(token(1), apnstest.Fail(429, "TooManyRequests"), apnstest.OK())
	first := p.mustNotes(1)
	p.mustArriveAs(append(first, first...))
	want := p.mustNotes(50)
	p.mustArriveAs(append(append(first, first...), want...))
}

// TestP5_WhatOneProcessAcceptsKeepsItsOrder: events to one user that are posted one after the
// other to one process arrive in this order, in whichever shards they are, also if the user's
// settings are read from SQL for the first of them.
func TestP5_WhatOneProcessAcceptsKeepsItsOrder(t *testing.T) {
	t.Parallel()
	const rounds, users, each = 5, 16, 6
	for name, cached := range map[string]bool{"cached": true, "not cached": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setup(t, options{queue: func(o *queue.Options) { o.InFlight = delivery.InFlight }})
			for n := range users {
				p.mustDevice(fmt.Sprint("user", n), n)
			}
			want := make([][]string, users)
			for range rounds {
				p.mustPostToAll(want, each, cached)
			}
			for n := range users {
				p.mustArrive(n, rounds*each)
				for i, r := range p.apns.Of(token(n)) {
					if r.ID != want[n][i] {
						t.Errorf("request %d of %d to user%d is %s, want %s", i, rounds*each, n, r.ID, want[n][i])
					}
				}
			}
		})
	}
}

// mustPostToAll posts events to many users at the same time, to each one after the other, and
// adds the notifications that they become.
func (p *pipeline) mustPostToAll(want [][]string, each int, cached bool) {
	p.Helper()
	var posting sync.WaitGroup
	for n := range want {
		user := fmt.Sprint("user", n)
		if cached {
			p.mustCache(user)
		} else {
			storetest.Must(p, p.db.Client().Del(p.Context(), "ff:{u:"+user+"}:settings").Err())
		}
		posting.Go(func() {
			for range each {
				want[n] = append(want[n], events.NotificationID(p.mustPost(hello(user)), token(n)))
			}
		})
	}
	posting.Wait()
}

// mustNotes puts notifications for bob's device into its shard and gives their ids in
// this order.
func (p *pipeline) mustNotes(n int) (ids []string) {
	p.Helper()
	for range n {
		job := p.note(queue.NewID(0, time.Now()), "bob", token(1))
		if _, err := p.first.queueOfNotes.Enqueue(p.Context(), job); err != nil {
			p.Fatal(err)
		}
		ids = append(ids, job.ID)
	}
	return ids
}

// mustArriveAs waits for the requests to bob's device and compares their order.
func (p *pipeline) mustArriveAs(want []string) {
	p.Helper()
	if err := p.apns.WaitTotal(len(want), soon); err != nil {
		p.Fatal(err)
	}
	for n, r := range p.apns.Of(token(1)) {
		if r.ID != want[n] {
			p.Fatalf("request %d is %s, want %s", n, r.ID, want[n])
		}
	}
}
