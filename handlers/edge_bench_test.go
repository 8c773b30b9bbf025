package handlers_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/handlers/web"
	"fanfare/store/apikeys"
	"fanfare/store/events/render"
	"fanfare/store/storetest"
)

// edgeBody is a small body, as most calls have.
const edgeBody = `{"user":"alice","lines":[{"sku":"sneaker:42","quantity":1}]}`

// edgeEvent is an event to one user.
const edgeEvent = `{"type":"photo.shared","actor":"alice","object":"album:42","audience":{"users":["bob"]},"data":{"album":"Summer"}}`

// edgeRequest is the request type of postReservation, and edgeEventRequest that of postEvent.
type (
	edgeRequest struct {
		Sale        string `path:"sale" validate:"identifier"`
		Idempotency api.Idempotency
		Body        api.ReservationRequest
	}
	edgeEventRequest struct {
		Idempotency api.Idempotency
		Body        api.EventRequest
	}
)

// edgeCalls are the requests of the benchmarks, by what is measured.
var edgeCalls = []struct {
	name, path, body string
	withoutKey       bool
	header           string
}{
	{name: "post", path: "/v1/sales/spring/reservations", body: edgeBody},
	{name: "401", path: "/v1/sales/spring/reservations", body: edgeBody, withoutKey: true},
	{name: "404", path: "/v1/nothing", body: edgeBody},
	{name: "409", path: "/v1/sales/sold_out/reservations", body: edgeBody},
	{name: "422", path: "/v1/sales/spring/reservations", body: `{"user":"a b","lines":[{"sku":"sneaker:42","quantity":1}]}`},
	{name: "503", path: "/v1/sales/overloaded/reservations", body: edgeBody},
	{name: "event", path: "/v1/events", body: edgeEvent},
	{name: "event with Idempotency-Key", path: "/v1/events", body: edgeEvent, header: "Idempotency-Key: 5f0c7a9e-2a8f-4f7e\r\n"},
}

// BenchmarkEdge measures the cost of the HTTP edge without a store: bare net/http that reads and
// writes the same JSON, and fanfare with an API key, strict JSON, rules, limits, metrics, log and
// headers. The first half calls the handlers directly, and the second half uses loopback
// connections that stay open. cpu-ns/op is the processor time of the whole process, including the
// client.
func BenchmarkEdge(b *testing.B) {
	edge, key := mustEdge(b)
	bare := http.HandlerFunc(bareReservation)
	for _, way := range []struct {
		name string
		run  func(b *testing.B, h http.Handler, request []byte)
	}{{"handler", benchHandler}, {"loopback", benchLoopback}} {
		b.Run(way.name+"/bare", func(b *testing.B) { way.run(b, bare, edgeText(edgeCalls[0].path, edgeBody, key, "")) })
		for _, c := range edgeCalls {
			own := key
			if c.withoutKey {
				own = ""
			}
			b.Run(way.name+"/"+c.name, func(b *testing.B) { way.run(b, edge, edgeText(c.path, c.body, own, c.header)) })
		}
	}
}

// mustEdge makes everything before the stores, and an API key for it.
func mustEdge(b *testing.B) (http.Handler, string) {
	b.Helper()
	rec := storetest.Record(b, storetest.SQLite(b))
	storetest.Must(b, rec.Migrate(b.Context()))
	store := apikeys.New(rec, apikeys.Options{})
	storetest.Must(b, store.Load(b.Context()))
	key, _, err := store.Create(b.Context(), "bench", []api.Scope{api.ScopeSalesBuy, api.ScopePush}, nil)
	storetest.Must(b, err)
	server := web.New(web.Options{
		HasKeys: store.Any, Authenticate: store.Authenticate,
		Logger: slog.New(slog.NewJSONHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelInfo})),
	})
	templates, err := render.NewTemplateSet(&api.EventTypeRequest{Title: "New photo", Body: "{{.actor}} shared {{.data.album}}", Sound: "default"})
	storetest.Must(b, err)
	return server.Handler([]web.Route{
		{Method: "POST", Pattern: "/v1/sales/{sale}/reservations", Scope: api.ScopeSalesBuy, Endpoint: web.Handle(edgeReservation)},
		{Method: "POST", Pattern: "/v1/events", Scope: api.ScopePush, Endpoint: web.Handle(edgeAccept(templates))},
	}), key
}

// edgeAccept renders an event, which is all the work before the call of Redis.
func edgeAccept(templates *render.TemplateSet) func(context.Context, *edgeEventRequest) (*web.Reply[api.EventAccepted], error) {
	const id = "0f5bv1cb2h5i1k6rthd7gfs3kq4m4o3e"
	return func(_ context.Context, in *edgeEventRequest) (*web.Reply[api.EventAccepted], error) {
		if _, err := templates.Render(id, &in.Body); err != nil {
			return nil, err
		}
		return web.Accepted(&api.EventAccepted{ID: id}).At("/v1/events/" + id), nil
	}
}

// edgeReservation answers like a store: refusals come from memory, and other calls also wait for
// the deadline.
func edgeReservation(ctx context.Context, in *edgeRequest) (*web.Reply[api.Reservation], error) {
	switch in.Sale {
	case "sold_out":
		return nil, api.Errorf(api.CodeSoldOut, "there is not enough left").With("available", map[string]int64{"sneaker:42": 0})
	case "overloaded":
		return nil, api.Errorf(api.CodeOverloaded, "too many reservations of this sale are under way")
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	default:
	}
	return web.Created(newReservation(&in.Body)).At("/v1/sales/" + in.Sale + "/reservations/0n1c81h5qjm2s8"), nil
}

func newReservation(r *api.ReservationRequest) *api.Reservation {
	until := api.AtMillis(1_800_000_000_000)
	return &api.Reservation{ID: "0n1c81h5qjm2s8", User: r.User, Lines: r.Lines, State: api.ReservationHeld, ExpiresAt: &until}
}

// bareReservation reads and writes the same, only with net/http and encoding/json.
func bareReservation(w http.ResponseWriter, r *http.Request) {
	var in api.ReservationRequest
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(newReservation(&in))
}

// edgeText is a request as it is sent over the wire.
func edgeText(path, body, key, header string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", path, len(body))
	if key != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", key)
	}
	b.WriteString(header + "\r\n" + body)
	return b.Bytes()
}

// discard is a connection's writer without the connection.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header             { return d.header }
func (d *discard) WriteHeader(status int)          { d.status = status }
func (d *discard) Write(p []byte) (int, error)     { return len(p), nil }
func (d *discard) SetReadDeadline(time.Time) error { return nil }

// benchHandler calls h directly, so that the work of net/http is not counted.
func benchHandler(b *testing.B, h http.Handler, request []byte) {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(request)))
	storetest.Must(b, err)
	body, err := io.ReadAll(r.Body)
	storetest.Must(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	r = r.WithContext(ctx)
	r.RemoteAddr = "127.0.0.1:4711"
	reader := bytes.NewReader(body)
	w := &discard{header: http.Header{}}
	b.ReportAllocs()
	began := cpuTime()
	b.ResetTimer()
	for range b.N {
		reader.Reset(body)
		r.Body = io.NopCloser(reader)
		clear(w.header)
		h.ServeHTTP(w, r)
	}
	b.ReportMetric(float64(cpuTime()-began)/float64(b.N), "cpu-ns/op")
}

// benchLoopback sends the request over connections that stay open, and reads
// answers that all have the same length.
func benchLoopback(b *testing.B, h http.Handler, request []byte) {
	server := httptest.NewUnstartedServer(h)
	server.Config.ReadHeaderTimeout, server.Config.ReadTimeout = 5*time.Second, 30*time.Second // the same as in app
	server.Config.WriteTimeout, server.Config.IdleTimeout = 35*time.Second, 120*time.Second
	server.Start()
	defer server.Close()
	b.ReportAllocs()
	b.SetParallelism(4)
	var failed atomic.Pointer[error]
	began := cpuTime()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		if err := exchange(server.Listener.Addr().String(), request, pb.Next); err != nil {
			failed.Store(&err)
		}
	})
	if err := failed.Load(); err != nil {
		b.Fatal(*err)
	}
	b.ReportMetric(float64(cpuTime()-began)/float64(b.N), "cpu-ns/op")
}

// exchange sends and reads as long as next returns true.
func exchange(address string, request []byte, next func() bool) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	var answer []byte
	for next() {
		if _, err = conn.Write(request); err != nil {
			return err
		}
		if answer == nil {
			answer, err = firstAnswer(conn)
		} else {
			_, err = io.ReadFull(conn, answer)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// firstAnswer reads an answer, which may arrive in several pieces.
func firstAnswer(conn net.Conn) (text []byte, err error) {
	buf := make([]byte, 4<<10)
	for !whole(text) {
		n, err := conn.Read(buf)
		if err != nil {
			return nil, err
		}
		text = append(text, buf[:n]...)
	}
	return text, nil
}

// whole reports whether text is a complete answer.
func whole(text []byte) bool {
	answer, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(text)), nil)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err == nil
}

// cpuTime is the processor time that this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
