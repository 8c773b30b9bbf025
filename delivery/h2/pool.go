package h2

import (
	"cmp"
	"container/list"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	// MaxConns is Options.Conns by default.
	MaxConns = 32
	// MaxStreams is how many requests one connection has under way at most,
	// whatever its peer allows.
	MaxStreams = 900

	// defaultIdleAfter is Options.IdleAfter.
	defaultIdleAfter = time.Minute
)

// ErrClosed says that a pool was closed.
var ErrClosed = errors.New("the connections were closed")

// errRefused says that the server accepts new connections and then asks for another one each time.
var errRefused = errors.New("the server asks for another connection each time")

// Options of a Pool. Name, Host, Logger and the times up to SendWithin are required.
type Options struct {
	// Name is the server's name in errors and in the log.
	Name string
	// Host is the :authority of requests.
	Host   string
	Logger *slog.Logger
	// DialTimeout bounds connecting and the TLS handshake.
	DialTimeout time.Duration
	// A connection that is silent for ReadIdle gets a PING; silent for
	// PingTimeout more it is given up.
	ReadIdle, PingTimeout time.Duration
	// AnswerWithin is how long a connection may answer none of its requests before no more of them are
	// sent on it; default the smaller of 5 s and ReadIdle.
	AnswerWithin time.Duration
	// SendWithin is how long a request may wait for the connection to take it after its check. After that the
	// connection is given up, so that no request is sent late.
	SendWithin time.Duration
	// Conns is how many connections take requests at once, default MaxConns.
	Conns int
	// A connection that has no request for IdleAfter, default 1 min, is closed while there
	// is another one, or, with CloseLast, even if it is the last one.
	IdleAfter time.Duration
	CloseLast bool
	// OnePath says that all requests have the same path. It then enters the connection's header table,
	// and takes a byte or two from the second request on.
	OnePath bool
	// Control, when set, is that of the net.Dialer: it is called before each connection with the address that the
	// host's name was resolved to. Its error counts as a dial error, and that address is not connected to.
	Control func(network, address string, c syscall.RawConn) error
	// Resolver resolves the host's name; nil is Go's own.
	Resolver *net.Resolver
	// FirstAlone lets a new connection take a single request until the first answer has come. If it
	// is false, a single request until the peer has sent its limit.
	FirstAlone bool
	// Attach, when set, makes the value that the owner keeps with a new connection, see
	// Conn.Value. Its error counts as a dial error.
	Attach func() (any, error)
}

// Pool holds the connections of one client to one server: at most Options.Conns that
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
	// waiters are served in the order they came, bulk ones after all others.
	waiters    list.List      // of *Waiter
	bulk       *list.Element  // the first bulk one; nil: there is none
	groups     map[string]int // how many of them are of each group
	told, last *Waiter        // waiters that unlockAndNotify tells, linked by next
	dialing    int            // dials under way
	end        chan struct{}  // closed by Close, which ends the dials
	failures   int            // dials and useless connections in a row
	retryAt    time.Time
	retrying   bool  // a dispatch is scheduled for retryAt
	err        error // of the last dial or useless connection since the last answer
	closed     bool
	patience   time.Duration // see noAnswers
}

// New makes a pool for a host and port, without a connection.
func New(addr string, cfg *tls.Config, o Options) *Pool {
	o.IdleAfter, o.Conns = cmp.Or(o.IdleAfter, defaultIdleAfter), cmp.Or(o.Conns, MaxConns)
	o.AnswerWithin = cmp.Or(o.AnswerWithin, min(o.ReadIdle, answerWithin))
	return &Pool{
		addr: addr, tls: cfg, o: o, ending: make(map[*Conn]struct{}), groups: make(map[string]int), end: make(chan struct{}), patience: o.AnswerWithin,
	}
}

// lower applies a lower limit of the peer before it is acknowledged.
func (p *Pool) lower(c *Conn, streams int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.peer = min(c.peer, streams)
}

// raise applies the peer's limit when it is acknowledged. Without FirstAlone this also proves the
// connection.
func (p *Pool) raise(c *Conn, streams int) {
	p.mu.Lock()
	defer p.unlockAndNotify()
	c.peer = streams
	if !p.o.FirstAlone {
		c.proven = true
	}
	p.dispatch()
}

// endUnused retires a connection that stays without requests: few busy connections gather more
// writes than many idle ones. mu is held.
func (p *Pool) endUnused(c *Conn) {
	if c.idle != nil {
		c.idle.Reset(p.o.IdleAfter)
		return
	}
	c.idle = time.AfterFunc(p.o.IdleAfter, func() {
		p.mu.Lock()
		defer p.unlockAndNotify()
		if c.inFlight == 0 && (len(p.conns) > 1 || p.o.CloseLast) {
			c.useful = true // not a failure
			p.retire(c, nil)
		}
	})
}

// failWaiters ends all waiters with an error.
func (p *Pool) failWaiters(err error) {
	for e := p.waiters.Front(); e != nil; e = p.waiters.Front() {
		p.tell(e.Value.(*Waiter), nil, err)
	}
}

// retire is Conn.retire with mu held. A connection that was not useful counts as a failure, so that a
// server that closes connections at once, always asks for another one, or answers nothing is not dialled
// in a loop.
func (p *Pool) retire(c *Conn, why error) {
	if c.gone.Swap(true) {
		return
	}
	c.why = why
	if i := slices.Index(p.conns, c); i >= 0 {
		p.conns = slices.Delete(p.conns, i, i+1)
		p.ending[c] = struct{}{}
		if !c.useful {
			p.useless(c)
		}
	}
	p.endIfIdle(c)
	p.dispatch()
}

// endIfIdle closes a retired connection without requests.
func (p *Pool) endIfIdle(c *Conn) {
	if _, ok := p.ending[c]; ok && c.inFlight == 0 {
		delete(p.ending, c)
		go c.fail(ErrClosed)
	}
}

// Close ends idle connections at once and the others with their last request.
// Requests that wait get ErrClosed.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.unlockAndNotify()
	if !p.closed {
		close(p.end)
	}
	p.closed = true
	p.failWaiters(ErrClosed)
	for _, c := range slices.Clone(p.conns) {
		p.retire(c, nil)
	}
}

// State returns the number of open connections and the last failure to get an answer: of a dial, or of a
// connection that ended without one. The next answer clears it.
func (p *Pool) State() (open int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns) + len(p.ending), p.err
}
