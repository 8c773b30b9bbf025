package handlers_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// E2: the call begins one operation at a time for each user, and needs a scope that only admin covers.
func TestE2_EraseAUser(t *testing.T) {
	t.Parallel()
	eachSQL(t, func(t *testing.T, w *world) {
		key := "Authorization: Bearer " + w.mustKey(api.ScopeUsersErase)
		erase := func(user string, header string) answer {
			return w.do(call{method: "DELETE", path: "/v1/users/" + user, headers: []string{header}})
		}
		first := erase("alice", key).wants(t, 202, `{"id":"*","action":"users.erase","state":"running","begun_at":"*","removed":{},"kept":{}}`)
		id := first.member(t, "id")
		wantHeader(t, first, "Location", "/v1/operations/"+id)
		if again := erase("alice", key); again.body != first.body {
			t.Errorf("%s, then %s", first.body, again.body)
		}
		if other := erase("alice2", key); other.member(t, "id") == id {
			t.Error("two users share an operation")
		}
		w.do(call{method: "GET", path: "/v1/operations/" + id}.with(key)).wants(t, 200, first.body)
		erase("no%20name", key).wants(t, 422, broken("user", "identifier", identifierRule))
		erase("alice", w.mustToken("alice")).wants(t, 403, problem(api.CodeForbidden, "a user token does not open this call"))
		w.do(call{method: "GET", path: "/v1/operations/" + id}.with(w.mustToken("alice"))).wants(t, 403, problem(api.CodeForbidden, "a user token does not open this call"))
		if strings.Contains(w.log.String(), "alice") {
			t.Error("the log names the user")
		}
	})
}

// E3: the tokens that the user had end at once here, and the streams soon, also those that a backend
// opened; who registers again has new ones, which stay.
func TestE3_TokensAndStreamsOfAnErasedUser(t *testing.T) {
	t.Parallel()
	w, admin := setupUsers(t)
	w.workChats()
	w.post("/v1/chats", `{"id":"team","creator":"alice","members":["bob"]}`, admin)
	old := w.mustToken("alice")
	ticket := w.post("/v1/users/alice/tickets", "", old).member(t, "ticket")
	ended := make(chan string, 2)
	for _, header := range []string{old, admin} {
		c := call{method: "GET", path: "/v1/users/alice/messages/stream"}.with(header)
		r, err := http.NewRequestWithContext(context.Background(), c.method, w.url+c.path, nil)
		storetest.Must(t, err)
		for _, line := range c.headers {
			c.setHeader(r, line)
		}
		res, err := w.streamClient().Do(r) //nolint:bodyclose // it ends by itself
		if err != nil || res.StatusCode != 200 {
			t.Fatal(res, err)
		}
		go func() {
			text, lines := "", bufio.NewScanner(res.Body)
			for lines.Scan() {
				text += lines.Text() + "\n"
			}
			ended <- text
		}()
	}
	bob := w.mustToken("bob")
	w.do(call{method: "DELETE", path: "/v1/users/alice"}.with(admin)).wants(t, 202, `{"id":"*","action":"users.erase","state":"running","begun_at":"*","removed":{},"kept":{}}`)
	w.do(get("/v1/users/alice/chats").with(old)).wants(t, 401, problem(api.CodeUnauthorized, "the user token is not valid"))
	w.do(get("/v1/users/alice/messages/pending?wait_ms=1&ticket="+ticket)).wants(t, 401, problem(api.CodeUnauthorized, "*"))
	fresh := w.mustToken("alice")
	w.do(get("/v1/users/alice/chats").with(fresh)).wants(t, 200, `{"items":[{"id":"team","unread":0,"last_id":0,"acked":0}]}`)
	w.do(get("/v1/users/bob/chats").with(bob)).wants(t, 200, `{"items":[{"id":"team","unread":0,"last_id":0,"acked":0}]}`)
	bye := 0
	for range 2 {
		select {
		case text := <-ended:
			if strings.Contains(text, `{"reason":"revoked"}`) {
				bye++
			}
		case <-time.After(30 * time.Second):
			t.Fatal("a stream goes on")
		}
	}
	if bye != 1 {
		t.Errorf("%d streams said bye, want that of the token", bye)
	}
	if status := w.headOf(call{method: "GET", path: "/v1/users/alice/messages/stream"}.with(fresh)); status != 200 {
		t.Errorf("a new stream: %d", status)
	}
}
