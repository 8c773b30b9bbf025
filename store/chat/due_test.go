package chat

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

func (w *world) mustPush(chat, sender, text string) int64 {
	w.t.Helper()
	sent, _, err := w.Send(w.ctx(), Outgoing{Chat: w.id(chat), Sender: w.id(sender), Text: text, Push: true})
	storetest.Must(w.t, err)
	return sent.ID
}

// due lists the world's chats with pushes due.
func (w *world) due() string {
	w.t.Helper()
	chats, err := w.DuePushes(w.ctx(), 0, 100)
	storetest.Must(w.t, err)
	var own []string
	for _, chat := range chats {
		if name, ok := strings.CutPrefix(chat, w.prefix); ok {
			own = append(own, name)
		}
	}
	slices.Sort(own)
	return strings.Join(own, " ")
}

func (w *world) wantDue(want string) {
	w.t.Helper()
	if got := w.due(); got != want {
		w.t.Fatalf("due in %q, want %q", got, want)
	}
}

// mustBatch reads what is due in a chat, written as "1:hi 2:ho", with "..." when
// there is more.
func (w *world) mustBatch(chat string, limit int, want string) PushBatch {
	w.t.Helper()
	b, err := w.PushMessages(w.ctx(), w.id(chat), limit)
	storetest.Must(w.t, err)
	got := showItems(b.Messages)
	if b.More {
		got = append(got, "...")
	}
	if strings.Join(got, " ") != want {
		w.t.Fatalf("due in %s is %q up to %d, want %q", chat, strings.Join(got, " "), b.UpTo, want)
	}
	return b
}

// The step that sends a message marks it as due; what a crash left is found.
func TestC14_SendMarksWhatIsDue(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("a", "alice", "bob")
		w.mustCreate("b", "alice", "bob")
		w.mustSend("a", "alice", "not to be pushed")
		w.wantDue("")
		w.mustBatch("a", 10, "")
		for i := range 5 {
			w.mustPush("a", "alice", fmt.Sprint("t", i+2))
		}
		w.wantDue("a")
		hi := "hi"
		_, _, err := w.Create(t.Context(), &api.ChatRequest{ID: w.id("c"), Creator: w.id("alice"), Members: w.ids("bob"), Message: &hi}, api.Idempotency{}, true)
		storetest.Must(t, err)
		w.wantDue("a c")
		w.mustBatch("c", 10, "1:hi")

		b := w.mustBatch("a", 2, "2:t2 3:t3 ...")
		storetest.Must(t, w.PushDone(t.Context(), w.id("a"), b.Epoch, b.UpTo))
		storetest.Must(t, w.PushDone(t.Context(), w.id("a"), b.Epoch, 2)) // never back
		storetest.Must(t, w.PushDone(t.Context(), w.id("a"), "another", 6))
		w.wantDue("a c")
		b = w.mustBatch("a", 10, "4:t4 5:t5 6:t6")
		w.mustPush("a", "alice", "t7") // while the batch is under way
		storetest.Must(t, w.PushDone(t.Context(), w.id("a"), b.Epoch, b.UpTo))
		b = w.mustBatch("a", 10, "7:t7")
		for range 2 {
			storetest.Must(t, w.PushDone(t.Context(), w.id("a"), b.Epoch, b.UpTo))
			w.wantDue("c")
			w.mustBatch("a", 10, "")
		}
		w.mustSend("a", "alice", "not to be pushed")
		w.mustPush("a", "alice", "t9")
		w.mustBatch("a", 10, "9:t9")
		for _, user := range []string{"alice", "bob"} {
			w.mustLeave("a", user)
			w.mustLeave("c", user)
		}
		w.wantDue("")
	})
}

// What is due is not lost by trimming, unless every member has seen it.
func TestC14_DuePushesOutliveTrimming(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{MaxMessages: 3}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob")
		var want []string
		for i := range 8 {
			want = append(want, fmt.Sprintf("%d:t", w.mustPush("c", "alice", "t")))
			if i == 3 {
				b := w.mustBatch("c", 2, "1:t 2:t ...")
				storetest.Must(t, w.PushDone(t.Context(), w.id("c"), b.Epoch, b.UpTo))
			}
		}
		w.wantRead("c", "bob", MessagesQuery{}, "6:t 7:t 8:t first=6 last=8")
		w.mustBatch("c", 10, strings.Join(want[2:], " "))
		w.mustAck("c", "bob", 7)
		w.mustBatch("c", 10, "8:t")
		w.mustAck("c", "bob", 8)
		b := w.mustBatch("c", 10, "")
		storetest.Must(t, w.PushDone(t.Context(), w.id("c"), b.Epoch, b.UpTo))
		w.wantDue("")
	})
}

// A log whose pushes nobody sends has an end all the same.
func TestC14_DuePushesAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, storetest.Redis(t).URL()), Options{MaxMessages: 10})
	w.mustCreate("c", "alice", "bob")
	var g errgroup.Group
	g.SetLimit(64)
	for range 1500 {
		g.Go(func() error { w.mustPush("c", "alice", "t"); return nil })
	}
	storetest.Must(t, g.Wait())
	if n := w.db.Client().LLen(t.Context(), logKey(w.id("c"))).Val(); n > 2*10+1000+1 {
		t.Errorf("the log has %d messages", n)
	}
	b, err := w.PushMessages(t.Context(), w.id("c"), 1)
	storetest.Must(t, err)
	if len(b.Messages) != 1 || !b.More {
		t.Errorf("due: %+v", b)
	}
}

func TestC14_PushScriptsMayRunTwice(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w = w.another(twice)
		w.mustCreate("c", "alice", "bob")
		w.mustPush("c", "alice", "t1")
		w.mustPush("c", "alice", "t2")
		w.wantDue("c")
		b := w.mustBatch("c", 1, "1:t1 ...")
		storetest.Must(t, w.PushDone(t.Context(), w.id("c"), b.Epoch, b.UpTo))
		b = w.mustBatch("c", 1, "2:t2")
		storetest.Must(t, w.PushDone(t.Context(), w.id("c"), b.Epoch, b.UpTo))
		w.wantDue("")
	})
}

// What is published is the whole message, and only once; who comes and goes is
// published on the channel of the user.
func TestC13_WhatIsPublished(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		heard := redisdb.Subscribe(t.Context(), w.db.Blocking())
		defer heard.Close()
		said := heard.Subscribe
		if w.db.Cluster() {
			said = heard.SSubscribe
		}
		storetest.Must(t, said(t.Context(), w.MessageChannel(w.id("c"))))
		storetest.Must(t, heard.Subscribe(t.Context(), MembershipChannel(w.id("bob"))))
		for range 2 {
			_, err := heard.Receive(t.Context())
			storetest.Must(t, err)
		}
		epoch := w.mustCreate("c", "alice").Epoch
		w.mustJoin("c", "bob", false)
		w.mustJoin("c", "bob", false)
		w.wantSent("c", "alice", "a text\nof two lines", "k", 1, false)
		w.wantSent("c", "alice", "a text\nof two lines", "k", 1, true)
		w.mustLeave("c", "bob")
		w.mustLeave("c", "bob")
		w.mustSend("c", "alice", "the end")
		var got []string
		for len(got) == 0 || got[len(got)-1] != "the end" {
			m, err := heard.ReceiveMessage(t.Context())
			storetest.Must(t, err)
			if m.Channel == MembershipChannel(w.id("bob")) {
				got = append(got, strings.ReplaceAll(m.Payload, w.prefix, ""))
				continue
			}
			if signal, is, err := DecodeSignal(m.Payload); is {
				storetest.Must(t, err)
				if !signal.Left {
					t.Errorf("published %q", m.Payload)
				}
				got = append(got, "~"+strings.TrimPrefix(signal.User, w.prefix))
				continue
			}
			of, message, err := DecodePublished(m.Payload)
			storetest.Must(t, err)
			if of != epoch || message.Sender != w.id("alice") || w.serverTime().Sub(message.SentAt.Time) > testPatience {
				t.Errorf("published %+v of %q", message, of)
			}
			got = append(got, message.Text)
		}
		if want := []string{"+c", "a text\nof two lines", "-c", "~bob", "the end"}; !slices.Equal(got, want) {
			t.Errorf("published %q, want %q", got, want)
		}
	})
}
