package handlers_test

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

func TestChat(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		a := w.post("/v1/chats", `{"id":"team","creator":"ann","members":["bob","ann","bob"],"message":"hello"}`).
			wants(t, 201, `{"id":"team","epoch":"*","members":["ann","bob"]}`)
		if a.header.Get("Location") != "/v1/chats/team" {
			t.Errorf("Location %q", a.header.Get("Location"))
		}
		w.post("/v1/chats", `{"id":"team","creator":"eve"}`).wants(t, 409, problem(api.CodeConflict, "*"))
		w.get("/v1/chats/team").wants(t, 200, `{"id":"team","epoch":"*","last_id":1,"first_id":1,"member_count":2,"created_at":"*"}`)
		w.get("/v1/chats/none").wants(t, 404, problem(api.CodeNotFound, "there is no chat none"))
		w.get("/v1/chats/none/members").wants(t, 404, problem(api.CodeNotFound, "there is no chat none"))
		w.get("/v1/chats/team/members").wants(t, 200, `{"items":[{"user":"ann","acked":1,"joined_at":"*"},{"user":"bob","acked":0,"joined_at":"*"}]}`)
		var page api.ChatMemberList
		storetest.Must(t, json.Unmarshal([]byte(w.get("/v1/chats/team/members?limit=1").body), &page))
		w.get("/v1/chats/team/members?limit=1&cursor="+page.Next).wants(t, 200, `{"items":[{"user":"bob","acked":0,"joined_at":"*"}]}`)

		w.mustSend("team", "ann", 2, 3)
		hello, m2, m3 := `{"id":1,"sender":"ann","text":"hello","sent_at":"*"}`, `{"id":2,"sender":"ann","text":"m2","sent_at":"*"}`, `{"id":3,"sender":"ann","text":"m3","sent_at":"*"}`
		messages := func(items string, gap bool) string {
			return fmt.Sprintf(`{"items":[%s],"last_id":3,"first_id":1,"epoch":"*","gap":%v}`, items, gap)
		}
		for query, want := range map[string]string{
			"":                  messages(hello+","+m2+","+m3, false),
			"&after=1&limit=1":  messages(m2, false),
			"&before=3&limit=1": messages(m2, false),
			"&after=3":          messages("", false),
			"&after=4":          messages("", true),
			"&epoch=other":      messages(hello+","+m2+","+m3, true),
		} {
			w.get("/v1/chats/team/messages?user=bob"+query).wants(t, 200, want)
		}
		w.get("/v1/users/bob/chats").wants(t, 200, `{"items":[{"id":"team","unread":3,"last_id":3,"acked":0}]}`)
		pending := func(unread, first int, items string) string {
			return fmt.Sprintf(`{"chats":[{"id":"team","epoch":"*","unread":%d,"gap":false,"first_id":%d,"items":[%s]}]}`, unread, first, items)
		}
		for range 2 { // C3, C4: reading changes nothing
			w.get("/v1/users/bob/messages/pending").wants(t, 200, pending(3, 1, hello+","+m2+","+m3))
		}
		w.get("/v1/users/bob/messages/pending?limit=1").wants(t, 200, pending(3, 1, hello))
		w.get("/v1/users/ann/messages/pending").wants(t, 200, `{"chats":[]}`)
		w.mustAck("bob", "team", 2)
		w.post("/v1/users/bob/messages/ack", `{"acks":{"team":1}}`).wants(t, 200, `{"acked":{"team":2}}`)
		w.get("/v1/users/bob/messages/pending").wants(t, 200, pending(1, 3, m3))

		w.put("/v1/chats/team/members/eve", "").wants(t, 201, `{"user":"eve","acked":3,"joined_at":"*"}`)
		w.put("/v1/chats/team/members/eve", `{"from":"start"}`).wants(t, 200, `{"user":"eve","acked":3,"joined_at":"*"}`)
		w.put("/v1/chats/team/members/dan", `{"from":"start"}`).wants(t, 201, `{"user":"dan","acked":2,"joined_at":"*"}`)
		w.put("/v1/chats/none/members/eve", "").wants(t, 404, problem(api.CodeNotFound, "there is no chat none"))
		for range 2 {
			w.del("/v1/chats/team/members/eve").wants(t, 204, "")
		}
		w.del("/v1/chats/none/members/eve").wants(t, 204, "")
		w.get("/v1/chats/team/messages?user=eve").wants(t, 403, problem(api.CodeNotAMember, "eve is not a member of chat team"))
		w.post("/v1/chats/team/messages", `{"sender":"eve","text":"x"}`).wants(t, 403, problem(api.CodeNotAMember, "eve is not a member of chat team"))
		w.post("/v1/chats/none/messages", `{"sender":"eve","text":"x"}`).wants(t, 404, problem(api.CodeNotFound, "there is no chat none"))
	})
}

func TestUserChatsArePaged(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, chat := range []string{"zebra", "ape", "cat"} {
		w.mustChat(chat, "ann")
	}
	var got []string
	for path := "/v1/users/ann/chats?limit=1"; path != ""; {
		var page api.UserChatList
		storetest.Must(t, json.Unmarshal([]byte(w.get(path).body), &page))
		for _, c := range page.Items {
			got = append(got, c.ID)
		}
		path = ""
		if page.Next != "" {
			path = "/v1/users/ann/chats?limit=1&cursor=" + page.Next
		}
	}
	if s := strings.Join(got, " "); s != "zebra ape cat" {
		t.Errorf("%s", s)
	}
}

// Whatever happens to the last chat of a page, the following pages have every other chat once.
func TestUserChatsArePagedWhileTheCursorsChatMoves(t *testing.T) {
	t.Parallel()
	const chats, limit = 9, 3
	for name, move := range map[string]func(w *world, last string){
		"LeftAndJoined": func(w *world, last string) {
			w.del("/v1/chats/"+last+"/members/ann").wants(w.t, 204, "")
			w.put("/v1/chats/"+last+"/members/ann", "").wants(w.t, 201, `{"user":"ann","acked":0,"joined_at":"*"}`)
		},
		"Left": func(w *world, last string) { w.del("/v1/chats/"+last+"/members/ann").wants(w.t, 204, "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			for i := range chats {
				w.mustChat(fmt.Sprint("chat", i), "ann", "bob")
			}
			got, moved := map[string]int{}, ""
			for path := fmt.Sprintf("/v1/users/ann/chats?limit=%d", limit); path != ""; {
				var page api.UserChatList
				storetest.Must(t, json.Unmarshal([]byte(w.get(path).body), &page))
				for _, c := range page.Items {
					got[c.ID]++
				}
				if moved == "" {
					moved = page.Items[len(page.Items)-1].ID
					move(w, moved)
				}
				path = ""
				if page.Next != "" {
					path = fmt.Sprintf("/v1/users/ann/chats?limit=%d&cursor=%s", limit, page.Next)
				}
			}
			for i := range chats {
				if id := fmt.Sprint("chat", i); got[id] != 1 && id != moved {
					t.Errorf("%s was shown %d times", id, got[id])
				}
			}
		})
	}
}

func TestC3_Acks(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, chat := range []string{"one", "two"} {
		w.mustChat(chat, "ann", "bob")
		w.mustSend(chat, "ann", 1, 5)
	}
	w.mustChat("three", "ann")
	ack := func(acks string) answer { return w.post("/v1/users/bob/messages/ack", `{"acks":{`+acks+`}}`) }
	ack(`"one":6`).wants(t, 422, problem(api.CodeValidation, "acks.one must be at most 5, the last message",
		errorsOf("acks.one", "max", "must be at most 5, the last message")))
	ack(`"three":0`).wants(t, 403, problem(api.CodeNotAMember, "bob is not a member of chat three"))
	ack(`"four":1`).wants(t, 404, problem(api.CodeNotFound, "there is no chat four"))
	ack(`"one":4,"two":6,"three":1,"four":1`).wants(t, 200,
		`{"acked":{"one":4},"errors":{"two":{"code":"validation_failed"},"three":{"code":"not_a_member"},"four":{"code":"not_found"}}}`)
	ack(`"one":2,"two":5`).wants(t, 200, `{"acked":{"one":4,"two":5}}`)
	w.post("/v1/users/bob/messages/ack", `{"acks":{"one":5},"epochs":{"one":"other"}}`).wants(t, 422, problem(api.CodeValidation, "*",
		errorsOf("epochs.one", "epoch", "is not the epoch of these messages any more: read the chat again")))
	w.post("/v1/users/bob/messages/ack", `{"acks":{"one":5},"epochs":{"two":"x"}}`).wants(t, 422, problem(api.CodeValidation, "*",
		errorsOf("epochs.two", "acks", "must be a chat in acks")))
	w.post("/v1/users/bob/messages/ack", `{"acks":{"one":5,"two":5},"epochs":{"one":"other"}}`).wants(t, 200,
		`{"acked":{"two":5},"errors":{"one":{"code":"validation_failed"}}}`)
}

func TestBadChats(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.mustChat("team", "ann", "bob")
	const text = "must be 1 to 4000 characters"
	long, messages, ack := strings.Repeat("ü", 4001), "/v1/chats/team/messages", "/v1/users/bob/messages/ack"
	run(t, w, []bad{
		{"no creator", post("/v1/chats", `{}`), 422, broken("creator", "required", "is required")},
		{"a bad id", post("/v1/chats", `{"id":"{x}","creator":"ann"}`), 422, broken("id", "identifier", identifierRule)},
		{"a bad member", post("/v1/chats", `{"creator":"ann","members":["bob",""]}`), 422, broken("members[1]", "identifier", identifierRule)},
		{"1,001 members", post("/v1/chats", `{"creator":"ann","members":["b"`+strings.Repeat(`,"b"`, 1000)+`]}`), 422, broken("members", "max", "must have at most 1000 items")},
		{"an empty first message", post("/v1/chats", `{"creator":"ann","message":""}`), 422, broken("message", "text", text)},
		{"an unknown field", post("/v1/chats", `{"creator":"ann","name":"x"}`), 400, badJSON("name", "is not a field of this call")},
		{"no sender", post(messages, `{"text":"x"}`), 422, broken("sender", "required", "is required")},
		{"no text", post(messages, `{"sender":"ann"}`), 422, broken("text", "text", text)},
		{"4,001 characters", post(messages, `{"sender":"ann","text":"`+long+`"}`), 422, broken("text", "text", text)},
		{"a text that is a number", post(messages, `{"sender":"ann","text":1}`), 400, badJSON("text", "must be a string, not a number")},
		{"half a character", post(messages, `{"sender":"ann","text":"\ud800"}`), 400, problem(api.CodeInvalidJSON, "*", errorsOf("text", "json", "*"))},
		{"nobody reads", get(messages), 422, broken("user", "identifier", identifierRule)},
		{"after nothing", get(messages + "?user=ann&after=-1"), 422, broken("after", "min", "must be at least 0")},
		{"before half", get(messages + "?user=ann&before=1.5"), 422, broken("before", "type", "must be an integer")},
		{"limit 501", get(messages + "?user=ann&limit=501"), 422, broken("limit", "max", "must be at most 500")},
		{"joining from the middle", put("/v1/chats/team/members/eve", `{"from":"middle"}`), 422, broken("from", "oneof", "must be one of now, start")},
		{"no acks", post(ack, `{}`), 422, broken("acks", "required", "is required")},
		{"empty acks", post(ack, `{"acks":{}}`), 422, broken("acks", "min", "must have at least 1 item")},
		{"a negative ack", post(ack, `{"acks":{"team":-1}}`), 422, broken("acks[team]", "min", "must be at least 0")},
		{"half an ack", post(ack, `{"acks":{"team":1.5}}`), 400, badJSON("acks.team", "must be an integer, not the number 1.5")},
		{"a chat with a space", post(ack, `{"acks":{"a b":1}}`), 422, broken("acks[a b]", "identifier", identifierRule)},
		{"a wait too long", get("/v1/users/bob/messages/pending?wait_ms=30001"), 422, broken("wait_ms", "max", "must be at most 30000")},
		{"a wait below zero", get("/v1/users/bob/messages/pending?wait_ms=-1"), 422, broken("wait_ms", "min", "must be at least 0")},
		{"pending of nobody", get("/v1/users/a%20b/messages/pending"), 422, broken("user", "identifier", identifierRule)},
		{"a stream of nobody", get("/v1/users/a%20b/messages/stream"), 422, broken("user", "identifier", identifierRule)},
		{"a cursor of another list", get("/v1/users/bob/chats?cursor=MWE"), 422, broken("cursor", "cursor", "is not a cursor that a list gave as next")},
		{"a cursor without a chat", get("/v1/users/bob/chats?cursor=MTE3"), 422, broken("cursor", "cursor", "is not a cursor that a list gave as next")},
		{"a cursor of one's own", get("/v1/users/bob/chats?cursor=x"), 422, broken("cursor", "cursor", "is not a cursor that a list gave as next")},
	})
}

// C12: kept byte for byte.
func TestC12_Text(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.mustChat("team", "ann", "bob")
	for i, text := range []string{"\x00\x1f\u2028\u2029</script>&\"'\\", strings.Repeat("\U0001f600", 4000), " ", "e\u0301 is not \u00e9", "line\r\nline\n\n"} {
		body, err := json.Marshal(api.ChatMessageRequest{Sender: "ann", Text: text})
		storetest.Must(t, err)
		w.post("/v1/chats/team/messages", string(body)).wants(t, 201, fmt.Sprintf(`{"id":%d,"sent_at":"*"}`, i+1))
		var page api.ChatMessages
		storetest.Must(t, json.Unmarshal([]byte(w.get(fmt.Sprintf("/v1/chats/team/messages?user=bob&after=%d", i)).body), &page))
		if len(page.Items) != 1 || page.Items[0].Text != text {
			t.Errorf("%q came back as %+v", text, page.Items)
		}
	}
}

// C16: data goes with the text, and back as it was sent.
func TestC16_Data(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		w.mustChat("team", "ann", "bob")
		most := strings.Repeat("x", api.MaxMessageData-len(`{"x":""}`))
		var items []string
		for i, data := range []string{`{"picture":"p1","of":"album:42"}`, `{"":"","\u0000":"<\u2028\ud83d\ude00\\"}`, `{"x":"` + most + `"}`} {
			w.post("/v1/chats/team/messages", `{"sender":"ann","text":"look","data":`+data+`}`).wants(t, 201, fmt.Sprintf(`{"id":%d,"sent_at":"*"}`, i+1))
			items = append(items, fmt.Sprintf(`{"id":%d,"sender":"ann","text":"look","data":%s,"sent_at":"*"}`, i+1, data))
		}
		for _, none := range []string{`{}`, `null`} { // an empty object is no data
			w.post("/v1/chats/team/messages", `{"sender":"ann","text":"look","data":`+none+`}`).wants(t, 201, `{"id":"*","sent_at":"*"}`)
			items = append(items, fmt.Sprintf(`{"id":%d,"sender":"ann","text":"look","sent_at":"*"}`, len(items)+1))
		}
		w.get("/v1/chats/team/messages?user=bob").wants(t, 200, `{"items":[`+strings.Join(items, ",")+`],"last_id":5,"first_id":1,"epoch":"*","gap":false}`)
		w.get("/v1/users/bob/messages/pending").wants(t, 200,
			`{"chats":[{"id":"team","epoch":"*","unread":5,"gap":false,"first_id":1,"items":[`+strings.Join(items, ",")+`]}]}`)

		for data, rule := range map[string]string{`{"x":"` + most + `y"}`: "max", `{"\u0001":"` + most[:1012] + `"}`: "max"} {
			w.post("/v1/chats/team/messages", `{"sender":"ann","text":"look","data":`+data+`}`).
				wants(t, 422, problem(api.CodeValidation, "data must be at most 1024 bytes as JSON", errorsOf("data", rule, "must be at most 1024 bytes as JSON")))
		}
		for data, is := range map[string]string{`{"x":{"y":"z"}}`: "an object", `{"x":["y"]}`: "an array"} { // flat
			w.post("/v1/chats/team/messages", `{"sender":"ann","text":"look","data":`+data+`}`).wants(t, 400, badJSON("data.x", "must be a string, not "+is))
		}
		w.post("/v1/chats/team/messages", `{"sender":"ann","data":{"picture":"p1"}}`).
			wants(t, 422, problem(api.CodeValidation, "*", errorsOf("text", "text", "*"))) // data is beside a text, not instead of it

		once := post("/v1/chats/team/messages", `{"sender":"ann","text":"look","data":{"picture":"p1"}}`).with("Idempotency-Key: k")
		first := w.do(once).wants(t, 201, `{"id":6,"sent_at":"*"}`)
		w.do(once).wants(t, 201, first.body)
		w.post("/v1/chats/team/messages", `{"sender":"ann","text":"look","data":{"picture":"p2"}}`, "Idempotency-Key: k").
			wants(t, 422, problem(api.CodeIdempotencyReused, "*")) // C2: other data is another message
	})
}

func TestIdempotentChats(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		key := "Idempotency-Key: k"
		again := func(c call, first answer) {
			t.Helper()
			a := w.do(c.with(key)).wants(t, first.status, first.body)
			if a.header.Get("Idempotent-Replayed") != "true" || first.header.Get("Idempotent-Replayed") != "" {
				t.Errorf("%s: the headers say %v, then %v", c.path, first.header, a.header)
			}
		}
		reused := problem(api.CodeIdempotencyReused, "*")
		t.Run("C11 an id of ours", func(t *testing.T) {
			c := post("/v1/chats", `{"creator":"ann","members":["bob"],"message":"once"}`)
			first := w.do(c.with(key)).wants(t, 201, `{"id":"*","epoch":"*","members":["ann","bob"]}`)
			again(c, first)
			w.post("/v1/chats", `{"creator":"eve"}`, key).wants(t, 422, reused)
			w.get("/v1/users/bob/chats").wants(t, 200, `{"items":[{"id":"`+first.member(t, "id")+`","unread":1,"last_id":1,"acked":0}]}`)
		})
		t.Run("C11 an id of theirs", func(t *testing.T) {
			c := post("/v1/chats", `{"id":"named","creator":"ann"}`)
			key = "Idempotency-Key: k2"
			again(c, w.do(c.with(key)))
			key = "Idempotency-Key: k"
		})
		t.Run("C2 messages", func(t *testing.T) {
			w.mustChat("team", "ann", "bob")
			w.mustChat("other", "ann", "bob")
			c := post("/v1/chats/team/messages", `{"sender":"ann","text":"x"}`)
			again(c, w.do(c.with(key)).wants(t, 201, `{"id":1,"sent_at":"*"}`))
			w.post("/v1/chats/team/messages", `{"sender":"ann","text":"y"}`, key).wants(t, 422, reused)
			w.post("/v1/chats/team/messages", `{"sender":"bob","text":"x"}`, key).wants(t, 201, `{"id":2,"sent_at":"*"}`)
			w.post("/v1/chats/other/messages", `{"sender":"ann","text":"x"}`, key).wants(t, 201, `{"id":1,"sent_at":"*"}`)
			w.mustChat("third", "ann")
			w.post("/v1/chats/third/messages", `{"sender":"bob","text":"x"}`, key).wants(t, 403, problem(api.CodeNotAMember, "*"))
			w.put("/v1/chats/third/members/bob", "")
			w.post("/v1/chats/third/messages", `{"sender":"bob","text":"x"}`, key).wants(t, 201, `{"id":1,"sent_at":"*"}`) // refusals are not stored
		})
		t.Run("acks", func(t *testing.T) {
			ack := "/v1/users/bob/messages/ack"
			w.post(ack, `{"acks":{"other":9}}`, key).wants(t, 422, problem(api.CodeValidation, "*", errorsOf("acks.other", "max", "*")))
			w.post(ack, `{"acks":{"other":1,"none":1}}`, key).wants(t, 200, `{"acked":{"other":1},"errors":{"none":{"code":"not_found"}}}`)
			w.mustSend("other", "ann", 2, 2)
			w.mustAck("bob", "other", 2)
			for _, body := range []string{`{"acks":{"other":1}}`, `{"acks":{"other":2}}`} { // no record is stored
				a := w.post(ack, body, key).wants(t, 200, `{"acked":{"other":2}}`)
				if a.header.Get("Idempotent-Replayed") != "" {
					t.Errorf("an ack says that it is a replay: %s", body)
				}
			}
			w.post(ack, `{"acks":{"other":2}}`, `Idempotency-Key: ""`).wants(t, 400, problem(api.CodeInvalidRequest, "*"))
		})
	})
}

func TestLongPoll(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		w.workChats()
		w.mustChat("team", "ann", "bob")
		t.Run("there is something", func(t *testing.T) {
			w.mustSend("team", "ann", 1, 1)
			began := time.Now()
			w.get("/v1/users/bob/messages/pending?wait_ms=30000").wants(t, 200,
				`{"chats":[{"id":"team","epoch":"*","unread":1,"gap":false,"first_id":1,"items":[{"id":1,"sender":"ann","text":"m1","sent_at":"*"}]}]}`)
			if took := time.Since(began); took > 15*time.Second {
				t.Errorf("took %v", took)
			}
			w.mustAck("bob", "team", 1)
		})
		t.Run("nothing comes", func(t *testing.T) {
			began := time.Now()
			w.get("/v1/users/bob/messages/pending?wait_ms=300").wants(t, 200, `{"chats":[]}`)
			if took := time.Since(began); took < 300*time.Millisecond {
				t.Errorf("took only %v", took)
			}
		})
		t.Run("a chat can't be read", func(t *testing.T) {
			w.mustChat("broken", "ann", "eve")
			w.mustChat("whole", "ann", "eve")
			key := fmt.Sprintf("ff:{chat:%03d}:meta:broken", crc32.ChecksumIEEE([]byte("broken"))%256)
			storetest.Must(t, w.db.Client().Del(t.Context(), key).Err())
			storetest.Must(t, w.db.Client().Set(t.Context(), key, "no hash", 0).Err())
			began := time.Now()
			w.get("/v1/users/eve/messages/pending?wait_ms=300").wants(t, 200,
				`{"chats":[{"id":"broken","epoch":"","unread":0,"gap":false,"first_id":0,"items":[],"error":{"code":"*"}}]}`)
			if took := time.Since(began); took < 300*time.Millisecond {
				t.Errorf("took only %v", took)
			}
		})
		poll := func() chan answer {
			got := make(chan answer, 1)
			go func() {
				a, err := w.try(get("/v1/users/bob/messages/pending?wait_ms=30000"))
				if err != nil {
					t.Error(err)
				}
				got <- a
			}()
			storetest.Eventually(t, soon, "it waits", func() bool { return strings.Contains(w.get("/metrics").body, "\nfanfare_open_streams 1\n") })
			return got
		}
		t.Run("a message comes", func(t *testing.T) {
			got := poll()
			w.mustSend("team", "bob", 2, 2) // the user's own message is not unread
			w.mustSend("team", "ann", 3, 3)
			(<-got).wants(t, 200, `{"chats":[{"id":"team","epoch":"*","unread":1,"gap":false,"first_id":2,"items":[{"id":3,"sender":"ann","text":"m3","sent_at":"*"}]}]}`)
			w.mustAck("bob", "team", 3)
		})
		t.Run("a chat comes", func(t *testing.T) {
			got := poll()
			w.post("/v1/chats", `{"id":"late","creator":"eve","members":["bob"],"message":"hi"}`)
			(<-got).wants(t, 200, `{"chats":[{"id":"late","epoch":"*","unread":1,"gap":false,"first_id":1,"items":[{"id":1,"sender":"eve","text":"hi","sent_at":"*"}]}]}`)
		})
	})
}

// C14: as long as the event type of pushes is not registered, a message leaves nothing that would
// have to be swept.
func TestC14_NothingIsDueWithoutItsType(t *testing.T) {
	t.Parallel()
	for name, registered := range map[string]bool{"Registered": true, "Unknown": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setupOn(t, storetest.Open(t, storetest.Redis(t).URL()))
			if registered {
				w.put("/v1/event-types/chat.message", `{"title":"{{.actor}}","body":"{{.data.text}}"}`)
			}
			w.mustChat("team", "ann", "bob")
			w.mustSend("team", "ann", 1, 2)
			due, err := w.chats.DuePushes(t.Context(), 0, 10)
			if err != nil || len(due) > 0 != registered {
				t.Errorf("pushes are due in %v, %v", due, err)
			}
		})
	}
}
