package live

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fanfare/api"
	"fanfare/store/chat"
	"fanfare/store/storetest"
)

// mustReadSignals reads a stream until n signals have come: "ann<3" is a position, "ann..." is typing. Messages are left out.
func mustReadSignals(t testing.TB, w *world, st *Stream, n int) []string {
	t.Helper()
	var out []string
	for len(out) < n {
		select {
		case <-st.Wake():
		case <-time.After(testPatience):
			t.Fatalf("%q, and no more", out)
		}
		events, err := st.Read(t.Context())
		storetest.Must(t, err)
		for _, e := range events {
			switch {
			case e.Read != nil:
				out = append(out, fmt.Sprint(strings.TrimPrefix(e.Read.User, w.prefix), "<", e.Read.Acked))
			case e.Typing != nil:
				out = append(out, strings.TrimPrefix(e.Typing.User, w.prefix)+"...")
			}
		}
	}
	return out
}

func (w *world) mustAck(user, name string, id int64) {
	w.t.Helper()
	_, err := w.Ack(w.t.Context(), w.id(user), map[string]int64{w.id(name): id}, nil)
	storetest.Must(w.t, err)
}

// C20, C21: streams in every process tell who reads and who types: the reader's own devices too, but nobody that the user
// types. A position of which the stream has not told the message waits for it.
func TestC20_StreamsOfEveryProcess(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		w.mustCreate("team", "ann", "bob")
		team := w.id("team")
		var streams []*Stream
		for _, user := range []string{"ann", "bob"} {
			st, err := w.mustHub().Stream(t.Context(), w.id(user), "")
			storetest.Must(t, err)
			defer st.Close(t.Context())
			streams = append(streams, st)
		}
		for range 3 {
			_, _, err := w.Send(t.Context(), chat.Outgoing{Chat: team, Sender: w.id("ann"), Text: "x"})
			storetest.Must(t, err)
		}
		w.mustAck("bob", "team", 2)
		for _, st := range streams {
			if got := mustReadSignals(t, w, st, 1); got[0] != "bob<2" {
				t.Errorf("%q", got)
			}
		}
		w.mustAck("bob", "team", 1) // nothing moves
		storetest.Must(t, w.Typing(t.Context(), team, w.id("bob")))
		if got := mustReadSignals(t, w, streams[0], 1); got[0] != "bob..." {
			t.Errorf("%q", got)
		}
		storetest.Must(t, w.Typing(t.Context(), team, w.id("ann")))
		w.mustAck("bob", "team", 3) // within a second, so that it is told later
		for i, want := range [][]string{{"bob<3"}, {"ann...", "bob<3"}} {
			got := mustReadSignals(t, w, streams[i], len(want))
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("stream %d: %q, want %q", i, got, want)
			}
		}
		for user, code := range map[string]api.Code{"eve": api.CodeNotAMember, "ann": api.CodeNotFound} {
			name := team
			if user == "ann" {
				name = w.id("none")
			}
			if err := w.Typing(t.Context(), name, w.id(user)); api.CodeOf(err) != code {
				t.Errorf("%s types in %s: %v", user, name, err)
			}
		}
	})
}

// C20: a chat of more than 100 members tells nobody who reads and who types.
func TestC20_LargeChats(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		members := make([]string, chat.MaxTold-1)
		for i := range members {
			members[i] = w.id(fmt.Sprint("m", i))
		}
		_, _, err := w.Create(t.Context(), &api.ChatRequest{ID: w.id("team"), Creator: w.id("ann"), Members: members, Message: new("hi")}, api.Idempotency{}, false)
		storetest.Must(t, err)
		st, err := w.mustHub().Stream(t.Context(), w.id("ann"), "")
		storetest.Must(t, err)
		defer st.Close(t.Context())
		storetest.Must(t, w.Typing(t.Context(), w.id("team"), w.id("m1")))
		if got := mustReadSignals(t, w, st, 1); got[0] != "m1..." {
			t.Errorf("100 members: %q", got)
		}
		_, _, err = w.Join(t.Context(), w.id("team"), w.id("bob"), true)
		storetest.Must(t, err)
		storetest.Must(t, w.Typing(t.Context(), w.id("team"), w.id("m2")))
		w.mustAck("m3", "team", 1)
		storetest.Must(t, w.Leave(t.Context(), w.id("team"), w.id("bob")))
		storetest.Must(t, w.Typing(t.Context(), w.id("team"), w.id("m4")))
		if got := mustReadSignals(t, w, st, 1); got[0] != "m4..." {
			t.Errorf("101 members: %q", got)
		}
	})
}

// C20: a stream is told of a member at most once a second, and of the last position in the end.
func TestC20_OnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		to := &topic{chat: "team", known: true, epoch: "e"}
		st := &Stream{user: "ann", marks: marks{wake: make(chan struct{}, 1)}}
		to.listeners = map[*Stream]struct{}{st: {}}
		told := map[string]int{}
		position := int64(0)
		for step := range 101 {
			now := time.Now()
			to.signal(chat.Signal{Epoch: "e", User: "bob", Acked: int64(step + 1)}, now)
			to.signal(chat.Signal{Epoch: "e", User: "bob"}, now)
			to.signal(chat.Signal{Epoch: "other", User: "eve", Acked: 1}, now)
			if step%10 == 9 {
				to.tellLater(now)
			}
			for s, acked := range st.takeSignals() {
				told[fmt.Sprint(s.user, s.typing)]++
				position = max(position, acked)
			}
			time.Sleep(100 * time.Millisecond) //nolint:forbidigo // by synctest's clock
		}
		time.Sleep(time.Second) //nolint:forbidigo // by synctest's clock
		to.tellLater(time.Now())
		for _, acked := range st.takeSignals() {
			position = acked
		}
		if len(told) != 2 || told["bobfalse"] > 11 || told["bobtrue"] > 11 || told["bobfalse"] < 5 || position != 101 {
			t.Errorf("in ten seconds: %v, and at last %d", told, position)
		}
		time.Sleep(2 * time.Second) //nolint:forbidigo // by synctest's clock
		to.tellLater(time.Now())
		to.tellLater(time.Now().Add(time.Second))
		if len(to.signals.read)+len(to.signals.typed) != 0 {
			t.Errorf("kept: %+v", to.signals)
		}
	})
}

// C20: a position that a stream has not reached waits, and is told with the message.
func TestC20_NotBeforeTheMessage(t *testing.T) {
	t.Parallel()
	c := &cursor{topic: &topic{chat: "team"}, position: 3}
	st := &Stream{user: "ann", marks: marks{wake: make(chan struct{}, 1)}, cursors: []*cursor{c}}
	st.markSignal(signalMark{chat: "team", user: "bob"}, 4)
	if events := st.tellSignals(nil); len(events) != 0 {
		t.Errorf("told %+v at 3", events[0].Read)
	}
	c.position = 4
	if events := st.tellSignals(nil); len(events) != 1 || events[0].Read.Acked != 4 {
		t.Errorf("told %v at 4", events)
	}
	st.markSignal(signalMark{chat: "left", user: "bob"}, 1)
	for i := range 2 * mostSignals {
		st.markSignal(signalMark{chat: "team", user: fmt.Sprint(i)}, 1)
	}
	if n := len(st.tellSignals(nil)); n != mostSignals-1 {
		t.Errorf("%d signals waited", n)
	}
}

// C20: a long poll is not woken by who reads and who types: it reads all unread messages when it wakes.
func TestC20_LongPollsSleep(t *testing.T) {
	t.Parallel()
	to := &topic{chat: "team", known: true, epoch: "e"}
	poll := &Stream{user: "ann", poll: true, marks: marks{wake: make(chan struct{}, 1)}}
	to.listeners = map[*Stream]struct{}{poll: {}}
	to.signal(chat.Signal{Epoch: "e", User: "bob"}, time.Now())
	to.signal(chat.Signal{Epoch: "e", User: "bob", Acked: 1}, time.Now())
	if len(poll.wake) > 0 || len(poll.signals) > 0 {
		t.Errorf("woken, for %v", poll.signals)
	}
}

// C20: a position in a chat that was made again is not one in the new chat.
func TestC20_OfAnotherEpoch(t *testing.T) {
	t.Parallel()
	c := &cursor{topic: &topic{chat: "team"}, position: 3, epoch: "new"}
	st := &Stream{user: "ann", marks: marks{wake: make(chan struct{}, 1)}, cursors: []*cursor{c}}
	st.markSignal(signalMark{chat: "team", epoch: "old", user: "bob"}, 4)
	if events := st.tellSignals(nil); len(events) != 0 || len(st.signals) != 0 {
		t.Errorf("told %v, kept %v", events, st.signals)
	}
}
