package app

import (
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/badges"
	"fanfare/store/chat"
	"fanfare/store/storetest"
)

// B1, B2: an event waits for chats that cannot be read, and after 30 s it shows the number of the others, at least 1.
func TestB2_UnreadChatsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Redis(t).URL())
	a, hi := &app{chats: chat.New(db, chat.Options{})}, "hi"
	create := func(id string) {
		t.Helper()
		_, _, err := a.chats.Create(t.Context(), &api.ChatRequest{ID: id, Creator: "amy", Members: []string{"bob"}, Message: &hi}, api.Idempotency{}, false)
		storetest.Must(t, err)
	}
	for _, id := range []string{"red", "green", "blue"} {
		create(id)
	}
	wants := func(age time.Duration, want int64, fails bool) {
		t.Helper()
		got := a.numbers(t.Context(), []badges.Ask{{User: "bob", Mode: api.BadgeUnread, Age: age}})[0]
		if got.Count != want && !fails || (got.Err != nil) != fails {
			t.Errorf("after %v the number is %d, %v", age, got.Count, got.Err)
		}
	}
	wants(0, 3, false)
	spoil := func(chat string) {
		t.Helper()
		keys, err := db.Client().Keys(t.Context(), "*"+chat+"*").Result()
		storetest.Must(t, err)
		if len(keys) == 0 {
			t.Fatalf("no keys of %s", chat)
		}
		for _, key := range keys {
			storetest.Must(t, db.Client().Set(t.Context(), key, "x", 0).Err())
		}
	}
	spoil("red")
	wants(0, 0, true)
	wants(25*time.Second, 0, true)
	wants(35*time.Second, 2, false)
	spoil("green")
	spoil("blue")
	wants(0, 0, true)
	wants(time.Minute, 1, false)
}
