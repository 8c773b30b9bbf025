package live

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/chat"
	"fanfare/store/storetest"
)

// C13: what was not received is found by the comparison of positions; and what is
// kept of a chat is bounded.
func TestC13_Comparison(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		h := w.mustHub()
		team := w.id("team")
		w.mustCreate("team", "ann", "bob")
		st, err := h.Stream(t.Context(), w.id("bob"), "")
		storetest.Must(t, err)
		defer st.Close(t.Context())
		top := h.topic(w.MessageChannel(team))
		read := func(n int) {
			t.Helper()
			for from := 0; from < n; {
				select {
				case <-st.Wake():
				case <-time.After(testPatience):
					t.Fatalf("%d of %d messages", from, n)
				}
				events, err := st.Read(t.Context())
				storetest.Must(t, err)
				for _, e := range events {
					if e.Gap != nil {
						t.Fatalf("a gap: %+v", e.Gap)
					}
					if e.Message != nil {
						from++
					}
				}
			}
		}
		send := func(text string) {
			t.Helper()
			_, _, err := w.Send(t.Context(), chat.Outgoing{Chat: team, Sender: w.id("ann"), Text: text})
			storetest.Must(t, err)
		}
		send("received")
		read(1)
		// As if Redis had dropped the subscription without a word.
		h.mu.Lock()
		h.topics = map[string]*topic{st.userTopic.channel: st.userTopic}
		h.mu.Unlock()
		send("not received")
		select {
		case <-st.Wake():
			if events, err := st.Read(t.Context()); err != nil || len(events) > 0 {
				t.Fatalf("received %+v %v", events, err)
			}
		case <-time.After(200 * time.Millisecond):
		}
		h.mu.Lock()
		h.topics[top.channel] = top
		h.mu.Unlock()
		h.tick(time.Now().Add(checkEvery))
		h.wakeRun()
		read(1)
		for range 40 {
			send(strings.Repeat("x", 4000))
		}
		read(40)
		if len(top.ring) > keptMessages || top.bytes > keptBytes || h.kept.used.Load() != int64(top.bytes) {
			t.Errorf("%d messages, %d bytes, %d in all", len(top.ring), top.bytes, h.kept.used.Load())
		}
		for check := range time.Duration(2) {
			h.tick(time.Now().Add((2 + check) * checkEvery))
		}
		if n := h.kept.used.Load(); n != 0 {
			t.Errorf("%d bytes are kept of what every stream has had time for", n)
		}
	})
}

// Streams of a Redis that takes no subscription are refused in time.
func TestC13_NoSubscription(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, "embedded"))
	h := New(w.Store, w.db, nil) // and nobody runs it
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := h.Stream(ctx, "ann", "")
	storetest.WantCode(t, err, api.CodeUnavailable)
	if len(h.presence.users) != 0 || len(h.topics) != 0 {
		t.Errorf("left behind: %v %v", h.presence.users, h.topics)
	}
}

// C13: joins and leaves are followed also when they come while the last one is
// still being read.
func TestC13_JoinsAndLeavesAtOnce(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		h := w.mustHub()
		team, ann, bob := w.id("team"), w.id("ann"), w.id("bob")
		w.mustCreate("team", "ann", "bob")
		st, err := h.Stream(t.Context(), bob, "")
		storetest.Must(t, err)
		defer st.Close(t.Context())
		received := make(chan string, 1000)
		done := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer close(done)
			for {
				select {
				case <-ctx.Done():
					return
				case <-st.Wake():
				}
				events, err := st.Read(ctx)
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				for _, e := range events {
					if e.Message != nil {
						received <- e.Message.Text
					}
				}
			}
		}()
		defer func() {
			cancel()
			<-done
		}()
		for n := range 100 {
			storetest.Must(t, w.Leave(t.Context(), team, bob))
			_, _, err := w.Join(t.Context(), team, bob, false)
			storetest.Must(t, err)
			_, _, err = w.Send(t.Context(), chat.Outgoing{Chat: team, Sender: ann, Text: fmt.Sprint(n)})
			storetest.Must(t, err)
			for late := time.After(testPatience); ; {
				select {
				case text := <-received:
					if text != fmt.Sprint(n) {
						t.Fatalf("received %s instead of %d", text, n)
					}
				case <-late:
					t.Fatalf("message %d is not received", n)
				}
				break
			}
		}
	})
}

// TestC13_ACheckLeavesWhatIsNew: a message that everybody has read is in memory alone, for
// his other devices: the check of all chats right after it leaves it there until the next.
func TestC13_ACheckLeavesWhatIsNew(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		ann, room := w.id("ann"), w.id("room")
		_, _, err := w.Create(t.Context(), &api.ChatRequest{ID: room, Creator: ann}, api.Idempotency{}, false)
		storetest.Must(t, err)
		h := w.mustHub()
		device := mustFollow(t, h, ann, "")
		_, _, err = w.Send(t.Context(), chat.Outgoing{Chat: room, Sender: ann, Text: "one"})
		storetest.Must(t, err)
		device.await(room + " one")
		_, _, err = w.Send(t.Context(), chat.Outgoing{Chat: room, Sender: ann, Text: "two"})
		storetest.Must(t, err)
		top := h.topic(w.MessageChannel(room))
		holds := func(n int) bool {
			top.mu.Lock()
			defer top.mu.Unlock()
			return len(top.ring) == n
		}
		storetest.Eventually(t, testPatience, "both are in memory", func() bool { return holds(2) })
		h.tick(time.Now().Add(checkEvery))
		device.await(room + " two")
		h.tick(time.Now().Add(2 * checkEvery))
		if !holds(0) {
			t.Error("what was there at two checks is kept")
		}
	})
}

// TestC13_AListThatLostAChat: a user's list of chats lacks one of which he is a member. His
// stream goes on with it, and puts it back.
func TestC13_AListThatLostAChat(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		ann, bob, room := w.id("ann"), w.id("bob"), w.id("room")
		w.mustCreate("room", "ann", "bob")
		h := w.mustHub()
		st := mustFollow(t, h, bob, "")
		send := func(text string) {
			_, _, err := w.Send(t.Context(), chat.Outgoing{Chat: room, Sender: ann, Text: text})
			storetest.Must(t, err)
		}
		send("one")
		st.await(room + " one")
		index := "ff:{chats:" + bob + "}:index"
		storetest.Must(t, w.db.Client().Del(t.Context(), index).Err())
		h.tick(time.Now().Add(rereadEvery))
		storetest.Eventually(t, testPatience, "the list has it again", func() bool {
			_, err := st.Read(t.Context())
			storetest.Must(t, err)
			return w.db.Client().Exists(t.Context(), index).Val() == 1
		})
		send("two")
		st.await(room+" one", room+" two")
		storetest.Must(t, w.Leave(t.Context(), room, bob))
		storetest.Eventually(t, testPatience, "the chat that he left ends", func() bool {
			_, err := st.Read(t.Context())
			storetest.Must(t, err)
			return st.cursor(room) == nil
		})
	})
}
