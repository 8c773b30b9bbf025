package h2

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// The values that hold until the peer's settings say otherwise (RFC 9113, 6.5.2).
	firstWindow   = 65535
	firstMaxFrame = 16 << 10

	maxStreamID  = 1<<31 - 1
	readBuffer   = 32 << 10
	maxAnswer    = 64 << 10 // bytes of an answer's headers
	tcpKeepAlive = 15 * time.Second
	closeTime    = 250 * time.Millisecond // the peer has this long to take the last frames
)

var (
	errConnGone = errors.New("the connection takes no more requests")
	errSilent   = errors.New("the server answers neither data nor PING")
)

// Conn is one connection. One goroutine sends the calls (call.go, write.go), and another goroutine reads
// what the peer sends (read.go). The connection ends in fail, which also ends all calls.
type Conn struct {
	pool   *Pool
	value  any         // what Options.Attach made
	gone   atomic.Bool // takes no more requests
	opened time.Time
	heard  atomic.Int64  // when the peer last sent anything, by clock
	conn   net.Conn      // TLS
	raw    *punctual     // the layer below TLS
	framer *http2.Framer // reads from conn, writes to out
	done   chan struct{} // closed by fail
	answer head          // of the read loop

	// Guarded by the pool's lock.
	inFlight int
	first    string      // group of the last request that began before proven
	peer     int         // MAX_CONCURRENT_STREAMS; -1 before the first SETTINGS
	proven   bool        // an answer came; unless Options.FirstAlone: the first SETTINGS
	useful   bool        // an answer came that did not ask for another connection
	idle     *time.Timer // retires it, unless it is used before
	why      error       // of its retirement
	noAnswers

	mu       sync.Mutex
	out      gather
	enc      *hpack.Encoder // into block
	block    bytes.Buffer
	calls    map[uint32]*Call
	ready    []*Call // calls that the writer takes, in order
	blocked  []*Call // calls whose bodies wait for a window
	ended    *Call   // calls that unlockAndNotify tells, linked by next
	last     *Call   // last call of ended
	nextID   uint32
	streams  int   // MAX_CONCURRENT_STREAMS as acknowledged
	window   int64 // the peer's flow-control window for all bodies
	perCall  int64 // the window that each body starts with
	maxFrame int
	maxHead  int
	owed     uint32 // received bytes not yet returned to the peer's window
	err      error  // why the connection ended
	watch    *time.Timer
	pinged   time.Duration // by clock
}

// Value is what Options.Attach made for this connection.
func (c *Conn) Value() any { return c.value }

// Gone reports whether the connection takes no more requests.
func (c *Conn) Gone() bool { return c.gone.Load() }

// Retire lets the connection take no more requests; it ends with its last one.
func (c *Conn) Retire() { c.retire(nil) }

// retire is Retire with the reason, if the connection or its peer is at fault.
func (c *Conn) retire(why error) {
	c.pool.mu.Lock()
	defer c.pool.unlockAndNotify()
	c.pool.retire(c, why)
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

// reserve takes room for a request of a group.
func (c *Conn) reserve(group string) {
	c.asked()
	c.inFlight++
	if !c.proven {
		c.first = group
	}
}

// newConn makes an HTTP/2 connection of one over TLS.
func newConn(p *Pool, conn net.Conn, raw *punctual) *Conn {
	c := &Conn{
		pool: p, conn: conn, raw: raw, opened: time.Now(), peer: -1, done: make(chan struct{}),
		calls: make(map[uint32]*Call), nextID: 1, streams: maxStreamID,
		window: firstWindow, perCall: firstWindow, maxFrame: firstMaxFrame, maxHead: firstMaxFrame,
		out: gather{wake: make(chan struct{}, 1)},
	}
	c.enc = hpack.NewEncoder(&c.block)
	c.framer = http2.NewFramer(&c.out, bufio.NewReaderSize(heardReader{c}, readBuffer))
	c.framer.SetReuseFrames()
	c.framer.SetMaxReadFrameSize(firstMaxFrame)
	c.answer.init()
	return c
}

// start sends the client preface and starts the loops.
func (c *Conn) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hear()
	_, _ = c.out.Write([]byte(http2.ClientPreface))
	_ = c.framer.WriteSettings(
		http2.Setting{ID: http2.SettingEnablePush, Val: 0},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: maxAnswer})
	c.watch = time.AfterFunc(c.pool.o.ReadIdle, c.checkSilence)
	go c.write()
	go c.read()
}

// clock is the time since the connection was opened.
func (c *Conn) clock() time.Duration { return time.Since(c.opened) }

// hear notes that the peer is alive.
func (c *Conn) hear() { c.heard.Store(int64(c.clock())) }

// checkSilence checks by PING whether a silent peer is still there. If it runs far too late,
// this process was stopped, and the peer's answer may be waiting to be read: it asks again.
func (c *Conn) checkSilence() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	o, now, heard := &c.pool.o, c.clock(), time.Duration(c.heard.Load())
	switch idle := now - heard; {
	case idle < o.ReadIdle:
		c.watch.Reset(o.ReadIdle - idle)
	case c.pinged > heard && now-c.pinged < 2*o.PingTimeout:
		go c.fail(errSilent)
	default:
		c.pinged = now
		_ = c.framer.WritePing(false, [8]byte{'f', 'a', 'n', 'f', 'a', 'r', 'e'})
		c.watch.Reset(o.PingTimeout)
	}
}

// fail ends the connection and all calls on it. Only requests that were handed to TLS completely
// can have been processed: the rest will never be sent.
func (c *Conn) fail(err error) {
	c.retire(err) // before an owner hears of it; what is given to it until then ends as unprocessed
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	for _, call := range c.calls {
		if call.endsAt > c.out.taken {
			call.endsAt = 0
		}
		c.end(call, call.lost(err))
	}
	for _, call := range c.ready {
		if call.id == 0 {
			c.end(call, unprocessed(err))
		}
	}
	c.ready = nil
	c.watch.Stop()
	close(c.done)
	ended := c.takeEnded()
	c.mu.Unlock()
	time.AfterFunc(closeTime, func() { _ = c.raw.Close() }) // a peer that reads nothing can't hold up the close
	notify(ended)
}
