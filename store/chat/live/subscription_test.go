package live

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"fanfare/store/storetest"
)

// breaking is a connection on which the next subscribing fails while it is armed.
type breaking struct {
	net.Conn
	armed *atomic.Bool
}

func (c breaking) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("subscribe")) && c.armed.Swap(false) {
		return 0, syscall.ECONNRESET
	}
	return c.Conn.Write(p)
}

// A connection that breaks while channels are subscribed to, and is replaced at once,
// loses none of them: the client subscribes only to those it knew before.
func TestASubscribingThatFailsIsDoneAgain(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	w := newWorld(t, storetest.Open(t, server.URL()))
	armed := new(atomic.Bool)
	o, err := redis.ParseURL(server.URL())
	storetest.Must(t, err)
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		raw, err := new(net.Dialer).DialContext(ctx, network, addr)
		return breaking{raw, armed}, err
	}
	client := redis.NewClient(o)
	defer client.Close()
	h := New(w.Store, w.db, nil)
	s := h.newSubscriptions(client)
	defer s.close()
	want := func(name string) {
		t.Helper()
		channel := w.MessageChannel(w.id(name))
		h.subscribe(&Stream{}, channel, w.id(name))
		storetest.Eventually(t, testPatience, name+" is subscribed to", func() bool {
			s.sync(t.Context()) // as Run does again with each tick
			return server.Client().PubSubNumSub(t.Context(), channel).Val()[channel] == 1
		})
	}
	want("one")
	armed.Store(true)
	want("two")
	if armed.Load() {
		t.Error("nothing broke: the test shows nothing")
	}
	want("three")
}
