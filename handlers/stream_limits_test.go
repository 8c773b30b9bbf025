package handlers_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"fanfare/handlers/web"
	"fanfare/store/chat/live"
	"fanfare/store/storetest"
)

// shortTimeout is the time-out of requests of these servers, which is long enough for a busy
// machine.
const shortTimeout = 2 * time.Second

// A stream behaves the same over HTTP/2, where deadlines apply to one of many streams on a
// connection.
func TestStreamsOverHTTP2(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.workChats()
	server := httptest.NewUnstartedServer(w.handler)
	server.EnableHTTP2 = true
	server.Config.ReadTimeout, server.Config.WriteTimeout = shortTimeout, shortTimeout
	server.StartTLS()
	t.Cleanup(server.Close)
	t.Cleanup(w.stopping)
	w.mustChat("team", "ann", "bob")
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/v1/users/bob/messages/stream", nil)
	storetest.Must(t, err)
	res, err := server.Client().Do(r)
	storetest.Must(t, err)
	defer res.Body.Close()
	if res.ProtoMajor != 2 || res.StatusCode != 200 {
		t.Fatalf("%s %s", res.Proto, res.Status)
	}
	f := &follower{t: t, res: res, lines: bufio.NewReader(res.Body), cancel: cancel}
	w.mustSend("team", "ann", 1, 1)
	f.wantMessages("team", 1, 1)
	time.AfterFunc(shortTimeout*3/2, func() { w.mustSend("team", "ann", 2, 2) }) // after the server's time-outs
	f.wantMessages("team", 2, 2)
}

// C14: a heartbeat that has arrived renews the presence of the stream's user, over HTTP/1 and
// HTTP/2, and also where it is not known what has arrived.
func TestC14_HeartbeatsRenewPresence(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]struct {
		http2 bool
		keep  func(context.Context, net.Conn) context.Context
	}{
		"HTTP1":       {false, web.KeepConnection},
		"HTTP2":       {true, web.KeepConnection},
		"NobodyKnows": {false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := storetest.Open(t, storetest.Redis(t).URL())
			w := setupOn(t, db)
			w.workChats()
			server := httptest.NewUnstartedServer(w.handler)
			server.EnableHTTP2, server.Config.ConnContext = how.http2, how.keep
			server.StartTLS()
			t.Cleanup(server.Close)
			t.Cleanup(w.stopping)
			ctx, cancel := context.WithCancel(t.Context())
			t.Cleanup(cancel)
			r, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/v1/users/bob/messages/stream", nil)
			storetest.Must(t, err)
			res, err := server.Client().Do(r)
			storetest.Must(t, err)
			defer res.Body.Close()
			least := soon
			storetest.Eventually(t, soon, "presence is renewed", func() bool {
				left, err := db.Client().PTTL(t.Context(), live.PresenceKey("bob")).Result()
				storetest.Must(t, err)
				least = min(least, left)
				return left > least+time.Second
			})
			if least <= 0 {
				t.Error("he was absent before")
			}
		})
	}
}

// The server's time-outs are for requests that are answered at once. A stream and a long poll
// outlast them.
func TestStreamsOutlastTheTimeouts(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.workChats()
	server := httptest.NewUnstartedServer(w.handler)
	server.Config.ReadTimeout, server.Config.WriteTimeout = shortTimeout, shortTimeout
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(w.stopping)
	w.url = server.URL
	w.mustChat("team", "ann", "bob")
	f := w.follow("bob", "")
	w.get(fmt.Sprint("/v1/users/bob/messages/pending?wait_ms=", (shortTimeout*3/2).Milliseconds())).wants(t, 200, `{"chats":[]}`)
	w.mustSend("team", "ann", 1, 1)
	f.wantMessages("team", 1, 1)
}

// C13: a reader that reads nothing is disconnected. The others go on, and the amount that is
// buffered for this reader is limited.
func TestC13_SlowReaderIsCut(t *testing.T) {
	t.Parallel()
	w := setupOn(t, storetest.Open(t, storetest.Redis(t).URL()))
	w.workChats()
	w.mustChat("team", "ann", "bob", "eve")
	small := net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
		return c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
	}}
	slow, err := small.DialContext(t.Context(), "tcp", strings.TrimPrefix(w.url, "http://"))
	storetest.Must(t, err)
	defer slow.Close()
	_, err = fmt.Fprintf(slow, "GET /v1/users/bob/messages/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
	storetest.Must(t, err)
	storetest.Eventually(t, soon, "the stream is open", func() bool { return strings.Contains(w.get("/metrics").body, "\nfanfare_open_streams 1\n") })
	fast := w.follow("eve", "")
	text := strings.Repeat("\U0001f600", 4000) // 16 KB
	for range 600 {
		w.post("/v1/chats/team/messages", `{"sender":"ann","text":"`+text+`"}`).wants(t, 201, `{"id":"*","sent_at":"*"}`)
		fast.wantData()
	}
	storetest.Eventually(t, soon, "he is cut off", func() bool {
		return strings.Contains(w.get("/metrics").body, "\nfanfare_streams_ended_total{reason=\"slow\"} 1\n")
	})
	if !strings.Contains(w.get("/metrics").body, "\nfanfare_open_streams 1\n") {
		t.Error("the other stream is not open any more")
	}
}

// A stream stays open while Redis is away, and continues by itself.
func TestC13_StreamOutlivesRedis(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	w := setupOn(t, storetest.Open(t, redis.URL()))
	w.workChats()
	w.mustChat("team", "ann", "bob")
	f := w.follow("bob", "")
	w.mustSend("team", "ann", 1, 2)
	f.wantMessages("team", 1, 2)
	redis.Kill()
	if a := w.post("/v1/chats/team/messages", `{"sender":"ann","text":"m3"}`); a.status != 503 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := w.get("/v1/users/eve/messages/stream"); a.status != 503 {
		t.Fatalf("a stream without Redis: %d %s", a.status, a.body)
	}
	redis.Restart()
	// The client's pool remembers for a second that the connection was refused.
	storetest.Eventually(t, soon, "Redis is reached again", func() bool { return w.get("/v1/chats/team").status == 200 })
	w.mustSend("team", "ann", 3, 3)
	f.wantMessages("team", 3, 3)
	w.mustSend("team", "ann", 4, 4)
	f.wantMessages("team", 4, 4)
}

// C13: pub/sub is only a hint. A message that was published while the subscription was cut comes as
// soon as the subscription is back, even if no other message follows.
func TestC13_LostHints(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	w := setupOn(t, storetest.Open(t, redis.URL()))
	w.workChats()
	w.mustChat("team", "ann", "bob")
	f := w.follow("bob", "")
	for id := 1; id <= 60; id++ {
		killed := make(chan error, 1)
		go func() { killed <- redis.Client().ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err() }()
		w.mustSend("team", "ann", id, id)
		storetest.Must(t, <-killed)
		began := time.Now()
		f.wantMessages("team", id, id)
		if took := time.Since(began); took > 10*time.Second { // the next regular comparison would be later
			t.Fatalf("message %d took %v", id, took)
		}
	}
}
