package app

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"
)

const (
	// lingerTime and lingerBytes bound what is still read of a client that sends
	// more than is taken: 16 MiB, four times the largest body.
	lingerTime  = 5 * time.Second
	lingerBytes = 16 << 20
	// maxLingering is how many such clients are read on at once.
	maxLingering = 1024
)

// patientListener accepts connections that let their clients finish.
//
// A connection that is closed while its client still sends is reset, and the
// reset takes away what the client has not read yet: the answer that tells what
// was wrong with a body or a head that is too large.
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

// patientConn is one connection of a patientListener.
type patientConn struct {
	*net.TCPConn
	listener *patientListener
	readers  atomic.Int32
	ended    atomic.Bool // the client has nothing more to say
	closed   atomic.Bool
}

// Read reads what the client sends.
func (c *patientConn) Read(p []byte) (int, error) {
	c.readers.Add(1)
	defer c.readers.Add(-1)
	n, err := c.TCPConn.Read(p)
	if err != nil && !timeout(err) {
		c.ended.Store(true)
	}
	return n, err
}

func timeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// Close closes at once what somebody reads from (an idle connection), what has
// come to its end, and what is closed again. Of any other the client is told that
// nothing more comes, and it is read till the client ends too, or for a while.
func (c *patientConn) Close() error {
	if c.closed.Swap(true) || c.ended.Load() || c.readers.Load() > 0 {
		return c.TCPConn.Close()
	}
	if c.listener.lingering.Add(1) > maxLingering || c.CloseWrite() != nil {
		c.listener.lingering.Add(-1)
		return c.TCPConn.Close()
	}
	go c.linger()
	return nil
}

// linger reads and forgets.
func (c *patientConn) linger() {
	defer c.listener.lingering.Add(-1)
	defer c.TCPConn.Close()
	if c.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(c.TCPConn, lingerBytes))
	}
}
