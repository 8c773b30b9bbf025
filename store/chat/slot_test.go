package chat

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"fanfare/api"
	"fanfare/store/storetest"
)

// C8, C13: while the keys of a chat move to another master, in whatever order, calls are refused
// with 503, and nothing is hidden, half done or lost.
func TestC8_ASlotThatMovesHidesNothing(t *testing.T) {
	t.Parallel()
	cluster := storetest.PrivateCluster(t, 0)
	w := newWorld(t, storetest.Open(t, cluster.URL()), Options{})
	for n, last := range []string{"meta:", "due", "log:", "members:", "joins:", "own:"} {
		chat := fmt.Sprint("c", n)
		w.mustCreate(chat, "ann", "bob", "cat")
		for i := range 5 {
			w.mustPush(chat, "ann", fmt.Sprint("m", i+1))
		}
		w.mustAck(chat, "bob", 1)
		w.mustPush(chat, "bob", "own")
		whole := w.mustCalls(chat)
		m := storetest.BeginMove(t, cluster, metaKey(w.id(chat)))
		// The kind of key in question moves last, after meta and due: that is the order in which
		// a script would find the chat without it.
		early := slices.DeleteFunc(m.Rest(), func(key string) bool { return kindOfKey(key) == last })
		m.Move(early...)
		w.mustBeRefused(chat)
		m.Finish()
		storetest.Eventually(t, testPatience, "the chat to be there", func() bool { _, err := w.read(chat, "cat", MessagesQuery{}); return err == nil })
		if after := w.mustCalls(chat); after != whole {
			t.Errorf("%s moved last: the chat was %s, and is %s", last, whole, after)
		}
		if _, err := w.ack(chat, "cat", 6); err != nil {
			t.Error(err)
		}
	}
}

// kindOfKey is the beginning of a key's name behind the tag, up to a colon.
func kindOfKey(key string) string {
	_, name, _ := strings.Cut(key, "}:")
	kind, _, found := strings.Cut(name, ":")
	if found {
		kind += ":"
	}
	return kind
}

// mustCalls reads what the members see and what is due.
func (w *world) mustCalls(chat string) string {
	w.t.Helper()
	out := ""
	for _, user := range []string{"ann", "bob", "cat"} {
		m, err := w.read(chat, user, MessagesQuery{After: after(0)})
		storetest.Must(w.t, err)
		p, err := w.Pending(w.ctx(), w.id(user), 0)
		storetest.Must(w.t, err)
		unread := int64(0)
		for _, c := range p.Chats {
			if c.ID == w.id(chat) {
				unread = c.Unread
			}
		}
		out += fmt.Sprintf("%s: %s, %d unread; ", user, show(m), unread)
	}
	b, err := w.PushMessages(w.ctx(), w.id(chat), 100)
	storetest.Must(w.t, err)
	return out + fmt.Sprint(showItems(b.Messages), b.UpTo)
}

// mustBeRefused makes every call that would change the chat or say something about it.
func (w *world) mustBeRefused(chat string) {
	w.t.Helper()
	id := w.id(chat)
	var all sync.WaitGroup
	defer all.Wait()
	for name, call := range map[string]func() error{
		"ack":       func() error { _, err := w.ack(chat, "bob", 2); return err },
		"read":      func() error { _, err := w.read(chat, "bob", MessagesQuery{}); return err },
		"send":      func() error { _, _, err := w.send(chat, "bob", "x"); return err },
		"join":      func() error { _, _, err := w.Join(w.ctx(), id, w.id("cat"), false); return err },
		"leave":     func() error { return w.Leave(w.ctx(), id, w.id("bob")) },
		"redact":    func() error { _, err := w.Redact(w.ctx(), id, Redaction{From: 1, To: 1}); return err },
		"due":       func() error { _, err := w.PushMessages(w.ctx(), id, 10); return err },
		"push done": func() error { return w.PushDone(w.ctx(), id, "any", 1) },
		"chat":      func() error { _, err := w.Chat(w.ctx(), id, w.id("bob")); return err },
		"erase":     func() error { _, err := w.EraseMessages(w.ctx(), id, w.id("ann"), w.serverTime()); return err },
	} {
		all.Go(func() {
			if err := call(); api.CodeOf(err) != api.CodeUnavailable {
				w.t.Errorf("%s while %s moves: %v", name, chat, err)
			}
		})
	}
}
