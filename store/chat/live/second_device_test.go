package live

import (
	"cmp"
	"fmt"
	"testing"

	"fanfare/store/chat"
	"fanfare/store/storetest"
)

// C13: a stream goes on exactly at its Last-Event-ID, in many chats, whatever another device of the
// user has acknowledged meanwhile.
func TestC13_AnotherDeviceAcknowledges(t *testing.T) {
	t.Parallel()
	const chats = 100
	w := newWorld(t, storetest.Open(t, storetest.Redis(t).URL()))
	h := w.mustHub()
	say := func(n int, text string) int64 {
		t.Helper()
		sent, _, err := w.Send(t.Context(), chat.Outgoing{Chat: w.id(fmt.Sprint("c", n)), Sender: w.id("ann"), Text: text})
		storetest.Must(t, err)
		return sent.ID
	}
	ack := func(n int, id int64) {
		t.Helper()
		_, err := w.Ack(t.Context(), w.id("bob"), map[string]int64{w.id(fmt.Sprint("c", n)): id}, nil)
		storetest.Must(t, err)
	}
	for n := range chats {
		w.mustCreate(fmt.Sprint("c", n), "ann", "bob")
		_, _, err := w.Join(t.Context(), w.id(fmt.Sprint("c", n)), w.id("cat"), false) // keeps the messages
		storetest.Must(t, err)
	}
	st, err := h.Stream(t.Context(), w.id("bob"), "")
	storetest.Must(t, err)
	for n := range chats {
		say(n, "one")
	}
	id := mustReadUntil(t, st, chats)
	for n := range chats {
		ack(n, 1)
	}
	st.mark("") // reads what was acknowledged, as after a minute
	say(chats-1, "two")
	id = cmp.Or(mustReadUntil(t, st, 1), id)
	st.Close(t.Context())
	for n := range chats { // while the phone is away: the laptop reads all
		ack(n, say(n, "missed"))
	}
	st, err = h.Stream(t.Context(), w.id("bob"), id)
	storetest.Must(t, err)
	defer st.Close(t.Context())
	mustReadUntil(t, st, chats)
	if len(id) > MaxEventID {
		t.Errorf("an id of %d bytes", len(id))
	}
}

// mustReadUntil reads a stream until it has delivered n messages, and returns the last id.
func mustReadUntil(t *testing.T, st *Stream, n int) (id string) {
	t.Helper()
	storetest.Eventually(t, testPatience, fmt.Sprint(n, " messages"), func() bool {
		events, err := st.Read(t.Context())
		storetest.Must(t, err)
		for _, e := range events {
			id = cmp.Or(e.ID, id)
			if e.Message != nil {
				n--
			}
		}
		return n <= 0
	})
	return id
}

// C18: a redaction that is published right after the first message of another run of Redis is told
// to streams that have delivered the message. One of a chat that was made again is not.
func TestC18_ARedactionAfterARun(t *testing.T) {
	t.Parallel()
	for epoch, told := range map[string]int{"E.a": 1, "E.b": 1, "E": 1, "F.a": 0, "F": 0} {
		var kept budget
		tp := &topic{channel: "x", chat: "c", known: true, epoch: "E.a", last: 5, on: &feed{}}
		st := &Stream{marks: marks{wake: make(chan struct{}, 1)}}
		tp.listeners = map[*Stream]struct{}{st: {}}
		tp.receive(epoch+" 6 1000 ann hello", &kept)
		tp.receive(epoch+" 5 999 ann ", &kept)
		if got := st.takeRedacted(); len(got) != told {
			t.Errorf("epoch %s: told %v", epoch, got)
		}
	}
}
