package live

import (
	"fmt"
	"testing"
	"time"

	"fanfare/store/chat"
	"fanfare/store/storetest"
)

// C7, C13: Redis restarts without a message that a stream has delivered, and another gets
// its id: the open stream, and one that goes on from its event id, tell of the gap and
// deliver the other.
func TestC13_AMessageThatRedisLost(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	w := newWorld(t, storetest.Open(t, redis.URL()))
	h := w.mustHub()
	w.mustCreate("team", "ann", "bob")
	send := func(text string) {
		t.Helper()
		storetest.Eventually(t, testPatience, "Redis takes "+text, func() bool {
			_, _, err := w.Send(t.Context(), chat.Outgoing{Chat: w.id("team"), Sender: w.id("ann"), Text: text})
			return err == nil
		})
	}
	st, err := h.Stream(t.Context(), w.id("bob"), "")
	storetest.Must(t, err)
	defer st.Close(t.Context())
	last := ""
	want := func(st *Stream, want ...string) {
		t.Helper()
		var got []string
		for len(got) < len(want) {
			select {
			case <-st.Wake():
			case <-time.After(testPatience):
				t.Fatalf("received %q, want %q", got, want)
			}
			events, err := st.Read(t.Context())
			storetest.Must(t, err)
			for _, e := range events {
				last = e.ID
				switch {
				case e.Gap != nil:
					got = append(got, fmt.Sprint("gap ", e.Gap.FirstID))
				case e.Message != nil:
					got = append(got, fmt.Sprint(e.Message.ID, " ", e.Message.Text))
				}
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("received %q, want %q", got, want)
		}
	}
	send("one")
	want(st, "1 one")
	storetest.Must(t, redis.Client().Save(t.Context()).Err())
	send("lost")
	want(st, "2 lost")
	seen := last
	redis.Restart()
	send("other")
	want(st, "gap 1", "1 one", "2 other")

	again, err := h.Stream(t.Context(), w.id("bob"), seen)
	storetest.Must(t, err)
	defer again.Close(t.Context())
	want(again, "gap 1", "1 one", "2 other")
}

// C13: Redis restarts and has lost nothing: the open stream, and one that goes on from its
// event id, are told of no gap, and nothing comes twice.
func TestC13_ARestartThatLosesNothing(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	w := newWorld(t, storetest.Open(t, redis.URL()))
	h := w.mustHub()
	w.mustCreate("team", "ann", "bob")
	send := func(text string) {
		t.Helper()
		storetest.Eventually(t, testPatience, "Redis takes "+text, func() bool {
			_, _, err := w.Send(t.Context(), chat.Outgoing{Chat: w.id("team"), Sender: w.id("ann"), Text: text})
			return err == nil
		})
	}
	open := mustFollow(t, h, w.id("bob"), "")
	send("one")
	open.await(w.id("team") + " one")
	seen := open.last
	redis.Restart()
	send("two")
	open.await(w.id("team") + " two")
	again := mustFollow(t, h, w.id("bob"), seen)
	again.await(w.id("team") + " two")
	if len(again.received) != 1 {
		t.Errorf("received %q", again.received)
	}
}
