package events

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

func pushOf(n int, at time.Time) api.NamedEvent {
	return api.NamedEvent{Name: fmt.Sprint("chat team e ", n), Route: "team", At: at}
}

func withdrawing(db *redisdb.DB) *Store {
	q := queue.New(db, queue.Options{Name: "events"})
	return New(Options{DB: db, Queue: q, Notifications: q})
}

// C19: every process finds the events that any process withdrew, however many they are and however old:
// dead letters that were tried again may have their notifications much later.
func TestC19_WithdrawnEvents(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		one, other := withdrawing(db), withdrawing(db)
		now := time.Now()
		events := make([]api.NamedEvent, 1000)
		for i := range events {
			events[i] = pushOf(i, now)
		}
		if _, fresh := other.Withdrawn("x"); fresh {
			t.Error("a process knows what is withdrawn before it has read it")
		}
		other.RefreshWithdrawn(t.Context())
		if is, fresh := other.Withdrawn(one.NamedID(&events[0])); is || !fresh {
			t.Errorf("before: withdrawn %v, fresh %v", is, fresh)
		}
		old := pushOf(-1, now.Add(-29*24*time.Hour))
		storetest.Must(t, one.Withdraw(t.Context()))
		if found := storetest.KeysWith(t, db, keyWithdrawn); len(found) > 0 {
			t.Errorf("of no event %v is kept", found)
		}
		storetest.Must(t, one.Withdraw(t.Context(), append(events[:999:999], old, events[999])...))
		storetest.Eventually(t, time.Minute, "the other process knows them", func() bool {
			other.RefreshWithdrawn(t.Context())
			is, _ := other.Withdrawn(one.NamedID(&events[999]))
			return is
		})
		for _, n := range append(events, old) {
			if is, _ := other.Withdrawn(one.NamedID(&n)); !is {
				t.Fatalf("event %q is not known to be withdrawn", n.Name)
			}
		}
		ttl := redis.NewDurationCmd(t.Context(), time.Millisecond, "pttl", keyWithdrawn)
		storetest.Must(t, db.Share(t.Context(), redisdb.Read, ttl))
		if left := ttl.Val(); left <= 16*24*time.Hour || left > 17*24*time.Hour { // MaxAge is a day
			t.Errorf("what is withdrawn is kept for %v", left)
		}
	})
}

// A process that begins reads page after page.
func TestC19_ManyWithdrawnEvents(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Redis(t).URL())
	cmds := make([]redis.Cmder, 2*setPage+1)
	for i := range cmds {
		cmds[i] = redis.NewStringCmd(t.Context(), "xadd", keyWithdrawn, "*", "e", fmt.Sprint("e", i))
	}
	storetest.Must(t, db.Pipeline(t.Context(), redisdb.Write, cmds...))
	s := withdrawing(db)
	s.RefreshWithdrawn(t.Context())
	for i := range cmds {
		if is, _ := s.Withdrawn(fmt.Sprint("e", i)); !is {
			t.Fatalf("event %d is not known to be withdrawn", i)
		}
	}
}

// The view forgets what Redis forgets.
func TestWithdrawnEventsAreForgotten(t *testing.T) {
	t.Parallel()
	w := newEventSet(&Options{}, time.Hour, "key")
	one := &w.streams[0]
	entry := func(ms int64, event string) redis.XMessage {
		return redis.XMessage{ID: fmt.Sprint(ms, "-0"), Values: map[string]any{"e": event}}
	}
	w.learn(one, []redis.XMessage{entry(1000, "a"), entry(2000, "b")})
	w.learn(one, []redis.XMessage{entry(1000+time.Hour.Milliseconds()+1, "c")})
	if _, is := w.events["a"]; is || len(w.events) != 2 {
		t.Errorf("it has %v", w.events)
	}
}

// While Redis cannot be read, or has not been read for a second, nothing is known.
func TestC19_WhatIsWithdrawnIsNotKnown(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	s := withdrawing(storetest.Open(t, server.URL()))
	s.RefreshWithdrawn(t.Context())
	if _, fresh := s.Withdrawn("x"); !fresh {
		t.Fatal("it could not be read")
	}
	server.Kill()
	storetest.Eventually(t, time.Minute, "the view to be too old", func() bool {
		s.RefreshWithdrawn(t.Context())
		_, fresh := s.Withdrawn("x")
		return !fresh
	})
	server.Restart()
	storetest.Eventually(t, time.Minute, "it is read again", func() bool {
		s.RefreshWithdrawn(t.Context())
		_, fresh := s.Withdrawn("x")
		return fresh
	})
}
