package h2

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"golang.org/x/net/http2"
)

const (
	firstDialBackoff = 100 * time.Millisecond
	lastDialBackoff  = 5 * time.Second
)

// maxNew is how many new connections may wait for their first answer, or be dialled, at once.
const maxNew = 8

// dialIfNeeded opens connections when requests wait that new ones could take. A new connection takes a single
// request at first. So until one has answered, the others wait for it; then as many are opened at once as
// the waiting requests need.
func (p *Pool) dialIfNeeded() {
	for !p.closed && p.waiters.Len() > 0 && len(p.conns)+p.dialing < p.o.Conns {
		first := p.firstForNew()
		if first == nil {
			p.expectFirstAnswers()
			return
		}
		wait := time.Until(p.retryAt)
		if wait > 0 && len(p.conns) > 0 { // use the open connections meanwhile
			if !p.retrying {
				p.retrying = true
				time.AfterFunc(wait, p.retry)
			}
			return
		}
		p.dialing++
		// The dial serves all waiters: it does not end with the first one's context.
		ctx, cancel := context.WithCancel(context.WithoutCancel(first.Context))
		go func() {
			select {
			case <-p.end:
			case <-ctx.Done():
			}
			cancel()
		}()
		go func() {
			defer cancel()
			p.connect(ctx, wait)
		}()
	}
}

// needed is how many new connections the waiting requests need.
func (p *Pool) needed(proven int) int {
	if proven == 0 {
		return 1
	}
	streams := 1
	for _, c := range p.conns {
		streams = max(streams, c.limit())
	}
	return min((p.waiters.Len()+streams-1)/streams, maxNew)
}

// retry checks after a backoff whether a connection is still needed.
func (p *Pool) retry() {
	p.mu.Lock()
	defer p.unlockAndNotify()
	p.retrying = false
	p.dispatch()
}

// firstForNew is the oldest waiter of a group that needs a new connection and may try one.
func (p *Pool) firstForNew() *Waiter {
	proven := p.proven()
	needed := p.needed(proven)
	for group := range p.groups {
		if p.coming(group, proven) >= needed || p.dialing >= maxNew || p.untried(group) >= p.maxUntried() {
			continue
		}
		for e := p.waiters.Front(); e != nil; e = e.Next() {
			if w := e.Value.(*Waiter); w.Group == group {
				return w
			}
		}
	}
	return nil
}

// coming counts the new connections that a group may hope for. Once a connection has answered, those that have the
// first request of another group do not count: that group may hang.
func (p *Pool) coming(group string, proven int) int {
	n := len(p.conns) - proven + p.dialing
	for _, c := range p.conns {
		if proven > 0 && !c.proven && c.inFlight > 0 && c.first != group {
			n--
		}
	}
	return n
}

// connect dials after a wait.
func (p *Pool) connect(ctx context.Context, wait time.Duration) {
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	c, err := p.dial(ctx)
	p.mu.Lock()
	defer p.unlockAndNotify()
	p.dialing--
	switch {
	case err != nil:
		p.backOff(firstDialBackoff)
		p.note(err)
		if len(p.conns)+p.dialing == 0 {
			p.failWaiters(err)
		}
	case p.closed, c.gone.Load():
		p.useless(c)
		go c.fail(ErrClosed)
	default:
		p.conns = append(p.conns, c)
		p.endUnused(c)
	}
	p.dispatch()
}

// useless notes the end of a connection that never answered, although it was asked. A server may refuse a client
// only after the handshake, which in TLS 1.3 ends before the server has judged the client's certificate.
func (p *Pool) useless(c *Conn) {
	p.backOff(0)
	if c.why != nil && c.unanswered > 0 {
		p.note(fmt.Errorf("%s ended a connection without an answer: %w", p.o.Name, c.why))
	}
}

// backOff delays the next dial by first, and longer with each failure; those that come together count as
// one. The first loss of an open connection (first is 0) causes no delay, so that its requests are sent again
// at once.
func (p *Pool) backOff(first time.Duration) {
	if time.Now().Before(p.retryAt) {
		return
	}
	p.failures++
	if first == 0 && p.failures == 1 {
		return
	}
	p.retryAt = time.Now().Add(dialBackoff(p.failures))
}

// note keeps an error until the next answer, and logs the failures number 1, 2, 4, 8 and so on.
func (p *Pool) note(err error) {
	p.err = err
	if p.failures&(p.failures-1) == 0 && !p.closed {
		p.o.Logger.Warn("no connection to "+p.o.Name, "address", p.addr, "failures", p.failures, "error", err)
	}
}

// dialBackoff is a random time up to twice as long after each failure.
func dialBackoff(failures int) time.Duration {
	d := min(firstDialBackoff<<min(failures-1, 10), lastDialBackoff)
	return d/2 + rand.N(d/2)
}

// dial opens a connection and starts it.
func (p *Pool) dial(ctx context.Context) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.o.DialTimeout)
	defer cancel()
	var value any
	if p.o.Attach != nil {
		var err error
		if value, err = p.o.Attach(); err != nil {
			return nil, err
		}
	}
	dialled, err := (&net.Dialer{KeepAlive: tcpKeepAlive, Control: p.o.Control, Resolver: p.o.Resolver}).DialContext(ctx, "tcp", p.addr)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", p.o.Name, err)
	}
	raw := newPunctual(dialled)
	conn := tls.Client(raw, p.tls)
	if err := handshake(ctx, conn); err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("TLS handshake with %s: %w", p.o.Name, err)
	}
	c := newConn(p, conn, raw)
	c.value = value
	c.start()
	return c, nil
}

// handshake refuses a server that verifies but does not speak HTTP/2.
func handshake(ctx context.Context, conn *tls.Conn) error {
	if err := conn.HandshakeContext(ctx); err != nil {
		return err
	}
	if proto := conn.ConnectionState().NegotiatedProtocol; proto != http2.NextProtoTLS {
		return fmt.Errorf("the server speaks %q, not HTTP/2", proto)
	}
	return nil
}
