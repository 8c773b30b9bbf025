package handlers_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/handlers"
	"fanfare/store/chat"
	"fanfare/store/storetest"
)

// soon is how long a test waits for something that takes milliseconds.
const soon = 30 * time.Second

// workChats runs the background loops of the chats until the test ends.
func (w *world) workChats() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- w.live.Run(ctx) }()
	go func() { done <- w.pusher.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		for range cap(done) {
			storetest.Must(w.t, <-done)
		}
	})
}

// event is one server-sent event as a browser would deliver it.
type event struct {
	id, name, data string
	retry          bool
	comment        bool
}

// follower is an open stream.
type follower struct {
	t      testing.TB
	res    *http.Response
	lines  *bufio.Reader
	cancel context.CancelFunc
	last   string // the id after which to go on

	signals bool // tells who reads and who types
}

// follow opens a stream; headers are "Name: value" lines.
func (w *world) follow(user, last string, headers ...string) *follower {
	w.t.Helper()
	f, err := w.tryFollow(user, last, headers...)
	storetest.Must(w.t, err)
	if f.res.StatusCode != http.StatusOK || f.res.Header.Get("Content-Type") != "text/event-stream" {
		w.t.Fatalf("%d %v", f.res.StatusCode, f.res.Header)
	}
	return f
}

func (w *world) tryFollow(user, last string, headers ...string) (*follower, error) {
	return w.tryFollowAt("/v1/users/"+user+"/messages/stream", last, headers...)
}

// tryFollowAt opens the stream of a path.
func (w *world) tryFollowAt(path, last string, headers ...string) (*follower, error) {
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, "GET", w.url+path, nil)
	storetest.Must(w.t, err)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	for _, line := range headers {
		call{}.setHeader(r, line)
	}
	res, err := w.streamClient().Do(r) //nolint:bodyclose // follower.close does
	if err != nil {
		cancel()
		return nil, err
	}
	f := &follower{t: w.t, res: res, lines: bufio.NewReader(res.Body), cancel: cancel, last: last}
	w.t.Cleanup(f.close)
	return f, nil
}

// streamClient is a client that opens a connection for each stream.
func (w *world) streamClient() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
}

func (f *follower) close() {
	f.cancel()
	_ = f.res.Body.Close()
}

// next reads one event.
func (f *follower) next() (e event, err error) {
	for {
		line, err := f.lines.ReadString('\n')
		if err != nil {
			return e, err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "\n":
			if e.id != "" {
				f.last = e.id
			}
			return e, nil
		case name == "":
			e.comment = true
		case name == "id":
			e.id = value
		case name == "event":
			e.name = value
		case name == "data":
			e.data = value
		case name == "retry":
			e.retry = true
		default:
			return e, fmt.Errorf("a line that is none of an event: %q", line)
		}
	}
}

// want reads events until one has data, and compares the data. In want, "*" matches any string. Who reads and who types
// is skipped, unless the follower tells of it.
func (f *follower) want(name, data string) {
	f.t.Helper()
	e := f.wantData()
	var got, want any
	storetest.Must(f.t, json.Unmarshal([]byte(e.data), &got))
	storetest.Must(f.t, json.Unmarshal([]byte(data), &want))
	if e.name != name || !same(got, want) {
		f.t.Fatalf("%s %s\nwant %s %s", e.name, e.data, name, data)
	}
	if e.id == "" || len(e.id) > 2048 {
		f.t.Fatalf("the id of %s is %q", e.data, e.id)
	}
}

func (f *follower) wantData() event {
	f.t.Helper()
	late := time.AfterFunc(soon, f.cancel)
	defer late.Stop()
	for {
		e, err := f.next()
		if err != nil {
			f.t.Fatalf("the stream ended: %v", err)
		}
		if e.data != "" && (f.signals || e.name != "read" && e.name != "typing") {
			return e
		}
	}
}

// forgePosition gives an id of one chat another position.
func forgePosition(t testing.TB, id string, position uint64) string {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(id)
	storetest.Must(t, err)
	return base64.RawURLEncoding.EncodeToString(binary.AppendUvarint(text[:1+8+4], position))
}

// wantMessages reads the messages of a chat with these ids, in this order.
func (f *follower) wantMessages(chat string, first, last int) {
	f.t.Helper()
	for id := first; id <= last; id++ {
		f.want("message", fmt.Sprintf(`{"chat":%q,"id":%d,"sender":"*","text":"m%d","sent_at":"*"}`, chat, id, id))
	}
}

// wantEnd reads to the end of the stream, which must have no more data.
func (f *follower) wantEnd() {
	f.t.Helper()
	late := time.AfterFunc(soon, f.cancel)
	defer late.Stop()
	for {
		e, err := f.next()
		if err != nil {
			if !late.Stop() {
				f.t.Fatal("the stream did not end")
			}
			return
		}
		if e.data != "" {
			f.t.Fatalf("an event before the end: %+v", e)
		}
	}
}

// mustChat makes a chat without messages.
func (w *world) mustChat(id string, members ...string) {
	w.t.Helper()
	body, err := json.Marshal(api.ChatRequest{ID: id, Creator: members[0], Members: members})
	storetest.Must(w.t, err)
	w.post("/v1/chats", string(body)).wants(w.t, 201, `{"id":"`+id+`","epoch":"*","members":["`+strings.Join(members, `","`)+`"]}`)
}

// mustSend sends the messages m<first> ... m<last>, which get the ids first to last.
func (w *world) mustSend(chat, sender string, first, last int) {
	w.t.Helper()
	for id := first; id <= last; id++ {
		w.post("/v1/chats/"+chat+"/messages", fmt.Sprintf(`{"sender":%q,"text":"m%d"}`, sender, id)).
			wants(w.t, 201, fmt.Sprintf(`{"id":%d,"sent_at":"*"}`, id))
	}
}

func (w *world) mustAck(user, chat string, id int) {
	w.t.Helper()
	w.post("/v1/users/"+user+"/messages/ack", fmt.Sprintf(`{"acks":{%q:%d}}`, chat, id)).wants(w.t, 200, fmt.Sprintf(`{"acked":{%q:%d}}`, chat, id))
}

func TestC13_BacklogThenLive(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		w.workChats()
		w.mustChat("one", "ann", "bob")
		w.mustSend("one", "ann", 1, 60) // this is more than one page of the log
		w.mustAck("bob", "one", 3)
		f := w.follow("bob", "")
		if f.res.Header.Get("X-Accel-Buffering") != "no" || f.res.Header.Get("Cache-Control") != "no-cache, no-store" {
			t.Errorf("%v", f.res.Header)
		}
		f.wantMessages("one", 4, 60)
		w.mustSend("one", "ann", 61, 61)
		w.mustSend("one", "bob", 62, 62) // the user's own message comes as well
		f.wantMessages("one", 61, 62)
	})
}

// C16: streams have the data, in the backlog and live.
func TestC16_DataOnStreams(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		w.workChats()
		w.mustChat("team", "ann", "bob")
		send := func() {
			w.post("/v1/chats/team/messages", `{"sender":"ann","text":"look","data":{"picture":"p1","":"<"}}`).wants(t, 201, `{"id":"*","sent_at":"*"}`)
		}
		send()
		f := w.follow("bob", "")
		f.want("message", `{"chat":"team","id":1,"sender":"ann","text":"look","data":{"picture":"p1","":"<"},"sent_at":"*"}`)
		send()
		f.want("message", `{"chat":"team","id":2,"sender":"ann","text":"look","data":{"picture":"p1","":"<"},"sent_at":"*"}`)
	})
}

func TestC13_ReconnectGoesOnExactly(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		w.workChats()
		w.mustChat("one", "ann", "bob")
		w.mustChat("two", "ann", "bob")
		w.mustSend("one", "ann", 1, 5)
		f := w.follow("bob", "")
		f.wantMessages("one", 1, 3)
		at := f.last
		f.close()
		w.mustSend("one", "bob", 6, 6)
		w.mustSend("two", "ann", 1, 1)
		f = w.follow("bob", at)
		var got []string
		for range 4 {
			var m api.StreamMessage
			storetest.Must(t, json.Unmarshal([]byte(f.wantData().data), &m))
			got = append(got, fmt.Sprint(m.Chat, m.ID))
		}
		if s := strings.Join(got, " "); s != "one4 one5 one6 two1" && s != "two1 one4 one5 one6" {
			t.Errorf("went on with %s", s)
		}
	})
}

func TestC13_LastEventIDIsUntrusted(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.workChats()
	w.mustChat("one", "ann", "bob")
	w.mustChat("secret", "eve")
	w.mustSend("one", "ann", 1, 3)
	eve := w.follow("eve", "")
	w.mustSend("secret", "eve", 1, 1)
	eve.wantMessages("secret", 1, 1)
	for name, id := range map[string]string{
		"garbage": "not an id", "binary": "\x80\xff", "too long": strings.Repeat("A", 2049), "cut": eve.last[:len(eve.last)-3],
		"empty base64": "AQ", "another version": "_" + eve.last[1:], "of a user with other chats": eve.last,
		"positions beyond any": "Af__________________________________",
	} {
		f := w.follow("bob", id)
		f.wantMessages("one", 1, 3)
		f.close()
		if t.Failed() {
			t.Fatal(name)
		}
	}
	t.Run("a place that was never reached", func(t *testing.T) {
		f := w.follow("bob", "")
		f.wantMessages("one", 1, 3)
		f.close()
		forged := forgePosition(t, f.last, 1000)
		f = w.follow("bob", forged)
		f.want("gap", `{"chat":"one","first_id":1,"epoch":"*"}`)
		f.wantMessages("one", 1, 3)
	})
}

func TestC13_JoinsAndLeavesReachAnOpenStream(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		w.workChats()
		w.mustChat("old", "ann", "bob")
		f := w.follow("bob", "")
		took := time.Hour
		for range 3 { // the machine may delay one of them
			w.del("/v1/chats/new/members/bob")
			w.del("/v1/chats/new/members/ann")
			w.del("/v1/chats/new/members/eve")
			w.mustChat("new", "ann", "eve") // she has not seen the message, so that it is kept
			w.mustSend("new", "ann", 1, 4)
			began := time.Now()
			if a := w.put("/v1/chats/new/members/bob", `{"from":"start"}`); a.status != 201 {
				t.Fatalf("%d %s", a.status, a.body)
			}
			f.wantMessages("new", 1, 4)
			if took = time.Since(began); took <= time.Second {
				break
			}
		}
		if took > time.Second {
			t.Errorf("each of three joins took more than a second to reach the stream, the last one %v", took)
		}
		w.mustSend("new", "ann", 5, 5)
		f.wantMessages("new", 5, 5)
		if a := w.del("/v1/chats/new/members/bob"); a.status != 204 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		w.mustSend("new", "ann", 6, 6)
		w.mustSend("old", "ann", 1, 1)
		f.wantMessages("old", 1, 1) // and no message of the other chat before it
	})
}

func TestC13_GapIsTold(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.workChats()
	w.mustChat("one", "ann", "bob")
	w.mustSend("one", "ann", 1, 2)
	f := w.follow("bob", "")
	f.wantMessages("one", 1, 2)
	for _, user := range []string{"ann", "bob"} {
		w.del("/v1/chats/one/members/"+user).wants(t, 204, "")
	}
	w.mustChat("one", "bob", "ann")
	w.mustSend("one", "ann", 1, 1)
	f.want("gap", `{"chat":"one","first_id":1,"epoch":"*"}`)
	f.wantMessages("one", 1, 1)
}

func TestC13_TooManyStreams(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *handlers.Options) { o.Web.MaxStreams = 2 })
	w.workChats()
	first := w.follow("ann", "")
	w.follow("bob", "")
	a := w.get("/v1/users/eve/messages/stream").wants(t, 503,
		problem(api.CodeOverloaded, "the server has as many open streams as it can hold; try again", `"retry_after_ms":5000`))
	if a.header.Get("Retry-After") != "5" {
		t.Errorf("Retry-After: %q", a.header.Get("Retry-After"))
	}
	w.get("/v1/users/eve/messages/pending?wait_ms=10").wants(t, 503,
		problem(api.CodeOverloaded, "the server has as many open streams as it can hold; try again", `"retry_after_ms":5000`))
	w.get("/v1/users/eve/messages/pending").wants(t, 200, `{"chats":[]}`)
	if text := w.get("/metrics").body; !strings.Contains(text, "\nfanfare_open_streams 2\n") {
		t.Error("the metrics do not show two open streams")
	}
	first.close()
	storetest.Eventually(t, soon, "there is room again", func() bool {
		f, err := w.tryFollow("eve", "")
		storetest.Must(t, err)
		defer f.close()
		return f.res.StatusCode == 200
	})
}

func TestStreamsEndWithTheServer(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.workChats()
	f := w.follow("ann", "")
	polled := make(chan answer)
	go func() {
		a, err := w.try(get("/v1/users/ann/messages/pending?wait_ms=30000"))
		if err != nil {
			t.Error(err)
		}
		polled <- a
	}()
	storetest.Eventually(t, soon, "both are open", func() bool { return strings.Contains(w.get("/metrics").body, "\nfanfare_open_streams 2\n") })
	w.stopping()
	f.wantEnd()
	(<-polled).wants(t, 200, `{"chats":[]}`)
}

func TestStreamEndsWithItsKey(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.workChats()
	secret, key, err := w.keys.Create(t.Context(), "one", []api.Scope{api.ScopeChat}, nil)
	storetest.Must(t, err)
	w.mustKey(api.ScopeAdmin)
	f := w.follow("ann", "", "Authorization: Bearer "+secret)
	storetest.Must(t, w.keys.Revoke(t.Context(), key.ID))
	began := time.Now()
	f.wantEnd()
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
}

// A stream that was opened while the server had no API key ends when the server gets one.
func TestStreamEndsWithTheFirstKey(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.workChats()
	f := w.follow("ann", "")
	w.mustKey(api.ScopeAdmin)
	began := time.Now()
	f.wantEnd()
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
}

// A long poll returns nothing to a key that was revoked while it waited, nor to a caller without a
// key if the server has got a key in the meantime.
func TestLongPollEndsWithItsKey(t *testing.T) {
	t.Parallel()
	for name, revoked := range map[string]bool{"Revoked": true, "FirstKey": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.workChats()
			w.mustChat("team", "ann", "bob")
			poll := get("/v1/users/bob/messages/pending?wait_ms=30000")
			var key *api.Key
			if revoked {
				secret, made, err := w.keys.Create(t.Context(), "one", []api.Scope{api.ScopeChat}, nil)
				storetest.Must(t, err)
				key, poll = made, poll.with("Authorization: Bearer "+secret)
			}
			got := make(chan answer, 1)
			go func() {
				a, err := w.try(poll)
				if err != nil {
					t.Error(err)
				}
				got <- a
			}()
			storetest.Eventually(t, soon, "it waits", func() bool {
				return strings.Contains(w.get("/metrics").body, "\nfanfare_open_streams 1\n")
			})
			w.mustKey(api.ScopeAdmin)
			if revoked {
				storetest.Must(t, w.keys.Revoke(t.Context(), key.ID))
			}
			_, _, err := w.chats.Send(t.Context(), chat.Outgoing{Chat: "team", Sender: "ann", Text: "for members"})
			storetest.Must(t, err)
			if a := <-got; a.status != 401 || strings.Contains(a.body, "for members") {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
}

func TestStreamNeedsTheScope(t *testing.T) {
	t.Parallel()
	w := setup(t)
	auth := "Authorization: Bearer " + w.mustKey(api.ScopePush)
	for _, c := range []call{
		post("/v1/chats", `{"creator":"ann"}`), get("/v1/chats/one"), get("/v1/chats/one/members"), put("/v1/chats/one/members/ann", ""),
		{method: "DELETE", path: "/v1/chats/one/members/ann"}, post("/v1/chats/one/messages", `{"sender":"ann","text":"x"}`),
		get("/v1/chats/one/messages?user=ann"), get("/v1/users/ann/chats"), get("/v1/users/ann/messages/pending"),
		post("/v1/users/ann/messages/ack", `{"acks":{"one":1}}`), get("/v1/users/ann/messages/stream"),
	} {
		if a := w.do(c.with(auth)); a.status != 403 || !strings.Contains(a.body, `"scope":"chat"`) {
			t.Errorf("%s %s: %d %s", c.method, c.path, a.status, a.body)
		}
	}
}
