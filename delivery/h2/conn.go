package h2

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

// How often reserve tries again at once, and then once a millisecond.
const (
	reserveSpins = 20
	reserveTries = 3000
)

// errConnGone says that a connection takes no more requests.
var errConnGone = errors.New("the connection takes no more requests")

// Conn is one connection. Fields without a lock of their own are guarded by the
// pool's.
type Conn struct {
	pool      *Pool
	transport *http2.Transport
	cc        *http2.ClientConn
	value     any         // the owner's
	gone      atomic.Bool // takes no more requests
	nothing   atomic.Bool // a GOAWAY said that no request was processed
	raise     atomic.Int64
	inFlight  int
	first     string // group of the last request that began before proven
	peer      int    // MAX_CONCURRENT_STREAMS; -1 before the first SETTINGS
	proven    bool   // an answer came; unless Options.FirstAlone: the first SETTINGS
	slow      bool   // not proven for a while: others may be opened beside it
}

// Value is what Options.Attach made for this connection.
func (c *Conn) Value() any { return c.value }

// Gone tells whether the connection takes no more requests.
func (c *Conn) Gone() bool { return c.gone.Load() }

// Retire lets the connection take no more requests; it ends with its last one.
func (c *Conn) Retire() {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	c.pool.retire(c)
}

// limit is how many requests may be under way.
func (c *Conn) limit() int {
	switch {
	case c.gone.Load():
		return 0
	case c.peer < 0 || (!c.proven && c.peer > 0):
		return 1
	}
	return min(c.peer, MaxStreams)
}

// begin takes room for a request of a group.
func (c *Conn) begin(group string) {
	c.inFlight++
	if !c.proven {
		c.first = group
	}
}

// onSettings learns the peer's limit before http2.ClientConn has: a lower one
// counts at once, a higher one when onHandled says that it was handled.
func (c *Conn) onSettings(streams int) {
	p := c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if streams < 0 {
		if c.peer >= 0 {
			return
		}
		streams = MaxStreams
	}
	if c.peer < 0 || streams > c.peer {
		c.raise.Store(int64(streams) + 1)
		return
	}
	c.peer = streams
	c.raise.Store(0)
}

// onHandled is called before each read. http2 reads again only when it has
// handled all it got, so that a raised limit is safe to use from here on. It
// also proves a connection whose first request need not be alone.
func (c *Conn) onHandled() {
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
	if !p.o.FirstAlone {
		c.proven = true
	}
	p.dispatch()
}

// onGoAway sends new requests elsewhere. With last 0 none of the present ones
// was processed, which http2 would not say of the first when there was an error.
func (c *Conn) onGoAway(last uint32) {
	if last == 0 {
		c.nothing.Store(true)
	}
	c.Retire()
}

// reserve takes one of http2.ClientConn's own slots. It frees them a moment
// after the pool does, so that it may take several tries.
func (c *Conn) reserve(ctx context.Context) error {
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
			c.Retire()
			return errConnGone
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// dial opens a connection and starts it.
func (p *Pool) dial(ctx context.Context) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.o.DialTimeout)
	defer cancel()
	c := &Conn{pool: p, peer: -1}
	if p.o.Attach != nil {
		var err error
		if c.value, err = p.o.Attach(); err != nil {
			return nil, err
		}
	}
	raw, err := (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext(ctx, "tcp", p.addr)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", p.o.Name, err)
	}
	conn := tls.Client(raw, p.tls)
	if err := handshake(ctx, conn); err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("TLS handshake with %s: %w", p.o.Name, err)
	}
	return c, c.start(conn, raw)
}

// handshake refuses a server that verifies but does not speak HTTP/2.
func handshake(ctx context.Context, conn *tls.Conn) error {
	if err := conn.HandshakeContext(ctx); err != nil {
		return err
	}
	if proto := conn.ConnectionState().NegotiatedProtocol; proto != http2.NextProtoTLS {
		return fmt.Errorf("the server speaks %q, not HTTP/2", proto)
	}
	return nil
}

// start makes the HTTP/2 connection. Between it and TLS, gatherConn gathers
// writes and frameWatch reads along. DisableCompression keeps http2 from asking
// for gzip; header lists are bounded because no answer needs more.
func (c *Conn) start(conn, raw net.Conn) error {
	o := &c.pool.o
	g := newGatherConn(conn, raw, o.SendWithin)
	g.watch = &frameWatch{settings: c.onSettings, goAway: c.onGoAway}
	g.handled, g.lost = c.onHandled, c.Retire
	go g.send()
	c.transport = &http2.Transport{
		ConnPool:           onlyConn{c},
		DisableCompression: true,
		ReadIdleTimeout:    o.ReadIdle,
		PingTimeout:        o.PingTimeout,
		MaxHeaderListSize:  64 << 10,
	}
	cc, err := c.transport.NewClientConn(g)
	if err != nil {
		_ = g.Close()
		return fmt.Errorf("start HTTP/2 with %s: %w", o.Name, err)
	}
	c.cc = cc
	return nil
}

// onlyConn is the transport's view of a connection: the transport has no other.
type onlyConn struct{ c *Conn }

// GetClientConn implements http2.ClientConnPool.
func (o onlyConn) GetClientConn(r *http.Request, _ string) (*http2.ClientConn, error) {
	if err := o.c.reserve(r.Context()); err != nil {
		return nil, err
	}
	return o.c.cc, nil
}

// MarkDead implements http2.ClientConnPool; the pool hears of it from the
// connection itself.
func (onlyConn) MarkDead(*http2.ClientConn) {}
