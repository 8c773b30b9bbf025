package h2

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// slowPeer is a connection that takes nothing until it is allowed to.
type slowPeer struct {
	net.Conn
	allow chan struct{}
	taken atomic.Int64
}

func (p *slowPeer) Write(b []byte) (int, error) {
	<-p.allow
	p.taken.Add(int64(len(b)))
	return len(b), nil
}

func (p *slowPeer) Close() error { return nil }

// Failure table: no send starts after the lease's end, also what was written
// for the connection and not yet sent when the process was stopped.
func TestHeldUpFramesAreNeverSent(t *testing.T) {
	t.Parallel()
	const within = 20 * time.Millisecond
	peer := &slowPeer{allow: make(chan struct{})}
	c := newGatherConn(peer, peer, within)
	lost := make(chan struct{})
	c.lost = func() { close(lost) }
	go c.send()
	mustWrite := func(s string) {
		t.Helper()
		if _, err := c.Write([]byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	mustWrite("first")
	storetest.Eventually(t, 5*time.Second, "the first write to be on its way", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.out) == 0
	})
	mustWrite("second")
	storetest.Eventually(t, 5*time.Second, "the second write to be late", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return time.Since(c.since) > within
	})
	close(peer.allow)
	<-lost
	if got := peer.taken.Load(); got != int64(len("first")) {
		t.Errorf("%d bytes were sent", got)
	}
	if _, err := c.Write([]byte("third")); !errors.Is(err, errLate) {
		t.Errorf("a write after that: %v", err)
	}
}
