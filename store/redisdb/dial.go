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

// keepAlive finds a peer that vanished without a word while nothing was asked.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3}

// newDialer dials connections whose failures before the first answer count as
// failures to dial: the first command is the client's own greeting, so no
// command of ours can have run. A frozen Redis still accepts connections; only
// this tells that nothing happened there.
func newDialer(config *tls.Config) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		d := net.Dialer{Timeout: dialTimeout, KeepAliveConfig: keepAlive}
		conn, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if config == nil {
			return &freshTCP{freshConn{Conn: conn}}, nil
		}
		return dialTLS(ctx, conn, addr, config)
	}
}

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

// freshConn is a connection that knows whether the peer can have heard
// anything of what was asked last.
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

// Write does the same, also for an old connection of which a first write puts
// nothing on the wire: its deadline had passed, or the peer had hung up.
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

// asDialError wraps twice: the library takes one layer off what fails while it
// greets a server.
func asDialError(conn net.Conn, err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("before redis heard anything: %w",
		&net.OpError{Op: "dial", Net: "tcp", Addr: conn.RemoteAddr(), Err: err})
}

// freshTCP shows its socket, by which the pool sees that a peer hung up.
type freshTCP struct{ freshConn }

// SyscallConn is what the pool needs.
func (c *freshTCP) SyscallConn() (syscall.RawConn, error) {
	return c.Conn.(syscall.Conn).SyscallConn()
}
