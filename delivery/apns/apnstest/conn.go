package apnstest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	handshakeTime = 10 * time.Second
	lingerTime    = 30 * time.Second // for a client to close after our last frame, also on a busy machine
	maxWindow     = 1 << 20
	connWindow    = 1 << 30
)

// conn is one connection. Its reader goroutine does nearly everything. Delayed answers come from
// timers, so that mu guards all fields.
type conn struct {
	s       *Server
	id      int
	raw     net.Conn
	tls     *tls.Conn
	br      *bufio.Reader
	fr      *http2.Framer
	cert    bool // the client showed a certificate
	manage  bool // to the management host
	done    chan struct{}
	endOnce sync.Once

	mu      sync.Mutex
	bw      *bufio.Writer
	enc     *hpack.Encoder
	block   bytes.Buffer
	streams map[uint32]*stream
	late    map[time.Duration][]lateAnswer // by when they are due
	free    []*stream
	limit   uint32   // MAX_CONCURRENT_STREAMS that the client has acknowledged
	sent    []uint32 // settings on their way, 0: no change of the limit
	proven  bool     // a good token came, or a certificate
	bearer  string   // the present provider token, since bearerAt
	since   time.Time
	highest uint32 // stream that began last
	handled uint32 // highest stream that was decided
	goAway  bool
	last    uint32 // of the GOAWAY
	over    bool   // nothing more will be written
	silent  bool   // black hole
	owed    uint32 // received bytes not yet returned to the window
}

// stream is one request on its way.
type stream struct {
	req     Request
	place   place // in the ledger, once it is whole
	headers headers
	payload []byte
	owed    uint32 // as the connection's
}

// accept takes connections to one of the hosts until its listener is closed.
func (s *Server) accept(l net.Listener, manage bool) {
	defer s.wg.Done()
	for {
		raw, err := l.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		refusing := s.refusing || s.closed || manage && s.managing.away
		s.mu.Unlock()
		if refusing {
			_ = raw.Close()
			continue
		}
		s.wg.Add(1)
		go s.serve(raw, manage)
	}
}

// serve runs a connection until its end. The connection is listed before its handshake, so that
// Close and KillConnections reach it in any state.
func (s *Server) serve(raw net.Conn, manage bool) {
	defer s.wg.Done()
	c := &conn{s: s, raw: raw, manage: manage, done: make(chan struct{}), streams: make(map[uint32]*stream), late: make(map[time.Duration][]lateAnswer)}
	c.tls = tls.Server(raw, s.tls)
	s.mu.Lock()
	s.conns[c] = struct{}{}
	closed := s.closed
	s.mu.Unlock()
	defer func() {
		c.kill()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
	if !closed && c.handshake() == nil && !s.hangsUp() {
		c.read()
	}
}

// each calls f for every open connection.
func (s *Server) each(f func(*conn)) {
	s.mu.Lock()
	conns := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	for _, c := range conns {
		f(c)
	}
}

// violate records a violation. The first hundred are enough to find the cause.
func (s *Server) violate(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.violations) < 100 {
		s.violations = append(s.violations, fmt.Sprintf(format, args...))
	}
}

// handshake does TLS and the HTTP/2 preface, and numbers the connection.
func (c *conn) handshake() error {
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTime)
	defer cancel()
	if err := c.tls.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	preface := make([]byte, len(http2.ClientPreface))
	c.br = bufio.NewReaderSize(c.tls, 64<<10)
	if _, err := io.ReadFull(c.br, preface); err != nil || string(preface) != http2.ClientPreface {
		return fmt.Errorf("read preface: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.mu.Lock()
	c.s.accepted++
	c.id = c.s.accepted
	most := c.s.maxStreams
	c.s.mu.Unlock()
	c.begin(most)
	return c.bw.Flush()
}

// begin sends the first settings.
func (c *conn) begin(most uint32) {
	c.cert = len(c.tls.ConnectionState().PeerCertificates) > 0
	c.bw = bufio.NewWriterSize(c.tls, 64<<10)
	c.fr = http2.NewFramer(c.bw, c.br)
	c.fr.SetReuseFrames()
	c.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.enc = hpack.NewEncoder(&c.block)
	c.proven, c.limit = c.cert, 1<<31-1 // a limit applies only after it is acknowledged
	start := c.s.o.StartStreams
	if c.cert {
		start = most
	}
	c.sent = append(c.sent, start)
	_ = c.fr.WriteSettings(
		http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: start},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: c.s.o.Window},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: 8000})
	if c.s.o.Window == maxWindow {
		_ = c.fr.WriteWindowUpdate(0, connWindow-65535)
	}
}

// read serves frames until the connection ends. Answers are sent when no further frame can be read
// at once, so that many answers share one write.
func (c *conn) read() {
	for {
		if c.br.Buffered() == 0 {
			c.flush()
		}
		f, err := c.fr.ReadFrame()
		if err != nil {
			if _, ok := err.(http2.StreamError); ok {
				continue
			}
			return
		}
		if !c.frame(f) {
			return
		}
	}
}

// frame handles one frame; false ends the connection.
func (c *conn) frame(f http2.Frame) bool {
	c.mu.Lock()
	if c.silent {
		c.mu.Unlock()
		<-c.done
		return false
	}
	defer c.mu.Unlock()
	ok := true
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		ok = c.open(f)
	case *http2.DataFrame:
		ok = c.data(f)
	case *http2.RSTStreamFrame:
		c.release(f.StreamID)
	case *http2.SettingsFrame:
		c.settings(f)
	case *http2.PingFrame:
		if !f.IsAck() {
			_ = c.fr.WritePing(true, f.Data)
		}
	}
	c.finish()
	return ok
}

// settings answers the client's settings, or records that the client acknowledged the server's. A
// limit applies to the client only from its acknowledgement on.
func (c *conn) settings(f *http2.SettingsFrame) {
	if !f.IsAck() {
		_ = c.fr.WriteSettingsAck()
		return
	}
	if len(c.sent) > 0 {
		c.limit = c.sent[0]
		c.sent = c.sent[1:]
	}
}

// changeStreams announces another MAX_CONCURRENT_STREAMS.
func (c *conn) changeStreams(n uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bw != nil && c.proven && !c.silent {
		c.announce(n)
		_ = c.bw.Flush()
	}
}

// announce sends another limit, which applies once it is acknowledged.
func (c *conn) announce(n uint32) {
	c.sent = append(c.sent, n)
	_ = c.fr.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: n})
}

// open begins a stream; false ends the connection.
func (c *conn) open(f *http2.MetaHeadersFrame) bool {
	id := f.StreamID
	if c.goAway && id > c.last {
		return true
	}
	if id <= c.highest {
		c.s.violate("connection %d: stream %d after %d", c.id, id, c.highest)
		return true
	}
	c.highest = id
	if uint32(len(c.streams)) >= c.limit {
		c.s.violate("connection %d: stream %d is the %dth of %d", c.id, id, len(c.streams)+1, c.limit)
		_ = c.fr.WriteRSTStream(id, http2.ErrCodeRefusedStream)
		return true
	}
	st := c.newStream()
	st.headers.read(&st.req, f.Fields)
	st.req.Connection, st.req.Stream = c.id, id
	c.streams[id] = st
	c.peak()
	return !f.StreamEnded() || c.decide(id, st)
}

// newStream reuses a finished stream with the memory of its payload.
func (c *conn) newStream() *stream {
	if n := len(c.free); n > 0 {
		st := c.free[n-1]
		c.free = c.free[:n-1]
		*st = stream{payload: st.payload[:0]}
		return st
	}
	return &stream{}
}

// peak records the largest number of streams that were open on one connection.
func (c *conn) peak() {
	c.s.mu.Lock()
	c.s.peak = max(c.s.peak, len(c.streams))
	c.s.mu.Unlock()
}

// data takes a piece of a request's body; false ends the connection.
func (c *conn) data(f *http2.DataFrame) bool {
	c.owed += f.Length
	st, ok := c.streams[f.StreamID]
	if ok && len(st.payload) < maxWindow {
		st.payload = append(st.payload, f.Data()...)
		st.owed += f.Length
	}
	if c.s.o.Window < maxWindow || c.owed > connWindow/2 {
		c.giveBack()
	}
	return !ok || !f.StreamEnded() || c.decide(f.StreamID, st)
}

// giveBack lets the client send as many bytes as were received, see HoldWindows.
func (c *conn) giveBack() {
	if c.s.holding.Load() {
		return
	}
	if c.owed > 0 {
		_ = c.fr.WriteWindowUpdate(0, c.owed)
		c.owed = 0
	}
	for id, st := range c.streams {
		if st.owed > 0 && c.s.o.Window < maxWindow {
			_ = c.fr.WriteWindowUpdate(id, st.owed)
			st.owed = 0
		}
	}
}

// giveBackNow is giveBack for callers outside of the reader goroutine.
func (c *conn) giveBackNow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bw != nil && !c.silent {
		c.giveBack()
		_ = c.bw.Flush()
	}
}

// release forgets a stream.
func (c *conn) release(id uint32) {
	if st, ok := c.streams[id]; ok {
		delete(c.streams, id)
		if len(c.free) < 64 {
			c.free = append(c.free, st)
		}
	}
}

// flush sends the answers that were gathered.
func (c *conn) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.silent {
		_ = c.bw.Flush()
	}
}

// kill ends the connection at once.
func (c *conn) kill() {
	c.endOnce.Do(func() {
		close(c.done)
		_ = c.raw.Close()
	})
}
