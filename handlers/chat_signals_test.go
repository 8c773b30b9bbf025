package handlers_test

import (
	"testing"

	"fanfare/api"
)

// C20, C21: a stream tells who has read and who types; strangers learn nothing, and nothing is stored.
func TestC21_Typing(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		w.workChats()
		admin := "Authorization: Bearer " + w.mustKey(api.ScopeAdmin)
		w.do(post("/v1/chats", `{"id":"team","creator":"ann","members":["bob"]}`).with(admin))
		f := w.follow("ann", "", admin)
		f.signals = true
		w.do(post("/v1/chats/team/messages", `{"sender":"ann","text":"m1"}`).with(admin)).wants(t, 201, `{"id":1,"sent_at":"*"}`)
		f.want("message", `{"chat":"team","id":1,"sender":"ann","text":"m1","sent_at":"*"}`)
		const typing = "/v1/chats/team/typing"
		bob, eve := w.mustToken("bob"), w.mustToken("eve")
		w.do(post(typing, `{}`).with(bob)).wants(t, 204, "")
		f.want("typing", `{"chat":"team","user":"bob"}`)
		w.do(post("/v1/users/bob/messages/ack", `{"acks":{"team":1}}`).with(bob)).wants(t, 200, `{"acked":{"team":1}}`)
		f.want("read", `{"chat":"team","user":"bob","acked":1}`)
		hidden := problem(api.CodeNotFound, "there is no such chat, or you are not a member")
		w.do(post(typing, `{"user":"eve"}`).with(eve)).wants(t, 404, hidden)
		w.do(post("/v1/chats/none/typing", `{}`).with(bob)).wants(t, 404, hidden)
		w.do(post(typing, `{"user":"ann"}`).with(bob)).wants(t, 403, problem(api.CodeForbidden, "*"))
		w.do(post(typing, `{}`).with(w.mustToken("bob", api.UserScopeDevices))).wants(t, 403, problem(api.CodeForbidden, "*", `"scope":"chat"`))
		w.do(post(typing, `{"user":"eve"}`).with(admin)).wants(t, 403, problem(api.CodeNotAMember, "eve is not a member of chat team"))
		w.do(post("/v1/chats/none/typing", `{"user":"bob"}`).with(admin)).wants(t, 404, problem(api.CodeNotFound, "there is no chat none"))
		w.do(post(typing, `{}`).with(admin)).wants(t, 422, broken("user", "required", "is required"))
		w.do(post(typing, `{"user":"a b"}`).with(admin)).wants(t, 422, problem(api.CodeValidation, "*", `"errors":[{"field":"user","rule":"identifier","message":"*"}]`))
	})
}
