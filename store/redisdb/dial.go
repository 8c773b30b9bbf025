package redisdb

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// keepAlive detects a peer that vanished silently while the connection was idle.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3}

// newDialer dials connections on which failures before the first answer count as failures to dial.
// The first command is the greeting of the client library, so no command of fanfare can have run. A
// frozen Redis still accepts connections, and only in this way it is known that nothing happened.
// A Unix socket takes the place of every address.
func newDialer(config *tls.Config, socket string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if socket != "" {
			network, addr = "unix", socket
		}
		d := net.Dialer{Timeout: dialTimeout, KeepAliveConfig: keepAlive}
		conn, err := d.DialContext(ctx, network, addr)
		if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT) { // a socket that nobody has made yet
			return refusedConn{beforeAnything(err)}, nil
		}
		if err != nil {
			return nil, err
		}
		if config == nil {
			return &freshSocket{freshConn{Conn: conn}}, nil
		}
		return dialTLS(ctx, conn, addr, config)
	}
}

// refusedConn stands for a connection that was refused: every read and write fails with the
// error of the dial. The library's pool would remember a refusal and repeat it for up to a
// second after Redis is back, so it never learns of one. A refusal comes at once, so dialling
// again for each command costs little.
type refusedConn struct{ err error }

// Read fails.
func (c refusedConn) Read([]byte) (int, error) { return 0, c.err }

// Write fails.
func (c refusedConn) Write([]byte) (int, error) { return 0, c.err }

// Close and the other methods do nothing.
func (refusedConn) Close() error                     { return nil }
func (refusedConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (refusedConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (refusedConn) SetDeadline(time.Time) error      { return nil }
func (refusedConn) SetReadDeadline(time.Time) error  { return nil }
func (refusedConn) SetWriteDeadline(time.Time) error { return nil }

func dialTLS(ctx context.Context, conn net.Conn, addr string, config *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if config.ServerName == "" {
		config = config.Clone()
		config.ServerName, _, _ = net.SplitHostPort(addr)
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, asDialError(conn, err)
	}
	return &freshConn{Conn: secured}, nil
}

// freshConn is a connection that knows whether the peer can have received any of the last
// request.
type freshConn struct {
	net.Conn
	heard atomic.Bool // the peer has answered before
	asked atomic.Bool // something was written since it last answered
}

// Read makes a failure before the first byte a failure to dial.
func (c *freshConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.heard.Store(true)
		c.asked.Store(false)
	}
	if err != nil && !c.heard.Load() {
		return n, asDialError(c.Conn, err)
	}
	return n, err
}

// Write does the same. It also does so for an older connection if the first write sends nothing,
// because the deadline had passed or the peer had closed the connection.
func (c *freshConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if n > 0 {
		c.asked.Store(true)
	}
	if err != nil && (!c.heard.Load() || !c.asked.Load()) {
		return n, asDialError(c.Conn, err)
	}
	return n, err
}

// asDialError turns a failure into a failure to dial.
func asDialError(conn net.Conn, err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return beforeAnything(&net.OpError{Op: "dial", Net: "tcp", Addr: conn.RemoteAddr(), Err: err})
}

// beforeAnything wraps an error once more: the library removes one layer from errors of its
// greeting.
func beforeAnything(err error) error { return fmt.Errorf("before redis heard anything: %w", err) }

// freshSocket gives access to its socket, so that the pool notices a peer that closed the connection.
type freshSocket struct{ freshConn }

// SyscallConn gives the socket to the pool.
func (c *freshSocket) SyscallConn() (syscall.RawConn, error) {
	return c.Conn.(syscall.Conn).SyscallConn()
}
