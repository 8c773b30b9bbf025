package chat

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"fanfare/api"
	"fanfare/store/storetest"
)

// gatheredSends are sends that one script answers: of all chats, or on a Cluster of one.
type gatheredSends struct {
	*world
	*storetest.Crowd
}

// gather is another process whose first script is held up with a message to a chat
// that does not exist.
func (w *world) gather(chat string) *gatheredSends {
	return w.gatherWith(chat, func(string, bool) error { return nil })
}

// gatherWith is gather with another fault besides.
func (w *world) gatherWith(chat string, more storetest.Fault) *gatheredSends {
	c := storetest.NewCrowd(w.t, "message_send")
	both := func(script string, answered bool) error {
		return errors.Join(c.Fault(script, answered), more(script, answered))
	}
	g := &gatheredSends{w.another(both), c}
	g.Add(w.ctx(), func(ctx context.Context) {
		_, _, err := g.Send(ctx, Outgoing{Chat: g.sameBucket(chat), Sender: "x", Text: "x"})
		storetest.WantCode(w.t, err, api.CodeNotFound)
	})
	return g
}

// sameBucket is the name of no chat, in the bucket of one.
func (w *world) sameBucket(chat string) string {
	for i := 0; ; i++ {
		if name := w.id(fmt.Sprint("none", i)); bucketOf(name) == bucketOf(w.id(chat)) {
			return name
		}
	}
}

// sender is one of a crowd and what he should be told.
type sender struct {
	chat, user, text, key string
	id                    int64 // of the message
	replayed              bool
	code                  api.Code // of the refusal; "": it is sent

	got         *api.ChatMessageSent
	gotReplayed bool
	err         error
	told        chan struct{}
}

// send adds a sender.
func (g *gatheredSends) send(ctx context.Context, s *sender) {
	s.told = make(chan struct{})
	out := Outgoing{Chat: g.id(s.chat), Sender: g.id(s.user), Text: s.text}
	if s.key != "" {
		out.Once = keyed(g.id(s.key), s.text)
	}
	g.Add(ctx, func(ctx context.Context) {
		defer close(s.told)
		s.got, s.gotReplayed, s.err = g.Send(ctx, out)
	})
}

// mustBeTold compares what the senders were told.
func (g *gatheredSends) mustBeTold(crowd []*sender) {
	g.t.Helper()
	for i, s := range crowd {
		if api.CodeOf(s.err) != s.code {
			g.t.Errorf("%d: %v, want %q", i, s.err, s.code)
		} else if s.code == "" && (s.got.ID != s.id || s.gotReplayed != s.replayed) {
			g.t.Errorf("%d: id %d, replayed %v; want %d, %v", i, s.got.ID, s.gotReplayed, s.id, s.replayed)
		}
	}
}

// eachUnclustered runs a test where one script serves all chats.
func eachUnclustered(t *testing.T, fn func(t *testing.T, w *world)) {
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		if w.clustered {
			return // the crowd of another bucket is another crowd
		}
		fn(t, w)
	})
}

// One script answers a crowd of several chats in which some send, some are refused for
// their own reasons, and some repeat.
func TestC1_EachOfACrowdHasHisOwnAnswer(t *testing.T) {
	t.Parallel()
	eachUnclustered(t, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob", "carol")
		w.mustCreate("d", "alice", "bob")
		w.wantSent("c", "bob", "old", "old", 1, false)
		g := w.gather("c")
		crowd := []*sender{
			{chat: "c", user: "alice", text: "a1", id: 2},
			{chat: "d", user: "alice", text: "a2", id: 1},
			{chat: "c", user: "eve", text: "e", code: api.CodeNotAMember},
			{chat: "none", user: "alice", text: "n", code: api.CodeNotFound},
			{chat: "c", user: "bob", text: "b1", key: "k", id: 3},
			{chat: "c", user: "bob", text: "b1", key: "k", id: 3, replayed: true},
			{chat: "c", user: "bob", text: "b2", key: "k", code: api.CodeIdempotencyReused},
			{chat: "c", user: "bob", text: "old", key: "old", id: 1, replayed: true},
			{chat: "c", user: "alice", text: "a3", id: 4},
			{chat: "d", user: "bob", text: "b3", key: "k", id: 2},
			{chat: "c", user: "eve", text: "e", key: "e", code: api.CodeNotAMember},
			{chat: "c", user: "carol", text: "c1", id: 5},
		}
		for _, s := range crowd {
			g.send(t.Context(), s)
		}
		g.Release(2)
		g.mustBeTold(crowd)
		w.wantRead("c", "carol", MessagesQuery{}, "1:old 2:a1 3:b1 4:a3 5:c1 first=1 last=5")
		w.wantRead("d", "bob", MessagesQuery{}, "1:a2 2:b3 first=1 last=2")
		w.wantMembers("c", "alice@0 bob@1 carol@0") // who had not read all stays where he was
		w.wantMembers("d", "alice@1 bob@0")
		w.wantPending("bob", "c:3[2:a1 3:b1 4:a3 5:c1] d:1[1:a2 2:b3]")
		w.mustAck("c", "alice", 1)
		w.wantMembers("c", "alice@2 bob@1 carol@0")
	})
}

// A crowd whose members have read everything is trimmed as they send.
func TestC8_ACrowdIsTrimmed(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice")
		g := w.gather("c")
		crowd := []*sender{{chat: "c", user: "alice", text: "1", id: 1}, {chat: "c", user: "alice", text: "2", id: 2}, {chat: "c", user: "alice", text: "3", id: 3}}
		for _, s := range crowd {
			g.send(t.Context(), s)
		}
		g.Open()
		if !w.clustered { // there the index is asked beside, and they may come in another order
			g.mustBeTold(crowd)
		}
		w.wantMembers("c", "alice@3")
		w.wantRead("c", "alice", MessagesQuery{}, "first=4 last=3")
	})
}

// Who goes before his turn has sent nothing, who goes while the script is under way
// does not know; the others do not notice.
func TestC1_SomeOfACrowdGoAway(t *testing.T) {
	t.Parallel()
	eachUnclustered(t, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob")
		c := storetest.NewCrowd(t, "message_send")
		g := &gatheredSends{w.another(c.Fault), c}
		ctx, cancel := context.WithCancel(t.Context())
		gone := []*sender{{chat: "c", user: "alice", text: "under way"}, {chat: "c", user: "alice", text: "never"}}
		stay := []*sender{{chat: "c", user: "bob", text: "b1", id: 2}, {chat: "c", user: "bob", text: "b2", id: 3}}
		g.send(ctx, gone[0]) // his script is held up
		g.send(t.Context(), stay[0])
		g.send(ctx, gone[1])
		g.send(t.Context(), stay[1])
		cancel()
		<-gone[0].told
		<-gone[1].told
		g.Release(2)
		storetest.WantCode(t, gone[0].err, api.CodeUnknownOutcome)
		storetest.WantCode(t, gone[1].err, api.CodeUnavailable)
		g.mustBeTold(stay)
		w.wantRead("c", "bob", MessagesQuery{}, "1:under way 2:b1 3:b2 first=1 last=3")
	})
}

// A client of Redis that lost the answer sends the same again: each of the crowd gets
// the first answer, and nothing is sent twice.
func TestC2_ARepeatedCrowdSendsOnce(t *testing.T) {
	t.Parallel()
	eachUnclustered(t, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob")
		g := w.gatherWith("c", twice)
		crowd := []*sender{
			{chat: "c", user: "alice", text: "a", id: 1},
			{chat: "c", user: "eve", text: "e", code: api.CodeNotAMember},
			{chat: "c", user: "bob", text: "b", key: "k", id: 2},
			{chat: "c", user: "bob", text: "b", key: "k", id: 2, replayed: true},
		}
		for _, s := range crowd {
			g.send(t.Context(), s)
		}
		g.Release(2)
		g.mustBeTold(crowd)
		w.wantRead("c", "bob", MessagesQuery{}, "1:a 2:b first=1 last=2")
	})
}

// A chat whose keys are damaged fails for its own senders alone.
func TestC1_ADamagedChatFailsAlone(t *testing.T) {
	t.Parallel()
	eachUnclustered(t, func(t *testing.T, w *world) {
		for _, chat := range []string{"b", "c", "d", "e"} {
			w.mustCreate(chat, "alice", "bob")
		}
		storetest.Must(t, w.db.Client().Set(t.Context(), logKey(w.id("c")), "not a list", 0).Err())
		meta := w.db.Client().Get(t.Context(), metaKey(w.id("e"))).Val()
		storetest.Must(t, w.db.Client().Del(t.Context(), metaKey(w.id("e"))).Err())
		storetest.Must(t, w.db.Client().RPush(t.Context(), metaKey(w.id("e")), "not a string").Err())
		g := w.gather("c")
		damaged := &sender{chat: "c", user: "alice", text: "c1", key: "k"}
		headless := &sender{chat: "e", user: "alice", text: "e1"}
		crowd := []*sender{{chat: "d", user: "alice", text: "d1", id: 1}, {chat: "b", user: "bob", text: "b1", id: 1}, {chat: "d", user: "bob", text: "d2", id: 2}}
		g.send(t.Context(), crowd[0])
		g.send(t.Context(), damaged)
		g.send(t.Context(), headless)
		g.send(t.Context(), crowd[1])
		g.send(t.Context(), crowd[2])
		g.Release(2)
		g.mustBeTold(crowd)
		for _, s := range []*sender{damaged, headless} {
			if s.err == nil || !strings.Contains(s.err.Error(), "WRONGTYPE") {
				t.Errorf("the damaged chat %s says %v", s.chat, s.err)
			}
		}
		w.wantRead("d", "bob", MessagesQuery{}, "1:d1 2:d2 first=1 last=2")
		storetest.Must(t, w.db.Client().Del(t.Context(), logKey(w.id("c"))).Err())
		w.wantSent("c", "alice", "c1", "k", 1, false) // nothing of it was kept
		storetest.Must(t, w.db.Client().Del(t.Context(), metaKey(w.id("e"))).Err())
		storetest.Must(t, w.db.Client().Set(t.Context(), metaKey(w.id("e")), meta, 0).Err())
		w.wantSent("e", "alice", "e1", "k", 1, false)
	})
}
