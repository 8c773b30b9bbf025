package h2

import (
	"errors"
	"net"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

var (
	errLate    = errors.New("held up before it was sent")
	errFlooded = errors.New("the server asks for more than it takes")
	errStuck   = errors.New("the server takes nothing more")
)

const (
	// maxUnsent is how many bytes may wait for the next write. Beyond that the peer makes the connection answer
	// and does not read, and the connection ends.
	maxUnsent = 1 << 20
	maxKept   = 1 << 20 // of a buffer between two writes
	// maxWrite is how many bytes of requests are gathered for one write.
	maxWrite = 8 << 10
	// maxInSystem is how many bytes the system may hold and not have sent. It takes no more before half of
	// them are left, which leaves room for a whole write and the rest of its last request.
	maxInSystem = 4 * maxWrite
	// drainTimeout is how long the reader may take to read what a peer sent before it closed the connection.
	drainTimeout = time.Second
)

// gather holds the frames of the next write.
type gather struct {
	bytes []byte
	spare []byte
	taken uint64 // bytes that were handed to TLS
	wake  chan struct{}
}

// Write implements io.Writer for the framer. The connection's lock is held.
func (g *gather) Write(p []byte) (int, error) {
	if len(g.bytes) == 0 {
		g.wakeWriter()
	}
	g.bytes = append(g.bytes, p...)
	return len(p), nil
}

func (g *gather) wakeWriter() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// take returns the bytes to send.
func (g *gather) take() []byte {
	p := g.bytes
	g.bytes, g.spare = g.spare[:0], p
	if cap(p) > maxKept {
		g.spare = nil
	}
	g.taken += uint64(len(p))
	return p
}

// punctual is the connection below TLS. It refuses data that is written too late. It checks the
// time right before the system call, with nothing in between. The connection's deadline ends a system call in
// which data waits.
type punctual struct {
	net.Conn
	opened time.Time
	until  atomic.Int64    // ns after opened; 0: no limit
	system syscall.RawConn // nil: not a connection of the system
}

func newPunctual(conn net.Conn) *punctual {
	c := &punctual{Conn: conn, opened: time.Now()}
	if s, ok := conn.(syscall.Conn); ok {
		if c.system, _ = s.SyscallConn(); c.system != nil {
			_ = c.system.Control(func(fd uintptr) {
				_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, maxInSystem)
			})
		}
	}
	return c
}

// awaitRoom waits until the system takes maxWrite bytes at once, at most for a time.
func (c *punctual) awaitRoom(most time.Duration) error {
	if c.system == nil {
		return nil
	}
	room := false
	look := func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 0)
		room = n > 0 || err != nil && !errors.Is(err, unix.EINTR) // of another error the write tells
		return room
	}
	if err := c.system.Control(func(fd uintptr) { look(fd) }); room || err != nil {
		return err
	}
	_ = c.SetWriteDeadline(time.Now().Add(most))
	return c.system.Write(look)
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

// write is the connection's writer goroutine. Requests are buffered when the system has room for them, because their
// checks are asked then: on a long or slow way to the server a burst of them waits for seconds. If a write takes too long
// all the same, the connection ends: a process that was stopped for a while must not send requests whose leases have
// ended.
func (c *Conn) write() {
	defer c.conn.Close()
	for more := false; ; {
		if !more {
			select {
			case <-c.done:
				return
			case <-c.out.wake:
			}
		}
		if err := c.raw.awaitRoom(c.pool.o.AnswerWithin); err != nil {
			c.fail(errStuck)
			return
		}
		runtime.Gosched() // calls that are about to begin join this write
		until := time.Now().Add(c.pool.o.SendWithin)
		c.mu.Lock()
		more = c.fill()
		p := c.out.take()
		c.unlockAndNotify()
		if len(p) == 0 {
			continue
		}
		c.raw.until.Store(until.Sub(c.raw.opened).Nanoseconds())
		_ = c.raw.SetWriteDeadline(until)
		if n, err := c.conn.Write(p); err != nil {
			if errors.Is(err, errLate) {
				c.mu.Lock()
				c.out.taken -= uint64(len(p) - n) // these bytes were not sent
				c.mu.Unlock()
			} else {
				c.awaitReader()
			}
			c.fail(err)
			return
		}
	}
}

// awaitReader lets the reader end the connection, for a while. A peer that has closed it may have said why, and which
// requests it has not processed.
func (c *Conn) awaitReader() {
	timer := time.NewTimer(drainTimeout)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
	}
}

// fill buffers calls for the next write, and reports whether some are left. mu is held here and in what follows.
func (c *Conn) fill() (more bool) {
	n := 0
	for ; n < len(c.ready) && len(c.out.bytes) < maxWrite; n++ {
		switch call := c.ready[n]; {
		case call.id == 0:
			c.begin(call)
		case c.under(call):
			c.pump(call)
		}
	}
	c.ready = slices.Delete(c.ready, 0, n)
	return len(c.ready) > 0
}

// pump buffers as much of a body for sending as the peer's windows take. Before the last of it,
// the check is asked again if the call had to wait.
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
	c.blocked = append(c.blocked, call)
}

// unblock resumes the waiting bodies after a window grew.
func (c *Conn) unblock() {
	if len(c.blocked) > 0 {
		c.ready, c.blocked = append(c.blocked, c.ready...), nil
		c.out.wakeWriter()
	}
}
