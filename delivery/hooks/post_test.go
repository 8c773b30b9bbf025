package hooks

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/address/addresstest"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

const someSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// hookAt is a webhook at a URL.
func hookAt(to string) *record.Webhook {
	return &record.Webhook{Webhook: api.Webhook{ID: "shop", URL: to}, Secrets: []string{someSecret}}
}

// mustPost posts something, and wants it to end in time.
func mustPost(t testing.TB, p *Poster, to string) answer {
	t.Helper()
	t.Cleanup(p.Close)
	began := time.Now()
	a := p.post(t.Context(), hookAt(to), "shop:0-1-0", []byte(`{"facts":[]}`))
	if took := time.Since(began); took > p.timeout+bodyTimeout+10*time.Second {
		t.Errorf("took %v", took)
	}
	if a.err != nil && strings.Contains(a.err.Error(), "token=") {
		t.Errorf("the error shows the URL: %v", a.err)
	}
	return a
}

// H7: a request is signed over the bytes that are sent, with headers of Standard Webhooks, at a second of the clock that was handed in.
func TestH7_Request(t *testing.T) {
	t.Parallel()
	s := newReceiver(t, nil)
	s.expect(someSecret)
	p, at := poster(s), time.Now().Add(-2*time.Minute) // the library takes what is not older than 5 min
	p.now = func() time.Time { return at }
	if a := mustPost(t, p, s.URL+"/hook?token=x"); a.status != 204 || a.err != nil {
		t.Fatalf("%+v", a)
	}
	r := s.got()[0]
	if r.id != "shop:0-1-0" || string(r.raw) != `{"facts":[]}` || r.header.Get("Content-Type") != "application/json" || r.header.Get("User-Agent") != "fanfare" || r.header.Get("webhook-timestamp") != strconv.FormatInt(at.Unix(), 10) {
		t.Errorf("%+v", r)
	}
}

// H5: Retry-After is at most the longest backoff, and a time is by the receiver's own clock.
func TestH5_RetryAfter(t *testing.T) {
	t.Parallel()
	own := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for after, want := range map[string]time.Duration{"7": 7 * time.Second, "86400": maxBackoff, own.Add(time.Minute).Format(http.TimeFormat): time.Minute} {
		s := newReceiver(t, func(w http.ResponseWriter, _ int, _ *request) {
			w.Header().Set("Retry-After", after)
			w.Header().Set("Date", own.Format(http.TimeFormat))
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		s.expect(someSecret)
		if a := mustPost(t, poster(s), s.URL); a.status != 503 || a.asked != want {
			t.Errorf("%s: %+v", after, a)
		}
	}
}

// H7: an answer that does not come, or does not end, is waited for no longer than the time-out, and 4 KiB of it are read.
func TestH7_AnswersThatDoNotEnd(t *testing.T) {
	t.Parallel()
	sent := make(chan int, 1)
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, n int, r *request)
		status int
		why    string
	}{
		"NoAnswer": {func(_ http.ResponseWriter, _ int, r *request) { <-r.hang }, 0, "no answer came within"},
		"EndlessBody": {func(w http.ResponseWriter, _ int, _ *request) {
			n := 0
			for chunk := bytes.Repeat([]byte("x"), 1<<10); ; n += len(chunk) {
				if _, err := w.Write(chunk); err != nil {
					sent <- n
					return
				}
			}
		}, 200, ""},
		"SilentBody": {func(w http.ResponseWriter, _ int, r *request) {
			w.WriteHeader(202)
			_ = http.NewResponseController(w).Flush()
			<-r.hang
		}, 202, ""},
		"LongHead": {func(w http.ResponseWriter, _ int, _ *request) {
			w.Header().Set("X-Long", strings.Repeat("x", 15<<10))
		}, 200, ""},
		"HugeHead": {func(w http.ResponseWriter, _ int, _ *request) {
			w.Header().Set("X-Long", strings.Repeat("x", 17<<10))
		}, 0, "exceeded"},
		"ManyHints": {func(w http.ResponseWriter, _ int, _ *request) {
			for range 10_000 {
				w.WriteHeader(http.StatusProcessing)
			}
		}, 0, "exceeded"},
		"SwitchingProtocols": {func(w http.ResponseWriter, _ int, r *request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"))
			<-r.hang
			_ = conn.Close()
		}, 101, ""},
		"BadLocation": {func(w http.ResponseWriter, _ int, _ *request) {
			w.Header().Set("Location", "http://[token=x")
			w.WriteHeader(http.StatusFound)
		}, 302, ""},
		"Reset": {func(w http.ResponseWriter, _ int, _ *request) { panic(http.ErrAbortHandler) }, 0, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newReceiver(t, c.answer)
			p := poster(s)
			if c.status != 0 {
				p.timeout = time.Minute // it is not what ends the answer
			}
			a := mustPost(t, p, s.URL+"/?token=x")
			if a.took > 30*time.Second {
				t.Errorf("took %v", a.took)
			}
			if a.status != c.status || c.why == "" && a.err != nil || c.why != "" && (a.err == nil || !strings.Contains(a.err.Error(), c.why)) {
				t.Errorf("%+v %v", a, a.err)
			}
			if name == "EndlessBody" {
				if n := <-sent; n > 8<<20 { // what the sockets hold
					t.Errorf("%d bytes were taken", n)
				}
			}
		})
	}
}

// countedConn counts the bytes that are read from a connection.
type countedConn struct {
	net.Conn
	read *atomic.Int64
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// H7: of an answer's body 4 KiB are read. The buffer of the connection may read as much again ahead, and once with the head.
func TestH7_HowMuchOfABodyIsRead(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for chunk := bytes.Repeat([]byte("x"), 1<<10); ; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	t.Cleanup(s.Close)
	p := NewPoster(PosterOptions{AllowNets: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, timeout: time.Minute})
	var read atomic.Int64
	dial := p.plain.DialContext
	p.plain.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		return countedConn{c, &read}, err
	}
	if a := mustPost(t, p, s.URL); a.status != 200 || a.err != nil {
		t.Errorf("%+v", a)
	}
	s.Close() // the connection has ended
	if n := read.Load(); n < 4<<10 || n > 3*4<<10 {
		t.Errorf("%d bytes were read", n)
	}
}

// H4, H5, H7: the numbers of the spec, in place of which other tests have shorter ones.
func TestLimits(t *testing.T) {
	t.Parallel()
	p := NewPoster(PosterOptions{})
	t.Cleanup(p.Close)
	held, err := NewLocks(storetest.Open(t, "embedded")).TryAcquire(t.Context(), "0")
	storetest.Must(t, err)
	for what, c := range map[string]struct{ got, want any }{
		"the lease of a lane":                            {held.Lease.Duration(), 10 * time.Second},
		"how long a batch gathers":                       {gatherTime, 50 * time.Millisecond},
		"the bytes of a batch":                           {maxBatch, 64 << 10},
		"facts of other types that move a position":      {passFacts, 200},
		"how long it waits for so many":                  {passEvery, 10 * time.Second},
		"the longest wait after the first failure":       {firstBackoff, time.Second},
		"the longest wait":                               {maxBackoff, 15 * time.Minute},
		"how often a fact is refused alone":              {maxRefusals, 3},
		"how long a request takes":                       {p.timeout, 15 * time.Second},
		"how long the body of an answer is read":         {bodyTimeout, time.Second},
		"how much of it":                                 {maxAnswer, 4 << 10},
		"how much of the head of an answer, with TLS":    {p.secure.MaxResponseHeaderBytes, int64(16 << 10)},
		"how much of the head of an answer, without TLS": {p.plain.MaxResponseHeaderBytes, int64(16 << 10)},
		"the clock is right, when none is handed in":     {time.Since(p.now()).Abs() < time.Minute, true},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, not %v", what, c.got, c.want)
		}
	}
}

// H7: a redirect is not followed.
func TestH7_Redirects(t *testing.T) {
	t.Parallel()
	other := newReceiver(t, nil)
	for _, code := range []int{301, 302, 303, 307, 308} {
		s := newReceiver(t, func(w http.ResponseWriter, _ int, _ *request) {
			w.Header().Set("Location", other.URL)
			w.WriteHeader(code)
		})
		if a := mustPost(t, poster(s), s.URL); a.status != code || a.verdict() != failed {
			t.Errorf("%d: %+v", code, a)
		}
	}
	if len(other.got()) > 0 {
		t.Error("a redirect was followed")
	}
}

// H8: a receiver at an address that is not public, or at fanfare itself, is not connected to, and without TLS only one in
// an allowed network. A certificate that nobody trusts is refused.
func TestH8_NotConnectedTo(t *testing.T) {
	t.Parallel()
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	secure := newReceiver(t, nil)
	touched := make(chan struct{}, 100)
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { touched <- struct{}{} }))
	t.Cleanup(plain.Close)
	u, _ := url.Parse(secure.URL)
	for name, c := range map[string]struct {
		o   PosterOptions
		to  string
		why string // "": an answer comes
	}{
		"Private":        {PosterOptions{roots: secure.roots()}, secure.URL, "127.0.0.1 is no public address"},
		"PrivatePlain":   {PosterOptions{}, plain.URL, "is in none of the networks that are allowed"},
		"PublicPlain":    {PosterOptions{AllowNets: loopback}, "http://192.88.99.1:9/", "is in none of the networks that are allowed"},
		"Itself":         {PosterOptions{AllowNets: loopback, roots: secure.roots(), Own: func() []netip.AddrPort { return []netip.AddrPort{netip.MustParseAddrPort(u.Host)} }}, secure.URL, "is an address of fanfare itself"},
		"NoTrust":        {PosterOptions{AllowNets: loopback}, secure.URL, "certificate"},
		"Allowed":        {PosterOptions{AllowNets: loopback, roots: secure.roots()}, secure.URL, ""},
		"AllowedPlain":   {PosterOptions{AllowNets: loopback}, plain.URL, ""},
		"NothingListens": {PosterOptions{AllowNets: loopback}, "https://127.0.0.1:1/", "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(secure.got()) + len(touched)
			a := mustPost(t, NewPoster(c.o), c.to)
			if c.why == "" && a.err != nil || c.why != "" && (a.err == nil || !strings.Contains(a.err.Error(), c.why)) {
				t.Errorf("%+v", a)
			}
			if got := len(secure.got()) + len(touched) - before; (got == 1) != (c.why == "") {
				t.Errorf("%d requests arrived", got)
			}
		})
	}
}

// H8: a name is judged by the address that it has when fanfare connects, so it cannot have an allowed one first and
// another one afterwards.
func TestH8_ARebindingNameIsNotConnectedTo(t *testing.T) {
	t.Parallel()
	dns := addresstest.Start(t)
	listen := func(at string) net.Listener {
		l, err := net.Listen("tcp", at)
		storetest.Must(t, err)
		return l
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	_ = s.Listener.Close()
	s.Listener = listen("127.0.0.2:0")
	s.Start()
	t.Cleanup(s.Close)
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	inside := listen("127.0.0.3:" + port) // a service of the private network
	touched := make(chan struct{})
	go func() {
		defer close(touched)
		c, err := inside.Accept()
		if err == nil {
			_, _ = io.Copy(io.Discard, c)
			t.Error("an address was connected to that is not allowed")
		}
	}()
	t.Cleanup(func() { _ = inside.Close(); <-touched })
	p := NewPoster(PosterOptions{AllowNets: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}, resolver: dns.Resolver(), timeout: 10 * time.Second})
	to := "http://hooks.example.com:" + port + "/"
	dns.Set("hooks.example.com", "127.0.0.2")
	if a := mustPost(t, p, to); a.status != 200 {
		t.Errorf("%+v", a)
	}
	p.Close() // the open connection is to the address that was judged
	dns.Set("hooks.example.com", "127.0.0.3")
	if a := mustPost(t, p, to); a.err == nil || !strings.Contains(a.err.Error(), "127.0.0.3 is in none") {
		t.Errorf("%+v", a)
	}
}

// A test of a webhook sends a fact, and its caller is told in time if no answer comes.
func TestTestsOfWebhooks(t *testing.T) {
	t.Parallel()
	s := newReceiver(t, func(w http.ResponseWriter, n int, r *request) {
		if n > 0 {
			<-r.hang
		}
		w.WriteHeader(299)
	})
	s.expect(someSecret)
	p := poster(s)
	p.timeout = time.Minute
	t.Cleanup(p.Close)
	if a := p.Test(t.Context(), hookAt(s.URL)); a.Status != 299 || a.Error != "" {
		t.Errorf("%+v", a)
	}
	if r := s.got()[0]; len(r.Facts) != 1 || r.Facts[0].Type != "webhook.test" || r.Facts[0].Key != "shop" || r.id != "shop:"+r.Facts[0].ID {
		t.Errorf("%s %s", r.id, r.raw)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if a := p.Test(ctx, hookAt(s.URL)); a.Status != 0 || a.Error != errNoAnswer.Error() || ctx.Err() != nil {
		t.Errorf("%+v, %v", a, ctx.Err())
	}
}
