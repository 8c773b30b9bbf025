package chat

import (
	"maps"
	"testing"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// C16: pages, pending messages, what is published and what is due for a push have the data as it was
// sent.
func TestC16_DataIsKept(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("c", "ann", "bob")
		published := redisdb.Subscribe(t.Context(), w.db.Blocking())
		defer published.Close()
		subscribe := published.Subscribe
		if w.db.Cluster() {
			subscribe = published.SSubscribe
		}
		storetest.Must(t, subscribe(t.Context(), w.MessageChannel(w.id("c"))))
		_, err := published.Receive(t.Context()) // the confirmation
		storetest.Must(t, err)
		for i, data := range []map[string]string{
			{"picture": "p1"}, nil, {"": "", " a\n": "\x00\u2028</script>&\"'\\ \U0001f600 e\u0301", "{}": "\x7f"}, {},
		} {
			text := "a  b \n{}\x00"
			sent, _, err := w.Send(w.ctx(), Outgoing{Chat: w.id("c"), Sender: w.id("ann"), Text: text, Data: data, Push: true})
			storetest.Must(t, err)
			has := func(where string, m api.ChatMessage) {
				t.Helper()
				if m.ID != sent.ID || m.Sender != w.id("ann") || m.Text != text || !maps.Equal(m.Data, data) {
					t.Errorf("message %d with %q has %+v %s", i, data, m, where)
				}
			}
			page := w.mustRead("c", "bob", MessagesQuery{After: new(sent.ID - 1)})
			has("on a page", page.Items[0])
			pending, err := w.Pending(w.ctx(), w.id("bob"), 0)
			storetest.Must(t, err)
			has("among the pending ones", pending.Chats[0].Items[i])
			due, err := w.PushMessages(w.ctx(), w.id("c"), 100)
			storetest.Must(t, err)
			has("due for a push", due.Messages[i])
			heard, err := published.ReceiveMessage(t.Context())
			storetest.Must(t, err)
			_, m, err := DecodePublished(heard.Payload)
			storetest.Must(t, err)
			has("as published", m)
		}
	})
}

// C16: the push of a message has its text and not its data.
func TestC16_PushesHaveNoData(t *testing.T) {
	t.Parallel()
	event := pushEvent("c", "e", &api.ChatMessage{ID: 7, Sender: "ann", Text: "hi", Data: map[string]string{"picture": "p1", "text": "other"}})
	if want := map[string]string{"chat": "c", "message_id": "7", "text": "hi"}; !maps.Equal(event.Event.Data, want) {
		t.Errorf("the push has %v, want %v", event.Event.Data, want)
	}
}

// An earlier process writes a text alone, whatever it contains, and takes text and data for a text.
func TestC16_EntriesOfEarlierProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, storetest.Redis(t).URL()), Options{})
	w.mustCreate("c", "ann", "bob")
	w.mustSend("c", "ann", "hi")
	log := bucketTag(bucketOf(w.id("c"))) + "log:" + w.id("c")
	kept := redis.NewStringCmd(t.Context(), "lindex", log, 0)
	storetest.Must(t, w.db.Share(t.Context(), redisdb.Read, kept))
	text := `{"a":"b"} ` + "\u00ff"
	entry := kept.Val()[:len(kept.Val())-len("hi")] + text
	storetest.Must(t, w.db.Share(t.Context(), redisdb.Write, redis.NewStatusCmd(t.Context(), "lset", log, 0, entry)))
	if m := w.mustRead("c", "bob", MessagesQuery{}).Items[0]; m.Text != text || m.Data != nil {
		t.Errorf("%q was read as %+v", entry, m)
	}
	_, _, err := w.Send(w.ctx(), Outgoing{Chat: w.id("c"), Sender: w.id("ann"), Text: "hi", Data: map[string]string{"a": "b"}})
	storetest.Must(t, err)
	kept = redis.NewStringCmd(t.Context(), "lindex", log, 1)
	storetest.Must(t, w.db.Share(t.Context(), redisdb.Read, kept))
	if want := "hi\xff" + `{"a":"b"}`; kept.Val()[len(kept.Val())-len(want):] != want {
		t.Errorf("%q does not end in %q", kept.Val(), want)
	}
}
