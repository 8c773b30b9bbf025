package h2

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
)

var (
	// ErrUnprocessed says that the server is known not to have processed a request.
	ErrUnprocessed = errors.New("the server did not process the request")
	// errWithheld ends a request whose check said no.
	errWithheld = errors.New("the request was withheld")
)

// Progress is how far a request without an answer came.
type Progress uint8

const (
	// Unprocessed says that the server never got it whole, or said itself that it did not
	// process it.
	Unprocessed Progress = iota
	// Withheld says that the check before the body said no, so that it was not sent.
	Withheld
	// Unknown says that the server may have processed it.
	Unknown
)

// Call is one request on a connection. Its body knows whether it began to
// leave: before that, the server can't process the request.
type Call struct {
	conn        *Conn
	body        body
	unprocessed bool
}

// NewCall makes a call whose body is data, which must not change any more. When
// check is set it is called right before the body leaves; false withholds it.
func (c *Conn) NewCall(data []byte, check func() bool) *Call {
	return &Call{conn: c, body: body{data: data, check: check}}
}

// RoundTrip sends r with the call's body and returns the answer as
// http.RoundTripper does. It is used once.
func (c *Call) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Body, r.ContentLength = &c.body, int64(len(c.body.data))
	// http2 asks for the body again exactly when it knows that the peer did not
	// process the request: GOAWAY below it, REFUSED_STREAM, never written.
	r.GetBody = func() (io.ReadCloser, error) {
		c.unprocessed = true
		return nil, ErrUnprocessed
	}
	return c.conn.transport.RoundTrip(r)
}

// Stop tells how far a failed call came. What has not begun to leave never will.
func (c *Call) Stop() Progress {
	began := c.body.stop()
	switch {
	case c.body.withheld.Load():
		return Withheld
	case !began, c.unprocessed, c.conn.nothing.Load():
		return Unprocessed
	}
	return Unknown
}

// body is the body of a request.
type body struct {
	data     []byte
	off      int
	check    func() bool
	state    atomic.Int32 // one of the constants below
	withheld atomic.Bool  // check said no
}

const (
	bodyUntouched = iota
	bodyBegan
	bodyStopped
)

// Read implements io.Reader. The first one calls check, because right after it
// the request is complete.
func (b *body) Read(p []byte) (int, error) {
	if b.off == 0 && !b.begin() {
		return 0, errWithheld
	}
	n := copy(p, b.data[b.off:])
	b.off += n
	if b.off == len(b.data) {
		return n, io.EOF
	}
	return n, nil
}

// begin decides, once, whether the body may leave. stop and begin race for the
// same word, so that a request is never both stopped and begun.
func (b *body) begin() bool {
	if b.check != nil && !b.check() {
		b.withheld.Store(b.state.CompareAndSwap(bodyUntouched, bodyStopped))
		return false
	}
	return b.state.CompareAndSwap(bodyUntouched, bodyBegan)
}

// stop forbids the body to begin, and tells whether it already had.
func (b *body) stop() (began bool) {
	return !b.state.CompareAndSwap(bodyUntouched, bodyStopped) && b.state.Load() == bodyBegan
}

// Close implements io.Closer.
func (b *body) Close() error { return nil }
