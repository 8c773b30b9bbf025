package h2

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// mustServe starts net/http's own HTTP/2 server and a pool of connections to it.
func mustServe(t testing.TB, h http.HandlerFunc, change func(*Options)) (*httptest.Server, *Pool) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	o := testOptions()
	if change != nil {
		change(&o)
	}
	cfg := &tls.Config{RootCAs: roots, ServerName: "example.com", NextProtos: []string{"h2"}}
	p := New(s.Listener.Addr().String(), cfg, o)
	t.Cleanup(p.Close)
	return s, p
}

// post sends one body and waits for the result.
func post(ctx context.Context, p *Pool, data []byte, check func() bool) (*Result, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	conn, err := acquire(ctx, p, "group")
	if err != nil {
		return &Result{}, err
	}
	done := make(results, 1)
	call := conn.NewCall(data, check, done)
	call.Start("/", nil)
	defer context.AfterFunc(ctx, func() { call.Cancel(ctx.Err()) })()
	r, use := <-done, Answered
	if r.Status == 0 {
		use = Unanswered
	}
	p.Release(conn, use)
	return r, r.Err
}

func echo(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }

func TestPoolKeepsAConnection(t *testing.T) {
	t.Parallel()
	made := 0
	_, p := mustServe(t, echo, func(o *Options) {
		o.FirstAlone, o.Attach = true, func() (any, error) { made++; return made, nil }
	})
	for _, text := range []string{"one", "two", "three", ""} {
		if got, err := post(t.Context(), p, []byte(text), nil); err != nil || string(got.Body) != text || got.Status != 200 {
			t.Fatalf("%s came back as %+v: %v", text, got, err)
		}
	}
	conn, err := acquire(t.Context(), p, "group")
	if err != nil {
		t.Fatal(err)
	}
	if open, err := p.State(); open != 1 || err != nil || conn.Value() != 1 {
		t.Errorf("%d connections, %v, with the value %v", open, err, conn.Value())
	}
	p.Release(conn, Unanswered)
	p.Close()
	if _, err := acquire(t.Context(), p, "group"); !errors.Is(err, ErrClosed) {
		t.Errorf("after the close: %v", err)
	}
}

// net/http's server has flow-control windows. Bodies that are far larger arrive completely, many at
// the same time.
func TestLargeBodiesArriveWhole(t *testing.T) {
	t.Parallel()
	_, p := mustServe(t, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil || bytes.Count(b, []byte("x")) != 3<<20 {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = w.Write(bytes.Repeat([]byte("y"), 1000))
	}, nil)
	body := bytes.Repeat([]byte("x"), 3<<20)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if r, err := post(t.Context(), p, body, nil); err != nil || r.Status != 200 || len(r.Body) != 1000 {
				t.Errorf("got %d with %d bytes: %v", r.Status, len(r.Body), err)
			}
		})
	}
	all.Wait()
}

func TestPoolReportsWhatAttachAndDialSay(t *testing.T) {
	t.Parallel()
	failure := errors.New("no credentials")
	_, p := mustServe(t, echo, func(o *Options) { o.Attach = func() (any, error) { return nil, failure } })
	if _, err := post(t.Context(), p, []byte("x"), nil); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
	if open, err := p.State(); open != 0 || !errors.Is(err, failure) {
		t.Errorf("%d connections, %v", open, err)
	}
}

// A failed call says whether the server may have processed it.
func TestCallTellsHowFarItCame(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{}, 1)
	_, p := mustServe(t, func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			arrived <- struct{}{}
		}
		<-r.Context().Done()
	}, nil)
	if _, err := post(t.Context(), p, []byte("x"), func() bool { return false }); !errors.Is(err, ErrWithheld) {
		t.Errorf("a check that says no: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if _, err := post(ctx, p, []byte("x"), nil); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnprocessed) {
		t.Errorf("no answer came: %v", err)
	}
	conn, err := acquire(t.Context(), p, "group")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release(conn, Unanswered)
	conn.Retire()
	done := make(results, 1)
	conn.NewCall([]byte("x"), nil, done).Start("/", nil)
	if r := <-done; !errors.Is(r.Err, ErrUnprocessed) {
		t.Errorf("on a retired connection: %+v", r)
	}
}

// A server that asks for another connection on each connection is not dialled in a loop. When it
// works again, requests succeed.
func TestRefusedConnectionsAreOpenedEverMoreSlowly(t *testing.T) {
	t.Parallel()
	_, p := mustServe(t, echo, nil)
	opened, began := 0, time.Now()
	for opened < 4 {
		conn, err := acquire(t.Context(), p, "group")
		if err == nil {
			opened++
			p.Release(conn, Refused)
		} else if !errors.Is(err, errRefused) {
			t.Fatal(err)
		}
		if most := 2 + int(time.Since(began)/(firstDialBackoff/2)); opened > most {
			t.Fatalf("%d connections within %v", opened, time.Since(began))
		}
		storetest.Eventually(t, 20*time.Second, "the next dial to be allowed", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return !time.Now().Before(p.retryAt)
		})
	}
	storetest.Eventually(t, 20*time.Second, "an answer", func() bool {
		r, err := post(t.Context(), p, []byte("x"), nil)
		return err == nil && r.Status == 200
	})
	if p.failures != 0 {
		t.Errorf("after an answer it still counts %d failures", p.failures)
	}
}

// mustOpen begins n requests that stay open, and returns a function that ends them.
func mustOpen(t *testing.T, p *Pool, n int) (end func()) {
	t.Helper()
	var conns []*Conn
	for range n {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		conn, err := acquire(ctx, p, "group")
		if cancel(); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	return func() {
		for _, conn := range conns {
			p.Release(conn, Answered)
		}
	}
}

// mustHave waits until a pool has n connections.
func mustHave(t *testing.T, p *Pool, n int) {
	t.Helper()
	storetest.Eventually(t, 20*time.Second, "the connections that are needed", func() bool {
		open, _ := p.State()
		return open == n
	})
}

// TestA6_ConnectionsWithoutNeedAreClosed: if there are more requests than one connection takes,
// others are opened. They are closed when they have had no request for a while, and are opened
// again when needed.
func TestA6_ConnectionsWithoutNeedAreClosed(t *testing.T) {
	t.Parallel()
	const streams = 250 // the limit of the server for each connection
	_, p := mustServe(t, echo, func(o *Options) { o.IdleAfter = 100 * time.Millisecond })
	for range 2 {
		end := mustOpen(t, p, 2*streams+1)
		mustHave(t, p, 3)
		end()
		mustHave(t, p, 1)
	}
	if p.failures > 0 {
		t.Errorf("the end of connections without need counts as %d failures", p.failures)
	}
}

// TestA6_OneConnectionThenEight: thousands of requests wait for a server without connections. One is opened, and until it
// has answered one request nothing else is. Then eight are opened at once, and all requests get their turn.
func TestA6_OneConnectionThenEight(t *testing.T) {
	t.Parallel()
	const requests = 5000 // the server takes 250 on each connection
	var dials atomic.Int64
	goOn := make(chan struct{})
	_, p := mustServe(t, echo, func(o *Options) {
		o.FirstAlone, o.Control = true, func(string, string, syscall.RawConn) error {
			if dials.Add(1) > 1 {
				<-goOn
			}
			return nil
		}
	})
	got := make(grants, requests)
	for range requests {
		p.Acquire(&Waiter{Group: "group", Context: t.Context(), Owner: got})
	}
	first := <-got
	storetest.Must(t, first.err)
	p.mu.Lock()
	if dials.Load() != 1 || p.dialing > 0 || len(got) > 0 {
		t.Errorf("%d dials, %d under way, %d requests beside the first one", dials.Load(), p.dialing, len(got))
	}
	p.mu.Unlock()
	p.Release(first.conn, Answered)
	storetest.Eventually(t, 20*time.Second, "eight dials at once", func() bool { return dials.Load() == 1+maxNew })
	p.mu.Lock()
	if p.dialing != maxNew {
		t.Errorf("%d dials are under way", p.dialing)
	}
	p.mu.Unlock()
	close(goOn)
	for range requests - 1 {
		one := <-got
		storetest.Must(t, one.err)
		p.Release(one.conn, Answered)
	}
}

// TestA6_AGroupThatHangsKeepsNoNewConnection: all connections are full of a group whose requests hang, and one more
// of its requests is the first on a new connection. A single request of another group gets a connection all the same.
func TestA6_AGroupThatHangsKeepsNoNewConnection(t *testing.T) {
	t.Parallel()
	const streams = 250 // the limit of the server for each connection
	_, p := mustServe(t, echo, func(o *Options) { o.FirstAlone, o.AnswerWithin = true, time.Hour })
	conn, err := acquire(t.Context(), p, "hangs")
	storetest.Must(t, err)
	p.Release(conn, Answered)
	for range streams + 1 {
		_, err := acquire(t.Context(), p, "hangs")
		storetest.Must(t, err)
	}
	waits := make(grants, 1)
	p.Acquire(&Waiter{Group: "hangs", Context: t.Context(), Owner: waits})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	other, err := acquire(ctx, p, "well")
	storetest.Must(t, err)
	p.mu.Lock()
	if len(p.conns) != 3 || other != p.conns[2] || len(waits) > 0 {
		t.Errorf("%d connections, %d requests that hang got the third one", len(p.conns), len(waits))
	}
	p.mu.Unlock()
}

// TestA6_BulkRequestsWaitBehindOthers: for a connection, and for their turn on it.
func TestA6_BulkRequestsWaitBehindOthers(t *testing.T) {
	t.Parallel()
	const streams = 250 // the limit of the server for each connection
	_, p := mustServe(t, echo, func(o *Options) { o.Conns = 1 })
	end := mustOpen(t, p, streams)
	var order []string
	got := make(chan string, 5)
	for n, name := range []string{"bulk 1", "one", "bulk 2", "two", "three"} {
		w := &Waiter{Group: "group", Bulk: strings.HasPrefix(name, "bulk"), Context: t.Context(), Owner: owner(func() { got <- name })}
		if p.Acquire(w); n == 3 {
			p.Cancel(w, ErrClosed)
			<-got
		}
	}
	end()
	for range 4 {
		order = append(order, <-got)
	}
	if want := []string{"one", "three", "bulk 1", "bulk 2"}; !slices.Equal(order, want) {
		t.Errorf("they got connections in the order %v", order)
	}
	c := newConn(p, nil, nil) // nothing of it runs
	for n := range 5 {
		call := c.NewCall(nil, nil, nil)
		call.Bulk = n%2 == 0
		call.Start("/"+strconv.Itoa(n), nil)
	}
	for n, want := range []string{"/1", "/3", "/0", "/2", "/4"} {
		if call := c.ready[n]; call.path != want {
			t.Errorf("call %d is to leave as number %d", n, n)
		}
	}
	if p.bulk != nil || len(p.groups) > 0 {
		t.Errorf("without waiters the pool still has %v and %v", p.bulk, p.groups)
	}
}

// owner is told that its waiter has a connection, or that there is none.
type owner func()

func (o owner) Acquired(*Conn, error) { o() }

// A pool has as many connections as it may, and with CloseLast none that nobody needs.
func TestConnectionsAreBoundedAndTheLastOneIsClosed(t *testing.T) {
	t.Parallel()
	const streams = 250 // the limit of the server for each connection
	_, p := mustServe(t, echo, func(o *Options) { o.Conns, o.IdleAfter, o.CloseLast = 2, 100*time.Millisecond, true })
	for range 2 {
		end := mustOpen(t, p, 2*streams)
		waits := make(grants, 1)
		w := &Waiter{Group: "group", Context: t.Context(), Owner: waits}
		p.Acquire(w)
		mustHave(t, p, 2)
		if p.mu.Lock(); p.dialing > 0 || len(waits) > 0 {
			t.Error("a third connection is opened")
		}
		p.mu.Unlock()
		end()
		got := <-waits
		storetest.Must(t, got.err)
		p.Release(got.conn, Answered)
		mustHave(t, p, 0)
	}
	if p.failures > 0 {
		t.Errorf("the end of connections without need counts as %d failures", p.failures)
	}
}

// The check of addresses sees what the host's name was resolved to, and what it refuses is not
// connected to.
func TestAddressesAreCheckedAtConnect(t *testing.T) {
	t.Parallel()
	refused := errors.New("a private address")
	seen, allow := make(chan string, 100), false
	s, p := mustServe(t, echo, func(o *Options) {
		o.Control = func(_, addr string, _ syscall.RawConn) error {
			seen <- addr
			if allow {
				return nil
			}
			return refused
		}
	})
	_, port, _ := net.SplitHostPort(p.addr)
	p.addr = net.JoinHostPort("localhost", port)
	if _, err := post(t.Context(), p, []byte("x"), nil); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	if addr := netip.MustParseAddrPort(<-seen); !addr.Addr().IsLoopback() || strconv.Itoa(int(addr.Port())) != port {
		t.Errorf("asked about %v", addr)
	}
	allow, p.addr = true, s.Listener.Addr().String()
	storetest.Eventually(t, 20*time.Second, "an answer", func() bool {
		r, err := post(t.Context(), p, []byte("x"), nil)
		return err == nil && r.Status == 200
	})
}

// TestABackoffEnds: requests that wait during a backoff get a new connection when the backoff is
// over, even if nothing else happens.
func TestABackoffEnds(t *testing.T) {
	t.Parallel()
	_, p := mustServe(t, echo, nil)
	defer mustOpen(t, p, 250)()
	p.mu.Lock()
	p.retryAt = time.Now().Add(100 * time.Millisecond)
	p.mu.Unlock()
	defer mustOpen(t, p, 1)()
	mustHave(t, p, 2)
}
