package handlers_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/console"
	"fanfare/handlers"
	"fanfare/handlers/web"
	"fanfare/store/storetest"
)

func TestRateLimitText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]web.RateLimit{
		"500/s": {Requests: 500, Window: time.Second}, "100/m": {Requests: 100, Window: time.Minute},
		"5000/h": {Requests: 5000, Window: time.Hour}, "": {}, "off": {},
	} {
		var got web.RateLimit
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
		if text != "" && got.String() != text {
			t.Errorf("%q writes itself as %q", text, got)
		}
	}
	for _, text := range []string{"500", "0/s", "-1/s", "x/s", "5/d", "5/", "/s", "1.5/s", "5/s/s"} {
		var got web.RateLimit
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken as %v", text, got)
		}
	}
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *handlers.Options) { o.Web.RateLimit = web.RateLimit{Requests: 2, Window: time.Hour} })
	mine, other := w.mustKey(api.ScopePush), w.mustKey(api.ScopePush)
	c := get("/v1/event-types").with("Authorization: Bearer " + mine)
	for left := 1; left >= 0; left-- {
		a := w.do(c).wants(t, 200, `{"items":[]}`)
		wantHeader(t, a, "RateLimit-Policy", `"key";q=2;w=3600`)
		wantHeader(t, a, "RateLimit", fmt.Sprintf(`"key";r=%d;t=(%d|%d)\d\d`, left, 18*(2-left), 18*(2-left)-1))
	}
	a := w.do(c).wants(t, 429, problem(api.CodeRateLimited, "this API key may make 2/h requests", `"retry_after_ms":"*"`))
	wantHeader(t, a, "Retry-After", `1[78]\d\d`)
	wantHeader(t, a, "RateLimit", `"key";r=0;t=3[56]\d\d`)
	t.Run("another key has its own", func(t *testing.T) {
		w.do(get("/v1/event-types").with("Authorization: Bearer "+other)).wants(t, 200, `{"items":[]}`)
	})
	t.Run("probes have none", func(t *testing.T) {
		for range 5 {
			w.get("/healthz").wants(t, 200, `{"status":"ok"}`)
		}
	})
}

// wantHeader compares a header with a pattern, because seconds pass while tests run.
func wantHeader(t *testing.T, a answer, name, want string) {
	t.Helper()
	if got := a.header.Get(name); !regexp.MustCompile("^" + want + "$").MatchString(got) {
		t.Errorf("%s: %s, want %s", name, got, want)
	}
}

// mustBegin sends the head of a request whose body never ends.
func (w *world) mustBegin(method, path string, headers ...string) net.Conn {
	w.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	storetest.Must(w.t, err)
	w.t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n%s\r\n{",
		method, path, strings.Join(append(headers, ""), "\r\n"))
	storetest.Must(w.t, err)
	return conn
}

// TestLoadShedding fills the only place with a request that does not end.
func TestLoadShedding(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *handlers.Options) { o.Web.MaxInFlight, o.Web.RequestTimeout = 1, time.Minute })
	slow := w.mustBegin("POST", "/v1/events")
	storetest.Eventually(t, 20*time.Second, "the place is taken", func() bool {
		if w.get("/v1/event-types").status == 503 {
			return true
		}
		_ = slow.Close() // the request arrived while the place was taken
		slow = w.mustBegin("POST", "/v1/events")
		return false
	})
	began := time.Now()
	a := w.get("/v1/event-types").wants(t, 503,
		problem(api.CodeOverloaded, "the server has as many requests as it can answer; try again", `"retry_after_ms":1000`))
	wantHeader(t, a, "Retry-After", "1")
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("was told after %v, not at once", took)
	}
	w.get("/healthz").wants(t, 200, `{"status":"ok"}`)
	storetest.Must(t, slow.Close())
	storetest.Eventually(t, 20*time.Second, "the place is free", func() bool { return w.get("/v1/event-types").status == 200 })
}

func TestRoomForBodies(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *handlers.Options) { o.Web.MaxBodyBytes = 100 << 10 })
	a := w.post("/v1/events", `{"type":"`+strings.Repeat("x", 200<<10)+`"}`)
	if a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, `"overloaded"`) {
		t.Errorf("a body larger than all room: %d %s", a.status, a.body)
	}
	w.put("/v1/users/bob/opt-outs/x", "").wants(t, 204, "")
}

// TestRoomForBodiesOnTheirWay: a body counts with the bytes that have arrived, and not with its
// announced length or its limit.
func TestRoomForBodiesOnTheirWay(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *handlers.Options) { o.Web.MaxBodyBytes, o.Web.RequestTimeout = 16<<20, time.Minute })
	begun := make([]net.Conn, 20)
	for i := range begun {
		begun[i] = w.mustPostPart([]string{"Transfer-Encoding: chunked\r\n\r\n1\r\n \r\n", "Content-Length: 4194304\r\n\r\n "}[i%2])
	}
	storetest.Eventually(t, 20*time.Second, "all are under way", func() bool {
		return strings.Contains(w.get("/metrics").body, "fanfare_http_in_flight_requests 21")
	})
	w.put("/v1/users/bob/opt-outs/x", "").wants(t, 204, "")
	body := `{"events":[{"type":"a","audience":{"users":["bob"]},"alert":{"title":"x"}}]}`
	_, err := fmt.Fprintf(begun[0], "%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	storetest.Must(t, err)
	res, err := http.ReadResponse(bufio.NewReader(begun[0]), nil)
	storetest.Must(t, err)
	defer res.Body.Close()
	if res.StatusCode != http.StatusAccepted {
		t.Errorf("a body that came to its end: %s", res.Status)
	}
}

// mustPostPart begins to post a batch; rest is what comes after the head's first lines.
func (w *world) mustPostPart(rest string) net.Conn {
	w.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	storetest.Must(w.t, err)
	w.t.Cleanup(func() { _ = conn.Close() })
	storetest.Must(w.t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(conn, "POST /v1/events/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+rest)
	storetest.Must(w.t, err)
	return conn
}

func TestSlowBody(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *handlers.Options) { o.Web.RequestTimeout = 300 * time.Millisecond })
	conn := w.mustBegin("PUT", "/v1/event-types/a")
	storetest.Must(t, conn.SetReadDeadline(time.Now().Add(20*time.Second)))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	storetest.Must(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	storetest.Must(t, err)
	answer{status: res.StatusCode, body: string(body)}.wants(t, 408, problem(api.CodeRequestTimeout, "the body did not arrive in time"))
}

// A body that never comes is not waited for, wherever it is sent and whether it is read or not.
func TestSlowBodiesEverywhere(t *testing.T) {
	t.Parallel()
	w := setupConsole(t, func(*console.Options) {})
	w.mustKey(api.ScopePush)
	for _, c := range []string{"POST /console/login", "POST /v1/nowhere", "DELETE /docs/", "PUT /v1/event-types/a", "POST /v1/events"} {
		method, path, _ := strings.Cut(c, " ")
		t.Run(c, func(t *testing.T) {
			t.Parallel()
			conn := w.mustBegin(method, path)
			began := time.Now()
			storetest.Must(t, conn.SetReadDeadline(time.Now().Add(25*time.Second)))
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			storetest.Must(t, err)
			_ = res.Body.Close()
			if res.StatusCode < 400 || time.Since(began) > 15*time.Second {
				t.Errorf("%d after %v", res.StatusCode, time.Since(began))
			}
		})
	}
}

// TestRedisAway stops Redis under a running server.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t, "--appendonly", "yes")
	w := setupOn(t, storetest.Open(t, redis.URL()), func(o *handlers.Options) { o.Web.RequestTimeout = 2 * time.Second })
	event := post("/v1/events", `{"type":"a","audience":{"users":["bob"]},"alert":{"title":"x"}}`)
	w.do(event).wants(t, 202, `{"id":"*"}`)
	redis.Kill()
	for _, c := range []call{event, post("/v1/events/batch", `{"events":[`+event.body+`]}`), get("/v1/stats"), get("/v1/dead-letters"), get("/v1/servers"),
		put("/v1/users/bob/opt-outs/a", ""), put("/v1/users/bob/mutes/a", ""), put("/v1/users/bob/devices/"+token, `{"platform":"apns","topic":"a","environment":"sandbox"}`), deviceBatch(aDevice("bob", 1)),
		{method: "DELETE", path: "/v1/users/bob/devices/" + token}} {
		began := time.Now()
		a := w.do(c)
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("%s %s: answered after %v, past its deadline", c.method, c.path, took)
		}
		if code := a.member(t, "code"); a.status != 503 || (code != "unavailable" && code != "unknown_outcome") {
			t.Errorf("%s %s: %d %s", c.method, c.path, a.status, a.body)
		}
		if a.header.Get("Retry-After") == "" || strings.Contains(a.body, "127.0.0.1") || strings.Contains(a.body, "dial") {
			t.Errorf("%s %s: Retry-After %q, %s", c.method, c.path, a.header.Get("Retry-After"), a.body)
		}
	}
	t.Run("heals by itself", func(t *testing.T) {
		redis.Restart()
		storetest.Eventually(t, 30*time.Second, "events are accepted again", func() bool { return w.do(event).status == 202 })
	})
}

// TestRedisHangs freezes Redis during a call: the call is answered at its deadline, with the right
// outcome.
func TestRedisHangs(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	w := setupOn(t, storetest.Open(t, redis.URL()), func(o *handlers.Options) { o.Web.RequestTimeout = time.Second })
	redis.Pause()
	defer redis.Resume()
	for _, c := range []struct {
		call call
		code string
	}{
		{get("/v1/stats"), "unavailable"},
		{post("/v1/events", `{"type":"a","audience":{"users":["bob"]},"alert":{"title":"x"}}`), "unknown_outcome"},
	} {
		began := time.Now()
		a := w.do(c.call)
		if took := time.Since(began); took > 5*time.Second || a.status != 503 || a.member(t, "code") != c.code {
			t.Errorf("%s: %d %s after %v", c.call.path, a.status, a.body, took)
		}
	}
}
