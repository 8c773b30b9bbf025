package web

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strconv"
	"sync"
	"time"

	"fanfare/api"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// beatEvery is how often an open stream sends a heartbeat.
	beatEvery = 15 * time.Second
	// CheckEvery is how often, at least, a stream or long poll checks whether its caller is still allowed.
	CheckEvery = 5 * time.Second
	// slowAfter is how long one write may take before the reader is disconnected.
	slowAfter = 10 * time.Second
	// comeBack is the least time after which a client whose stream ended is told to come back. Each
	// client is told a random time between one and three times as long, so that they do not all
	// come back at once.
	comeBack = time.Second
)

// The causes that end a stream, besides its client.
var (
	errClosing = errors.New("the server stops")
	errSlow    = errors.New("the reader is too slow")
)

// bye ends a user's stream after the end of the user's token.
type bye api.ByeReason

// Error returns the reason.
func (b bye) Error() string { return "the user's token is " + string(b) }

// streams are the long responses: streams and long polls. They end when the process stops.
type streams struct {
	open, polls *kind
	closing     <-chan struct{}
	detached    *sync.WaitGroup
	ended       *prometheus.CounterVec
}

func newStreams(o *Options) *streams {
	room := &places{
		max: o.MaxStreams, perKey: o.KeyMaxStreams, retry: 5 * comeBack, held: make(map[holder]int64),
		full: "the server has as many open streams as it can hold; try again",
	}
	l := &streams{
		open: newKind(room, "open streams", o.UserMaxStreams), polls: newKind(room, "long polls", o.UserMaxPolls),
		closing: o.Closing, detached: o.Streams,
	}
	l.ended = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fanfare_streams_ended_total", Help: "Streams that ended, by cause.",
	}, []string{"reason"})
	open := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fanfare_open_streams", Help: "Open streams and long polls of this process.",
	}, func() float64 { return float64(room.taken.Load()) })
	o.Registry.MustRegister(l.ended, open)
	return l
}

// reason names the cause of a stream's end, for the metric.
func reason(err error) string {
	var ended bye
	switch {
	case errors.As(err, &ended):
		return string(ended)
	case err == nil, errors.Is(err, context.Canceled):
		return "client"
	case errors.Is(err, errClosing):
		return "stopping"
	case errors.Is(err, errSlow):
		return "slow"
	case api.CodeOf(err) == api.CodeUnauthorized, api.CodeOf(err) == api.CodeForbidden:
		return "key"
	}
	return "error"
}

// unhurried runs next without the request's deadline and without the server's time-outs, which
// are for requests that are answered at once. Everything that next waits for must end with the
// request's context or with s.streams.closing.
func (s *Server) unhurried(next http.HandlerFunc) http.HandlerFunc {
	return s.streams.open.around(func(w http.ResponseWriter, r *http.Request) {
		if err := errors.Join(liftReads(w, r), http.NewResponseController(w).SetWriteDeadline(time.Time{})); err != nil {
			fail(w, r, fmt.Errorf("lift the time-outs of a stream: %w", err))
			return
		}
		next(w, r)
	})
}

// liftReads takes the time-out from reads of a request without a body. A body that is announced and does not come
// keeps limitBody's: net/http reads it before the answer's head is written.
func liftReads(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength != 0 {
		return nil
	}
	return http.NewResponseController(w).SetReadDeadline(time.Time{})
}

// HandleStream makes an endpoint of a method that sends server-sent events until its
// stream ends. An error that the method returns before it sent or awaited anything is
// answered as a problem; afterwards an error ends the stream.
func HandleStream[In any](method func(context.Context, *In, *Stream) error) Endpoint {
	plan := planOf(reflect.TypeFor[In]())
	return Endpoint{limits: (*Server).unhurried, tickets: true, plan: plan, serve: func(s *Server, w http.ResponseWriter, r *http.Request, maxBody int64) error {
		in := new(In)
		var err error
		OnNewStack(func() { err = s.fill(w, r, plan, reflect.ValueOf(in).Elem(), maxBody) })
		if err != nil {
			return err
		}
		out := &Stream{server: s, w: w, r: r}
		if r.Method == http.MethodHead {
			out.writeHead()
			return nil
		}
		return out.run(func(ctx context.Context) error { return method(ctx, in, out) })
	}}
}

// OnNewStack runs f on another goroutine and waits for it. The stack that f needs is freed with that
// goroutine. If a stream ran f itself, its own stack would stay twice as large as an idle stream
// needs.
func OnNewStack(f func()) {
	done := make(chan any)
	go func() {
		defer func() { done <- recover() }()
		f()
	}()
	if v := <-done; v != nil {
		panic(v)
	}
}

// Stream is one open stream. It belongs to the goroutine of its method.
type Stream struct {
	// Reached, if set, is called for every heartbeat that has arrived, with the time at
	// which it was sent.
	Reached func(sent time.Time)

	detached *detached // of a stream over HTTP/1.1
	server   *Server
	w        http.ResponseWriter
	r        *http.Request
	begun    bool
	ticker   *time.Timer
	beat     time.Time // when the last heartbeat was sent
	receipt  receipt   // of the last heartbeat
}

// StreamEvent is one server-sent event. An event without Data only tells the client the ID after which
// it can go on.
type StreamEvent struct {
	ID   string // "" leaves the client's as it was
	Name string // "" is "message" to a browser
	Data any    // written as JSON; an Encoded value is JSON already
}

// Encoded is JSON that several streams share.
type Encoded []byte

// Encode makes JSON in the form of all responses.
func Encode(data any) ([]byte, error) { return encode(data) }

// Await returns nil when wake has a value. Meanwhile it sends heartbeats, asks whether they
// arrive, and checks that the API key is still valid. Its error ends the stream.
func (st *Stream) Await(ctx context.Context, wake <-chan struct{}) error {
	if err := st.begin(); err != nil {
		return err
	}
	for {
		select {
		case <-wake:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-st.server.streams.closing:
			return errClosing
		case now := <-st.ticker.C:
			if err := st.check(now); err != nil {
				return err
			}
			st.ticker.Reset(st.pause())
		}
	}
}

// check checks the key or the user's token, and whether the last heartbeat has arrived. It sends
// the next heartbeat when it is time.
func (st *Stream) check(now time.Time) error {
	if u := infoOf(st.r.Context()).user; u != nil {
		if why := st.server.o.Users.Ended(u); why != "" {
			return bye(why)
		}
	}
	if err := st.server.StillAllowed(st.r.Context()); err != nil {
		return err
	}
	if st.receipt.awaited && st.receipt.arrived(connectionOf(st.r.Context())) {
		st.receipt = receipt{}
		st.Reached(st.beat)
	}
	if now.Sub(st.beat) < beatEvery {
		return nil
	}
	st.beat, st.receipt = now, receipt{awaited: st.Reached != nil}
	return st.write([]byte(":\n\n"))
}

// pause is how long the stream waits until its next check.
func (st *Stream) pause() time.Duration {
	wait := beatEvery - time.Since(st.beat)
	if st.receipt.awaited {
		return min(wait, askAfter)
	}
	return min(wait, CheckEvery)
}

// writeHead writes the response's head, which is the whole response to HEAD.
func (st *Stream) writeHead() {
	h := st.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-store")
	h.Set("X-Accel-Buffering", "no") // a proxy must not buffer the stream
	st.w.WriteHeader(http.StatusOK)
}

// begin sends the head, once, and tells the client when to come back.
func (st *Stream) begin() error {
	if st.begun {
		return nil
	}
	st.leaveRequest()
	early := rand.N(CheckEvery) // spreads the heartbeats of streams that began at once
	st.begun, st.beat = true, time.Now().Add(-early)
	st.writeHead()
	st.ticker = time.NewTimer(CheckEvery - early)
	if c := connectionOf(st.r.Context()); c != nil {
		_ = closeUnacknowledged(c, ackWithin) // without it the deadlines of writes end the stream
	}
	return st.write(appendRetry(nil))
}

// Send writes events, all at once.
func (st *Stream) Send(events ...StreamEvent) error {
	if err := st.begin(); err != nil || len(events) == 0 {
		return err
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	text, err := (*buf)[:0], error(nil)
	OnNewStack(func() {
		if text, err = appendEvents(text, events); err == nil {
			err = st.writeNow(text)
		}
	})
	if cap(text) <= maxKept {
		*buf = text
	}
	return err
}

// write runs writeNow on another goroutine's stack (see OnNewStack).
func (st *Stream) write(text []byte) (err error) {
	OnNewStack(func() { err = st.writeNow(text) })
	return err
}

// writeNow writes and flushes. A reader that does not take the data in time is disconnected, and so is
// one whose user has left too much unread.
func (st *Stream) writeNow(text []byte) error {
	release, err := st.server.holdAnswer(infoOf(st.r.Context()), len(text))
	if err != nil {
		return errSlow
	}
	defer release()
	control := http.NewResponseController(st.w)
	began := time.Now()
	if err := control.SetWriteDeadline(began.Add(slowAfter)); err != nil {
		return fmt.Errorf("set the deadline of a write: %w", err)
	}
	_, err = st.w.Write(text)
	if err == nil {
		err = control.Flush()
	}
	// A wrapper around the writer may swallow the error of the flush, but the end of the
	// connection also ends the context.
	if err == nil && st.r.Context().Err() == nil {
		return control.SetWriteDeadline(time.Time{}) // HTTP/2 ends a stream whose deadline has passed
	}
	if time.Since(began) >= slowAfter {
		return errSlow
	}
	return context.Canceled
}

// end counts the cause of the stream's end. Once events were sent the response can no longer
// become a problem, so the error goes to the log only.
func (st *Stream) end(err error) error {
	if !st.begun {
		return err
	}
	if st.ticker != nil {
		st.ticker.Stop()
	}
	why := reason(err)
	st.server.streams.ended.WithLabelValues(why).Inc()
	if why == "error" {
		infoOf(st.r.Context()).fail(err, asError(st.r, err).Code)
	}
	var ended bye
	if errors.As(err, &ended) {
		return st.Send(StreamEvent{Name: "bye", Data: api.Bye{Reason: api.ByeReason(ended)}})
	}
	if why != "client" && why != "slow" {
		_ = st.write(append(appendRetry(nil), ": "+why+"\n\n"...)) // the client may be gone as well
	}
	return nil
}

// maxKept is the largest buffer that is kept for reuse.
const maxKept = 64 << 10

// buffers hold the text of events while it is written.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// appendRetry tells a client how long after the end to come back.
func appendRetry(text []byte) []byte {
	wait := comeBack + rand.N(2*comeBack)
	text = append(text, "retry: "...)
	return append(strconv.AppendInt(text, wait.Milliseconds(), 10), "\n\n"...)
}

func appendEvents(text []byte, events []StreamEvent) (_ []byte, err error) {
	for i := range events {
		if text, err = appendEvent(text, &events[i]); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// appendEvent writes an event's text. JSON has no line breaks of its own.
func appendEvent(text []byte, e *StreamEvent) ([]byte, error) {
	if e.ID != "" {
		text = append(append(append(text, "id: "...), e.ID...), '\n')
	}
	if e.Name != "" {
		text = append(append(append(text, "event: "...), e.Name...), '\n')
	}
	if e.Data != nil {
		data, encoded := e.Data.(Encoded)
		if err := error(nil); !encoded {
			if data, err = encode(e.Data); err != nil {
				return nil, fmt.Errorf("write an event: %w", err)
			}
		}
		text = append(append(append(text, "data: "...), data...), '\n')
	}
	return append(text, '\n'), nil
}
