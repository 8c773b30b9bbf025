package h2

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

var (
	// ErrUnprocessed says that the server is known not to have processed a request.
	ErrUnprocessed = errors.New("the server did not process the request")
	// ErrFull says that the server lowered its limit just before a request began. The request can
	// wait for room again. The error also is ErrUnprocessed.
	ErrFull = errors.New("the connection has no room any more")
	// ErrWithheld ends a request whose check returned false. The server never gets the whole request.
	ErrWithheld = errors.New("the request was withheld")

	errTooLarge = errors.New("the request's headers are too large")
	errNoHeader = errors.New("the answer has no status")
)

const (
	maxBody  = firstWindow     // bytes of an answer's body; the rest is not read
	bodyTime = 5 * time.Second // from an answer's headers to the end of its body
)

// Field is a header of a request. A Sensitive field is sent literally every time. The others
// enter the connection's header table and take a byte or two from then on. Headers that differ
// with every request are therefore best marked Sensitive.
type Field = hpack.HeaderField

// Result is the result of a call.
type Result struct {
	Status int // 0: there was no answer
	Header []Field
	Body   []byte // its first 64 KiB
	Cut    bool   // the answer ended before its body did
	// Err says why there was no answer. If it is ErrUnprocessed or ErrWithheld, the server did not
	// process the request. Otherwise it may have.
	Err error
}

// Get is the value of a header, by its name in lower case; "" if there is none.
func (r *Result) Get(name string) string {
	for i := range r.Header {
		if r.Header[i].Name == name {
			return r.Header[i].Value
		}
	}
	return ""
}

// Call is one request on a connection.
type Call struct {
	// Bulk calls leave after those that are not, if both have not begun. To be set before Start.
	Bulk bool

	conn   *Conn
	owner  Owner
	body   []byte
	check  func() bool
	path   string
	fields []Field

	// Guarded by the connection's lock.
	id      uint32
	result  Result
	checked bool  // check returned true, and the call has not waited since
	sent    int   // bytes of body that were buffered for sending
	window  int64 // the peer's flow-control window for it
	over    error // Cancel was called
	// endsAt is the position in the connection's output after the last byte of the request; 0 until
	// the request is buffered completely. While it is above out.taken, the peer cannot have the request.
	endsAt uint64
	timer  *time.Timer
	next   *Call
}

// Owner gets the result of its call, once. Any goroutine that sees the call end may call Answered, so
// it must not block.
type Owner interface{ Answered(r *Result) }

// NewCall makes a call whose body is data, which must not change any more. If check is set, it is
// asked right before the request is sent, and again before the last of the body is sent if the call had to
// wait for the peer; false withholds the request. It must be quick and must not call the connection.
func (c *Conn) NewCall(data []byte, check func() bool, owner Owner) *Call {
	return &Call{conn: c, body: data, check: check, owner: owner}
}

// Start sends a POST with the call's body, once the calls before it have left and the system takes more. It is used
// once. Its owner may be told the result before it returns.
func (call *Call) Start(path string, fields []Field) {
	c := call.conn
	c.mu.Lock()
	defer c.unlockAndNotify()
	if c.err != nil {
		c.end(call, unprocessed(c.err))
		return
	}
	call.path, call.fields = path, fields
	at := len(c.ready)
	if !call.Bulk && at > 0 && c.ready[at-1].Bulk {
		at = slices.IndexFunc(c.ready, func(other *Call) bool { return other.Bulk && other.id == 0 })
	}
	c.ready = slices.Insert(c.ready, max(at, 0), call)
	c.out.wakeWriter()
}

// begin buffers as much of a request as the peer takes. mu is held.
func (c *Conn) begin(call *Call) {
	if err := c.refuses(call); err != nil {
		c.end(call, err)
		return
	}
	call.id, call.window = c.nextID, c.perCall
	c.nextID += 2
	c.calls[call.id] = call
	c.writeHeaders(call)
	c.pump(call)
}

// refuses returns an error if a call cannot begin.
func (c *Conn) refuses(call *Call) error {
	size := len(call.path) + len(c.pool.o.Host) + 256
	for i := range call.fields {
		size += int(call.fields[i].Size())
	}
	switch {
	case call.over != nil:
		return unprocessed(call.over)
	case c.gone.Load():
		return unprocessed(errConnGone)
	case c.nextID > maxStreamID:
		go c.Retire()
		return unprocessed(errConnGone)
	case len(c.calls) >= c.streams:
		return unprocessed(ErrFull)
	case size > c.maxHead:
		return unprocessed(errTooLarge)
	case !call.may():
		return ErrWithheld
	}
	return nil
}

// may calls the check, unless it has just returned true.
func (call *Call) may() bool {
	call.checked = call.checked || call.check == nil || call.check()
	return call.checked
}

// writeHeaders buffers the HEADERS frame.
func (c *Conn) writeHeaders(call *Call) {
	c.block.Reset()
	c.field(Field{Name: ":method", Value: http.MethodPost})
	c.field(Field{Name: ":scheme", Value: "https"})
	c.field(Field{Name: ":authority", Value: c.pool.o.Host})
	c.field(Field{Name: ":path", Value: call.path, Sensitive: !c.pool.o.OnePath})
	for _, f := range call.fields {
		c.field(f)
	}
	_ = c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: call.id, BlockFragment: c.block.Bytes(), EndHeaders: true})
}

func (c *Conn) field(f Field) { _ = c.enc.WriteField(f) }

// Cancel ends a call that has not ended yet, or keeps it from beginning.
func (call *Call) Cancel(err error) {
	c := call.conn
	c.mu.Lock()
	defer c.unlockAndNotify()
	call.over = err
	if c.under(call) {
		c.reset(call, call.lost(err))
	} else if i := slices.Index(c.ready, call); i >= 0 {
		c.ready = slices.Delete(c.ready, i, i+1)
		c.end(call, unprocessed(err))
	}
}

// under reports whether a call is under way. mu is held here and in what follows.
func (c *Conn) under(call *Call) bool { return call.id != 0 && c.calls[call.id] == call }

// lost is the error of a call that ends before its answer is complete. If the headers have
// arrived there is no error, even if its body is missing. If the request was not buffered
// completely, the peer cannot have processed it.
func (call *Call) lost(cause error) error {
	switch {
	case call.result.Status != 0:
		call.result.Cut = true
		return nil
	case call.endsAt == 0:
		return unprocessed(cause)
	}
	return cause
}

// unprocessed says that the server did not process a request.
func unprocessed(cause error) error { return fmt.Errorf("%w: %w", ErrUnprocessed, cause) }

// reset ends a call on both sides.
func (c *Conn) reset(call *Call, err error) {
	_ = c.framer.WriteRSTStream(call.id, http2.ErrCodeCancel)
	c.end(call, err)
}

// end takes a call off the connection; unlockAndNotify tells its owner.
func (c *Conn) end(call *Call, err error) {
	delete(c.calls, call.id)
	if call.timer != nil {
		call.timer.Stop()
	}
	call.result.Err = err
	if c.last == nil {
		c.ended = call
	} else {
		c.last.next = call
	}
	c.last = call
}

// unlockAndNotify unlocks, and tells the owners of the calls that ended meanwhile.
func (c *Conn) unlockAndNotify() {
	ended := c.takeEnded()
	c.mu.Unlock()
	notify(ended)
}

// takeEnded is the list of ended calls, which is empty afterwards.
func (c *Conn) takeEnded() *Call {
	ended := c.ended
	c.ended, c.last = nil, nil
	return ended
}

// notify tells the owners of ended calls.
func notify(ended *Call) {
	for call := ended; call != nil; {
		next := call.next // its owner may reuse the call
		call.owner.Answered(&call.result)
		call = next
	}
}

// began keeps an answer's headers, and ends the call unless a body is to come.
func (c *Conn) began(call *Call, h *head, ended bool) {
	if call.result.Status == 0 {
		call.result.Status, call.result.Header = h.status, h.take()
	}
	if ended {
		c.finish(call)
		return
	}
	if call.timer == nil {
		call.timer = time.AfterFunc(bodyTime, func() { call.Cancel(nil) })
	}
}

// finish ends a call whose answer is complete. If the peer answered before it had the whole
// request, the rest is not sent.
func (c *Conn) finish(call *Call) {
	if call.endsAt == 0 {
		c.reset(call, nil)
		return
	}
	c.end(call, nil)
}
