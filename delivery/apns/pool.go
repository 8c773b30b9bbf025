package apns

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

const (
	maxConns          = 4
	maxStreamsPerConn = 900
	firstDialBackoff  = 100 * time.Millisecond
	lastDialBackoff   = 5 * time.Second
	// firstAnswerWithin is how long a new connection's first request may take
	// before another connection is opened beside it.
	firstAnswerWithin = time.Second
	// maxUntried leaves one connection to others when an app hangs.
	maxUntried = maxConns - 1
)

var errPoolClosed = errors.New("the sender was closed")

// poolOptions are the times of a pool; every field is set.
type poolOptions struct {
	log         *slog.Logger
	dialTimeout time.Duration // connect and handshake
	readIdle    time.Duration // silence before a PING
	pingTimeout time.Duration // silence after it
	sendWithin  time.Duration // from a request's check to the wire
}

// pool holds the connections of one set of credentials to one server: at most
// maxConns that take requests, and those that are ending. A request waits, in
// order, until a connection has room for its stream.
type pool struct {
	addr      string
	tls       *tls.Config
	source    *tokenSource // nil: certificate
	transport *http2.Transport
	o         poolOptions

	mu sync.Mutex
	// conns take requests; ending ones had a GOAWAY, were lost, or are closed on
	// purpose, and live only until their last request has its answer.
	conns  []*apnsConn
	ending map[*apnsConn]struct{}
	// waiters are served in the order they came.
	waiters  list.List // of *waiter
	dialing  bool
	hangUp   context.CancelFunc // of the dial
	failures int                // dials and connections without an answer, in a row
	retryAt  time.Time
	err      error // of the last dial
	closed   bool
}

// waiter is a request that waits for room.
type waiter struct {
	ctx   context.Context
	topic string
	done  chan struct{} // closed when conn or err is set
	conn  *apnsConn
	err   error
}

// newPool makes a pool without a connection. DisableCompression keeps http2 from
// asking for gzip; header lists are bounded because no answer of APNs needs more.
func newPool(addr string, cfg *tls.Config, source *tokenSource, o poolOptions) *pool {
	p := &pool{
		addr: addr, tls: cfg, source: source, o: o,
		ending: make(map[*apnsConn]struct{}), hangUp: func() {},
	}
	p.transport = &http2.Transport{
		ConnPool:           chosenConn{},
		DisableCompression: true,
		ReadIdleTimeout:    o.readIdle,
		PingTimeout:        o.pingTimeout,
		MaxHeaderListSize:  64 << 10,
	}
	return p
}

// acquire waits for room for one request to a topic. The caller gives it back by
// release.
func (p *pool) acquire(ctx context.Context, topic string) (*apnsConn, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errPoolClosed
	}
	if p.waiters.Len() == 0 {
		if c := p.pick(topic, maxUntried); c != nil {
			c.begin(topic)
			p.mu.Unlock()
			return c, nil
		}
	}
	// A server that was just found unreachable is not worth waiting for here: the
	// caller has the better place to wait.
	if err := p.err; err != nil && len(p.conns) == 0 && time.Now().Before(p.retryAt) {
		p.mu.Unlock()
		return nil, err
	}
	w := &waiter{ctx: ctx, topic: topic, done: make(chan struct{})}
	e := p.waiters.PushBack(w)
	p.dispatch()
	p.mu.Unlock()
	return p.await(ctx, w, e)
}

// await waits for a place in the queue to be served. A place that comes just
// when the context ends is given back.
func (p *pool) await(ctx context.Context, w *waiter, e *list.Element) (*apnsConn, error) {
	select {
	case <-w.done:
		return w.conn, w.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.conn != nil {
		p.releaseLocked(w.conn, false)
	} else if w.err == nil {
		p.waiters.Remove(e)
	}
	return nil, ctx.Err()
}

// pick is the first connection with room: few busy connections gather more
// writes than many idle ones. A new one is for a topic only while fewer than so
// many others wait for their first answer with a request to the same topic.
func (p *pool) pick(topic string, fewer int) *apnsConn {
	for _, c := range p.conns {
		if c.inFlight < c.limit() && (c.proven || p.untried(topic) < fewer) {
			return c
		}
	}
	return nil
}

// untried counts the new connections whose first request is one to this topic.
func (p *pool) untried(topic string) (n int) {
	for _, c := range p.conns {
		if !c.proven && c.inFlight > 0 && c.first == topic {
			n++
		}
	}
	return n
}

// release gives back the room of a request; answered says that APNs sent an
// answer, whatever it was.
func (p *pool) release(c *apnsConn, answered bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.releaseLocked(c, answered)
}

// releaseLocked is release with mu held. Any answer proves a connection, also a
// refusal: APNs then has judged the provider token.
func (p *pool) releaseLocked(c *apnsConn, answered bool) {
	c.inFlight--
	if answered && !c.proven {
		c.proven = true
	}
	if answered {
		p.failures = 0
	}
	if c.gone.Load() {
		p.endIfIdle(c)
	}
	p.dispatch()
}

// dispatch gives room to those who wait for it, in the order they came, and sees
// to a connection for those who are left. New connections go first to topics that
// none was tried with: one app that hangs must not take them all.
func (p *pool) dispatch() {
	for _, fewer := range []int{1, maxUntried} {
		for e := p.waiters.Front(); e != nil && p.hasRoom(); {
			w, next := e.Value.(*waiter), e.Next()
			if c := p.pick(w.topic, fewer); c != nil {
				c.begin(w.topic)
				p.waiters.Remove(e)
				w.conn = c
				close(w.done)
			}
			e = next
		}
	}
	p.dialIfNeeded()
}

// hasRoom tells whether a connection has room for any request.
func (p *pool) hasRoom() bool {
	return slices.ContainsFunc(p.conns, func(c *apnsConn) bool { return c.inFlight < c.limit() })
}

// dialIfNeeded opens one more connection when requests wait that a new one could
// take, and every one there is has proven itself or is slow to: a new connection
// takes a single request at first, and more of them at once would be no faster.
func (p *pool) dialIfNeeded() {
	if p.closed || p.dialing || len(p.conns) >= maxConns {
		return
	}
	for _, c := range p.conns {
		if !c.proven && !c.slow {
			return
		}
	}
	first := p.firstForNew()
	if first == nil {
		return
	}
	wait := time.Until(p.retryAt)
	if wait > 0 && len(p.conns) > 0 {
		return // those that are there will do meanwhile
	}
	p.dialing = true
	// The dial serves all who wait: it outlives the request that it is for.
	ctx, cancel := context.WithCancel(context.WithoutCancel(first.ctx))
	p.hangUp = cancel
	go func() {
		defer cancel()
		p.open(ctx, wait)
	}()
}

// firstForNew is who has waited longest of those that a new connection may serve.
func (p *pool) firstForNew() *waiter {
	for e := p.waiters.Front(); e != nil; e = e.Next() {
		if w := e.Value.(*waiter); p.untried(w.topic) < maxUntried {
			return w
		}
	}
	return nil
}

// open dials after a wait.
func (p *pool) open(ctx context.Context, wait time.Duration) {
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	c, err := p.dial(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dialing = false
	switch p.err = err; {
	case err != nil:
		p.backOff(firstDialBackoff)
		p.complain(err)
		if len(p.conns) == 0 {
			p.failWaiters(err)
		}
	case p.closed, c.gone.Load():
		p.backOff(0)
		go func() { _ = c.cc.Close() }()
	default:
		p.conns = append(p.conns, c)
		time.AfterFunc(min(p.o.readIdle, firstAnswerWithin), func() { p.losePatience(c) })
	}
	p.dispatch()
}

// losePatience lets other connections be opened beside one that gave no answer
// yet: a first request that is never answered must not hold up all others.
func (p *pool) losePatience(c *apnsConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.slow = true
	p.dispatch()
}

// backOff puts off the next dial: by first, and longer with each failure. The
// first loss of a connection that was there (first 0) puts off nothing, since
// its requests shall be sent again at once.
func (p *pool) backOff(first time.Duration) {
	p.failures++
	if first == 0 && p.failures == 1 {
		return
	}
	p.retryAt = time.Now().Add(dialBackoff(p.failures))
}

// complain logs the first failure, and then ever more rarely.
func (p *pool) complain(err error) {
	if p.failures&(p.failures-1) == 0 && !p.closed {
		p.o.log.Warn("no connection to APNs", "address", p.addr, "failures", p.failures, "error", err)
	}
}

// dialBackoff is a random time up to twice as long after each failure.
func dialBackoff(failures int) time.Duration {
	d := min(firstDialBackoff<<min(failures-1, 10), lastDialBackoff)
	return d/2 + rand.N(d/2)
}

// failWaiters tells all who wait that there is no connection to wait for.
func (p *pool) failWaiters(err error) {
	for e := p.waiters.Front(); e != nil; e = p.waiters.Front() {
		w := p.waiters.Remove(e).(*waiter)
		w.err = err
		close(w.done)
	}
}

// retire lets a connection take no more requests; it ends with its last one.
func (p *pool) retire(c *apnsConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retireLocked(c)
}

// retireLocked is retire with mu held. A connection that never gave an answer
// counts as a failure: a server that hangs up at once is not called in a loop.
func (p *pool) retireLocked(c *apnsConn) {
	if c.gone.Swap(true) {
		return
	}
	for i, other := range p.conns {
		if other == c {
			p.conns = append(p.conns[:i:i], p.conns[i+1:]...)
			p.ending[c] = struct{}{}
			if !c.proven {
				p.backOff(0)
			}
			break
		}
	}
	p.endIfIdle(c)
	p.dispatch()
}

// endIfIdle closes a retired connection that nobody uses.
func (p *pool) endIfIdle(c *apnsConn) {
	if _, ok := p.ending[c]; ok && c.inFlight == 0 {
		delete(p.ending, c)
		go func() { _ = c.cc.Close() }()
	}
}

// close ends idle connections at once, the others with their last request, and
// fails those who wait.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.hangUp()
	p.failWaiters(errPoolClosed)
	for _, c := range append([]*apnsConn(nil), p.conns...) {
		p.retireLocked(c)
	}
}

// size counts the connections, and tells the last failure to connect.
func (p *pool) size() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns) + len(p.ending), p.err
}

// chosenConn is the transport's view of the pool: the request's context brings
// the connection that was chosen for it.
type chosenConn struct{}

// GetClientConn implements http2.ClientConnPool.
func (chosenConn) GetClientConn(r *http.Request, _ string) (*http2.ClientConn, error) {
	x := exchangeOf(r.Context())
	if err := x.conn.reserve(r.Context()); err != nil {
		return nil, err
	}
	return x.conn.cc, nil
}

// MarkDead implements http2.ClientConnPool; the pool hears of it from the
// connection itself.
func (chosenConn) MarkDead(*http2.ClientConn) {}
