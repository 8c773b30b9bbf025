package facts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/queue/queuetest"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// relayed is a world with a second queue, whose shards leave facts for the lanes of the first.
type relayed struct {
	*world
	other *queue.Queue

	mu   sync.Mutex
	over map[string]bool // events that are over
	fail error           // of the question
}

func setupRelay(t testing.TB, db *redisdb.DB) *relayed {
	t.Helper()
	r := &relayed{over: map[string]bool{}}
	o := queuetest.Options(t)
	o.Shards = 3
	r.other = queue.New(db, o)
	r.world = setup(t, db, func(o *Options) {
		o.Outboxes, o.Over = OutboxesOf(r.other), r.ask
		o.Failed = func(*api.DeadLetter) json.RawMessage { return nil }
	})
	return r
}

func (r *relayed) ask(_ context.Context, ids []string) (map[string]json.RawMessage, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	over := map[string]json.RawMessage{}
	for _, id := range ids {
		if r.over[id] {
			over[id] = json.RawMessage("0")
		}
	}
	return over, r.fail
}

func (r *relayed) mustLeave(shard int, typ, key, data string, at ...string) {
	r.t.Helper()
	at = append(at, "1700000000000")
	storetest.Must(r.t, r.db.Client().XAdd(r.t.Context(), &redis.XAddArgs{Stream: outboxKey(r.other, shard),
		Values: []string{"t", typ, "k", key, "a", at[0], "d", data}}).Err())
}

// relay is another process with the same Redis.
func (r *relayed) relay(db *redisdb.DB) *Store {
	o := r.s.o
	o.DB = db
	return New(o)
}

// H1: what a step of another slot has left comes into the lane of its key once and in its order, whichever and how many processes
// move it, and wherever they die.
func TestH1_WhatWasLeftIsMovedOnce(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		r := setupRelay(t, db)
		want := map[string][]int{}
		for n := range 700 {
			key := fmt.Sprint("key", n%17) // the facts of a key are left in one shard
			r.mustLeave(n%17%3, "a", key, fmt.Sprint(n))
			want[key] = append(want[key], n)
		}
		for n := range 30 { // processes that die after that many calls, some of which had their effect
			_ = r.relay(storetest.Faulty(t, db, storetest.DieAt(n%9).Fault)).round(t.Context(), r.s.o.Outboxes)
		}
		storetest.AtOnce(t, 4, func(ctx context.Context, _ int) error {
			s := r.relay(db)
			return s.round(ctx, s.o.Outboxes)
		})
		facts, _, _ := r.mustReadAll("", 1000)
		got := map[string][]int{}
		for _, f := range facts {
			got[f.Key] = append(got[f.Key], numberOf(t, f))
			if f.At.UnixMilli() != 1700000000000 {
				t.Fatalf("a fact happened at %v", f.At)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the lanes have %v, want %v", got, want)
		}
		for _, o := range r.s.o.Outboxes {
			if n := db.Client().XLen(t.Context(), o.Key).Val(); n != 0 {
				t.Errorf("%s still has %d", o.Name, n)
			}
		}
	})
}

// H1, H2: that an event is over is told once, after all facts about it that were left before, however many notes say that it may be.
func TestH1_EventsAreOverOnce(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		r := setupRelay(t, db)
		ids := make([]string, 40)
		for i := range ids {
			ids[i] = queue.NewID(i%4, time.Now())
			r.mustLeave(0, noteEnded, ids[i], "")
			r.mustLeave(1, noteEnded, ids[i]+":fcm", "")
		}
		storetest.Must(t, r.s.round(t.Context(), r.s.o.Outboxes))
		if facts, _, _ := r.mustReadAll("", 100); len(facts) > 0 {
			t.Fatalf("events that are not over: %v", facts)
		}
		for i, id := range ids { // the last failures are in another outbox than the notes
			for n := range 1 + i%3 {
				r.mustLeave(2, api.FactNotificationFailed, id, fmt.Sprint(n))
			}
			r.over[id] = i%8 != 7
			r.mustLeave(0, noteEnded, id, "")
			r.mustLeave(1, noteEnded, id+":fcm", "")
		}
		for n := range 20 {
			_ = r.relay(storetest.Faulty(t, db, storetest.DieAt(n%11).Fault)).round(t.Context(), r.s.o.Outboxes[:1+n%2])
		}
		storetest.AtOnce(t, 4, func(ctx context.Context, _ int) error {
			s := r.relay(db)
			return s.round(ctx, s.o.Outboxes[:1+rand.IntN(3)])
		})
		storetest.Must(t, r.s.round(t.Context(), r.s.o.Outboxes))
		facts, _, _ := r.mustReadAll("", 1000)
		told := map[string][]string{}
		for _, f := range facts {
			told[f.Key] = append(told[f.Key], f.Type)
		}
		for i, id := range ids {
			want := slices.Repeat([]string{api.FactNotificationFailed}, 1+i%3)
			if r.over[id] {
				want = append(want, api.FactEventDone)
			}
			if !slices.Equal(told[id], want) {
				t.Errorf("event %d has %v, want %v", i, told[id], want)
			}
		}
	})
}

// H1: that an event was told to be over is remembered for KeepDone, in a key of its own, which a retried dead letter does not prolong.
func TestH1_HowLongAnEndIsRemembered(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		const keep = 5 * time.Hour
		r, id := setupRelay(t, db), queue.NewID(1, time.Now())
		r.s.o.KeepDone, r.over[id] = keep, true
		key := r.q.KeyBeside(r.q.LaneOf(id), "facts:done:"+id[:overPart])
		ends := func(when string, told int, least, most time.Duration) {
			t.Helper()
			r.mustLeave(0, noteEnded, id, "")
			storetest.Must(t, r.s.round(t.Context(), r.s.o.Outboxes))
			if facts, _, _ := r.mustReadAll("", 10); len(facts) != told {
				t.Errorf("%s: it is told %d times, want %d", when, len(facts), told)
			}
			if left := db.Client().PTTL(t.Context(), key).Val(); left <= least || left > most {
				t.Errorf("%s: it is remembered for %v, want %v", when, left, most)
			}
		}
		ends("at its end", 1, keep-time.Minute, keep)
		storetest.Must(t, db.Client().PExpire(t.Context(), key, time.Hour).Err())
		ends("four hours later", 1, 0, time.Hour)
		storetest.Must(t, db.Client().Del(t.Context(), key).Err())
		ends("six hours later", 2, keep-time.Minute, keep)
	})
}

// Notes stay until the report of their event could be read.
func TestNotesStayWhileReportsCannotBeRead(t *testing.T) {
	t.Parallel()
	r := setupRelay(t, storetest.Open(t, "embedded"))
	id := queue.NewID(1, time.Now())
	r.mustLeave(0, noteEnded, id, "")
	r.over[id], r.fail = true, errors.New("away")
	if err := r.s.round(t.Context(), r.s.o.Outboxes); err == nil {
		t.Error("a round without reports succeeded")
	}
	r.fail = nil
	storetest.Must(t, r.s.round(t.Context(), r.s.o.Outboxes))
	if facts, _, _ := r.mustReadAll("", 10); len(facts) != 1 || facts[0].Key != id {
		t.Errorf("the facts are %v", facts)
	}
}

// H1: a process moves within a second what others have left, and at once what it has left itself, also in an outbox that it does not look
// at otherwise.
func TestH1_WithinASecond(t *testing.T) {
	t.Parallel()
	r := setupRelay(t, storetest.Open(t, storetest.Redis(t).URL()))
	own := r.s.o.Outboxes[2]
	r.s.o.Outboxes = r.s.o.Outboxes[:2]
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.s.Run(ctx) }()
	at := r.mustRead(api.FactsNow, 1).Next
	move := func(shard, n int) time.Duration {
		began := time.Now()
		r.mustLeave(shard, "a", "x", fmt.Sprint(n))
		if shard == own.shard {
			r.s.Left(own)
		}
		list, err := r.s.Read(t.Context(), waiting(t, soon), at, nil, 10)
		if err != nil || len(list.Items) != 1 {
			t.Fatalf("fact %d: %v, %v", n, list, err)
		}
		at = list.Next
		return time.Since(began)
	}
	storetest.InTime(t, time.Second, "what another process has left is moved", func(n int) time.Duration { return move(n%2, n) })
	storetest.InTime(t, time.Second/2, "what the process has left is moved", func(n int) time.Duration { return move(own.shard, n) })
	stop()
	storetest.Must(t, <-done)
}

// A full Redis refuses neither the facts of what it does take nor that they are moved.
func TestAFullRedisMovesFacts(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	r := setupRelay(t, storetest.Open(t, server.URL()))
	r.mustLeave(0, "a", "x", "1")
	id := queue.NewID(1, time.Now())
	r.mustLeave(0, noteEnded, id, "")
	r.over[id] = true
	storetest.Must(t, server.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())
	if err := server.Client().Set(t.Context(), "x", "y", 0).Err(); err == nil {
		t.Fatal("Redis is not full")
	}
	storetest.Must(t, r.s.round(t.Context(), r.s.o.Outboxes))
	if facts, _, _ := r.mustReadAll("", 10); len(facts) != 2 {
		t.Errorf("the facts are %v", facts)
	}
}

// What cannot be moved takes no more room than Most facts of each outbox, from the first try on, and the newest stay. What can be moved is
// moved, however much it is.
func TestAnOutboxThatCannotBeMovedIsTrimmed(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Redis(t).URL())
	r := setupRelay(t, db)
	r.s.o.Most = 300
	const many = 1000
	for n := range many {
		r.mustLeave(0, "a", "x", fmt.Sprint(n))
		r.mustLeave(1, "a", "y", fmt.Sprint(n))
	}
	stuck := r.s.o.Outboxes[0]
	cut := r.relay(storetest.FaultyBy(t, db, func(cmd redis.Cmder) string {
		if slices.Contains(cmd.Args(), any(stuck.Name)) { // a move names where the facts come from
			return "move"
		}
		return ""
	}, func(string, bool) error { return storetest.ErrCut }))
	if err := cut.Sweep(t.Context()); err == nil {
		t.Error("all was moved")
	}
	if n := db.Client().XLen(t.Context(), stuck.Key).Val(); n < 300 || n > 500 {
		t.Errorf("%d facts wait that cannot be moved", n)
	}
	storetest.Must(t, r.s.Sweep(t.Context()))
	facts, _, _ := r.mustReadAll("", 1000)
	moved, newest := 0, -1
	for _, f := range facts {
		if f.Key == "y" {
			moved++
		} else {
			newest = numberOf(t, f)
		}
	}
	if moved != many || newest != many-1 {
		t.Errorf("%d facts of %d were moved, and the newest one that waited is %d", moved, many, newest)
	}
}

// While the master of a lane is away, what was left for other lanes is moved, also behind more than a round reads, and what was left for
// this one keeps its order.
func TestALaneIsAwayForTheRelay(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Redis(t).URL())
	r := setupRelay(t, db)
	stuck, free := "x", "y"
	for n := 0; r.q.LaneOf(free) == r.q.LaneOf(stuck); n++ {
		free = fmt.Sprint("y", n)
	}
	var away atomic.Bool
	away.Store(true)
	s := r.relay(storetest.FaultyBy(t, db, func(cmd redis.Cmder) string {
		if slices.Contains(cmd.Args(), any(r.s.keys(r.q.LaneOf(stuck))[0])) {
			return "lane"
		}
		return ""
	}, func(string, bool) error {
		if away.Load() {
			return storetest.ErrCut
		}
		return nil
	}))
	const many = stuckPages * pageSize / 2
	for n := range 2 * many {
		r.mustLeave(0, "a", []string{stuck, free}[n%2], fmt.Sprint(n))
	}
	id := queue.NewID(r.q.LaneOf(free), time.Now())
	r.over[id] = true
	r.mustLeave(1, api.FactNotificationFailed, id, "0")
	r.mustLeave(1, noteEnded, id, "")
	if err := s.Sweep(t.Context()); err == nil {
		t.Error("a round without a lane succeeded")
	}
	if facts, _, _ := r.mustReadAll("", 1000); len(facts) != many+2 {
		t.Errorf("%d facts of %d are there, of the lanes that are", len(facts), many+2)
	}
	away.Store(false)
	storetest.Must(t, s.Sweep(t.Context()))
	facts, _, _ := r.mustReadAll("", 1000)
	last := map[string]int{}
	for _, f := range facts {
		if n := numberOf(t, f); f.Type == "a" && n < last[f.Key] {
			t.Fatalf("%s has %d after %d", f.Key, n, last[f.Key])
		} else if f.Type == "a" {
			last[f.Key] = n
		}
	}
	if len(facts) != 2*many+2 {
		t.Errorf("%d facts of %d are there", len(facts), 2*many+2)
	}
}
