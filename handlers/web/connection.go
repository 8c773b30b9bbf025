package web

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"
)

const (
	// ackWithin is how long data of a stream may stay without TCP's acknowledgement before the
	// connection is closed. A connection that is lost between two heartbeats is closed 30 s
	// after the first of them.
	ackWithin = 15 * time.Second
	// askAfter is how long after a heartbeat TCP is asked whether it has arrived,
	// and how often it is asked again.
	askAfter = time.Second
	// ignored is how many bytes a client may send while its stream is open. After that a stream over
	// HTTP/1.1 ends.
	ignored = 4 << 10
)

type connectionKey struct{}

// KeepConnection is for http.Server.ConnContext: streams ask the connection how much has
// reached their clients. Without it, and on systems that cannot tell, everything that
// could be written counts as arrived.
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

// arrived asks TCP. It asks only once the heartbeat has surely been handed to TCP, because over
// HTTP/2 that happens on another goroutine. Other writes in between do not matter.
func (r *receipt) arrived(c syscall.Conn) bool {
	if c == nil {
		return true
	}
	acked, open, err := acknowledged(c)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return true
	case err != nil:
		return false // the connection is about to end
	case open == 0:
		return true
	case r.goal == 0:
		r.goal = acked + open
		return false
	}
	return acked >= r.goal
}

// detached is a stream over HTTP/1.1, whose method runs on its own goroutine. Once the stream begins,
// it takes the connection and lets its handler return. This frees net/http's buffers, the stack of
// net/http's goroutine and the request, which are two thirds of the memory of an idle stream.
type detached struct {
	begun  chan struct{} // closed when the handler may return
	stay   func() bool   // unties the end of the stream from the end of the request
	cancel context.CancelFunc
	conn   *ownConnection // nil as long as the connection is net/http's
}

// ending is how a method ended if it did not take the connection.
type ending struct {
	err      error
	panicked any
}

// run runs a stream's method and ends the stream.
func (st *Stream) run(method func(context.Context) error) error {
	if r := st.r; r.ProtoMajor != 1 || r.ProtoMinor < 1 || r.ContentLength != 0 {
		return st.end(method(r.Context()))
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(st.r.Context()))
	st.detached = &detached{begun: make(chan struct{}), stay: context.AfterFunc(st.r.Context(), cancel), cancel: cancel}
	begun, ended := st.detached.begun, make(chan ending, 1)
	st.r = st.r.WithContext(ctx)
	go st.runDetached(method, ended)
	select {
	case <-begun:
		return nil
	case e := <-ended:
		if e.panicked != nil {
			panic(e.panicked)
		}
		return e.err
	}
}

// runDetached is the goroutine of a detached stream.
func (st *Stream) runDetached(method func(context.Context) error, ended chan<- ending) {
	var err error
	defer func() {
		v := recover()
		if st.detached.conn != nil {
			st.close(v)
		} else {
			ended <- ending{err, v}
		}
		st.detached.cancel()
	}()
	err = st.end(method(st.r.Context()))
}

// leaveRequest takes the connection from net/http, if that is possible, and lets the handler
// return. It keeps only the parts of the request that the log line at the end needs.
func (st *Stream) leaveRequest() {
	if st.detached == nil {
		return
	}
	st.server.streams.detached.Add(1) // before net/http forgets the connection, so that a stop misses no stream
	conn, _, err := http.NewResponseController(st.w).Hijack()
	if err != nil {
		st.server.streams.detached.Done()
		return
	}
	ctx, info := st.r.Context(), infoOf(st.r.Context())
	st.detached.conn = &ownConnection{Conn: conn, header: st.w.Header()}
	info.answer.ResponseWriter = st.detached.conn
	info.left = true
	st.r = (&http.Request{
		Method: st.r.Method, Header: http.Header{"Traceparent": st.r.Header["Traceparent"]},
		RemoteAddr: st.server.o.Proxies.caller(st.r).String(),
	}).WithContext(ctx)
	st.detached.stay()
	go watch(conn, st.detached.cancel)
	close(st.detached.begun)
}

// close does what net/http and the surrounding handlers do for other requests: it counts,
// logs and closes the connection. It writes the end of the answer last, so that a client
// that sees it finds the request counted and logged. A stream that was cut off gets no end.
func (st *Stream) close(panicked any) {
	s, conn := st.server, st.detached.conn
	s.streams.open.leave(infoOf(st.r.Context()), 1)
	if abort := s.finish(st.r, infoOf(st.r.Context()), panicked); !abort {
		conn.writeEnd()
	}
	_ = conn.Close()
	s.streams.detached.Done()
}

// watch calls gone when the client has gone.
func watch(c net.Conn, gone func()) {
	defer gone()
	var text [64]byte
	for sent := 0; sent <= ignored; {
		n, err := c.Read(text[:])
		if err != nil {
			return
		}
		sent += n
	}
}

// ownConnection is the writer of a stream that has its connection for itself. It writes the
// response in chunks, each at once.
type ownConnection struct {
	net.Conn
	header http.Header
	head   []byte // sent with the first chunk
	failed bool
}

// Header is the response's header until WriteHeader; nil afterwards.
func (c *ownConnection) Header() http.Header { return c.header }

// WriteHeader prepares the head.
func (c *ownConnection) WriteHeader(status int) {
	c.header["Date"] = []string{time.Now().UTC().Format(http.TimeFormat)}
	c.header["Transfer-Encoding"], c.header["Connection"] = []string{"chunked"}, []string{"close"}
	var head bytes.Buffer
	head.WriteString("HTTP/1.1 " + strconv.Itoa(status) + " " + http.StatusText(status) + "\r\n")
	_ = c.header.Write(&head) // a buffer takes everything
	c.head, c.header = append(head.Bytes(), "\r\n"...), nil
}

// Write writes a chunk, which must not be empty.
func (c *ownConnection) Write(text []byte) (int, error) {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	chunk := append((*buf)[:0], c.head...)
	chunk = append(strconv.AppendInt(chunk, int64(len(text)), 16), "\r\n"...)
	chunk = append(append(chunk, text...), "\r\n"...)
	c.head = nil
	if cap(chunk) <= maxKept {
		*buf = chunk
	}
	_, err := c.Conn.Write(chunk)
	if err != nil {
		c.failed = true
		return 0, err
	}
	return len(text), nil
}

// FlushError does nothing, because Write sends at once.
func (c *ownConnection) FlushError() error { return nil }

// writeEnd writes the end of the answer, unless the client has stopped reading.
func (c *ownConnection) writeEnd() {
	if !c.failed {
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = c.Conn.Write([]byte("0\r\n\r\n"))
	}
}
