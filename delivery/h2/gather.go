package h2

import (
	"errors"
	"net"
	"runtime"
	"sync"
	"time"
)

// errLate says that what was written waited too long to be sent.
var errLate = errors.New("held up before it was sent")

const (
	maxGathered = 1 << 20                // a writer waits while more is unsent
	closeTime   = 250 * time.Millisecond // for the peer to take the last frames
)

// gatherConn is the TLS connection that http2.ClientConn writes to. The frames
// of many streams that are written while a TLS record is on its way leave
// together in the next one: one record and one system call for all of them.
type gatherConn struct {
	net.Conn // TLS
	raw      net.Conn
	watch    *frameWatch
	handled  func()        // before each read: everything read so far was handled
	lost     func()        // once, when the connection is no more
	within   time.Duration // older bytes are not sent any more
	wake     chan struct{}
	done     chan struct{}
	once     sync.Once

	mu    sync.Mutex
	room  sync.Cond
	out   []byte    // written, not yet sent
	since time.Time // when the first byte of out was written
	spare []byte
	err   error
}

// newGatherConn wraps a TLS connection; its owner sets the hooks and starts send.
func newGatherConn(conn, raw net.Conn, within time.Duration) *gatherConn {
	c := &gatherConn{Conn: conn, raw: raw, within: within, wake: make(chan struct{}, 1), done: make(chan struct{})}
	c.room.L = &c.mu
	return c
}

// Read reads from the peer and shows it to the watch.
func (c *gatherConn) Read(p []byte) (int, error) {
	c.handled()
	n, err := c.Conn.Read(p)
	c.watch.feed(p[:n])
	if err != nil {
		c.fail(err)
	}
	return n, err
}

// Write takes p to be sent and does not wait for it, unless much is unsent. It
// fails once sending has failed.
func (c *gatherConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.out) > maxGathered && c.err == nil {
		c.room.Wait()
	}
	if c.err != nil {
		return 0, c.err
	}
	if len(c.out) == 0 {
		c.since = time.Now()
	}
	c.out = append(c.out, p...)
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return len(p), nil
}

// send is the connection's writer goroutine. What has waited too long ends the
// connection instead of being sent: a process that was stopped for a while must
// not send requests that are no longer its own.
func (c *gatherConn) send() {
	for {
		select {
		case <-c.done:
			return
		case <-c.wake:
		}
		runtime.Gosched() // streams that are about to write come along
		c.mu.Lock()
		out, since := c.out, c.since
		c.out = c.spare[:0]
		c.room.Broadcast()
		c.mu.Unlock()
		if len(out) > 0 && time.Since(since) > c.within {
			c.fail(errLate)
			_ = c.Close()
			return
		}
		if _, err := c.Conn.Write(out); err != nil {
			_ = c.Close()
			return
		}
		c.spare = out[:0]
	}
}

// fail lets waiting writers fail and calls lost.
func (c *gatherConn) fail(err error) {
	c.once.Do(func() {
		c.mu.Lock()
		c.err = err
		c.room.Broadcast()
		c.mu.Unlock()
		close(c.done)
		c.lost()
	})
}

// Close ends the connection. A peer that takes nothing any more can't hold it up.
func (c *gatherConn) Close() error {
	c.fail(net.ErrClosed)
	t := time.AfterFunc(closeTime, func() { _ = c.raw.Close() })
	defer t.Stop()
	return c.Conn.Close()
}
