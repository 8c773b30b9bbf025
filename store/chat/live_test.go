package chat

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// mustLive runs the live part of a world until the test ends.
func (w *world) mustLive() *Live {
	w.t.Helper()
	l := NewLive(w.Store, w.db, nil)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		storetest.Must(w.t, <-done)
	})
	return l
}

// C13: an id has at most 2 KB, however many chats there are; those delivered
// last are in it.
func TestC13_EventIDHasABound(t *testing.T) {
	t.Parallel()
	st := &Stream{}
	for n := range 1000 {
		chat := fmt.Sprint(strings.Repeat("long", 30), n)
		st.order = append(st.order, &cursor{place: placeOf(chat, "epoch"), position: 1 << 50, topic: &topic{chat: chat}})
	}
	id := st.eventID()
	places := readEventID(id)
	if len(id) > MaxEventID || len(places) < 60 {
		t.Fatalf("%d bytes for %d chats", len(id), len(places))
	}
	for n, c := range st.order {
		place, ok := places[c.place.chat]
		if ok != (n < len(places)) || ok && place != (left{c.place.epoch, c.position}) {
			t.Fatalf("chat %d: %v %+v", n, ok, place)
		}
	}
	for _, c := range st.order {
		c.acked = c.position
	}
	if id = st.eventID(); len(id) > smallEventID {
		t.Errorf("%d bytes though nothing would come again", len(id))
	}
	if id = (&Stream{}).eventID(); len(readEventID(id)) != 0 {
		t.Errorf("an id of no chats: %s", id)
	}
}

// C14: presence lives 30 s, is renewed by the process, many users in one
// pipeline, and ends with the last of a user's streams.
func TestC14_Presence(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		l, user := w.mustLive(), w.id("ann")
		ttl := func() time.Duration {
			left, err := w.db.Client().PTTL(t.Context(), PresenceKey(user)).Result()
			storetest.Must(t, err)
			return left
		}
		one, err := l.Stream(t.Context(), user, "")
		storetest.Must(t, err)
		two, err := l.Stream(t.Context(), user, "")
		storetest.Must(t, err)
		if left := ttl(); left <= 0 || left > presenceTTL {
			t.Fatalf("present for %v", left)
		}
		storetest.Must(t, w.db.Client().PExpire(t.Context(), PresenceKey(user), time.Second).Err())
		l.renew(t.Context(), time.Now()) // nothing has arrived
		if left := ttl(); left > time.Second {
			t.Errorf("renewed early: %v", left)
		}
		two.Reached(time.Now())
		l.renew(t.Context(), time.Now())
		if left := ttl(); left < presenceTTL/2 {
			t.Errorf("not renewed: %v", left)
		}
		one.Close(t.Context())
		if left := ttl(); left <= 0 {
			t.Error("gone with one of two streams")
		}
		// Another process holds a stream of him as well and marked him last.
		storetest.Must(t, w.db.Client().Set(t.Context(), PresenceKey(user), "another", presenceTTL).Err())
		two.Close(t.Context())
		if left := ttl(); left <= 0 {
			t.Error("one process ended the presence of another")
		}
		three, err := l.Stream(t.Context(), user, "")
		storetest.Must(t, err)
		three.Close(t.Context())
		if left := ttl(); left > 0 {
			t.Errorf("still present for %v", left)
		}
		if len(l.present) != 0 || len(l.topics) != 0 {
			t.Errorf("left behind: %v %v", l.present, l.topics)
		}
	})
}

// C14: presence lasts 30 s from when that was written which has arrived, however
// late this is known; what has not arrived renews nothing.
func TestC14_PresenceIsCountedFromTheWrite(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		l, user := NewLive(w.Store, w.db, nil), w.id("ann") // nobody runs it but the test
		st := &Stream{live: l, user: user}
		st.Reached(time.Now()) // before he was there
		storetest.Must(t, l.enter(t.Context(), user))
		storetest.Must(t, l.enter(t.Context(), user))
		opened := l.present[user].signed
		renew := func(at time.Time) time.Duration {
			t.Helper()
			storetest.Must(t, w.db.Client().Del(t.Context(), PresenceKey(user)).Err())
			l.renew(t.Context(), at)
			left, err := w.db.Client().PTTL(t.Context(), PresenceKey(user)).Result()
			storetest.Must(t, err)
			return left
		}
		for after := range presenceTTL / time.Second {
			if left := renew(opened.Add(after * time.Second)); left > 0 {
				t.Fatalf("present for another %v after %d s in which nothing arrived", left, after)
			}
		}
		// As if the streams had been opened long ago.
		long := opened.Add(-time.Hour)
		l.present[user].signed, l.present[user].marked = long, long
		const late = 10 * time.Second
		st.Reached(time.Now().Add(-late))
		st.Reached(time.Now().Add(-2 * late)) // of two streams the later sign counts
		if left := renew(time.Now()); left <= 0 || left > presenceTTL-late {
			t.Errorf("present for another %v", left)
		}
		if left := renew(time.Now()); left > 0 {
			t.Errorf("the same sign again: present for another %v", left)
		}
		st.Reached(time.Now())
		if left := renew(time.Now().Add(presenceTTL)); left > 0 {
			t.Errorf("an old sign: present for another %v", left)
		}
		l.exit(t.Context(), user)
		if left := renew(time.Now()); left <= 0 {
			t.Error("not present with one of two streams")
		}
		l.exit(t.Context(), user)
		if left := renew(time.Now()); left > 0 {
			t.Errorf("present for another %v without a stream", left)
		}
		// A stream that begins while the last one ends is marked again.
		storetest.Must(t, l.enter(t.Context(), user))
		l.unmark(user)
		if left := renew(time.Now()); left <= 0 {
			t.Error("not present after he came back")
		}
	})
}

// C13: what nobody heard of is found by the comparison of positions; and what is
// kept of a chat is bounded.
func TestC13_Comparison(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		l := w.mustLive()
		chat := w.id("team")
		w.mustCreate("team", "ann", "bob")
		st, err := l.Stream(t.Context(), w.id("bob"), "")
		storetest.Must(t, err)
		defer st.Close(t.Context())
		top := l.topic(liveChannel(chat))
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
			_, _, err := w.Send(t.Context(), Outgoing{Chat: chat, Sender: w.id("ann"), Text: text})
			storetest.Must(t, err)
		}
		send("heard")
		read(1)
		// As if Redis had dropped the subscription without a word.
		l.mu.Lock()
		l.topics = map[string]*topic{st.told.channel: st.told}
		l.mu.Unlock()
		send("not heard")
		select {
		case <-st.Wake():
			if events, err := st.Read(t.Context()); err != nil || len(events) > 0 {
				t.Fatalf("heard %+v %v", events, err)
			}
		case <-time.After(200 * time.Millisecond):
		}
		l.mu.Lock()
		l.topics[top.channel] = top
		l.mu.Unlock()
		l.tick(time.Now().Add(checkEvery))
		l.hurry()
		read(1)
		for range 40 {
			send(strings.Repeat("x", 4000))
		}
		read(40)
		if len(top.ring) > keptMessages || top.bytes > keptBytes || l.kept.used.Load() != int64(top.bytes) {
			t.Errorf("%d messages, %d bytes, %d in all", len(top.ring), top.bytes, l.kept.used.Load())
		}
		l.tick(time.Now().Add(2 * checkEvery))
		if n := l.kept.used.Load(); n != 0 {
			t.Errorf("%d bytes are kept of what every stream has had time for", n)
		}
	})
}

// Streams of a Redis that takes no subscription are refused in time.
func TestC13_NoSubscription(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, "embedded"), Options{})
	l := NewLive(w.Store, w.db, nil) // and nobody runs it
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := l.Stream(ctx, "ann", "")
	storetest.WantCode(t, err, api.CodeUnavailable)
	if len(l.present) != 0 || len(l.topics) != 0 {
		t.Errorf("left behind: %v %v", l.present, l.topics)
	}
}

// C13: joins and leaves are followed also when they come while the last one is
// still being read.
func TestC13_JoinsAndLeavesAtOnce(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		l := w.mustLive()
		chat, ann, bob := w.id("team"), w.id("ann"), w.id("bob")
		w.mustCreate("team", "ann", "bob")
		st, err := l.Stream(t.Context(), bob, "")
		storetest.Must(t, err)
		defer st.Close(t.Context())
		heard := make(chan string, 1000)
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
						heard <- e.Message.Text
					}
				}
			}
		}()
		defer func() {
			cancel()
			<-done
		}()
		for n := range 100 {
			storetest.Must(t, w.Leave(t.Context(), chat, bob))
			_, _, err := w.Join(t.Context(), chat, bob, false)
			storetest.Must(t, err)
			_, _, err = w.Send(t.Context(), Outgoing{Chat: chat, Sender: ann, Text: fmt.Sprint(n)})
			storetest.Must(t, err)
			for late := time.After(testPatience); ; {
				select {
				case text := <-heard:
					if text != fmt.Sprint(n) {
						t.Fatalf("heard %s instead of %d", text, n)
					}
				case <-late:
					t.Fatalf("message %d is not heard", n)
				}
				break
			}
		}
	})
}
