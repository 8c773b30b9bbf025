package app

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// lingerTime and lingerBytes bound how much is still read from a client that sends more than
	// the server takes: 16 MiB is four times the largest body.
	lingerTime  = 5 * time.Second
	lingerBytes = 16 << 20
	// maxLingering is how many such clients are read from at once.
	maxLingering = 1024
)

// patientListener accepts connections whose clients can finish sending before the connection is
// closed.
//
// A connection that is closed while its client still sends is reset. The reset discards
// what the client has not read yet, such as the answer to a body or a head that is too
// large.
type patientListener struct {
	net.Listener
	lingering atomic.Int64
}

// Accept waits for the next connection.
func (l *patientListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return conn, nil
	}
	return &patientConn{TCPConn: tcp, listener: l}, nil
}

// patientConn is one connection of a patientListener. It passes a read deadline on only when
// somebody reads. net/http sets eight deadlines around a small request, replaces most of them
// before it reads, and each of them would cost a change of the runtime's timers.
type patientConn struct {
	*net.TCPConn
	listener *patientListener
	ended    atomic.Bool // the client has stopped sending
	closed   atomic.Bool

	mu            sync.Mutex
	readers       int
	wanted, inUse time.Time // read deadlines: the one set last, and the one in force
}

// Read reads data from the client.
func (c *patientConn) Read(p []byte) (int, error) {
	if err := c.begin(); err != nil {
		return 0, err
	}
	n, err := c.TCPConn.Read(p)
	c.mu.Lock()
	c.readers--
	c.mu.Unlock()
	if err != nil && !timeout(err) {
		c.ended.Store(true)
	}
	return n, err
}

// begin counts a reader, for whom the deadline set last is in force.
func (c *patientConn) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enforce(); err != nil {
		return err
	}
	c.readers++
	return nil
}

// enforce puts the deadline set last in force. It needs the lock.
func (c *patientConn) enforce() error {
	if c.wanted.Equal(c.inUse) {
		return nil
	}
	c.inUse = c.wanted
	return c.TCPConn.SetReadDeadline(c.wanted)
}

// SetReadDeadline sets the deadline of reads, including those that are already waiting.
func (c *patientConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wanted = t; c.readers > 0 {
		return c.enforce()
	}
	return nil
}

// SetDeadline sets the deadlines of reads and writes.
func (c *patientConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// reading tells whether somebody is reading from the client.
func (c *patientConn) reading() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.readers > 0
}

func timeout(err error) bool {
	e, ok := err.(net.Error) // the connection returns it unwrapped; errors.As would cost more than all else here
	return ok && e.Timeout()
}

// Close closes the connection at once if somebody reads from it (it is idle), if the client has
// ended it, or if this is the second call. Otherwise it ends the writing side and reads until
// the client ends, too, or lingerTime or lingerBytes are used up.
func (c *patientConn) Close() error {
	if c.closed.Swap(true) || c.ended.Load() || c.reading() {
		return c.TCPConn.Close()
	}
	if c.listener.lingering.Add(1) > maxLingering || c.CloseWrite() != nil {
		c.listener.lingering.Add(-1)
		return c.TCPConn.Close()
	}
	go c.linger()
	return nil
}

// linger reads and discards data.
func (c *patientConn) linger() {
	defer c.listener.lingering.Add(-1)
	defer c.TCPConn.Close()
	if c.TCPConn.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(c.TCPConn, lingerBytes))
	}
}
