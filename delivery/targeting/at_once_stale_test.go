package targeting_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/transport"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// holding is a Sender that keeps a notification until the test releases it, like a sender that
// waits for a connection. Then it calls MaySend.
type holding struct {
	transport.Sender
	held    chan held
	open    chan struct{} // closed: nothing is kept any more
	written atomic.Int64
}

type held struct {
	goOn   chan struct{}
	asked  chan bool // the result of MaySend
	inHand time.Time
}

func newHolding() *holding {
	return &holding{Sender: silentSender(), held: make(chan held), open: make(chan struct{})}
}

func (h *holding) Start(ctx context.Context, n *transport.Notification, done func(transport.Answer)) {
	go func() { done(h.send(ctx, n)) }()
}

func (h *holding) send(ctx context.Context, n *transport.Notification) transport.Answer {
	one := held{make(chan struct{}), make(chan bool, 1), time.Now()}
	select {
	case h.held <- one:
		select {
		case <-one.goOn:
		case <-ctx.Done():
		}
	case <-h.open:
	case <-ctx.Done():
		return transport.Answer{Outcome: transport.NotSent, Err: ctx.Err()}
	}
	may := n.MaySend()
	one.asked <- may
	if !may {
		return transport.Answer{Outcome: transport.NotSent, Err: transport.ErrMayNotSend}
	}
	h.written.Add(1)
	return transport.Answer{Outcome: transport.Delivered, Status: 200}
}

// mustHold posts events for bob until one is sent with its event, and holds that one. On a busy machine
// the data of the device may be too old before.
func (h *holding) mustHold(p *pipeline) (id string, one held) {
	p.Helper()
	storetest.Eventually(p, soon, "an event to be sent at once", func() bool {
		id = p.mustPost(hello("bob"))
		select {
		case one = <-h.held:
		case <-time.After(soon):
			p.Fatal("nothing is sent")
		}
		if len(p.mustKeysOf("jobs")) == 0 {
			return true
		}
		close(one.goOn)
		p.mustEnd(id, api.EventDone)
		h.written.Store(0)
		return false
	})
	return id, one
}

// TestP4_WhatWaitsAtTheSenderIsCheckedAgain: an event is about to be sent to bob's device when the
// sender has no connection, or Redis stalls. In the meantime the device becomes eve's, and she does
// not get bob's notification.
func TestP4_WhatWaitsAtTheSenderIsCheckedAgain(t *testing.T) {
	t.Parallel()
	world := func(t *testing.T) (*pipeline, *holding, *storetest.RedisServer) {
		server, h := storetest.Redis(t), newHolding()
		p := setup(t, options{
			db:     storetest.Open(t, server.URL()),
			queue:  func(o *queue.Options) { o.Lease = lease },
			sender: func(*pipeline) transport.Sender { return h },
		})
		p.mustDevice("bob", 1)
		return p, h, server
	}
	t.Run("NoConnection", func(t *testing.T) {
		t.Parallel()
		p, h, _ := world(t)
		id, one := h.mustHold(p)
		p.mustDevice("eve", 1)
		storetest.Eventually(t, soon, "what was read to be old", func() bool { return time.Since(one.inHand) > time.Second })
		close(one.goOn)
		close(h.open)
		p.mustCounts(p.mustEnd(id, api.EventDone), counts{1, 1, 0, 1, 0})
		if h.written.Load() > 0 {
			t.Error("it was sent")
		}
	})
	t.Run("RedisStalls", func(t *testing.T) {
		t.Parallel()
		p, h, server := world(t)
		id, one := h.mustHold(p)
		p.mustDevice("eve", 1)
		server.Pause()
		began := time.Now()
		storetest.Eventually(t, soon, "too little to be left of the lease", func() bool { return time.Since(began) > lease/2 })
		close(one.goOn)
		if <-one.asked {
			t.Error("it may be sent though Redis is away")
		}
		server.Resume()
		close(h.open)
		// A process that takes the event over finds no device of bob.
		if r := p.mustEnd(id, api.EventDone); r.Delivered > 0 || h.written.Load() > 0 {
			t.Errorf("it was sent; report %+v", r)
		}
	})
}

// lease is long enough that a busy machine continues after half of it.
const lease = 4 * time.Second
