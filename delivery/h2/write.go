package h2

import (
	"errors"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"time"
)

var (
	errLate    = errors.New("held up before it was sent")
	errFlooded = errors.New("the server asks for more than it takes")
)

const (
	// maxUnsent is how many bytes may wait to be sent. Beyond that the peer makes the connection answer
	// and does not read, and the connection ends. All requests that may be under way take less.
	maxUnsent = 16 << 20
	maxKept   = 1 << 20 // of a buffer between two writes
)

// gather holds the frames that were written and not yet sent. Frames that calls write while a TLS
// record is being sent are sent together, in one record and with one system call.
type gather struct {
	bytes []byte
	spare []byte
	since time.Time // when the first of bytes was written
	taken uint64    // bytes that were handed to TLS
	wake  chan struct{}
}

// Write implements io.Writer for the framer. The connection's lock is held.
func (g *gather) Write(p []byte) (int, error) {
	if len(g.bytes) == 0 {
		g.since = time.Now()
		select {
		case g.wake <- struct{}{}:
		default:
		}
	}
	g.bytes = append(g.bytes, p...)
	return len(p), nil
}

// take returns the bytes to send, and the time since which they have waited.
func (g *gather) take() ([]byte, time.Time) {
	p := g.bytes
	g.bytes, g.spare = g.spare[:0], p
	if cap(p) > maxKept {
		g.spare = nil
	}
	g.taken += uint64(len(p))
	return p, g.since
}

// punctual is the connection below TLS. It refuses data that is written too late. It checks the
// time right before the system call, with nothing in between. The connection's deadline ends a system call in
// which data waits.
type punctual struct {
	net.Conn
	opened time.Time
	until  atomic.Int64 // ns after opened; 0: no limit
}

// Write implements net.Conn.
func (c *punctual) Write(p []byte) (int, error) {
	if until := c.until.Load(); until != 0 && time.Since(c.opened).Nanoseconds() > until {
		return 0, errLate
	}
	n, err := c.Conn.Write(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errLate // the peer took nothing more in time
	}
	return n, err
}

// end is where in the connection's bytes the newest frame ends.
func (g *gather) end() uint64 { return g.taken + uint64(len(g.bytes)) }

// write is the connection's writer goroutine. If data has waited too long, the connection ends and the
// data is not sent: a process that was stopped for a while must not send requests whose leases have
// ended.
func (c *Conn) write() {
	defer c.conn.Close()
	for {
		select {
		case <-c.done:
			return
		case <-c.out.wake:
		}
		runtime.Gosched() // calls that are about to begin join this write
		c.mu.Lock()
		p, since := c.out.take()
		c.mu.Unlock()
		if len(p) == 0 {
			continue
		}
		until := since.Add(c.pool.o.SendWithin)
		c.raw.until.Store(until.Sub(c.raw.opened).Nanoseconds())
		_ = c.raw.SetWriteDeadline(until)
		if n, err := c.conn.Write(p); err != nil {
			if errors.Is(err, errLate) {
				c.mu.Lock()
				c.out.taken -= uint64(len(p) - n) // these bytes were not sent
				c.mu.Unlock()
			}
			c.fail(err)
			return
		}
	}
}

// pump buffers as much of a body for sending as the peer's windows take. Before the last of it,
// the check is asked again if the call had to wait. mu is held here and in what follows.
func (c *Conn) pump(call *Call) {
	for {
		rest := call.body[call.sent:]
		n := max(min(int64(len(rest)), int64(c.maxFrame), call.window, c.window), 0)
		whole := n == int64(len(rest))
		switch {
		case whole && !call.may():
			c.reset(call, ErrWithheld)
			return
		case n == 0 && !whole:
			c.wait(call)
			return
		}
		_ = c.framer.WriteData(call.id, whole, rest[:n])
		call.sent += int(n)
		call.window -= n
		c.window -= n
		if whole {
			call.endsAt = c.out.end()
			return
		}
	}
}

// wait lets a body wait for a window.
func (c *Conn) wait(call *Call) {
	call.checked = false
	if !call.waits {
		call.waits = true
		c.blocked = append(c.blocked, call)
	}
}

// unblock resumes the waiting bodies after a window grew.
func (c *Conn) unblock() {
	blocked := c.blocked
	c.blocked = nil
	for _, call := range blocked {
		call.waits = false
		if c.under(call) {
			c.pump(call)
		}
	}
}
