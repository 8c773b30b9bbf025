package badges_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/badges"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

func each(t *testing.T, fn func(t *testing.T, s *badges.Store, db *redisdb.DB, user string)) {
	t.Helper()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		db = patient(t, db)
		fn(t, badges.New(db, badges.Options{}), db, fmt.Sprintf("user-%d", time.Now().UnixNano()))
	})
}

// patient opens a Redis once more, with round trips that may take long, because the machine may be busy.
func patient(t *testing.T, db *redisdb.DB) *redisdb.DB {
	t.Helper()
	return storetest.Faulty(t, db, func(string, bool) error { return nil })
}

func once(key, body string) api.Idempotency {
	o := api.Idempotency{Key: key, Scope: "POST badge"}
	copy(o.Body[:], body)
	return o
}

// asks are about the numbers of an event that came at a time.
func asks(event string, mode api.BadgeMode, came time.Time, users ...string) (all []badges.Ask) {
	for _, user := range users {
		all = append(all, badges.Ask{User: user, Event: event, Mode: mode, Came: came})
	}
	return all
}

func reach(t *testing.T, s *badges.Store, event string, mode api.BadgeMode, came time.Time, users ...string) (numbers []int64) {
	t.Helper()
	for _, r := range s.Reach(t.Context(), asks(event, mode, came, users...)) {
		storetest.Must(t, r.Err)
		numbers = append(numbers, r.Count)
	}
	return numbers
}

func mustNumbers(t *testing.T, what string, got, want []int64) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// B1: a badge is set and changed, stays between 0 and 99,999, and its version rises. One that was never set is 0 with
// version 0.
func TestB1_SetAndAdd(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *badges.Store, _ *redisdb.DB, user string) {
		began := time.Now()
		b, err := s.Get(t.Context(), user)
		if err != nil || *b != (api.Badge{}) {
			t.Errorf("one that was never set: %+v, %v", b, err)
		}
		last := &api.Badge{Version: 1}
		check := func(b *api.Badge, err error, count int64) {
			t.Helper()
			storetest.Must(t, err)
			if b.Count != count || b.Version <= last.Version || b.Since == nil || last.Since != nil && !b.Since.Equal(last.Since.Time) {
				t.Errorf("%+v, want %d after %+v", b, count, last)
			}
			last = b
		}
		for _, step := range []struct {
			delta, count int64
		}{{3, 3}, {-1, 2}, {-5, 0}, {99_999, 99_999}, {1, 99_999}} {
			b, again, err := s.Add(t.Context(), user, step.delta, api.Idempotency{})
			check(b, err, step.count)
			if again {
				t.Error("it was done before")
			}
		}
		b, at, err := s.Set(t.Context(), user, 7, false)
		check(b, err, 7)
		if !at.IsZero() {
			t.Errorf("it is to be shown at %v", at)
		}
		b, err = s.Get(t.Context(), user)
		if err != nil || b.Count != 7 || b.Version != last.Version || !b.Since.Equal(last.Since.Time) || b.Since.Sub(began).Abs() > time.Hour {
			t.Errorf("%+v, %v after %+v", b, err, last)
		}
	})
}

// B1: an Idempotency-Key changes a badge once, and is refused with another body. It is one user's.
func TestB1_Idempotency(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *badges.Store, _ *redisdb.DB, user string) {
		var first *api.Badge
		for i := range 3 {
			b, again, err := s.Add(t.Context(), user, 2, once("k", "two"))
			storetest.Must(t, err)
			if first == nil {
				first = b
			}
			if b.Count != 2 || b.Version != first.Version || !b.Since.Equal(first.Since.Time) || again != (i > 0) {
				t.Errorf("%+v, %t, first %+v", b, again, first)
			}
			_, _, err = s.Add(t.Context(), user, 1, api.Idempotency{}) // others go on
			storetest.Must(t, err)
		}
		if _, _, err := s.Add(t.Context(), user, 3, once("k", "three")); api.CodeOf(err) != api.CodeIdempotencyReused {
			t.Errorf("another body: %v", err)
		}
		if b, again, err := s.Add(t.Context(), user+"2", 3, once("k", "three")); err != nil || again || b.Count != 3 {
			t.Errorf("another user: %+v, %t, %v", b, again, err)
		}
	})
}

// B1: a request that is sent to Redis twice, because its answer was lost, changes the badge once and is answered as at first,
// also if an event has raised the badge in between.
func TestB1_SentTwice(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, plain *badges.Store, db *redisdb.DB, user string) {
		var mu sync.Mutex
		n := 0
		s := badges.New(storetest.Faulty(t, db, func(name string, answered bool) error {
			if name != "badge_change" || !answered {
				return nil
			}
			mu.Lock()
			n++
			event := fmt.Sprint("between-", n)
			mu.Unlock()
			plain.Reach(t.Context(), asks(event, api.BadgeAdd, time.Now(), user))
			return storetest.ErrTwice
		}), badges.Options{})
		b, _, err := s.Add(t.Context(), user, 5, api.Idempotency{})
		if err != nil || b.Count != 5 {
			t.Errorf("added 5: %+v, %v", b, err)
		}
		if b, err := plain.Get(t.Context(), user); err != nil || b.Count != 6 {
			t.Errorf("with an event in between: %+v, %v", b, err)
		}
		if b, _, err = s.Set(t.Context(), user, 0, false); err != nil || b.Count != 0 {
			t.Errorf("set to 0: %+v, %v", b, err)
		}
		if b, err := plain.Get(t.Context(), user); err != nil || b.Count != 1 {
			t.Errorf("with an event in between: %+v, %v", b, err)
		}
		mustNumbers(t, "an event", reach(t, s, "e", api.BadgeAdd, time.Now(), user), []int64{2})
	})
}

// B1: an event raises the badges of its users once each, whoever asks again, and gives the same numbers again. Without raising
// it shows the numbers as they are.
func TestB1_AnEventRaisesOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *badges.Store, _ *redisdb.DB, user string) {
		users := []string{user + "a", user + "b", user + "c"}
		_, _, err := s.Set(t.Context(), users[1], 10, false)
		storetest.Must(t, err)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for i, r := range s.Reach(t.Context(), asks("e1", api.BadgeAdd, time.Now(), users...)) {
					if want := []int64{1, 11, 1}[i]; r.Err != nil || r.Count != want {
						t.Errorf("%s is told %+v", users[i], r)
					}
				}
			})
		}
		all.Wait()
		mustNumbers(t, "the second event", reach(t, s, "e2", api.BadgeAdd, time.Now(), users...), []int64{2, 12, 2})
		mustNumbers(t, "the first event again", reach(t, s, "e1", api.BadgeAdd, time.Now(), users...), []int64{1, 11, 1})
		for range 2 {
			mustNumbers(t, "shown", reach(t, s, "e3", api.BadgeCount, time.Now(), append(users, user+"none")...), []int64{2, 12, 2, 0})
		}
	})
}

// B1: what changed a badge is known for a period at least, also when the next one begins, and goes at the end of that.
func TestB1_NamesEnd(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *badges.Store, db *redisdb.DB, user string) {
		const period = 2 * time.Second
		s.SetPeriod(period)
		nth := func() int64 {
			now, err := db.Client().Time(t.Context()).Result()
			storetest.Must(t, err)
			return now.UnixMilli() / period.Milliseconds()
		}
		names := func() (n int64) {
			for _, key := range []string{"names:0", "names:1"} {
				n += db.Client().HLen(t.Context(), "ff:{badge:"+user+"}:"+key).Val()
			}
			return n
		}
		checked := false
		for i := 0; !checked; i++ {
			before, event := nth(), fmt.Sprint("e", i)
			first := reach(t, s, event, api.BadgeAdd, time.Now(), user)
			if nth() != before {
				continue // the machine is busy
			}
			storetest.Eventually(t, time.Minute, "the next period", func() bool { return nth() > before })
			again := reach(t, s, event, api.BadgeAdd, time.Now(), user)
			if nth() == before+1 {
				mustNumbers(t, "in the next period", again, first)
				checked = true
			}
		}
		if names() == 0 {
			t.Error("there are no names")
		}
		storetest.Eventually(t, time.Minute, "the names to be gone", func() bool { return names() == 0 })
		if b, err := s.Get(t.Context(), user); err != nil || b.Count == 0 {
			t.Errorf("the badge is %+v, %v", b, err)
		}
	})
}

// B1: with the usual settings names are known for 25 h at least and 50 h at most, and a badge for a year. A user costs little.
func TestB1_WhatABadgeCosts(t *testing.T) {
	t.Parallel()
	db := patient(t, storetest.Open(t, storetest.Redis(t).URL()))
	s, keys := badges.New(db, badges.Options{MaxAge: time.Hour}), []string{"ff:{badge:bob}:count", "ff:{badge:bob}:names:0", "ff:{badge:bob}:names:1"}
	bytes := func() (n int64) {
		for _, key := range keys {
			n += db.Client().MemoryUsage(t.Context(), key).Val()
		}
		return n
	}
	const events = 50
	event := func(i int) string { return fmt.Sprintf("0seuk18detj6msoho4cjijei0ijm%04d", i) }
	reach(t, s, event(0), api.BadgeAdd, time.Now(), "bob")
	first := bytes()
	for i := range events {
		reach(t, s, event(i+1), api.BadgeAdd, time.Now(), "bob")
	}
	if more := (bytes() - first) / events; first > 700 || more > 60 {
		t.Errorf("the first event costs %d bytes, each further one %d", first, more)
	}
	for i, key := range keys {
		least, most := 24*time.Hour, 50*time.Hour
		if i == 0 {
			least, most = 364*24*time.Hour, 366*24*time.Hour
		}
		if left := db.Client().PTTL(t.Context(), key).Val(); left != -2 && (left < least || left > most) {
			t.Errorf("%s is kept for %v", key, left)
		}
	}
}

// B1: a Redis whose memory is full raises badges of events that were accepted.
func TestB1_AFullRedis(t *testing.T) {
	t.Parallel()
	db := patient(t, storetest.Open(t, storetest.Redis(t).URL()))
	s := badges.New(db, badges.Options{})
	storetest.Must(t, db.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())
	if err := db.Client().Set(t.Context(), "more", "x", 0).Err(); err == nil {
		t.Fatal("Redis has room")
	}
	for n := range 3 {
		mustNumbers(t, "a full Redis", reach(t, s, fmt.Sprint("e", n), api.BadgeAdd, time.Now(), "bob", "eve"), []int64{int64(n + 1), int64(n + 1)})
	}
	storetest.Must(t, s.Erase(t.Context(), "bob", time.Now().Add(time.Hour)))
}

// B2: a number is shown at once if the last time is a minute ago, and else a minute after the last time, which all calls until
// then are told.
func TestB2_ShownOnceAMinute(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *badges.Store, db *redisdb.DB, user string) {
		set := func(show bool) time.Time {
			t.Helper()
			_, at, err := s.Set(t.Context(), user, 1, show)
			storetest.Must(t, err)
			return at
		}
		before, err := db.Client().Time(t.Context()).Result()
		storetest.Must(t, err)
		if at := set(true); !at.IsZero() {
			t.Errorf("the first time: %v", at)
		}
		second := set(true)
		if wait := second.Sub(before); wait < 59*time.Second || wait > 5*time.Minute {
			t.Errorf("the second one is shown after %v", wait)
		}
		if third := set(true); !third.Equal(second) || !set(false).IsZero() || !set(true).Equal(second) {
			t.Errorf("the third one at %v, the second at %v", third, second)
		}
		key := "ff:{badge:" + user + "}:count"
		parts := strings.Fields(db.Client().Get(t.Context(), key).Val())
		parts[4] = strconv.FormatInt(before.Add(-time.Minute).UnixMilli(), 10) // when it is to be shown
		storetest.Must(t, db.Client().SetArgs(t.Context(), key, strings.Join(parts, " "), redis.SetArgs{KeepTTL: true}).Err())
		if at := set(true); !at.IsZero() {
			t.Errorf("a minute later: %v", at)
		}
	})
}

// B2: a Redis that has lost its data begins at 0, and tells.
func TestB2_LostData(t *testing.T) {
	t.Parallel()
	db := patient(t, storetest.Open(t, storetest.Redis(t).URL()))
	s := badges.New(db, badges.Options{})
	before, _, err := s.Set(t.Context(), "bob", 5, false)
	storetest.Must(t, err)
	storetest.Must(t, db.Client().FlushAll(t.Context()).Err())
	if b, err := s.Get(t.Context(), "bob"); err != nil || *b != (api.Badge{}) {
		t.Errorf("%+v, %v", b, err)
	}
	storetest.Eventually(t, time.Minute, "another millisecond", func() bool { return time.Since(before.Since.Time) > 2*time.Millisecond })
	if b, _, err := s.Add(t.Context(), "bob", 1, api.Idempotency{}); err != nil || b.Count != 1 || b.Version <= before.Version || !b.Since.After(before.Since.Time) {
		t.Errorf("%+v, %v after %+v", b, err, before)
	}
}

// E6: an erasure removes a badge and what changed it, unless a request or an event that came since has changed it. An event
// that came before counts as old, also if it raises the badge later.
func TestE6_BadgesAreErased(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *badges.Store, db *redisdb.DB, user string) {
		now, err := db.Client().Time(t.Context()).Result()
		storetest.Must(t, err)
		gone := func(since time.Time) bool {
			t.Helper()
			storetest.Must(t, s.Erase(t.Context(), user, since))
			return len(storetest.KeysWith(t, db, user)) == 0
		}
		_, _, err = s.Set(t.Context(), user, 5, false)
		storetest.Must(t, err)
		if gone(now.Add(-time.Hour)) {
			t.Error("a badge that was set since is gone")
		}
		if !gone(now.Add(time.Hour)) {
			t.Error("an old badge is there")
		}
		reach(t, s, "old", api.BadgeAdd, now.Add(-time.Minute), user)
		if !gone(now.Add(-time.Second)) {
			t.Error("what an old event raised is there")
		}
		reach(t, s, "new", api.BadgeAdd, now, user)
		reach(t, s, "old", api.BadgeAdd, now.Add(-time.Minute), user)
		if gone(now.Add(-time.Second)) {
			t.Error("what a new event raised is gone")
		}
	})
}

// Failure table: while a slot moves, an event raises a badge in it once or not yet, whatever part of its keys has moved, and
// events that raised it before get their numbers or nothing.
func TestB1_ASlotThatMoves(t *testing.T) {
	t.Parallel()
	cluster := storetest.PrivateCluster(t, 0)
	s := badges.New(patient(t, storetest.Open(t, cluster.URL())), badges.Options{})
	for round, early := range []string{"", "count", "names:0", "names:1"} {
		user := fmt.Sprint("user-", round)
		mustNumbers(t, "before", reach(t, s, "e0", api.BadgeAdd, time.Now(), user), []int64{1})
		m := storetest.BeginMove(t, cluster, "ff:{badge:"+user+"}:count")
		for _, key := range m.Rest() {
			if early != "" && strings.HasSuffix(key, early) {
				m.Move(key)
			}
		}
		given := map[string]int64{"e0": 1}
		for n := range 6 {
			event := fmt.Sprint("e", n%3)
			r := s.Reach(t.Context(), asks(event, api.BadgeAdd, time.Now(), user))[0]
			was, known := given[event]
			switch {
			case r.Err != nil && api.CodeOf(r.Err) != api.CodeUnavailable:
				t.Errorf("round %d: %v", round, r.Err)
			case r.Err == nil && known && r.Count != was:
				t.Errorf("round %d: %s has %d, then %d", round, event, was, r.Count)
			case r.Err == nil:
				given[event] = r.Count
			}
		}
		m.Finish()
		for n := range 3 {
			event, last := fmt.Sprint("e", n), badges.Reached{}
			storetest.Eventually(t, time.Minute, "the slot has moved", func() bool {
				last = s.Reach(t.Context(), asks(event, api.BadgeAdd, time.Now(), user))[0]
				return last.Err == nil
			})
			if was, known := given[event]; known && was != last.Count {
				t.Errorf("round %d: %s had %d, and has %d", round, event, was, last.Count)
			}
		}
		if b, err := s.Get(t.Context(), user); err != nil || b.Count != 3 {
			t.Errorf("round %d: %+v, %v after 3 events", round, b, err)
		}
	}
}

// B1: what changed a badge without an Idempotency-Key is known for two minutes at most, so that a caller cannot fill Redis with
// it.
func TestB1_UnnamedRequestsAreSoonForgotten(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *badges.Store, db *redisdb.DB, user string) {
		for i := range 20 {
			_, _, err := s.Set(t.Context(), user, int64(i), false)
			storetest.Must(t, err)
			_, _, err = s.Add(t.Context(), user, 1, api.Idempotency{})
			storetest.Must(t, err)
		}
		lives := func(key string) time.Duration { return db.Client().PTTL(t.Context(), "ff:{badge:"+user+"}:"+key).Val() }
		for _, key := range []string{"names:0", "names:1"} {
			if db.Client().Exists(t.Context(), "ff:{badge:"+user+"}:"+key).Val() != 0 {
				t.Errorf("%s is there for %v", key, lives(key))
			}
		}
		if longest := max(lives("sent:0"), lives("sent:1")); longest <= 0 || longest > 2*time.Minute {
			t.Errorf("they are known for %v", longest)
		}
		storetest.Must(t, s.Erase(t.Context(), user, time.Now().Add(time.Hour)))
		if found := storetest.KeysWith(t, db, user); len(found) > 0 {
			t.Errorf("there is %v after an erasure", found)
		}
	})
}
