package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// outboxOf reads what was left about a chat: "1 alice", "2 bob".
func (w *world) outboxOf(chat string) (left []string) {
	w.t.Helper()
	_, key := FactOutbox(bucketOf(w.id(chat)))
	entries, err := w.db.Client().XRange(w.ctx(), key, "-", "+").Result()
	storetest.Must(w.t, err)
	for _, e := range entries {
		if e.Values["k"] != w.id(chat) {
			continue
		}
		var d struct {
			Chat, Sender string
			ID           int64
		}
		storetest.Must(w.t, json.Unmarshal([]byte(e.Values["d"].(string)), &d))
		if e.Values["t"] != api.FactChatMessage || d.Chat != w.id(chat) {
			w.t.Errorf("the entry is %v", e.Values)
		}
		left = append(left, fmt.Sprint(d.ID, " ", d.Sender[len(w.prefix):], " ", e.Values["a"]))
	}
	return left
}

// sentTo reads the log of a chat in the same form.
func (w *world) sentTo(chat, user string) (sent []string) {
	w.t.Helper()
	for _, m := range w.mustRead(chat, user, MessagesQuery{Limit: 500}).Items {
		sent = append(sent, fmt.Sprint(m.ID, " ", m.Sender[len(w.prefix):], " ", m.SentAt.UnixMilli()))
	}
	return sent
}

// H1, H2: the step that stores a message leaves the fact of it, once, also if it runs twice, in crowds of several chats, and for the
// message with which a chat is made. A chat that is gone leaves the facts that were told before.
func TestH1_MessagesLeaveFacts(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	woken := map[int]bool{}
	o := Options{Tells: func(typ string) bool { return typ == api.FactChatMessage }, Left: func(bucket int) {
		mu.Lock()
		defer mu.Unlock()
		woken[bucket] = true
	}}
	eachWorld(t, o, func(t *testing.T, w *world) {
		again := w.another(twice)
		hello := "hello"
		r := &api.ChatRequest{ID: w.id("made"), Creator: w.id("alice"), Members: w.ids("bob"), Message: &hello}
		for range 2 {
			_, _, err := again.Create(w.ctx(), r, keyed(w.id("k"), "x"), false)
			storetest.Must(t, err)
		}
		w.mustCreate("c", "alice", "bob")
		w.mustCreate("d", "alice", "bob")
		storetest.AtOnce(t, 40, func(ctx context.Context, n int) error {
			m := Outgoing{Chat: w.id([]string{"c", "d", "made"}[n%3]), Sender: w.id([]string{"alice", "bob"}[n%2]), Text: fmt.Sprint(n)}
			if n%4 == 0 {
				m.Once = keyed(w.id(fmt.Sprint("once", n)), "x")
			}
			s := []*world{w, again}[n/2%2]
			for range 2 - n%4/2 { // some are sent twice
				if _, _, err := s.Send(ctx, m); err != nil {
					return err
				}
			}
			return nil
		})
		if _, _, err := w.send("c", "stranger", "x"); err == nil {
			t.Error("a stranger sent a message")
		}
		for _, chat := range []string{"c", "d", "made"} {
			left, sent := w.outboxOf(chat), w.sentTo(chat, "alice")
			if len(sent) < 13 || !slices.Equal(left, sent) {
				t.Errorf("%s: left %q, sent %q", chat, left, sent)
			}
			mu.Lock()
			if !woken[bucketOf(w.id(chat))] {
				t.Errorf("the relay does not hear of %s", chat)
			}
			mu.Unlock()
			w.mustLeave(chat, "alice")
			w.mustLeave(chat, "bob")
			if after := w.outboxOf(chat); !slices.Equal(after, left) {
				t.Errorf("%s is gone, and left %q", chat, after)
			}
		}
	})
}

// While nobody wants to hear of messages, nothing is left.
func TestH1_NoFactOfMessagesWithoutAReader(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := newWorld(t, db, Options{Tells: func(typ string) bool { return typ != api.FactChatMessage }, Left: func(int) { t.Error("the relay was called") }})
		hello := "hello"
		_, _, err := w.Create(w.ctx(), &api.ChatRequest{ID: w.id("c"), Creator: w.id("alice"), Message: &hello}, api.Idempotency{}, false)
		storetest.Must(t, err)
		w.mustSend("c", "alice", "hi")
		if left := w.outboxOf("c"); left != nil {
			t.Errorf("left %q", left)
		}
	})
}
