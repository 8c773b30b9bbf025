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

// mover moves the slot of a chat to another master, some keys at a time.
type mover struct {
	t        *testing.T
	cluster  *storetest.RedisCluster
	from, to *storetest.RedisServer
	slot     any
	toID     any
}

// mustBeginMove begins to move the slot of a key.
func mustBeginMove(t *testing.T, cluster *storetest.RedisCluster, key string) *mover {
	t.Helper()
	m := &mover{t: t, cluster: cluster, from: cluster.MasterOf(t, key), to: cluster.Nodes[0]}
	if m.to == m.from {
		m.to = cluster.Nodes[1]
	}
	m.slot, m.toID = m.do(m.from, "cluster", "keyslot", key), m.do(m.to, "cluster", "myid")
	m.do(m.to, "cluster", "setslot", m.slot, "importing", m.do(m.from, "cluster", "myid"))
	m.do(m.from, "cluster", "setslot", m.slot, "migrating", m.toID)
	return m
}

func (m *mover) do(node *storetest.RedisServer, args ...any) any {
	m.t.Helper()
	got, err := node.Client().Do(m.t.Context(), args...).Result()
	storetest.Must(m.t, err)
	return got
}

func (m *mover) move(keys ...string) {
	m.t.Helper()
	for _, key := range keys {
		m.do(m.from, "migrate", "127.0.0.1", m.to.Port(), key, 0, 5000)
	}
}

// rest lists the keys that have not moved.
func (m *mover) rest() (keys []string) {
	for _, key := range m.do(m.from, "cluster", "getkeysinslot", m.slot, 1000).([]any) {
		keys = append(keys, key.(string))
	}
	return keys
}

func (m *mover) finish() {
	m.t.Helper()
	m.move(m.rest()...)
	for _, node := range append([]*storetest.RedisServer{m.to, m.from}, m.cluster.Nodes...) {
		m.do(node, "cluster", "setslot", m.slot, "node", m.toID)
	}
}

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
		m := mustBeginMove(t, cluster, metaKey(w.id(chat)))
		// The kind of key in question moves last, after meta and due: that is the order in which
		// a script would find the chat without it.
		early := slices.DeleteFunc(m.rest(), func(key string) bool { return kindOfKey(key) == last })
		m.move(early...)
		w.mustBeRefused(chat)
		m.finish()
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
