package handlers_test

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/handlers"
	"fanfare/handlers/web"
	"fanfare/store/storetest"
)

const tooManyStreams = "the server has as many open streams as it can hold; try again"

// setupLimits opens a server with chats, and limits.
func setupLimits(t *testing.T, limits func(*handlers.Options)) (w *world, admin string) {
	w, admin = setupUsers(t, limits)
	w.workChats()
	return w, admin
}

// mustHave waits for a line of the metrics.
func (w *world) mustHave(line string) {
	w.t.Helper()
	storetest.Eventually(w.t, soon, line, func() bool { return strings.Contains(w.get("/metrics").body, "\n"+line+"\n") })
}

// mustEnter begins a request and waits until the server reads its body, which never ends.
func (w *world) mustEnter(method, path, header string) {
	w.t.Helper()
	conn := w.mustBegin(method, path, header, "Expect: 100-continue")
	line, err := bufio.NewReader(conn).ReadString('\n')
	if storetest.Must(w.t, err); line != "HTTP/1.1 100 Continue\r\n" {
		w.t.Fatalf("%s %s: %s", method, path, line)
	}
}

// wantStream opens a stream and fails unless the answer is as given. want is "" if the stream
// opens.
func (w *world) wantStream(want string, status int, user, header string) *follower {
	w.t.Helper()
	f, err := w.tryFollow(user, "", header)
	storetest.Must(w.t, err)
	if f.res.StatusCode != status {
		w.t.Fatalf("a stream of %s: %d, want %d", user, f.res.StatusCode, status)
	}
	if want != "" {
		text, err := io.ReadAll(f.res.Body)
		storetest.Must(w.t, err)
		answer{f.res.StatusCode, f.res.Header, string(text)}.wants(w.t, status, want)
	}
	return f
}

// C13, U5: a user has 32 streams in a process, whichever keys and tokens open them, and everybody
// else has the rest.
func TestU5_StreamsOfOneUser(t *testing.T) {
	t.Parallel()
	w, admin := setupLimits(t, func(*handlers.Options) {})
	alice, open := w.mustToken("alice"), make([]*follower, 32)
	for i := range open {
		open[i] = w.wantStream("", 200, "alice", []string{alice, admin}[i%2])
	}
	refused := problem(api.CodeRateLimited, "this user has too many open streams", `"retry_after_ms":5000`)
	for _, header := range []string{alice, admin} {
		w.wantStream(refused, 429, "alice", header)
	}
	w.wantStream(refused, 429, "%61lice", admin) // the same user name, escaped
	w.wantStream("", 200, "bob", w.mustToken("bob"))
	w.wantStream("", 200, "eve", admin)
	w.do(get("/v1/users/alice/messages/pending?wait_ms=1").with(alice)).wants(t, 200, `{"chats":[]}`)
	open[0].close()
	w.mustHave("fanfare_open_streams 33")
	w.wantStream("", 200, "alice", alice)
}

func TestU5_LongPollsOfOneUser(t *testing.T) {
	t.Parallel()
	w, admin := setupLimits(t, func(*handlers.Options) {})
	poll := get("/v1/users/alice/messages/pending?wait_ms=30000")
	alice, ended := w.mustToken("alice"), make(chan answer)
	for i := range 8 {
		go func() {
			a, err := w.try(poll.with([]string{alice, admin}[i%2]))
			if err != nil {
				t.Error(err)
			}
			ended <- a
		}()
	}
	w.mustHave("fanfare_open_streams 8")
	for _, header := range []string{alice, admin} {
		w.do(poll.with(header)).wants(t, 429, problem(api.CodeRateLimited, "this user has too many long polls", `"retry_after_ms":5000`))
	}
	w.do(get("/v1/users/bob/messages/pending?wait_ms=1").with(w.mustToken("bob"))).wants(t, 200, `{"chats":[]}`)
	w.wantStream("", 200, "alice", alice)
	w.stopping()
	for range 8 {
		(<-ended).wants(t, 200, `{"chats":[]}`)
	}
}

// U5: a user has 32 requests under way. Calls that only backends can make do not count: a backend
// can still end the user's tokens.
func TestU5_RequestsOfOneUser(t *testing.T) {
	t.Parallel()
	w, admin := setupLimits(t, func(o *handlers.Options) { o.Web.RequestTimeout = time.Minute })
	alice := w.mustToken("alice")
	for i := range 32 {
		w.mustEnter("PUT", "/v1/users/alice/opt-outs/a", []string{alice, admin}[i%2])
	}
	for _, header := range []string{alice, admin} {
		w.do(get("/v1/users/alice/chats").with(header)).wants(t, 429,
			problem(api.CodeRateLimited, "this user has too many requests under way", `"retry_after_ms":1000`))
	}
	w.do(get("/v1/users/bob/chats").with(w.mustToken("bob"))).wants(t, 200, `{"items":[]}`)
	w.do(post("/v1/users/alice/tokens/revoke", "").with(admin)).wants(t, 204, "")
}

// U5: all user tokens together leave a fifth of the streams and requests to API keys.
func TestU5_TokensLeaveRoomForKeys(t *testing.T) {
	t.Parallel()
	w, admin := setupLimits(t, func(o *handlers.Options) {
		o.Web.MaxStreams, o.Web.MaxInFlight, o.Web.RequestTimeout = 5, 5, time.Minute
	})
	users := []string{"ann", "bob", "cid", "dan"}
	for _, user := range users {
		w.wantStream("", 200, user, w.mustToken(user))
		w.mustEnter("PUT", "/v1/users/"+user+"/opt-outs/a", w.mustToken(user))
	}
	full := problem(api.CodeOverloaded, tooManyStreams, `"retry_after_ms":5000`)
	w.wantStream(full, 503, "eve", w.mustToken("eve"))
	w.wantStream("", 200, "eve", admin)
	w.wantStream(full, 503, "eve", admin)
	w.do(get("/v1/users/eve/chats").with(w.mustToken("eve"))).wants(t, 503,
		problem(api.CodeOverloaded, "the server has as many requests as it can answer; try again", `"retry_after_ms":1000`))
	w.do(get("/v1/users/eve/chats").with(admin)).wants(t, 200, `{"items":[]}`)
}

// C13: an API key can open all streams of the process, unless API keys have their own limit.
func TestC13_StreamsOfOneKey(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]int64{"NoLimit": 0, "Limit": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, one := setupLimits(t, func(o *handlers.Options) { o.Web.MaxStreams, o.Web.KeyMaxStreams = 6, limit })
			other := "Authorization: Bearer " + w.mustKey(api.ScopeChat)
			for i := range 3 {
				w.wantStream("", 200, fmt.Sprint("user", i), one)
			}
			if limit == 0 {
				for i := range 3 {
					w.wantStream("", 200, fmt.Sprint("other", i), one)
				}
				w.wantStream(problem(api.CodeOverloaded, tooManyStreams, `"retry_after_ms":5000`), 503, "eve", one)
				return
			}
			refused := problem(api.CodeRateLimited, "this API key has too many open streams", `"retry_after_ms":5000`)
			w.wantStream(refused, 429, "eve", one)
			w.do(get("/v1/users/eve/messages/pending?wait_ms=1").with(one)).wants(t, 429, refused)
			w.wantStream("", 200, "eve", other)
			w.wantStream("", 200, "eve", w.mustToken("eve"))
		})
	}
}

// Requests and streams give their places back, however they end.
func TestPlacesComeBack(t *testing.T) {
	t.Parallel()
	w, _ := setupLimits(t, func(o *handlers.Options) { o.Web.UserMaxStreams, o.Web.UserMaxPolls, o.Web.UserMaxInFlight = 1, 1, 1 })
	alice := w.mustToken("alice")
	for range 5 {
		f := w.wantStream("", 200, "alice", alice)
		f.close()
		w.mustHave("fanfare_open_streams 0")
		if status := w.headOf(call{method: "HEAD", path: "/v1/users/alice/messages/stream"}.with(alice)); status != 200 {
			t.Fatalf("HEAD: %d", status)
		}
		w.do(get("/v1/users/alice/messages/stream?x=1").with(alice)).wants(t, 422, broken("x", "type", "is not a parameter of this call"))
		w.do(get("/v1/users/alice/messages/pending?wait_ms=1").with(alice)).wants(t, 200, `{"chats":[]}`)
		w.do(get("/v1/users/alice/chats").with(alice)).wants(t, 200, `{"items":[]}`)
	}
}

// mustAnswer fails unless an answer has the status.
func (w *world) mustAnswer(status int, a answer) {
	w.t.Helper()
	if a.status != status {
		w.t.Fatalf("%d, want %d: %s", a.status, status, a.body)
	}
}

// withRates sets the limits that the program has by default.
func withRates(o *handlers.Options) {
	_ = o.Web.UserRateLimit.UnmarshalText([]byte("20/s:100"))
	_ = o.Web.UserMessageRateLimit.UnmarshalText([]byte("5/s:20"))
	_ = o.Web.UserMessageBytes.UnmarshalText([]byte("16777216/h"))
}

// U5: a user's messages have a rate of their own. Other calls of the user, other users and API keys do
// not meet it.
func TestU5_MessagesOfOneUser(t *testing.T) {
	t.Parallel()
	w, admin := setupLimits(t, func(o *handlers.Options) {
		o.Web.UserMessageRateLimit = web.RateLimit{Requests: 1, Window: time.Hour, Burst: 2}
	})
	w.mustAnswer(201, w.do(post("/v1/chats", `{"id":"team","creator":"alice","members":["bob"]}`).with(admin)))
	alice, bob := w.mustToken("alice"), w.mustToken("bob")
	for id := 1; id <= 2; id++ {
		a := w.post("/v1/chats/team/messages", `{"text":"hi"}`, w.mustToken("alice")).wants(t, 201, fmt.Sprintf(`{"id":%d,"sent_at":"*"}`, id))
		wantHeader(t, a, "RateLimit-Policy", `"user-messages";q=2;w=7200`)
		wantHeader(t, a, "RateLimit", fmt.Sprintf(`"user-messages";r=%d;t=\d+`, 2-id))
	}
	a := w.post("/v1/chats/team/messages", `{"text":"hi"}`, alice).wants(t, 429,
		problem(api.CodeRateLimited, "this user may send 1/h messages, 2 at once", `"retry_after_ms":"*"`))
	wantHeader(t, a, "Retry-After", `3[56]\d\d`)
	w.mustAnswer(200, w.do(get("/v1/users/alice/chats").with(alice)))
	w.post("/v1/chats/team/messages", `{"text":"hi"}`, bob).wants(t, 201, `{"id":3,"sent_at":"*"}`)
	for id := 4; id <= 8; id++ {
		w.post("/v1/chats/team/messages", `{"sender":"alice","text":"hi"}`, admin).wants(t, 201, fmt.Sprintf(`{"id":%d,"sent_at":"*"}`, id))
	}
}

// U5: the messages of a user have a number of bytes an hour. Refused ones are not sent. Other calls of
// the user, other users and API keys do not meet it.
func TestU5_BytesOfOneUser(t *testing.T) {
	t.Parallel()
	w, admin := setupLimits(t, func(o *handlers.Options) {
		withRates(o)
		o.Web.UserMessageBytes = web.RateLimit{Requests: 1000, Window: time.Hour}
	})
	w.mustAnswer(201, w.do(post("/v1/chats", `{"id":"team","creator":"alice","members":["bob"]}`).with(admin)))
	alice, bob := w.mustToken("alice"), w.mustToken("bob")
	long := `{"text":"` + strings.Repeat("ü", 194) + `"}` // 399 bytes
	for id := 1; id <= 2; id++ {
		a := w.post("/v1/chats/team/messages", long, w.mustToken("alice")).wants(t, 201, fmt.Sprintf(`{"id":%d,"sent_at":"*"}`, id))
		wantHeader(t, a, "RateLimit-Policy", `"user-messages";q=20;w=4`)
	}
	a := w.do(call{method: "POST", path: "/v1/chats/team/messages", body: long, chunked: true}.with(alice)).wants(t, 429,
		problem(api.CodeRateLimited, "this user may send 1000/h bytes of messages", `"retry_after_ms":"*"`))
	wantHeader(t, a, "Retry-After", `(69|7[01])\d`) // for 197 bytes
	wantHeader(t, a, "RateLimit-Policy", `"user-message-bytes";q=1000;w=3600`)
	wantHeader(t, a, "RateLimit", `"user-message-bytes";r=2\d\d;t=2\d\d\d`)
	w.post("/v1/chats/team/messages", `{"text":"hi"}`, alice).wants(t, 201, `{"id":3,"sent_at":"*"}`)
	w.mustAnswer(200, w.do(get("/v1/users/alice/chats").with(alice)))
	w.post("/v1/users/alice/messages/ack", `{"acks":{"team":3}}`+strings.Repeat(" ", 500), alice).wants(t, 200, `{"acked":{"team":3}}`)
	w.post("/v1/chats/team/messages", `{"text":"`+strings.Repeat("b", 2000)+`"}`, bob).wants(t, 201, `{"id":4,"sent_at":"*"}`) // with a full quota
	w.mustAnswer(429, w.post("/v1/chats/team/messages", `{"text":"hi"}`, bob))
	for id := 5; id <= 9; id++ {
		w.post("/v1/chats/team/messages", strings.Replace(long, "{", `{"sender":"alice",`, 1), admin).wants(t, 201, fmt.Sprintf(`{"id":%d,"sent_at":"*"}`, id))
	}
}

// U5: the record of an Idempotency-Key stays for a day. So it counts among the bytes of a user's messages.
func TestU5_IdempotencyKeysOfOneUser(t *testing.T) {
	t.Parallel()
	w, admin := setupLimits(t, func(o *handlers.Options) {
		withRates(o)
		o.Web.UserMessageBytes = web.RateLimit{Requests: 10_000, Window: time.Hour}
	})
	w.mustAnswer(201, w.do(post("/v1/chats", `{"id":"team","creator":"alice","members":["bob"]}`).with(admin)))
	send := func(key string, caller string) int {
		c := post("/v1/chats/team/messages", `{"text":"hi","sender":"alice"}`).with(caller)
		if key != "" {
			c.headers = append(c.headers, "Idempotency-Key: "+key)
		}
		return w.do(c).status
	}
	alice := w.mustToken("alice")
	for i, want := range []int{201, 201, 429} {
		if got := send(fmt.Sprint("key-", i), alice); got != want {
			t.Errorf("message %d with a key was answered %d, want %d", i, got, want)
		}
	}
	if got := send("", alice); got != 201 {
		t.Errorf("a message without a key was answered %d", got)
	}
	for i := range 5 {
		if got := send(fmt.Sprint("backend-", i), admin); got != 201 {
			t.Errorf("a message of a backend was answered %d", got)
		}
	}
}

// U5: the default rates do not refuse honest clients: all devices of a user that come back after an
// outage, and a user who tries again with a back-off while a sale opens.
func TestU5_HonestClientsMeetNoRate(t *testing.T) {
	t.Parallel()
	w, admin := setupLimits(t, withRates)
	w.workSales()
	const chats, devices = 10, 5
	for c := range chats {
		w.mustAnswer(201, w.do(post("/v1/chats", fmt.Sprintf(`{"id":"c%d","creator":"alice","members":["bob"]}`, c)).with(admin)))
	}
	for range devices {
		token := w.mustToken("alice")
		w.followURL("/v1/users/alice/messages/stream?ticket=" + w.mustTicket("alice", token)).close()
		w.mustAnswer(200, w.do(get("/v1/users/alice/messages/pending?wait_ms=1").with(token)))
		w.mustAnswer(200, w.do(get("/v1/users/alice/chats").with(token)))
		for c := range chats {
			w.mustAnswer(200, w.do(get(fmt.Sprintf("/v1/chats/c%d/messages?limit=500", c)).with(token)))
		}
		for i := range 3 { // texts that were written meanwhile
			w.mustAnswer(201, w.post(fmt.Sprintf("/v1/chats/c%d/messages", i), `{"text":"back"}`, token))
		}
	}
	w.mustAnswer(201, w.do(call{method: "PUT", path: "/v1/sales/spring", body: saleBody(`[{"sku":"shoe","stock":1}]`)}.with(admin)))
	bob := w.mustToken("bob")
	w.followURL("/v1/sales/spring/stream?ticket=" + w.mustTicket("bob", bob)).close()
	for try := range 8 {
		w.mustAnswer(200, w.do(get("/v1/sales/spring").with(bob)))
		want := 201
		if try > 0 {
			want = 409
		}
		w.mustAnswer(want, w.post("/v1/sales/spring/reservations", `{"lines":[{"sku":"shoe","quantity":1}]}`, bob))
		time.Sleep(time.Duration(100<<min(try, 2)) * time.Millisecond) //nolint:forbidigo // the client's back-off, which a sale asks for
	}
}
