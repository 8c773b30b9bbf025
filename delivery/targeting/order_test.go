package targeting_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"fanfare/api"
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

// TestP5_ABatchKeepsItsOrder: events of one batch to one user arrive in the order of the batch, also if the
// settings of some users are read from SQL.
func TestP5_ABatchKeepsItsOrder(t *testing.T) {
	t.Parallel()
	const rounds, users, each = 5, 16, 6
	for name, cached := range map[string]int{"cached": users, "half of them cached": users / 2, "not cached": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setup(t, options{queue: func(o *queue.Options) { o.InFlight = delivery.InFlight }})
			for n := range users {
				p.mustDevice(fmt.Sprint("user", n), n)
			}
			want := make([][]string, users)
			for range rounds {
				for n := range users {
					user := fmt.Sprint("user", n)
					if p.mustCache(user); n >= cached {
						storetest.Must(t, p.db.Client().Del(t.Context(), "ff:{u:"+user+"}:settings").Err())
					}
				}
				var batch []api.EventRequest
				for i := range users * each {
					batch = append(batch, *hello(fmt.Sprint("user", i%users), fmt.Sprint("user", (i+1)%users)))
				}
				for i, id := range p.mustPostBatch(batch...) {
					for _, n := range []int{i % users, (i + 1) % users} {
						want[n] = append(want[n], events.NotificationID(id, token(n)))
					}
				}
				for n := range users { // batches have no order
					p.mustArrive(n, len(want[n]))
				}
			}
			for n := range users {
				var got []string
				for _, r := range p.apns.Of(token(n)) {
					got = append(got, r.ID)
				}
				if !slices.Equal(got, want[n]) {
					t.Errorf("to user%d were sent\n%q, want\n%q", n, got, want[n])
				}
			}
		})
	}
}

// mustPostBatch posts events in one batch, and gives their ids.
func (p *pipeline) mustPostBatch(list ...api.EventRequest) (ids []string) {
	p.Helper()
	p.mustAccept(func(once api.Idempotency) error {
		posted, _, err := p.first.events.AcceptBatch(p.Context(), &api.EventBatchRequest{Events: list}, once)
		if err == nil {
			for _, item := range posted.Items {
				ids = append(ids, item.ID)
			}
		}
		return err
	})
	return ids
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
