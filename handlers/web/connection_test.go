package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"

	"github.com/prometheus/client_golang/prometheus"
)

// following is a server with one stream, at /follow.
type following struct {
	t       *testing.T
	addr    string
	closing chan struct{}
	open    sync.WaitGroup
	reg     *prometheus.Registry
	log     storetest.Lines
	taken   atomic.Int64 // connections that were taken from net/http
	hijack  func() error // called when a connection is to be taken; an error: it cannot be; nil: it can
}

// hijacked is an answer that says when its connection is to be taken.
type hijacked struct {
	http.ResponseWriter
	f *following
}

func (h *hijacked) Unwrap() http.ResponseWriter { return h.ResponseWriter }

func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if h.f.hijack != nil {
		if err := h.f.hijack(); err != nil {
			return nil, nil, err
		}
	}
	return http.NewResponseController(h.ResponseWriter).Hijack()
}

// setupStream serves a method as a stream.
func setupStream(t *testing.T, method func(context.Context, *Nothing, *Stream) error) *following {
	t.Helper()
	f := &following{t: t, closing: make(chan struct{}), reg: prometheus.NewRegistry()}
	s := New(Options{
		Closing: f.closing, Streams: &f.open, Registry: f.reg, HasKeys: func() bool { return true },
		Logger: slog.New(slog.NewJSONHandler(&f.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	handler := s.Handler([]Route{{Method: "GET", Pattern: "/follow", Endpoint: HandleStream(method)}})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(&hijacked{w, f}, r) }))
	noted := server.Config.ConnState
	server.Config.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateHijacked {
			f.taken.Add(1)
		}
		if noted != nil {
			noted(c, state)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	f.addr = server.Listener.Addr().String()
	return f
}

// mustAsk opens the stream with a version of HTTP/1 and additional lines in the head, and returns
// the connection and the raw answer.
func (f *following) mustAsk(version, lines string) (net.Conn, *bufio.Reader) {
	f.t.Helper()
	c, err := net.Dial("tcp", f.addr)
	storetest.Must(f.t, err)
	f.t.Cleanup(func() { _ = c.Close() })
	storetest.Must(f.t, c.SetDeadline(time.Now().Add(30*time.Second)))
	_, err = fmt.Fprintf(c, "GET /follow HTTP/%s\r\nHost: localhost\r\n%s\r\n", version, lines)
	storetest.Must(f.t, err)
	return c, bufio.NewReader(c)
}

// answered is an answer whose body is closed at the end of the test.
type answered struct{ *http.Response }

// mustAnswer reads the head of an answer.
func (f *following) mustAnswer(from *bufio.Reader) answered {
	f.t.Helper()
	res, err := http.ReadResponse(from, nil)
	storetest.Must(f.t, err)
	f.t.Cleanup(func() { _ = res.Body.Close() })
	return answered{res}
}

// figures is the sum of all metrics with a name: their values, or the numbers of observations.
func (f *following) figures(name string) (sum float64) {
	f.t.Helper()
	families, err := f.reg.Gather()
	storetest.Must(f.t, err)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

// wantEnded waits for the end of all streams, and checks that they gave everything back.
func (f *following) wantEnded() {
	f.t.Helper()
	f.open.Wait()
	for _, name := range []string{"fanfare_open_streams", "fanfare_http_in_flight_requests"} {
		if n := f.figures(name); n != 0 {
			f.t.Errorf("%s is %v", name, n)
		}
	}
	if n := f.figures("fanfare_http_request_duration_seconds"); n != 1 {
		f.t.Errorf("%v requests were measured", n)
	}
}

// quiet sends one event and then waits.
func quiet(ctx context.Context, _ *Nothing, out *Stream) error {
	if err := out.Send(StreamEvent{Name: "message", Data: "hello"}); err != nil {
		return err
	}
	return out.Await(ctx, nil)
}

// A stream over HTTP/1.1 goes on without its request's handler, which cannot be seen from outside:
// neither in the answer nor in metrics or log.
func TestStreamsLeaveTheirHandlers(t *testing.T) {
	t.Parallel()
	f := setupStream(t, quiet)
	_, from := f.mustAsk("1.1", "Traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\nX-Request-Id: mine\r\n")
	res := f.mustAnswer(from)
	var text strings.Builder
	for !strings.Contains(text.String(), `data: "hello"`) {
		part := make([]byte, 100)
		n, err := res.Body.Read(part)
		storetest.Must(t, err)
		text.Write(part[:n])
	}
	if f.taken.Load() != 1 || f.figures("fanfare_open_streams") != 1 || f.figures("fanfare_http_in_flight_requests") != 1 {
		t.Errorf("%d connections taken, %v streams, %v requests", f.taken.Load(), f.figures("fanfare_open_streams"), f.figures("fanfare_http_in_flight_requests"))
	}
	close(f.closing)
	rest, err := io.ReadAll(res.Body)
	text.Write(rest)
	if err != nil || !strings.HasPrefix(text.String(), "retry: ") || !strings.HasSuffix(text.String(), ": stopping\n\n") {
		t.Errorf("%q, %v", text.String(), err)
	}
	if _, err := from.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the connection goes on: %v", err)
	}
	f.wantEnded()
	if at, err := http.ParseTime(res.Header.Get("Date")); err != nil || time.Since(at).Abs() > time.Minute {
		t.Errorf("the date is %q, %v", res.Header.Get("Date"), err)
	}
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-cache, no-store", "X-Accel-Buffering": "no",
		"X-Request-Id": "mine", "X-Content-Type-Options": "nosniff",
	} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if !res.Close || len(res.TransferEncoding) != 1 || res.Proto != "HTTP/1.1" || res.Status != "200 OK" {
		t.Errorf("%s %s, closes %v, %v", res.Proto, res.Status, res.Close, res.TransferEncoding)
	}
	line := fmt.Sprintf(`"msg":"request","request_id":"mine","method":"GET","route":"/follow","status":200,"took_ms":*,"bytes":%d,"client":"127.0.0.1","trace_id":"4bf92f3577b34da6a3ce929d0e0e4736"}`, text.Len())
	before, after, _ := strings.Cut(line, "*")
	if log := f.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, before) || !strings.Contains(log, after) {
		t.Errorf("%s\nwant %s", log, line)
	}
}

// A process that stops waits for a stream from before net/http forgets its connection on. A stream whose connection cannot be taken
// goes on, and is not waited for when it has ended.
func TestAStopMissesNoStream(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{"Taken": nil, "Refused": http.ErrNotSupported} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setupStream(t, quiet)
			f.hijack = func() error {
				missed := make(chan struct{})
				go func() { defer close(missed); f.open.Wait() }()
				select {
				case <-missed:
					t.Error("a stop does not wait for the stream")
				case <-time.After(100 * time.Millisecond):
				}
				return failure
			}
			_, from := f.mustAsk("1.1", "")
			res := f.mustAnswer(from)
			close(f.closing)
			if text, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(text), `data: "hello"`) {
				t.Errorf("%q, %v", text, err)
			}
			f.open.Wait()
		})
	}
}

// An error that a method returns before its stream has begun is the answer, as for any call.
func TestStreamsThatDoNotBegin(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		method func(context.Context, *Nothing, *Stream) error
		status int
	}{
		"Refused": {func(context.Context, *Nothing, *Stream) error { return api.Errorf(api.CodeNotFound, "no") }, 404},
		"Panic":   {func(context.Context, *Nothing, *Stream) error { panic("at once") }, 500},
		"Empty":   {func(context.Context, *Nothing, *Stream) error { return nil }, 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setupStream(t, row.method)
			_, from := f.mustAsk("1.1", "Connection: close\r\n")
			res := f.mustAnswer(from)
			if _, err := io.ReadAll(res.Body); err != nil || res.StatusCode != row.status || f.taken.Load() != 0 {
				t.Errorf("%s, %v, %d connections taken", res.Status, err, f.taken.Load())
			}
			f.wantEnded()
		})
	}
}

// A panic in a stream that has begun ends only that stream.
func TestStreamsThatPanic(t *testing.T) {
	t.Parallel()
	f := setupStream(t, func(_ context.Context, _ *Nothing, out *Stream) error {
		_ = out.Send(StreamEvent{Data: "half"})
		panic("in the middle")
	})
	_, from := f.mustAsk("1.1", "")
	if text, err := io.ReadAll(f.mustAnswer(from).Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%q, %v", text, err)
	}
	f.wantEnded()
	if !strings.Contains(f.log.String(), "panic in a handler") {
		t.Error(f.log.String())
	}
}

// A stream ends when its client has gone, and when the client sends much data.
func TestStreamsEndWithTheirClients(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(net.Conn) error{
		"Gone":    net.Conn.Close,
		"HalfWay": func(c net.Conn) error { return c.(*net.TCPConn).CloseWrite() },
		"Talks": func(c net.Conn) error {
			_, err := c.Write(make([]byte, 2*ignored))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setupStream(t, quiet)
			c, from := f.mustAsk("1.1", "")
			f.mustAnswer(from)
			storetest.Must(t, end(c))
			f.wantEnded()
			if f.figures("fanfare_streams_ended_total") != 1 || strings.Contains(f.log.String(), "error") {
				t.Error(f.log.String())
			}
		})
	}
	t.Run("ALine", func(t *testing.T) { // some clients send an additional line after their request
		t.Parallel()
		f := setupStream(t, quiet)
		c, from := f.mustAsk("1.1", "")
		res := f.mustAnswer(from)
		_, err := c.Write([]byte("\r\n"))
		storetest.Must(t, err)
		close(f.closing)
		if text, err := io.ReadAll(res.Body); err != nil || !strings.HasSuffix(string(text), ": stopping\n\n") {
			t.Errorf("%q, %v", text, err)
		}
		f.wantEnded()
	})
}

// Requests that cannot leave their handler are streams as well.
func TestStreamsThatStay(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ version, lines string }{
		"HTTP10": {"1.0", ""},
		"Body":   {"1.1", "Content-Length: 2\r\nConnection: close\r\n\r\n{}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setupStream(t, quiet)
			_, from := f.mustAsk(row.version, row.lines)
			res := f.mustAnswer(from)
			close(f.closing)
			if text, err := io.ReadAll(res.Body); err != nil || !strings.HasSuffix(string(text), ": stopping\n\n") || f.taken.Load() != 0 {
				t.Errorf("%q, %v, %d connections taken", text, err, f.taken.Load())
			}
			f.wantEnded()
		})
	}
}
