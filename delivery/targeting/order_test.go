package targeting_test

import (
	"testing"
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/store/queue"
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
