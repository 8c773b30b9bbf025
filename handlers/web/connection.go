package web

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"syscall"
	"time"
)

const (
	// ackWithin is how long what a stream has written may stay without TCP's
	// acknowledgement before the connection is closed: one that is lost between
	// two heartbeats is closed 30 s after the first of them.
	ackWithin = 15 * time.Second
	// askAfter is how long after a heartbeat TCP is asked whether it has arrived,
	// and how often it is asked again.
	askAfter = time.Second
)

type connectionKey struct{}

// KeepConnection is for http.Server.ConnContext: streams need the connection to
// know what has reached their clients. Without it, and where the system does
// not tell, whatever could be written counts as arrived.
func KeepConnection(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	if plain, ok := c.(syscall.Conn); ok {
		return context.WithValue(ctx, connectionKey{}, plain)
	}
	return ctx
}

// connectionOf is the TCP connection of a request, nil when it is not known.
// Over HTTP/2 many requests share it.
func connectionOf(ctx context.Context) syscall.Conn {
	c, _ := ctx.Value(connectionKey{}).(syscall.Conn)
	return c
}

// receipt follows one heartbeat until TCP says that it has arrived. Its zero
// value waits for none.
type receipt struct {
	awaited bool
	goal    uint64 // how many bytes must be acknowledged then, 0: not yet known
}

// arrived asks TCP, the first time when the heartbeat has surely been handed to
// it: over HTTP/2 that happens on another goroutine. What else is written
// meanwhile does not matter.
func (r *receipt) arrived(c syscall.Conn) bool {
	if c == nil {
		return true
	}
	acked, open, err := acknowledged(c)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return true
	case err != nil:
		return false // the connection is at its end
	case open == 0:
		return true
	case r.goal == 0:
		r.goal = acked + open
		return false
	}
	return acked >= r.goal
}
