package handlers_test

import (
	"fmt"
	"strings"
	"testing"

	"fanfare/store/storetest"
)

// A user of Redis without rights to channels, as Redis 7 makes one unless told otherwise, or without
// the right to ask for the run of the server: every call has its effect once and is answered so, or
// is refused and has changed nothing.
func TestC1_RedisUserWithFewRights(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rule    string
		refused bool
	}{"NoChannels": {"resetchannels", false}, "NoInfo": {"-info", true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := storetest.Redis(t)
			url := server.MustUser(t, "~*", "allchannels", "+@all")
			w := setupOn(t, storetest.Open(t, url))
			w.mustChat("team", "ann", "bob")
			w.mustSend("team", "ann", 1, 1)
			sale := saleBody(`[{"sku":"a","stock":10}]`)
			if a := w.put("/v1/sales/old", sale); a.status != 201 {
				t.Fatal(a)
			}
			server.MustUser(t, c.rule)
			done := changeAll(t, w, sale, c.refused)
			server.MustUser(t, "allchannels", "+@all")
			if again := changeAll(t, w, sale, false); done != "" && again != done {
				t.Errorf("the answers were %s, and are %s", done, again)
			}
			w.get("/v1/chats/team/messages?user=bob").wants(t, 200, `{"items":[{"id":1,"sender":"ann","text":"m1","sent_at":"*"},`+
				`{"id":2,"sender":"bob","text":"m2","sent_at":"*"},{"id":3,"sender":"bob","text":"m3","sent_at":"*"}],"last_id":3,"first_id":1,"epoch":"*","gap":false}`)
			if a := w.get("/v1/sales/old"); !strings.Contains(a.body, `"total":15,"available":15`) {
				t.Errorf("a restock of 5, asked for again and again under one key: %s", a.body)
			}
			for _, chat := range []string{"team", "new"} {
				a := w.get("/v1/chats/" + chat + "/members")
				if strings.Count(a.body, `"user"`) != 3 {
					t.Errorf("the members of %s: %s", chat, a.body)
				}
			}
		})
	}
}

// changeAll makes each change three times under its key, and returns the answers of the first time.
func changeAll(t *testing.T, w *world, sale string, refused bool) (answers string) {
	t.Helper()
	for _, c := range []call{
		post("/v1/chats/team/messages", `{"sender":"bob","text":"m2"}`).with("Idempotency-Key: k2"),
		post("/v1/chats/team/messages", `{"sender":"bob","text":"m3"}`).with("Idempotency-Key: k3"),
		post("/v1/sales/old/stock", `{"sku":"a","delta":5}`).with("Idempotency-Key: more"),
		post("/v1/chats", `{"id":"new","creator":"ann","members":["bob","cat"],"message":"hi"}`).with("Idempotency-Key: new"),
		{method: "PUT", path: "/v1/chats/team/members/cat"},
		{method: "PUT", path: "/v1/sales/new", body: sale},
	} {
		for n := range 3 {
			a := w.do(c)
			if ok := a.status < 300; !ok && !refused || a.status == 409 || a.status == 422 {
				t.Errorf("%s %s, time %d: %d %s", c.method, c.path, n+1, a.status, a.body)
			}
			if n == 0 && a.status < 300 && c.method == "POST" {
				answers += fmt.Sprintln(a.status, a.body)
			}
		}
	}
	return answers
}
