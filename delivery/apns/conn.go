package apns

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

// How often reserve looks again at once, and then once a millisecond.
const (
	reserveSpins = 20
	reserveTries = 3000
)

// errConnGone says that a connection takes no more requests.
var errConnGone = errors.New("the connection takes no more requests")

// apnsConn is one connection to APNs. Fields without a lock of their own are
// guarded by the pool's.
type apnsConn struct {
	pool  *pool
	cc    *http2.ClientConn
	token atomic.Pointer[providerToken] // nil: certificate
	// changed is when the token last changed on this connection.
	changed  time.Time
	gone     atomic.Bool // takes no more requests
	nothing  atomic.Bool // a GOAWAY said that no request was processed
	raise    atomic.Int64
	inFlight int
	first    string // topic of the last request that began before proven
	peer     int    // MAX_CONCURRENT_STREAMS; -1 before the first SETTINGS
	proven   bool   // an answer came; without a token: the first SETTINGS
	slow     bool   // not proven for a while: others may be opened beside it
}

// limit is how many requests may be under way.
func (c *apnsConn) limit() int {
	switch {
	case c.gone.Load():
		return 0
	case c.peer < 0 || (!c.proven && c.peer > 0):
		return 1
	}
	return min(c.peer, maxStreamsPerConn)
}

// begin takes room for a request to a topic.
func (c *apnsConn) begin(topic string) {
	c.inFlight++
	if !c.proven {
		c.first = topic
	}
}

// onSettings learns the peer's limit before http2.ClientConn has: a lower one
// counts at once, a higher one when onSettled says that it was handled.
func (c *apnsConn) onSettings(streams int) {
	p := c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if streams < 0 {
		if c.peer >= 0 {
			return
		}
		streams = maxStreamsPerConn
	}
	if c.peer < 0 || streams > c.peer {
		c.raise.Store(int64(streams) + 1)
		return
	}
	c.peer = streams
	c.raise.Store(0)
}

// onSettled is called before each read. http2 reads again only when it has
// handled all it got, so that a raised limit is safe to use from here on. It
// also proves a connection that shows a certificate: there is no provider token
// that APNs would want to see first.
func (c *apnsConn) onSettled() {
	if c.raise.Load() == 0 {
		return
	}
	n := c.raise.Swap(0)
	if n == 0 {
		return
	}
	p := c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	c.peer = int(n) - 1
	if c.token.Load() == nil {
		c.proven = true
	}
	p.dispatch()
}

// onGoAway sends new requests elsewhere. With last 0 none of the present ones
// was processed, which http2 would not say of the first when there was an error.
func (c *apnsConn) onGoAway(last uint32) {
	if last == 0 {
		c.nothing.Store(true)
	}
	c.pool.retire(c)
}

// reserve takes one of http2.ClientConn's own slots. It gives them back a
// moment after we do, so that it may have to be asked again.
func (c *apnsConn) reserve(ctx context.Context) error {
	for try := 0; ; try++ {
		if c.gone.Load() {
			return errConnGone
		}
		if c.cc.ReserveNewRequest() {
			return nil
		}
		if try < reserveSpins {
			runtime.Gosched()
			continue
		}
		if try > reserveTries { // out of stream ids, or resets that nobody confirms
			c.pool.retire(c)
			return errConnGone
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// bearer is the token to send on this connection, "" with a certificate. It
// changes when the present one is at the end of its life.
func (c *apnsConn) bearer() (*providerToken, error) {
	t := c.token.Load()
	if t == nil || c.pool.source.now().Sub(t.issued) < tokenLife {
		return t, nil
	}
	next, err := c.pool.source.fresh()
	if err != nil {
		return nil, err
	}
	c.adopt(t, next)
	return c.token.Load(), nil
}

// adopt moves the connection from one token to the next, unless another
// request did. A connection whose token changed less than tokenRest ago is
// retired instead: the next one starts with the new token.
func (c *apnsConn) adopt(old, next *providerToken) {
	p := c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.token.Load() != old || next == old {
		return
	}
	now := p.source.now()
	if !c.changed.IsZero() && now.Sub(c.changed) < tokenRest {
		p.retireLocked(c)
		return
	}
	c.changed = now
	c.token.Store(next)
}

// dial opens a connection and starts it.
func (p *pool) dial(ctx context.Context) (*apnsConn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.o.dialTimeout)
	defer cancel()
	c := &apnsConn{pool: p, peer: -1}
	if p.source != nil {
		t, err := p.source.fresh()
		if err != nil {
			return nil, err
		}
		c.token.Store(t)
	}
	raw, err := (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext(ctx, "tcp", p.addr)
	if err != nil {
		return nil, fmt.Errorf("dial APNs: %w", err)
	}
	conn := tls.Client(raw, p.tls)
	if err := handshake(ctx, conn); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return c, c.start(conn, raw)
}

// handshake refuses a server that verifies but does not speak HTTP/2.
func handshake(ctx context.Context, conn *tls.Conn) error {
	if err := conn.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("TLS handshake with APNs: %w", err)
	}
	if proto := conn.ConnectionState().NegotiatedProtocol; proto != http2.NextProtoTLS {
		return fmt.Errorf("TLS handshake with APNs: the server speaks %q, not HTTP/2", proto)
	}
	return nil
}

// start makes the HTTP/2 connection, with our own eyes and ears in between.
func (c *apnsConn) start(conn, raw net.Conn) error {
	g := newGatherConn(conn, raw, c.pool.o.sendWithin)
	g.watch = &frameWatch{settings: c.onSettings, goAway: c.onGoAway}
	g.settled, g.lost = c.onSettled, func() { c.pool.retire(c) }
	go g.send()
	cc, err := c.pool.transport.NewClientConn(g)
	if err != nil {
		_ = g.Close()
		return fmt.Errorf("start HTTP/2 with APNs: %w", err)
	}
	c.cc = cc
	return nil
}
