package live

import (
	"sync"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// C14: presence lives 30 s, is renewed by the process, many users in one
// pipeline, and ends with the last of a user's streams.
func TestC14_Presence(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		h, user := w.mustHub(), w.id("ann")
		ttl := func() time.Duration {
			left, err := w.db.Client().PTTL(t.Context(), PresenceKey(user)).Result()
			storetest.Must(t, err)
			return left
		}
		one, err := h.Stream(t.Context(), user, "")
		storetest.Must(t, err)
		two, err := h.Stream(t.Context(), user, "")
		storetest.Must(t, err)
		if left := ttl(); left <= 20*time.Second || left > 30*time.Second { // the contract's number
			t.Fatalf("present for %v", left)
		}
		storetest.Must(t, w.db.Client().PExpire(t.Context(), PresenceKey(user), time.Second).Err())
		h.presence.renew(t.Context(), time.Now()) // nothing has arrived
		if left := ttl(); left > time.Second {
			t.Errorf("renewed early: %v", left)
		}
		two.Reached(time.Now())
		h.presence.renew(t.Context(), time.Now())
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
		three, err := h.Stream(t.Context(), user, "")
		storetest.Must(t, err)
		three.Close(t.Context())
		if left := ttl(); left > 0 {
			t.Errorf("still present for %v", left)
		}
		if len(h.presence.users) != 0 || len(h.topics) != 0 {
			t.Errorf("left behind: %v %v", h.presence.users, h.topics)
		}
	})
}

// C14: presence lasts 30 s from when that was written which has arrived, however
// late this is known; what has not arrived renews nothing.
func TestC14_PresenceIsCountedFromTheWrite(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		h, user := New(w.Store, w.db, nil), w.id("ann") // nobody runs it but the test
		st := &Stream{hub: h, user: user}
		st.Reached(time.Now()) // before he was there
		h.presence.begin(t.Context(), user)
		h.presence.begin(t.Context(), user)
		opened := h.presence.users[user].lastSeen
		renew := func(at time.Time) time.Duration {
			t.Helper()
			storetest.Must(t, w.db.Client().Del(t.Context(), PresenceKey(user)).Err())
			h.presence.renew(t.Context(), at)
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
		h.presence.users[user].lastSeen, h.presence.users[user].recorded = long, long
		const late = 10 * time.Second
		st.Reached(time.Now().Add(-late))
		st.Reached(time.Now().Add(-2 * late)) // of two streams the later sighting counts
		if left := renew(time.Now()); left <= 0 || left > presenceTTL-late {
			t.Errorf("present for another %v", left)
		}
		if left := renew(time.Now()); left > 0 {
			t.Errorf("the same sighting again: present for another %v", left)
		}
		st.Reached(time.Now())
		if left := renew(time.Now().Add(presenceTTL)); left > 0 {
			t.Errorf("an old sighting: present for another %v", left)
		}
		h.presence.end(t.Context(), user)
		if left := renew(time.Now()); left <= 0 {
			t.Error("not present with one of two streams")
		}
		h.presence.end(t.Context(), user)
		if left := renew(time.Now()); left > 0 {
			t.Errorf("present for another %v without a stream", left)
		}
		// A stream that begins while the last one ends is marked again.
		h.presence.begin(t.Context(), user)
		h.presence.recordAgain(user)
		if left := renew(time.Now()); left <= 0 {
			t.Error("not present after he came back")
		}
	})
}

// C14: a stream that begins while the user's last one ends leaves him present, whatever
// is written first.
func TestC14_AStreamBeginsWhileAnotherEnds(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		h, user := New(w.Store, w.db, nil), w.id("ann") // nobody runs it but the test
		for n := range 200 {
			h.presence.begin(t.Context(), user)
			var both sync.WaitGroup
			both.Go(func() { h.presence.end(t.Context(), user) })
			both.Go(func() { h.presence.begin(t.Context(), user) })
			both.Wait()
			h.presence.renew(t.Context(), time.Now()) // what Run does each second
			if there, err := w.db.Client().Exists(t.Context(), PresenceKey(user)).Result(); err != nil || there != 1 {
				t.Fatalf("not present with an open stream in round %d: %v", n, err)
			}
			h.presence.end(t.Context(), user)
		}
	})
}
