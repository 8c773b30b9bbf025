package chat

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// showRedacted writes messages as showItems does, with "(gone)" after the id of a redacted one.
func showRedacted(items []api.ChatMessage) string {
	var out []string
	for _, m := range items {
		gone := ""
		if m.Redacted {
			gone = "(gone)"
		}
		out = append(out, fmt.Sprintf("%d%s:%s%v", m.ID, gone, m.Text, len(m.Data)))
	}
	return strings.Join(out, " ")
}

func (w *world) mustRedact(chat string, r Redaction) *Redacted {
	w.t.Helper()
	done, err := w.Redact(w.ctx(), w.id(chat), r)
	storetest.Must(w.t, err)
	return done
}

// C17: text and data are gone from Redis, everything else stays, and doing it again changes nothing.
func TestC17_TextAndDataAreGone(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("c", "ann", "bob")
		secret := w.id("secret")
		once := keyed(w.id("k"), secret)
		var sent []*api.ChatMessageSent
		for _, text := range []string{"one", secret, "three"} {
			m := Outgoing{Chat: w.id("c"), Sender: w.id("ann"), Text: text, Data: map[string]string{"of": text}, Push: true}
			if text == secret {
				m.Once = once
			}
			one, _, err := w.Send(w.ctx(), m)
			storetest.Must(t, err)
			sent = append(sent, one)
		}
		if found := storetest.KeysWith(t, w.db, secret); !slices.Contains(found, logKey(w.id("c"))) || len(found) != 1 {
			t.Fatalf("the text is in %v", found)
		}
		for range 2 {
			done := w.mustRedact("c", Redaction{From: 2, To: 2})
			if done.Visible != 1 || done.Others != 0 || len(done.Pushes) != 1 {
				t.Errorf("redacted: %+v", done)
			}
		}
		if found := storetest.KeysWith(t, w.db, secret); len(found) > 0 {
			t.Errorf("the text is still in %v", found)
		}
		if got := showRedacted(w.mustRead("c", "bob", MessagesQuery{}).Items); got != "1:one1 2(gone):0 3:three1" {
			t.Errorf("bob reads %s", got)
		}
		if m := w.mustRead("c", "bob", MessagesQuery{}).Items[1]; m.Sender != w.id("ann") || !m.SentAt.Equal(sent[1].SentAt.Time) {
			t.Errorf("message 2 is %+v, it was sent as %+v", m, sent[1])
		}
		pending, err := w.Pending(w.ctx(), w.id("bob"), 0)
		storetest.Must(t, err)
		if got := showRedacted(pending.Chats[0].Items); got != "1:one1 2(gone):0 3:three1" || pending.Chats[0].Unread != 3 {
			t.Errorf("pending for bob is %s, unread %d", got, pending.Chats[0].Unread)
		}
		again, replayed, err := w.Send(w.ctx(), Outgoing{Chat: w.id("c"), Sender: w.id("ann"), Text: secret, Data: map[string]string{"of": secret}, Once: once})
		if err != nil || !replayed || again.ID != 2 || !again.SentAt.Equal(sent[1].SentAt.Time) {
			t.Errorf("sent again: %+v %v %v", again, replayed, err)
		}
		if found := storetest.KeysWith(t, w.db, secret); len(found) > 0 {
			t.Errorf("after a replay the text is in %v", found)
		}
		w.mustAck("c", "bob", 3)
		w.wantRead("c", "bob", MessagesQuery{}, "first=4 last=3") // all have acknowledged it
	})
}

// C17: by sender, for members, and in ranges; messages that nobody reads any more lose their text, too.
func TestC17_WhatIsRedacted(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{MaxMessages: 6}, func(t *testing.T, w *world) {
		w.mustCreate("c", "ann", "bob", "cat")
		for i := range 6 {
			w.mustSend("c", []string{"ann", "bob"}[i%2], fmt.Sprint("m", i+1))
		}
		for _, c := range []struct {
			r               Redaction
			visible, others int
			want            string
		}{
			{Redaction{From: 7, To: 9}, 0, 0, "1:m10 2:m20 3:m30 4:m40 5:m50 6:m60"},
			{Redaction{From: 0, To: 0}, 0, 0, "1:m10 2:m20 3:m30 4:m40 5:m50 6:m60"},
			{Redaction{From: 2, To: 2, Sender: w.id("ann"), Member: w.id("ann")}, 0, 1, "1:m10 2:m20 3:m30 4:m40 5:m50 6:m60"},
			{Redaction{From: 1, To: 1, Sender: w.id("ann"), Member: w.id("ann")}, 1, 0, "1(gone):0 2:m20 3:m30 4:m40 5:m50 6:m60"},
			{Redaction{From: 4, To: 100, Sender: w.id("bob")}, 2, 1, "1(gone):0 2:m20 3:m30 4(gone):0 5:m50 6(gone):0"},
			{Redaction{From: 1, To: 5}, 5, 0, "1(gone):0 2(gone):0 3(gone):0 4(gone):0 5(gone):0 6(gone):0"},
		} {
			done := w.mustRedact("c", c.r)
			if got := showRedacted(w.mustRead("c", "cat", MessagesQuery{}).Items); done.Visible != c.visible || done.Others != c.others || got != c.want {
				t.Errorf("%+v: %d visible, %d others, %s; want %d, %d, %s", c.r, done.Visible, done.Others, got, c.visible, c.others, c.want)
			}
		}
		_, err := w.Redact(w.ctx(), w.id("none"), Redaction{From: 1, To: 1})
		storetest.WantCode(t, err, api.CodeNotFound)
		w.mustLeave("c", "bob")
		_, err = w.Redact(w.ctx(), w.id("c"), Redaction{From: 2, To: 2, Sender: w.id("bob"), Member: w.id("bob")})
		storetest.WantCode(t, err, api.CodeNotAMember)
		if done := w.mustRedact("c", Redaction{From: 1, To: 6, Sender: w.id("bob")}); done.Visible != 3 || done.Others != 3 {
			t.Errorf("what bob left: %+v", done)
		}
		for i := range 6 { // the redacted ones go like any others
			w.mustSend("c", "ann", fmt.Sprint("n", i+1))
		}
		w.wantRead("c", "cat", MessagesQuery{}, "7:n1 8:n2 9:n3 10:n4 11:n5 12:n6 first=7 last=12")
	})
}

// C17: what readers no longer see, but is still kept, cannot be named. It loses its text all the same.
func TestC17_WhatNobodySees(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, storetest.Redis(t).URL()), Options{MaxMessages: 9})
	w.mustCreate("c", "ann", "bob")
	for i := range 3 {
		w.mustSend("c", "ann", w.id(fmt.Sprint("secret", i)))
	}
	fewer := *w
	fewer.Store = New(w.db, Options{MaxMessages: 1})
	if done := fewer.mustRedact("c", Redaction{From: 1, To: 3}); done.Visible != 1 || len(done.Pushes) != 3 {
		t.Errorf("redacted: %+v", done)
	}
	if found := storetest.KeysWith(t, w.db, w.id("secret")); len(found) > 0 {
		t.Errorf("the text is in %v", found)
	}
}

// C17: one call looks at a bounded number of messages.
func TestC17_ARangeIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, storetest.Redis(t).URL()), Options{})
	w.mustCreate("c", "ann", "bob")
	storetest.AtOnce(t, 8, func(ctx context.Context, _ int) error {
		for range (MaxRedacted + 80) / 8 {
			if _, _, err := w.Send(ctx, Outgoing{Chat: w.id("c"), Sender: w.id("ann"), Text: "hi"}); err != nil {
				return err
			}
		}
		return nil
	})
	if done := w.mustRedact("c", Redaction{From: 11, To: 1 << 50}); done.Visible != MaxRedacted {
		t.Errorf("%d were redacted, want %d", done.Visible, MaxRedacted)
	}
	if m := w.mustRead("c", "bob", MessagesQuery{After: after(9 + MaxRedacted), Limit: 2}).Items; !m[0].Redacted || m[1].Redacted {
		t.Errorf("the last ones are %+v", m)
	}
}

// C17: the chat's channel gets a redacted message once, however often the command is sent.
func TestC18_ARedactionIsPublishedOnce(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		epoch := w.mustCreate("c", "ann", "bob").Epoch
		w.mustSend("c", "ann", "hi")
		heard := redisdb.Subscribe(t.Context(), w.db.Blocking())
		defer heard.Close()
		subscribe := heard.Subscribe
		if w.db.Cluster() {
			subscribe = heard.SSubscribe
		}
		storetest.Must(t, subscribe(t.Context(), w.MessageChannel(w.id("c"))))
		_, err := heard.Receive(t.Context()) // the confirmation
		storetest.Must(t, err)
		for range 2 {
			w.another(twice).mustRedact("c", Redaction{From: 1, To: 1})
		}
		w.mustSend("c", "ann", "ho")
		for _, want := range []string{"1 (gone)", "2 ho"} {
			published, err := heard.ReceiveMessage(t.Context())
			storetest.Must(t, err)
			of, m, err := DecodePublished(published.Payload)
			if m.Redacted {
				m.Text += "(gone)"
			}
			if err != nil || of != epoch || fmt.Sprint(m.ID, " ", m.Text) != want {
				t.Errorf("published %+v of %q, want %s", m, of, want)
			}
		}
	})
}

// C19: no event is made of a message that was redacted before.
func TestC19_NoPushIsMadeOfARedactedMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, storetest.Redis(t).URL()), Options{})
	w.mustCreate("c", "ann", "bob")
	var mu sync.Mutex
	var posted []string
	p := NewPusher(w.Store, PusherOptions{Post: func(_ context.Context, events ...api.NamedEvent) ([]error, error) {
		mu.Lock()
		defer mu.Unlock()
		for i := range events {
			posted = append(posted, events[i].Event.Data["text"])
		}
		return make([]error, len(events)), nil
	}})
	for _, text := range []string{"one", "two", "three"} {
		_, _, err := w.Send(w.ctx(), Outgoing{Chat: w.id("c"), Sender: w.id("ann"), Text: text, Push: true})
		storetest.Must(t, err)
	}
	w.mustRedact("c", Redaction{From: 2, To: 2})
	p.push(t.Context(), w.id("c"))
	if got := strings.Join(posted, " "); got != "one three" {
		t.Errorf("pushed: %s", got)
	}
	_, _, err := w.Send(w.ctx(), Outgoing{Chat: w.id("c"), Sender: w.id("ann"), Text: "four", Push: true})
	storetest.Must(t, err)
	w.mustRedact("c", Redaction{From: 4, To: 4})
	p.push(t.Context(), w.id("c"))
	if due, err := w.DuePushes(t.Context(), 0, 10); err != nil || len(due) > 0 || len(posted) != 2 {
		t.Errorf("due in %v, posted %v, %v", due, posted, err)
	}
}

// C19: the pushes of a redaction have the names under which the messages were pushed, also those of
// earlier runs of Redis.
func TestC19_PushesAreNamedAsTheyWerePosted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, storetest.Redis(t).URL()), Options{})
	w.mustCreate("c", "ann", "bob")
	var posted []string
	p := NewPusher(w.Store, PusherOptions{Post: func(_ context.Context, events ...api.NamedEvent) ([]error, error) {
		for i := range events {
			posted = append(posted, events[i].Name+" "+events[i].Route+" "+events[i].At.String())
		}
		return make([]error, len(events)), nil
	}})
	for i := range 4 {
		w.run = fmt.Sprint("run", i) // Redis is started again
		_, _, err := w.Send(w.ctx(), Outgoing{Chat: w.id("c"), Sender: w.id("ann"), Text: "hi", Push: true})
		storetest.Must(t, err)
		p.push(t.Context(), w.id("c"))
	}
	var named []string
	for _, e := range w.mustRedact("c", Redaction{From: 1, To: 4}).Pushes {
		named = append(named, e.Name+" "+e.Route+" "+e.At.String())
	}
	if !slices.Equal(named, posted) || len(posted) != 4 {
		t.Errorf("named\n%q, posted\n%q", named, posted)
	}
}

// C17: a Redis without memory does not refuse to remove a text.
func TestC17_AFullRedis(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, storetest.Redis(t).URL()), Options{})
	w.mustCreate("c", "ann", "bob")
	w.mustSend("c", "ann", "hi")
	limit := redis.NewStatusCmd(t.Context(), "config", "set", "maxmemory", "1")
	storetest.Must(t, w.db.Share(t.Context(), redisdb.Write, limit))
	storetest.Must(t, limit.Err())
	if _, _, err := w.send("c", "ann", "ho"); err == nil {
		t.Error("a full Redis takes a message")
	}
	if done := w.mustRedact("c", Redaction{From: 1, To: 1}); done.Visible != 1 {
		t.Errorf("redacted: %+v", done)
	}
	if m := w.mustRead("c", "bob", MessagesQuery{}).Items; len(m) != 1 || !m[0].Redacted {
		t.Errorf("bob reads %+v", m)
	}
}
