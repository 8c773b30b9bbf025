package handlers_test

import (
	"fmt"
	"strings"
	"testing"

	"fanfare/api"
)

func (c call) asDelete() call {
	c.method = "DELETE"
	return c
}

// The topics of the HTTP contract, by an API key.
func TestP11_Topics(t *testing.T) {
	t.Parallel()
	eachSQL(t, func(t *testing.T, w *world) {
		bob, news := "/v1/users/bob/topics", "/v1/topics/news"
		w.get(news).wants(t, 200, `{"topic":"news","open":false}`)
		w.get(news+"/users").wants(t, 200, `{"items":[]}`)
		w.get(bob).wants(t, 200, `{"items":[]}`)
		for range 2 {
			w.put(bob+"/news", "").wants(t, 204, "")
		}
		w.put(bob+"/art", "").wants(t, 204, "")
		w.get(bob).wants(t, 200, `{"items":[{"topic":"art","joined_at":"*"},{"topic":"news","joined_at":"*"}]}`)
		w.get(news+"/users").wants(t, 200, `{"items":[{"user":"bob","joined_at":"*"}]}`)
		w.get(news).wants(t, 200, `{"topic":"news","open":false}`)

		w.post(news+"/users", `{"add":["amy","bob","carl"],"remove":["nobody"]}`).wants(t, 204, "")
		w.post(news+"/users", `{"remove":["bob"]}`).wants(t, 204, "")
		w.get(news+"/users").wants(t, 200, `{"items":[{"user":"amy","joined_at":"*"},{"user":"carl","joined_at":"*"}]}`)
		w.get(bob).wants(t, 200, `{"items":[{"topic":"art","joined_at":"*"}]}`)
		first := w.get(news+"/users?limit=1").wants(t, 200, `{"items":[{"user":"amy","joined_at":"*"}],"next":"*"}`)
		w.get(news+"/users?limit=1&cursor="+first.member(t, "next")).wants(t, 200, `{"items":[{"user":"carl","joined_at":"*"}]}`)

		for range 2 {
			w.del("/v1/users/amy/topics/news").wants(t, 204, "")
		}
		w.del("/v1/users/carl/topics/news").wants(t, 204, "")
		w.get(news+"/users").wants(t, 200, `{"items":[]}`)
		for _, open := range []string{"true", "true", "false", "false"} {
			w.put(news, `{"open":`+open+`}`).wants(t, 204, "")
			w.get(news).wants(t, 200, `{"topic":"news","open":`+open+`}`)
		}
	})
}

// GET /v1/topics shows every topic with its members, also one that is only open, by pages.
func TestP11_TheListOfTopics(t *testing.T) {
	t.Parallel()
	eachSQL(t, func(t *testing.T, w *world) {
		w.get("/v1/topics").wants(t, 200, `{"items":[]}`)
		w.put("/v1/topics/art", `{"open":true}`).wants(t, 204, "")
		w.put("/v1/topics/news", `{"open":true}`).wants(t, 204, "")
		w.post("/v1/topics/news/users", `{"add":["amy","bob"]}`).wants(t, 204, "")
		w.put("/v1/users/bob/topics/nwes", "").wants(t, 204, "")
		w.put("/v1/users/bob/topics/News", "").wants(t, 204, "")
		first := w.get("/v1/topics?limit=2").wants(t, 200, `{"items":[{"topic":"News","open":false,"members":1},{"topic":"art","open":true,"members":0}],"next":"*"}`)
		w.get("/v1/topics?limit=2&cursor="+first.member(t, "next")).
			wants(t, 200, `{"items":[{"topic":"news","open":true,"members":2},{"topic":"nwes","open":false,"members":1}]}`)
		w.put("/v1/topics/art", `{"open":false}`).wants(t, 204, "")
		w.del("/v1/users/bob/topics/nwes").wants(t, 204, "")
		w.get("/v1/topics").wants(t, 200, `{"items":[{"topic":"News","open":false,"members":1},{"topic":"news","open":true,"members":2}]}`)
		for scope, status := range map[api.Scope]int{api.ScopePush: 200, api.ScopeOpsRead: 200, api.ScopeOps: 200, api.ScopeChat: 403} {
			if a := w.do(get("/v1/topics").with("Authorization: Bearer " + w.mustKey(scope))); a.status != status {
				t.Errorf("%s: %d %s", scope, a.status, a.body)
			}
		}
		w.do(get("/v1/topics").with(w.mustToken("bob", api.UserScopeDevices))).wants(t, 403, problem(api.CodeForbidden, "a user token does not open this call"))
	})
}

func TestTopicsArePaged(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i := range 5 {
		w.put(fmt.Sprintf("/v1/users/bob/topics/t%d", i), "").wants(t, 204, "")
	}
	first := w.get("/v1/users/bob/topics?limit=3").
		wants(t, 200, `{"items":[{"topic":"t0","joined_at":"*"},{"topic":"t1","joined_at":"*"},{"topic":"t2","joined_at":"*"}],"next":"*"}`)
	w.get("/v1/users/bob/topics?limit=3&cursor="+first.member(t, "next")).
		wants(t, 200, `{"items":[{"topic":"t3","joined_at":"*"},{"topic":"t4","joined_at":"*"}]}`)
}

func TestBadTopics(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const users = "/v1/topics/news/users"
	many := `"b"` + strings.Repeat(`,"b"`, 1000)
	run(t, w, []bad{
		{"a topic with a space", put("/v1/users/bob/topics/a%20b", ""), 422, broken("topic", "identifier", identifierRule)},
		{"a topic of 129 bytes", get("/v1/topics/" + strings.Repeat("x", 129)), 422, broken("topic", "identifier", identifierRule)},
		{"a body where none is taken", put("/v1/users/bob/topics/news", `{"open":true}`), 400, badJSON("open", "is not a field of this call")},
		{"neither open nor closed", put("/v1/topics/news", `{}`), 422, broken("open", "required", "is required")},
		{"half open", put("/v1/topics/news", `{"open":"yes"}`), 400, badJSON("open", "must be true or false, not a string")},
		{"nobody", post(users, `{}`), 422, broken("add", "required", "needs a user, or one in remove")},
		{"empty lists", post(users, `{"add":[],"remove":[]}`), 422, broken("add", "required", "needs a user, or one in remove")},
		{"a bad user", post(users, `{"add":["bob","{x}"]}`), 422, broken("add[1]", "identifier", identifierRule)},
		{"a bad user who leaves", post(users, `{"remove":[""]}`), 422, broken("remove[0]", "identifier", identifierRule)},
		{"a user twice", post(users, `{"add":["bob","amy","bob"]}`), 422, broken("add[2]", "unique", "repeats bob of add[0]")},
		{"a user who joins and leaves", post(users, `{"add":["bob"],"remove":["amy","bob"]}`), 422, broken("remove[1]", "unique", "repeats bob of add[0]")},
		{"a list of 1,001", post(users, `{"remove":[`+strings.ReplaceAll(many, `"b"`, `"{"`)+`]}`), 422, broken("remove", "max", "must have at most 1000 items")},
		{"an event to false", post("/v1/events", `{"type":"a","audience":{"all":false}}`), 422,
			broken("audience", "exactly_one", "must hold exactly one of users, contacts_of, chat, topic, all, activities_of, broadcast")},
		{"an event to a topic and to all", post("/v1/events", `{"type":"a","audience":{"all":true,"topic":"news"}}`), 422,
			broken("audience", "exactly_one", "must hold exactly one of users, contacts_of, chat, topic, all, activities_of, broadcast")},
		{"an event to a bad topic", post("/v1/events", `{"type":"a","audience":{"topic":"{news}"}}`), 422, broken("audience.topic", "identifier", identifierRule)},
		{"a cursor that no list gives", get(users + "?cursor=MXvDtn0"), 422, broken("cursor", "cursor", "is not a cursor that a list gave as next")},
	})
}

// The largest change is below the limit of its body.
func TestTheLargestChangeOfATopic(t *testing.T) {
	t.Parallel()
	w := setup(t)
	names := func(letter string) string {
		list := make([]string, api.MaxTopicChange)
		for i := range list {
			list[i] = fmt.Sprintf(`"%s%04d"`, strings.Repeat(letter, api.MaxIdentifier-4), i)
		}
		return strings.Join(list, ", ")
	}
	w.post("/v1/topics/news/users", `{"add":[`+names("a")+`],"remove":[`+names("b")+`]}`).wants(t, 204, "")
	if n := strings.Count(w.get("/v1/topics/news/users?limit=500").body, `"user"`); n != 500 {
		t.Errorf("%d users on the first page", n)
	}
}

// TestP11_TooManyTopics: the limit is said with the field that breaks it. TestP11_AtMostAThousandTopics tries
// it in each database.
func TestP11_TooManyTopics(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i := range api.MaxTopics {
		if err := w.record.JoinTopic(t.Context(), "bob", fmt.Sprint("t", i), false); err != nil {
			t.Fatal(err)
		}
	}
	w.put("/v1/users/bob/topics/news", "").wants(t, 422, broken("topic", "max", "would be one more than the 1000 topics a user may be in"))
	w.post("/v1/topics/news/users", `{"add":["amy","bob"]}`).
		wants(t, 422, broken("add[1]", "max", "would be in more than the 1000 topics a user may be in"))
	w.get("/v1/topics/news/users").wants(t, 200, `{"items":[]}`)
	w.put("/v1/users/bob/topics/t7", "").wants(t, 204, "")
	w.del("/v1/users/bob/topics/t7").wants(t, 204, "")
	w.put("/v1/users/bob/topics/news", "").wants(t, 204, "")
}

func TestP11_ChangesOfATopicAreIdempotent(t *testing.T) {
	t.Parallel()
	eachSQL(t, func(t *testing.T, w *world) {
		const body, key = `{"add":["bob"]}`, "Idempotency-Key: 1"
		w.post("/v1/topics/news/users", body, key).wants(t, 204, "")
		w.del("/v1/users/bob/topics/news")
		again := w.post("/v1/topics/news/users", body, key).wants(t, 204, "")
		wantHeader(t, again, "Idempotent-Replayed", "true")
		w.get("/v1/topics/news/users").wants(t, 200, `{"items":[]}`)
		w.post("/v1/topics/art/users", body, key).wants(t, 204, "") // another topic
		w.get("/v1/topics/art/users").wants(t, 200, `{"items":[{"user":"bob","joined_at":"*"}]}`)
		if a := w.post("/v1/topics/news/users", `{"add":["amy"]}`, key); a.status != 422 || a.member(t, "code") != "idempotency_key_reused" {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

// TestU8_UsersAndTopics: what a user token may do with topics.
func TestU8_UsersAndTopics(t *testing.T) {
	t.Parallel()
	eachSQL(t, func(t *testing.T, w *world) {
		push := "Authorization: Bearer " + w.mustKey(api.ScopePush)
		bob := w.mustToken("bob", api.UserScopeDevices)
		mine := "/v1/users/bob/topics"
		w.do(put("/v1/topics/news", `{"open":true}`).with(push)).wants(t, 204, "")
		w.do(put(mine+"/news", "").with(bob)).wants(t, 204, "") // the first member
		w.do(put("/v1/users/amy/topics/staff", "").with(push)).wants(t, 204, "")
		w.do(put(mine+"/staff", "").with(push)).wants(t, 204, "")
		closed := problem(api.CodeForbidden, "users may join this topic only through the backend")
		w.do(put("/v1/users/amy/topics/others", "").with(push)).wants(t, 204, "")
		for _, topic := range []string{"staff", "others", "nowhere"} { // the own one, one of others, and none
			w.do(put(mine+"/"+topic, "").with(bob)).wants(t, 403, closed)
		}
		w.do(get(mine).with(bob)).wants(t, 200, `{"items":[{"topic":"news","joined_at":"*"},{"topic":"staff","joined_at":"*"}]}`)
		t.Run("for nobody else, and no more than their own", func(t *testing.T) {
			foreign := problem(api.CodeForbidden, "a user token opens only what is its own user's")
			w.do(put("/v1/users/amy/topics/news", "").with(bob)).wants(t, 403, foreign)
			w.do(get("/v1/users/amy/topics").with(bob)).wants(t, 403, foreign)
			w.do(get("/v1/users/amy/topics/news").asDelete().with(bob)).wants(t, 403, foreign)
			notOpen := problem(api.CodeForbidden, "a user token does not open this call")
			for _, c := range []call{
				get("/v1/topics/news/users"), get("/v1/topics/news"), put("/v1/topics/news", `{"open":false}`), post("/v1/topics/news/users", `{"add":["bob"]}`),
			} {
				w.do(c.with(bob)).wants(t, 403, notOpen)
			}
			w.do(put(mine+"/news", "").with(w.mustToken("bob", api.UserScopeChat))).
				wants(t, 403, problem(api.CodeForbidden, "this user token lacks the scope devices", `"scope":"devices"`))
		})
		t.Run("leaving is always possible", func(t *testing.T) {
			for _, topic := range []string{"staff", "others", "nowhere"} {
				w.do(get(mine+"/"+topic).asDelete().with(bob)).wants(t, 204, "")
			}
			w.do(get(mine).with(bob)).wants(t, 200, `{"items":[{"topic":"news","joined_at":"*"}]}`)
		})
		t.Run("a topic that is closed keeps its members", func(t *testing.T) {
			w.do(put("/v1/topics/news", `{"open":false}`).with(push)).wants(t, 204, "")
			w.do(put(mine+"/news", "").with(bob)).wants(t, 403, closed)
			w.do(get("/v1/topics/news/users").with(push)).wants(t, 200, `{"items":[{"user":"bob","joined_at":"*"}]}`)
		})
	})
}

// TestEventsToAllNeedAScope: push does not cover push:all, alone or in a batch.
func TestEventsToAllNeedAScope(t *testing.T) {
	t.Parallel()
	eachSQL(t, func(t *testing.T, w *world) {
		all := strings.Replace(anEvent, `{"users":["bob"]}`, `{"all":true}`, 1)
		topic := strings.Replace(anEvent, `{"users":["bob"]}`, `{"topic":"news"}`, 1)
		if all == anEvent || topic == anEvent {
			t.Fatal("the event has another audience")
		}
		w.post("/v1/events", all).wants(t, 202, `{"id":"*"}`) // no key was ever made
		push := "Authorization: Bearer " + w.mustKey(api.ScopePush)
		lacks := func(field string) string {
			return problem(api.CodeForbidden, field+" needs the scope push:all, which this API key lacks", `"scope":"push:all"`)
		}
		w.post("/v1/events", all, push).wants(t, 403, lacks("audience.all"))
		w.post("/v1/events", all, push, "Idempotency-Key: 1").wants(t, 403, lacks("audience.all"))
		w.post("/v1/events/batch", `{"events":[`+topic+`,`+all+`]}`, push).wants(t, 403, lacks("events[1].audience.all"))
		w.post("/v1/events", topic, push).wants(t, 202, `{"id":"*"}`)
		w.post("/v1/events/batch", `{"events":[`+topic+`,`+anEvent+`]}`, push).wants(t, 202, `{"items":[{"id":"*"},{"id":"*"}]}`)
		for _, scopes := range [][]api.Scope{{api.ScopePush, api.ScopePushAll}, {api.ScopeAdmin}} {
			key := "Authorization: Bearer " + w.mustKey(scopes...)
			w.post("/v1/events", all, key, "Idempotency-Key: 1").wants(t, 202, `{"id":"*"}`)
			w.post("/v1/events/batch", `{"events":[`+topic+`,`+all+`]}`, key).wants(t, 202, `{"items":[{"id":"*"},{"id":"*"}]}`)
		}
		alone := "Authorization: Bearer " + w.mustKey(api.ScopePushAll)
		w.post("/v1/events", all, alone).wants(t, 403, problem(api.CodeForbidden, "this API key lacks the scope push", `"scope":"push"`))
	})
}
