package storetest

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Fate is what happens to some bytes on their way through a Proxy.
type Fate int

// The fates.
const (
	Pass    Fate = iota
	Swallow      // they vanish; the connection stays
	Close        // they vanish, and the connection is closed on both sides
	Reset        // they vanish, and the connection is reset on both sides
)

// Proxy is between clients and one server on loopback, and simulates faults of a network. It ends
// with the test.
type Proxy struct {
	listener net.Listener
	target   atomic.Pointer[string]
	bytes    atomic.Int64
	swallow  atomic.Bool
	delay    atomic.Int64 // in ns, each way
	rate     atomic.Int64 // bytes a second, each way of each connection; 0: as they come

	mu             sync.Mutex
	cut            bool
	held           chan struct{} // closed when what is held may go on; nil: nothing is held
	resets         float64       // the probability of a reset for each piece of data
	chance         *rand.Rand    // for resets
	conns          map[*ProxyConn]bool
	sent, answered func(*ProxyConn, []byte) Fate
}

// ProxyConn is one client's connection through a Proxy.
type ProxyConn struct {
	// Marked is for use by the test.
	Marked atomic.Bool

	near, far net.Conn
	swallow   atomic.Bool
}

// Swallow lets both sides' bytes vanish from now on.
func (c *ProxyConn) Swallow() { c.swallow.Store(true) }

// Swallowed reports whether Swallow was called.
func (c *ProxyConn) Swallowed() bool { return c.swallow.Load() }

func (c *ProxyConn) close() {
	_ = c.near.Close()
	_ = c.far.Close()
}

// reset closes both sides so that the peers see a reset.
func (c *ProxyConn) reset() {
	for _, side := range []net.Conn{c.near, c.far} {
		if tcp, ok := side.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
	}
	c.close()
}

// NewProxy starts a proxy for the server at host:port.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: listener, conns: map[*ProxyConn]bool{}}
	p.Redirect(target)
	t.Cleanup(func() {
		_ = listener.Close()
		p.Cut()
		p.Hold(false)
	})
	go p.serve()
	return p
}

// ProxyTo starts a proxy for the server of a URL, and returns the URL of the proxy.
func ProxyTo(t testing.TB, to string) (*Proxy, string) {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	p := NewProxy(t, u.Host)
	return p, strings.Replace(to, u.Host, p.Addr(), 1)
}

// Addr is where the proxy listens, host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Redirect leads new connections to another server. Open ones stay where they are, as with a name whose
// address changes.
func (p *Proxy) Redirect(target string) { p.target.Store(&target) }

// Cut closes every connection and refuses new ones until Mend.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for c := range p.conns {
		c.close()
	}
}

// Mend lets connections through again.
func (p *Proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
}

// Swallow makes the server a black hole, or ends that: connections stay open, and the data that
// clients send on them is lost.
func (p *Proxy) Swallow(on bool) { p.swallow.Store(on) }

// Hold makes the connection a black hole, or ends that: connections are accepted and stay open, and
// the data that either side sends waits. It arrives at the end, as TCP would send it again, even if
// the client has hung up in the meantime.
func (p *Proxy) Hold(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case on && p.held == nil:
		p.held = make(chan struct{})
	case !on && p.held != nil:
		close(p.held)
		p.held = nil
	}
}

// awaitRelease waits while data is held.
func (p *Proxy) awaitRelease() {
	p.mu.Lock()
	held := p.held
	p.mu.Unlock()
	if held != nil {
		<-held
	}
}

// Resets resets a connection instead of passing data on, with the given probability. The random
// numbers begin with a seed. 0 ends the resets.
func (p *Proxy) Resets(chance float64, seed uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resets, p.chance = chance, rand.New(rand.NewPCG(seed, seed))
}

// Delay delays data by the given time, each way. Later data does not wait for earlier data in
// addition.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// Rate limits the bytes per second, each way of each connection; 0 ends the limit.
func (p *Proxy) Rate(bytes int64) { p.rate.Store(bytes) }

// Bytes is how many bytes came from either side.
func (p *Proxy) Bytes() int64 { return p.bytes.Load() }

// Conns are the connections that are open.
func (p *Proxy) Conns() []*ProxyConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]*ProxyConn, 0, len(p.conns))
	for c := range p.conns {
		out = append(out, c)
	}
	return out
}

// OnSent lets f decide the fate of data that clients send, before it is passed on.
func (p *Proxy) OnSent(f func(*ProxyConn, []byte) Fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = f
}

// OnAnswer lets f decide the fate of the server's answers.
func (p *Proxy) OnAnswer(f func(*ProxyConn, []byte) Fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answered = f
}

func (p *Proxy) serve() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.carry(near)
	}
}

// carry connects a client's connection with one to the server, until one of them ends.
func (p *Proxy) carry(near net.Conn) {
	defer near.Close()
	far, err := net.Dial("tcp", *p.target.Load())
	if err != nil {
		return
	}
	c := &ProxyConn{near: near, far: far}
	defer c.close()
	if !p.keep(c) {
		return
	}
	defer p.forget(c)
	go func() {
		defer c.close()
		p.pass(c, p.newWriter(far), near, p.sentFate)
	}()
	p.pass(c, p.newWriter(near), far, p.answerFate)
}

// laterWriter writes to a connection with the rate and the delay of its proxy.
type laterWriter struct {
	p        *Proxy
	to       net.Conn
	underway chan parcel
	waiting  atomic.Int64 // parcels that are not written yet
}

type parcel struct {
	due  time.Time
	data []byte
}

func (p *Proxy) newWriter(to net.Conn) *laterWriter {
	w := &laterWriter{p: p, to: to, underway: make(chan parcel, 1024)}
	go w.carry()
	return w
}

// paced is how many bytes are written at once when there is a rate.
const paced = 1 << 10

// Write writes b, or keeps it for later.
func (w *laterWriter) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		part := rest
		if rate := w.p.rate.Load(); rate > 0 {
			part = rest[:min(len(rest), paced)]
			<-time.After(time.Duration(len(part)) * time.Second / time.Duration(rate))
		}
		rest = rest[len(part):]
		delay := time.Duration(w.p.delay.Load())
		if delay == 0 && w.waiting.Load() == 0 {
			if _, err := w.to.Write(part); err != nil {
				return 0, err
			}
			continue
		}
		w.waiting.Add(1)
		w.underway <- parcel{time.Now().Add(delay), bytes.Clone(part)}
	}
	return len(b), nil
}

// Close ends the writer. Data that is under way may be lost.
func (w *laterWriter) Close() error {
	close(w.underway)
	return nil
}

func (w *laterWriter) carry() {
	for p := range w.underway {
		<-time.After(time.Until(p.due))
		if _, err := w.to.Write(p.data); err != nil {
			_ = w.to.Close() // the other side ends with it
		}
		w.waiting.Add(-1)
	}
}

func (p *Proxy) keep(c *ProxyConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.cut {
		p.conns[c] = true
	}
	return !p.cut
}

func (p *Proxy) forget(c *ProxyConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// pass moves bytes one way.
func (p *Proxy) pass(c *ProxyConn, to io.WriteCloser, from net.Conn, fate func(*ProxyConn, []byte) Fate) {
	defer to.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		p.bytes.Add(int64(n))
		if n > 0 {
			switch fate(c, buffer[:n]) {
			case Close:
				return
			case Reset:
				c.reset()
				return
			case Pass:
				p.awaitRelease()
				if _, err := to.Write(buffer[:n]); err != nil {
					return
				}
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *Proxy) sentFate(c *ProxyConn, b []byte) Fate {
	p.mu.Lock()
	hook, reset := p.sent, p.resetsNow()
	p.mu.Unlock()
	if reset {
		return Reset
	}
	return c.fate(b, hook, p.swallow.Load())
}

func (p *Proxy) answerFate(c *ProxyConn, b []byte) Fate {
	p.mu.Lock()
	hook, reset := p.answered, p.resetsNow()
	p.mu.Unlock()
	if reset {
		return Reset
	}
	return c.fate(b, hook, false)
}

// resetsNow decides at random whether to reset. The lock is held.
func (p *Proxy) resetsNow() bool { return p.resets > 0 && p.chance.Float64() < p.resets }

func (c *ProxyConn) fate(b []byte, hook func(*ProxyConn, []byte) Fate, hole bool) Fate {
	fate := Pass
	if hook != nil {
		fate = hook(c, b)
	}
	if fate == Pass && (hole || c.Swallowed()) {
		return Swallow
	}
	return fate
}
