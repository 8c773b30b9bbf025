package handlers_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// C17: what a call that redacts answers, and what readers see afterwards.
func TestC17_Redaction(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		const secret = "a-secret-text"
		w.mustChat("team", "ann", "bob")
		w.mustSend("team", "ann", 1, 1)
		said := post("/v1/chats/team/messages", `{"sender":"ann","text":"`+secret+`","data":{"of":"`+secret+`"}}`).with("Idempotency-Key: k")
		first := w.do(said).wants(t, 201, `{"id":2,"sent_at":"*"}`)
		w.mustSend("team", "bob", 3, 3)
		if found := storetest.KeysWith(t, w.db, secret); len(found) != 1 || !strings.Contains(found[0], "log:team") {
			t.Fatalf("the text is in %v", found)
		}
		for range 2 {
			w.del("/v1/chats/team/messages/2").wants(t, 204, "")
			if found := storetest.KeysWith(t, w.db, secret); len(found) > 0 {
				t.Errorf("the text is in %v", found)
			}
		}
		items := `{"id":1,"sender":"ann","text":"m1","sent_at":"*"},{"id":2,"sender":"ann","text":"","redacted":true,"sent_at":"` +
			first.member(t, "sent_at") + `"},{"id":3,"sender":"bob","text":"m3","sent_at":"*"}`
		w.get("/v1/chats/team/messages?user=bob").wants(t, 200, `{"items":[`+items+`],"last_id":3,"first_id":1,"epoch":"*","gap":false}`)
		w.get("/v1/users/bob/messages/pending").wants(t, 200,
			`{"chats":[{"id":"team","epoch":"*","unread":2,"gap":false,"first_id":1,"items":[`+items+`]}]}`)
		again := w.do(said).wants(t, 201, first.body)
		if again.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("sent again: %v", again.header)
		}
		w.post("/v1/chats/team/messages", `{"sender":"ann","text":"other"}`, "Idempotency-Key: k").wants(t, 422, problem(api.CodeIdempotencyReused, "*"))
		if found := storetest.KeysWith(t, w.db, secret); len(found) > 0 {
			t.Errorf("after a replay the text is in %v", found)
		}
		w.mustAck("bob", "team", 3)
		w.mustAck("ann", "team", 3)
		for id, chat := range map[int]string{2: "team", 4: "team", 1: "none"} { // acknowledged by all, not sent yet, no chat
			w.del(fmt.Sprintf("/v1/chats/%s/messages/%d", chat, id)).wants(t, 404, problem(api.CodeNotFound, "*"))
		}
		w.del("/v1/chats/team/messages/0").wants(t, 422, broken("id", "min", "must be at least 1"))
		w.del("/v1/chats/team/messages/x").wants(t, 422, broken("id", "type", "must be an integer"))
	})
}

// C17: a user token redacts its own user's messages in chats of the user, an API key any message.
func TestC17_WhoMayRedact(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		admin := "Authorization: Bearer " + w.mustKey(api.ScopeAdmin)
		moderator := "Authorization: Bearer " + w.mustKey(api.ScopeChat)
		w.post("/v1/chats", `{"id":"team","creator":"alice","members":["bob","cat"]}`, admin)
		for _, sender := range []string{"alice", "bob", "alice", "bob"} {
			w.post("/v1/chats/team/messages", `{"sender":"`+sender+`","text":"hi"}`, admin).wants(t, 201, `{"id":"*","sent_at":"*"}`)
		}
		del := func(id int, who string) answer {
			t.Helper()
			return w.do(call{method: "DELETE", path: fmt.Sprint("/v1/chats/team/messages/", id)}.with(who))
		}
		alice, bob, eve := w.mustToken("alice"), w.mustToken("bob"), w.mustToken("eve")
		del(1, w.mustToken("alice", api.UserScopeDevices)).wants(t, 403, problem(api.CodeForbidden, "*", `"scope":"chat"`))
		del(2, alice).wants(t, 403, problem(api.CodeForbidden, "message 2 of chat team is not alice's"))
		del(1, alice).wants(t, 204, "")
		del(1, alice).wants(t, 204, "")
		del(1, bob).wants(t, 403, problem(api.CodeForbidden, "*")) // also when it is redacted already
		del(9, alice).wants(t, 404, problem(api.CodeNotFound, "chat team keeps no message 9"))
		hidden := problem(api.CodeNotFound, "there is no such chat, or you are not a member")
		for _, id := range []int{1, 2, 9} {
			del(id, eve).wants(t, 404, hidden)
		}
		w.do(call{method: "DELETE", path: "/v1/chats/none/messages/1"}.with(eve)).wants(t, 404, hidden)
		w.do(call{method: "DELETE", path: "/v1/chats/team/members/alice"}.with(alice)).wants(t, 204, "")
		del(3, alice).wants(t, 404, hidden) // the chat is no longer hers
		redacted := func(id int) string {
			return fmt.Sprintf(`{"id":%d,"sender":"%s","text":"","redacted":true,"sent_at":"*"}`, id, []string{"bob", "alice"}[id%2])
		}
		kept := func(id int) string { return strings.Replace(redacted(id), `"","redacted":true`, `"hi"`, 1) }
		page := func(items ...string) string {
			return `{"items":[` + strings.Join(items, ",") + `],"last_id":4,"first_id":1,"epoch":"*","gap":false}`
		}
		read := get("/v1/chats/team/messages?user=cat").with(admin)
		w.do(read).wants(t, 200, page(redacted(1), kept(2), kept(3), kept(4)))
		del(3, moderator).wants(t, 204, "")
		del(4, admin).wants(t, 204, "")
		del(2, "Authorization: Bearer "+w.mustKey(api.ScopePush)).wants(t, 403, problem(api.CodeForbidden, "*", `"scope":"chat"`))
		w.do(read).wants(t, 200, page(redacted(1), kept(2), redacted(3), redacted(4)))
	})
}

// C18: a stream that has sent the message gets an event. One that begins or goes on later sends the message
// without its text.
func TestC18_Streams(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		w.workChats()
		w.mustChat("team", "ann", "bob")
		w.mustSend("team", "ann", 1, 2)
		f := w.follow("bob", "")
		f.wantMessages("team", 1, 2)
		w.del("/v1/chats/team/messages/1").wants(t, 204, "")
		f.want("redacted", `{"chat":"team","id":1}`)
		at := f.last
		f.close()
		w.mustSend("team", "ann", 3, 4)
		w.del("/v1/chats/team/messages/2").wants(t, 204, "")
		w.del("/v1/chats/team/messages/3").wants(t, 204, "")
		gone := `{"chat":"team","id":%d,"sender":"ann","text":"","redacted":true,"sent_at":"*"}`
		f = w.follow("bob", at)
		f.want("message", fmt.Sprintf(gone, 3))
		f.wantMessages("team", 4, 4)
		f = w.follow("bob", "")
		for id := range 3 {
			f.want("message", fmt.Sprintf(gone, id+1))
		}
		f.wantMessages("team", 4, 4)
		w.del("/v1/chats/team/messages/4").wants(t, 204, "")
		f.want("redacted", `{"chat":"team","id":4}`)
		w.mustSend("team", "ann", 5, 5)
		f.wantMessages("team", 5, 5)
	})
}

// C18: a long poll reads messages without their text.
func TestC18_LongPoll(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.workChats()
	w.mustChat("team", "ann", "bob")
	w.mustSend("team", "ann", 1, 1)
	w.del("/v1/chats/team/messages/1").wants(t, 204, "")
	w.get("/v1/users/bob/messages/pending?wait_ms=30000").wants(t, 200,
		`{"chats":[{"id":"team","epoch":"*","unread":1,"gap":false,"first_id":1,"items":[{"id":1,"sender":"ann","text":"","redacted":true,"sent_at":"*"}]}]}`)
}

// C17, N11: a full Redis refuses neither a redaction with what it withdraws nor a cancel.
func TestC17_AFullRedisTakesItAll(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	w := setupOn(t, storetest.Open(t, server.URL()))
	w.mustChat("team", "ann", "bob")
	w.mustSend("team", "ann", 1, 2)
	w.put("/v1/event-types/news", `{"title":"hi"}`)
	event := w.post("/v1/events", `{"type":"news","audience":{"users":["ann"]}}`).member(t, "id")
	storetest.Must(t, server.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())
	for range 2 {
		w.del("/v1/chats/team/messages/1").wants(t, 204, "")
		if a := w.post("/v1/events/"+event+"/cancel", ""); a.status != 200 || !strings.Contains(a.body, `"cancelled"`) {
			t.Errorf("cancel: %d %s", a.status, a.body)
		}
	}
	storetest.Must(t, server.Client().ConfigSet(t.Context(), "maxmemory", "0").Err())
	if n := server.Client().XLen(t.Context(), "ff:{withdrawn}:events").Val(); n < 1 {
		t.Error("no event was withdrawn")
	}
	if life := server.Client().TTL(t.Context(), "ff:{withdrawn}:events").Val(); life < 7*24*time.Hour {
		t.Errorf("the withdrawn events are kept for %v", life)
	}
}

// C17: dead letters of a push do not show the text of a redacted message.
func TestC17_DeadLetters(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		const secret = "a-secret-text"
		w.workChats()
		w.put("/v1/event-types/chat.message", `{"title":"{data.text}"}`)
		w.mustChat("team", "ann", "bob")
		w.post("/v1/chats/team/messages", `{"sender":"ann","text":"`+secret+`"}`).wants(t, 201, `{"id":1,"sent_at":"*"}`)
		w.mustSend("team", "ann", 2, 2)
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() {
			stopped <- w.queue.Run(ctx, queue.Each(func(context.Context, *queue.Claimed) queue.Result {
				return queue.Result{Outcome: queue.Dead, Reason: "test"}
			}))
		}()
		var a answer
		storetest.Eventually(t, soon, "both are dead", func() bool {
			a = w.get("/v1/dead-letters")
			return strings.Count(a.body, `"kind":"event"`) == 2
		})
		cancel()
		storetest.Must(t, <-stopped)
		if !strings.Contains(a.body, secret) || !strings.Contains(a.body, `"m2"`) {
			t.Errorf("before: %s", a.body)
		}
		w.del("/v1/chats/team/messages/1").wants(t, 204, "")
		if a = w.get("/v1/dead-letters"); strings.Contains(a.body, secret) || !strings.Contains(a.body, `"payload":{"redacted":true}`) || strings.Count(a.body, "m2") == 0 {
			t.Errorf("after the redaction: %s", a.body)
		}
	})
}
