package chat

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"fanfare/api"
	"fanfare/store/storetest"
)

const metaBytes = 9 // a place in a chat's meta, as part_chat.lua has it

// wantBytes checks how many bytes of texts and data a chat has, both in its log and by its meta.
func (w *world) wantBytes(chat string, want int) {
	w.t.Helper()
	c, name, bytes := w.db.Client(), w.id(chat), 0
	for _, entry := range c.LRange(w.ctx(), logKey(name), 0, -1).Val() {
		bytes += len(strings.SplitN(entry, " ", 3)[2])
	}
	if counted := strings.Fields(c.Get(w.ctx(), metaKey(name)).Val())[metaBytes]; bytes != want || counted != strconv.Itoa(want) {
		w.t.Fatalf("the log of %s has %d bytes, and the meta says %s, want %d", chat, bytes, counted, want)
	}
}

// mustFill sends n messages of 100 bytes.
func (w *world) mustFill(chat, sender string, n int) {
	w.t.Helper()
	for range n {
		w.mustSend(chat, sender, strings.Repeat("t", 100))
	}
}

// C8: the oldest messages leave when a chat has too many bytes of texts and data. Readers are told of
// the gap, and what is unread is counted without them.
func TestC8_AChatKeepsBytes(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{MaxBytes: 1000}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob", "silent")
		w.mustFill("c", "alice", 6)
		w.mustFill("c", "bob", 4)
		w.wantChats("bob", "c:6/10@0")
		w.wantBytes("c", 1000)
		_, _, err := w.Send(w.ctx(), Outgoing{Chat: w.id("c"), Sender: w.id("bob"), Text: strings.Repeat("ü", 50), Data: map[string]string{"k": "v"}})
		storetest.Must(t, err)
		w.wantBytes("c", 910) // the data has nine bytes, and one is before it
		w.mustFill("c", "alice", 5)
		w.wantBytes("c", 910)
		if m := w.mustRead("c", "silent", MessagesQuery{After: after(6)}); !m.Gap || m.FirstID != 8 || m.LastID != 16 || len(m.Items) != 9 {
			t.Errorf("read %s", show(m))
		}
		if m := w.mustRead("c", "silent", MessagesQuery{After: after(7)}); m.Gap {
			t.Errorf("a false gap: %s", show(m))
		}
		if p, err := w.Pending(t.Context(), w.id("silent"), 0); err != nil || !p.Chats[0].Gap || p.Chats[0].Unread != 9 || p.Chats[0].FirstID != 8 {
			t.Errorf("pending %+v, %v", p, err)
		}
		w.wantChats("bob", "c:5/16@0") // four of his own are left
		if n := w.db.Client().ZCard(t.Context(), ownKey(w.id("c"), w.id("bob"))).Val(); n != 4 {
			t.Errorf("%d own ids of bob are kept", n)
		}
		w.mustJoin("c", "late", true)
		w.wantMembers("c", "alice@6 bob@0 late@7 silent@0")
		w.mustSend("c", "alice", strings.Repeat("t", 4000)) // the last message stays, however long
		w.wantBytes("c", 4000)
		w.wantChats("silent", "c:1/17@0")
	})
}

// C8: after the bound was lowered, at most 100 messages leave for each one that comes, and no others.
func TestC8_ALoweredBoundOfBytes(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob", "silent")
		w.mustFill("c", "alice", 250)
		w.o.MaxBytes = 1000
		w.wantRead("c", "bob", MessagesQuery{After: after(250)}, "first=1 last=250")
		w.mustAck("c", "bob", 20)
		w.mustLeave("c", "bob")
		w.wantLog("c", 250)
		for i, left := range []int64{151, 52, 10, 10} {
			w.mustFill("c", "alice", 1)
			w.wantLog("c", left)
			w.wantBytes("c", int(left)*100)
			w.wantRead("c", "silent", MessagesQuery{After: after(int64(251 + i))}, fmt.Sprintf("first=%d last=%d", 252+int64(i)-left, 251+i))
		}
	})
}

// C8: messages that all have acknowledged, that were redacted or erased, that are too old or too many,
// and a log that has ended take no bytes.
func TestC8_WhatIsGoneHasNoBytes(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{MaxMessages: 300, MaxBytes: 100_000}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob")
		w.mustFill("c", "alice", 250)
		w.mustAck("c", "bob", 210) // more than are removed in one piece
		w.wantBytes("c", 4000)
		for range 2 {
			w.mustRedact("c", Redaction{From: 211, To: 212})
			w.wantBytes("c", 3800)
		}
		w.mustFill("c", "bob", 1)
		until := w.serverTime()
		storetest.Eventually(t, testPatience, "a later moment", func() bool { return w.serverTime().Sub(until) > 2*time.Millisecond })
		_, err := w.EraseMessages(t.Context(), w.id("c"), w.id("bob"), w.serverTime())
		storetest.Must(t, err)
		w.wantBytes("c", 3800)
		w.mustFill("c", "bob", 260) // one more than there is room for
		w.wantBytes("c", 29_800)    // of the 300 one is redacted and one erased
		w.wantLog("c", 300)
		w.mustLeave("c", "bob")
		w.mustAck("c", "alice", 511)
		w.wantBytes("c", 0)
		w.mustJoin("c", "bob", false)
		w.mustFill("c", "alice", 3)
		storetest.Must(t, w.db.Client().Del(t.Context(), logKey(w.id("c"))).Err()) // as when it expires
		w.mustFill("c", "alice", 2)
		w.wantBytes("c", 200)
	})
}

// C8: redacted messages leave room for others, and go later like any others.
func TestC8_RedactedMessagesLeaveRoom(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{MaxBytes: 1000}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob")
		w.mustFill("c", "alice", 12)
		if done := w.mustRedact("c", Redaction{From: 1, To: 7}); done.Visible != 5 { // two have left
			t.Errorf("%+v", done)
		}
		w.wantBytes("c", 500)
		w.mustFill("c", "alice", 5)
		w.wantRead("c", "bob", MessagesQuery{After: after(17)}, "first=3 last=17")
		w.mustFill("c", "alice", 1)
		w.wantRead("c", "bob", MessagesQuery{After: after(18)}, "first=9 last=18")
		w.wantBytes("c", 1000)
	})
}

// C8: the bytes are counted again if a meta does not have them.
func TestC8_BytesAreCountedAgain(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob")
		w.mustFill("c", "alice", 120)
		meta := strings.Fields(w.db.Client().Get(t.Context(), metaKey(w.id("c"))).Val())
		storetest.Must(t, w.db.Client().Set(t.Context(), metaKey(w.id("c")), strings.Join(meta[:metaBytes], " "), 0).Err())
		w.o.MaxBytes = 3000
		w.wantRead("c", "bob", MessagesQuery{After: after(120)}, "first=1 last=120")
		w.mustFill("c", "alice", 1)
		w.wantBytes("c", 3000)
	})
}

// C8, C14: messages that have to be pushed stay until they are, unless the log has twice the bytes.
func TestC8_DuePushesOutliveTheBytes(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{MaxBytes: 1000}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob")
		w.mustFill("c", "alice", 3)
		text := strings.Repeat("p", 100)
		for range 15 {
			w.mustPush("c", "alice", text)
		}
		w.wantLog("c", 15) // the first three were not due
		b, err := w.PushMessages(t.Context(), w.id("c"), 4)
		storetest.Must(t, err)
		if len(b.Messages) != 4 || b.Messages[0].ID != 4 {
			t.Errorf("due: %+v", b)
		}
		storetest.Must(t, w.PushDone(t.Context(), w.id("c"), b.Epoch, b.UpTo))
		w.wantBytes("c", 1100)
		for range 30 {
			w.mustPush("c", "alice", text)
		}
		w.wantBytes("c", 2000)
		b, err = w.PushMessages(t.Context(), w.id("c"), 100)
		storetest.Must(t, err)
		if len(b.Messages) != 20 || b.Messages[0].ID != 29 {
			t.Errorf("due: %d from %d", len(b.Messages), b.Messages[0].ID)
		}
		storetest.Must(t, w.PushDone(t.Context(), w.id("c"), b.Epoch, b.UpTo))
		w.wantBytes("c", 1000)
		w.wantDue("")
	})
}

// C8: a crowd of senders makes as many messages leave as they would one after the other.
func TestC8_ACrowdKeepsTheBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, storetest.Redis(t).URL()), Options{MaxBytes: 10_000})
	for _, chat := range []string{"a", "b"} {
		w.mustCreate(chat, "alice", "bob")
	}
	var g errgroup.Group
	for i := range 32 {
		g.Go(func() error {
			for n := range 40 {
				text, chat := strings.Repeat("t", 100*(1+n%3)), []string{"a", "b"}[i%2]
				if _, _, err := w.Send(w.ctx(), Outgoing{Chat: w.id(chat), Sender: w.id("alice"), Text: text}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	storetest.Must(t, g.Wait())
	for _, chat := range []string{"a", "b"} {
		bytes := 0
		for _, m := range w.mustRead(chat, "bob", MessagesQuery{Limit: api.MaxPageSize}).Items {
			bytes += len(m.Text)
		}
		if w.wantBytes(chat, bytes); bytes > 10_000 || bytes <= 9700 {
			t.Errorf("%s keeps %d bytes", chat, bytes)
		}
	}
}
