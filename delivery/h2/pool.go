package h2

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

const (
	// MaxConns is how many connections of a pool take requests at once.
	MaxConns = 4
	// MaxStreams is how many requests one connection has under way at most,
	// whatever its peer allows.
	MaxStreams = 900

	firstDialBackoff = 100 * time.Millisecond
	lastDialBackoff  = 5 * time.Second
	// firstAnswerWithin is how long a new connection's first request may take
	// before another connection is opened beside it.
	firstAnswerWithin = time.Second
	// maxUntried leaves one connection to others when the requests of a group hang.
	maxUntried = MaxConns - 1
)

// ErrClosed says that a pool was closed.
var ErrClosed = errors.New("the connections were closed")

// Options of a Pool. All are needed but FirstAlone and Attach.
type Options struct {
	// Name is what errors and the log call the server.
	Name   string
	Logger *slog.Logger
	// DialTimeout bounds connecting and the TLS handshake.
	DialTimeout time.Duration
	// A connection that is silent for ReadIdle gets a PING; silent for
	// PingTimeout more it is given up.
	ReadIdle, PingTimeout time.Duration
	// SendWithin is how long what was written may wait for the connection to take
	// it; after that the connection is given up rather than the request sent late.
	SendWithin time.Duration
	// FirstAlone lets a new connection take one request until its first answer;
	// otherwise, until the peer has told its limit.
	FirstAlone bool
	// Attach, when set, makes what the owner keeps with a new connection, see
	// Conn.Value. Its error is one of dialing.
	Attach func() (any, error)
}

// Pool holds the connections of one client to one server: at most MaxConns that
// take requests, and those that are ending. A request waits, in order, until a
// connection has room for its stream.
type Pool struct {
	addr string
	tls  *tls.Config
	o    Options

	mu sync.Mutex
	// conns take requests; ending ones had a GOAWAY, were lost, or are closed on
	// purpose, and live only until their last request has its answer.
	conns  []*Conn
	ending map[*Conn]struct{}
	// waiters are served in the order they came.
	waiters    list.List // of *waiter
	dialing    bool
	cancelDial context.CancelFunc
	failures   int // dials and connections without an answer, in a row
	retryAt    time.Time
	err        error // of the last dial
	closed     bool
}

// waiter is a request that waits for room.
type waiter struct {
	ctx   context.Context
	group string
	done  chan struct{} // closed when conn or err is set
	conn  *Conn
	err   error
}

// New makes a pool for a host and port, without a connection.
func New(addr string, cfg *tls.Config, o Options) *Pool {
	return &Pool{addr: addr, tls: cfg, o: o, ending: make(map[*Conn]struct{}), cancelDial: func() {}}
}

// Acquire waits for room for one request. The caller gives it back by Release.
// Requests that may hang for the same reason share a group: on new connections
// they leave room for the other groups.
func (p *Pool) Acquire(ctx context.Context, group string) (*Conn, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	if p.waiters.Len() == 0 {
		if c := p.pick(group, maxUntried); c != nil {
			c.begin(group)
			p.mu.Unlock()
			return c, nil
		}
	}
	// A server that was just found unreachable is not waited for here: the caller
	// knows better how long to wait.
	if err := p.err; err != nil && len(p.conns) == 0 && time.Now().Before(p.retryAt) {
		p.mu.Unlock()
		return nil, err
	}
	w := &waiter{ctx: ctx, group: group, done: make(chan struct{})}
	e := p.waiters.PushBack(w)
	p.dispatch()
	p.mu.Unlock()
	return p.await(ctx, w, e)
}

// await waits until the waiter gets a connection. One that comes just when the
// context ends is given back.
func (p *Pool) await(ctx context.Context, w *waiter, e *list.Element) (*Conn, error) {
	select {
	case <-w.done:
		return w.conn, w.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.conn != nil {
		p.release(w.conn, false)
	} else if w.err == nil {
		p.waiters.Remove(e)
	}
	return nil, ctx.Err()
}

// pick is the first connection with room: few busy connections gather more
// writes than many idle ones. A new connection is picked only while fewer than
// most new ones wait for their first answer with a request of the same group.
func (p *Pool) pick(group string, most int) *Conn {
	for _, c := range p.conns {
		if c.inFlight < c.limit() && (c.proven || p.untried(group) < most) {
			return c
		}
	}
	return nil
}

// untried counts the new connections whose first request is of this group.
func (p *Pool) untried(group string) (n int) {
	for _, c := range p.conns {
		if !c.proven && c.inFlight > 0 && c.first == group {
			n++
		}
	}
	return n
}

// Release gives back the room of a request; answered says that the server sent
// an answer, whatever it was.
func (p *Pool) Release(c *Conn, answered bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release(c, answered)
}

// release is Release with mu held. Any answer proves a connection, also a
// refusal: the server works on its requests.
func (p *Pool) release(c *Conn, answered bool) {
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

// dispatch gives room to the waiters, in the order they came, and opens a
// connection if some are left. New connections go first to groups that none was
// tried with: one group whose requests hang must not take them all.
func (p *Pool) dispatch() {
	for _, most := range []int{1, maxUntried} {
		for e := p.waiters.Front(); e != nil && p.hasRoom(); {
			w, next := e.Value.(*waiter), e.Next()
			if c := p.pick(w.group, most); c != nil {
				c.begin(w.group)
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
func (p *Pool) hasRoom() bool {
	return slices.ContainsFunc(p.conns, func(c *Conn) bool { return c.inFlight < c.limit() })
}

// dialIfNeeded opens one more connection when requests wait that a new one could
// take, and every one there is has proven itself or is slow to: a new connection
// takes a single request at first, and more of them at once would be no faster.
func (p *Pool) dialIfNeeded() {
	if p.closed || p.dialing || len(p.conns) >= MaxConns {
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
	// The dial serves all waiters: it goes on when the first one's context ends.
	ctx, cancel := context.WithCancel(context.WithoutCancel(first.ctx))
	p.cancelDial = cancel
	go func() {
		defer cancel()
		p.open(ctx, wait)
	}()
}

// firstForNew is the oldest waiter that a new connection may serve.
func (p *Pool) firstForNew() *waiter {
	for e := p.waiters.Front(); e != nil; e = e.Next() {
		if w := e.Value.(*waiter); p.untried(w.group) < maxUntried {
			return w
		}
	}
	return nil
}

// open dials after a wait.
func (p *Pool) open(ctx context.Context, wait time.Duration) {
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
		p.logFailure(err)
		if len(p.conns) == 0 {
			p.failWaiters(err)
		}
	case p.closed, c.gone.Load():
		p.backOff(0)
		go func() { _ = c.cc.Close() }()
	default:
		p.conns = append(p.conns, c)
		time.AfterFunc(min(p.o.ReadIdle, firstAnswerWithin), func() { p.markSlow(c) })
	}
	p.dispatch()
}

// markSlow lets other connections be opened beside one that gave no answer
// yet: a first request that is never answered must not hold up all others.
func (p *Pool) markSlow(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.slow = true
	p.dispatch()
}

// backOff puts off the next dial: by first, and longer with each failure. The
// first loss of a connection that was there (first 0) puts off nothing, since
// its requests shall be sent again at once.
func (p *Pool) backOff(first time.Duration) {
	p.failures++
	if first == 0 && p.failures == 1 {
		return
	}
	p.retryAt = time.Now().Add(dialBackoff(p.failures))
}

// logFailure logs the first failure, and then ever more rarely.
func (p *Pool) logFailure(err error) {
	if p.failures&(p.failures-1) == 0 && !p.closed {
		p.o.Logger.Warn("no connection to "+p.o.Name, "address", p.addr, "failures", p.failures, "error", err)
	}
}

// dialBackoff is a random time up to twice as long after each failure.
func dialBackoff(failures int) time.Duration {
	d := min(firstDialBackoff<<min(failures-1, 10), lastDialBackoff)
	return d/2 + rand.N(d/2)
}

// failWaiters ends all waiters with an error.
func (p *Pool) failWaiters(err error) {
	for e := p.waiters.Front(); e != nil; e = p.waiters.Front() {
		w := p.waiters.Remove(e).(*waiter)
		w.err = err
		close(w.done)
	}
}

// retire is Conn.Retire with mu held. A connection that never gave an answer
// counts as a failure: a server that closes connections at once is not dialled in
// a loop.
func (p *Pool) retire(c *Conn) {
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

// endIfIdle closes a retired connection without requests.
func (p *Pool) endIfIdle(c *Conn) {
	if _, ok := p.ending[c]; ok && c.inFlight == 0 {
		delete(p.ending, c)
		go func() { _ = c.cc.Close() }()
	}
}

// Close ends idle connections at once and the others with their last request.
// Requests that wait get ErrClosed.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.cancelDial()
	p.failWaiters(ErrClosed)
	for _, c := range slices.Clone(p.conns) {
		p.retire(c)
	}
}

// State counts the open connections, and tells the last failure to connect.
func (p *Pool) State() (open int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns) + len(p.ending), p.err
}
