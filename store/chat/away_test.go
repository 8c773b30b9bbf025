package chat

import (
	"fmt"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// One master of a Cluster hangs: a chat on it is reported as such and the others
// are there; a sender whose index is on it sends all the same.
func TestC4_OneMasterAway(t *testing.T) {
	t.Parallel()
	cluster := storetest.PrivateCluster(t, 0, "--cluster-require-full-coverage", "no")
	w := newWorld(t, storetest.Open(t, cluster.URL()), Options{})
	w.prefix = "" // where names go must be known
	reader, away := "reader", cluster.MasterOf(t, indexKey("sender"))
	for n := 0; cluster.MasterOf(t, indexKey(reader)) == away; n++ {
		reader = fmt.Sprint("reader", n)
	}
	there, gone := "", ""
	for n := 0; there == "" || gone == ""; n++ {
		name := fmt.Sprint("chat", n)
		if cluster.MasterOf(t, metaKey(name)) == away {
			gone = name
		} else {
			there = name
		}
	}
	for _, chat := range []string{there, gone} {
		w.mustCreate(chat, "sender", reader)
		w.mustSend(chat, "sender", "hi")
	}
	w.pending(reader, 0) // every master knows the scripts by now
	away.Pause()
	defer away.Resume()
	begun := time.Now()
	w.mustSend(there, "sender", "ho")
	if took := time.Since(begun); took > time.Second {
		t.Errorf("a message waited %v for a master that it does not need", took)
	}
	items, _, err := w.UserChats(t.Context(), reader, "", 0)
	storetest.Must(t, err)
	if n, err := w.UnreadChats(t.Context(), reader); api.CodeOf(err) != api.CodeUnavailable {
		t.Errorf("B1: the number of unread chats is %d, %v", n, err)
	}
	for _, c := range items {
		if (c.Error != nil) != (c.ID == gone) || c.ID == there && c.LastID != 2 || len(items) != 2 {
			t.Errorf("one of %d chats: %+v", len(items), c)
		}
	}
	p, err := w.Pending(t.Context(), reader, 0)
	storetest.Must(t, err)
	if len(p.Chats) != 2 {
		t.Fatalf("pending: %+v", p.Chats)
	}
	for _, c := range p.Chats {
		if c.ID == gone && (c.Error == nil || c.Error.Code != api.CodeUnavailable) {
			t.Errorf("a chat that is away: %+v", c)
		}
		if c.ID == there && (c.Error != nil || len(c.Items) != 2) {
			t.Errorf("a chat that is there: %+v", c)
		}
	}
}
