package facts

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/record"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// Outboxes that come and go, such as those of sales, have their facts in one lane, which forgets them when they are so old that it
// would take no fact of theirs. So nothing is told twice by that.
func TestOutboxesAreForgotten(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		r := setupRelay(t, db)
		ctx, c := t.Context(), db.Client()
		now := time.Now()
		leave := func(box Outbox, key string, ago time.Duration) {
			t.Helper()
			id := fmt.Sprintf("%d-1", now.Add(-ago).UnixMilli())
			storetest.Must(t, c.XAdd(ctx, &redis.XAddArgs{Stream: box.Key, ID: id, Values: []string{"t", "a", "k", key, "a", "", "d", "1"}}).Err())
		}
		var boxes []Outbox
		for n := range 20 {
			name := fmt.Sprintf("sale:%s:%d", r.q.Name(), n)
			boxes = append(boxes, OutboxOfSlot(name, "ff:{"+name+"}:facts:out"))
		}
		const day = 24 * time.Hour
		for n, box := range boxes {
			leave(box, "gone", 31*day) // it may have been told
			leave(box, "old", 29*day)
			if n%2 == 0 {
				leave(box, "new", 0)
			}
			storetest.Must(t, r.s.Move(ctx, box))
			if n := c.XLen(ctx, box.Key).Val(); n != 0 {
				t.Errorf("%s still has %d", box.Name, n)
			}
		}
		told := map[string]int{}
		facts, _, _ := r.mustReadAll("", 1000)
		for _, f := range facts {
			told[f.Key]++
		}
		if told["gone"] != 0 || told["old"] != 20 || told["new"] != 10 {
			t.Errorf("told: %v", told)
		}
		known := func() (all, astray int) {
			for n := range r.s.Lanes() {
				for name := range c.HGetAll(ctx, r.s.from(n)).Val() {
					if all++; r.q.LaneOf(name) != n {
						astray++
					}
				}
			}
			return all, astray
		}
		if all, astray := known(); all != 20 || astray != 0 {
			t.Errorf("%d outboxes are known, %d of them in other lanes", all, astray)
		}
		for n, box := range boxes { // as if those without a new fact had theirs some days before
			if n%2 == 1 {
				storetest.Must(t, c.HSet(ctx, r.s.from(r.q.LaneOf(box.Name)), box.Name, fmt.Sprintf("%d-1", now.Add(-32*day).UnixMilli())).Err())
			}
		}
		others := make([]Outbox, r.s.Lanes()) // one for each lane, whose facts are moved there
		for n := 20; slices.Contains(others, Outbox{}); n++ {
			name := fmt.Sprintf("sale:%s:%d", r.q.Name(), n)
			others[r.q.LaneOf(name)] = OutboxOfSlot(name, "ff:{"+name+"}:facts:out")
		}
		storetest.Eventually(t, soon, "only outboxes with a new fact are known", func() bool {
			for _, box := range others {
				storetest.Must(t, c.XAdd(ctx, &redis.XAddArgs{Stream: box.Key, Values: []string{"t", "a", "k", "other", "a", "", "d", "1"}}).Err())
				storetest.Must(t, r.s.Move(ctx, box))
			}
			all, _ := known()
			return all <= 10+len(others)
		})
		for n, box := range boxes {
			if known := c.HExists(ctx, r.s.from(r.q.LaneOf(box.Name)), box.Name).Val(); known != (n%2 == 0) {
				t.Errorf("%s is known: %v", box.Name, known)
			}
		}
	})
}

// E6: what the steps of sales have left about an erased user goes, too. Other tests on the same Cluster erase another user.
func TestE6_WhatSalesHaveLeft(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		r := setupRelay(t, db)
		ctx, c := t.Context(), db.Client()
		box := OutboxOfSlot("sale:"+r.q.Name()+":0", "ff:{sale:"+r.q.Name()+":0}:facts:out")
		for n, user := range []string{"amy", "bob", "amy"} {
			data := fmt.Sprintf(`{"sale":"amy","reservation":"r%d","user":%q,"lines":[]}`, n, user)
			storetest.Must(t, c.XAdd(ctx, &redis.XAddArgs{Stream: box.Key, Values: []string{"t", "a", "k", "amy", "a", "", "d", data}}).Err())
		}
		if n := r.mustErase(&record.Operation{Subject: "amy", Since: time.Now().Add(time.Second).UnixMilli()}); n != 2 {
			t.Errorf("%d were erased, want 2", n)
		}
		storetest.Must(t, r.s.Move(ctx, box))
		if facts, _, _ := r.mustReadAll("", 10); len(facts) != 1 || string(facts[0].Data) != `{"sale":"amy","reservation":"r1","user":"bob","lines":[]}` {
			t.Errorf("these are left: %v", facts)
		}
	})
}

// The outbox of a sale whose lane is away keeps as many facts as an outbox may have.
func TestOutboxesThatCannotBeMovedAreBounded(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Redis(t).URL())
	r := setupRelay(t, db)
	ctx, c := t.Context(), db.Client()
	box := OutboxOfSlot("sale:"+r.q.Name()+":0", "ff:{sale:"+r.q.Name()+":0}:facts:out")
	for n := range 1000 {
		storetest.Must(t, c.XAdd(ctx, &redis.XAddArgs{Stream: box.Key, Values: []string{"t", "a", "k", fmt.Sprint(n), "a", "", "d", "1"}}).Err())
	}
	away := r.relay(storetest.Faulty(t, db, func(name string, _ bool) error {
		if name == "facts_move" {
			return storetest.ErrCut
		}
		return nil
	}))
	away.o.Most = 300
	if err := away.Move(ctx, box); err == nil {
		t.Error("facts were moved to a lane that is away")
	}
	if n := c.XLen(ctx, box.Key).Val(); n < 300 || n > 500 {
		t.Errorf("%d are left", n)
	}
	storetest.Must(t, r.s.Move(ctx, box))
	if facts, _, _ := r.mustReadAll("", 1000); len(facts) < 300 || facts[len(facts)-1].Key != "999" {
		t.Errorf("%d facts are told", len(facts))
	}
}

// An outbox that was named is moved also if all others are looked at just then.
func TestANamedOutboxIsMoved(t *testing.T) {
	t.Parallel()
	r := setupRelay(t, storetest.Open(t, "embedded"))
	box := OutboxOfSlot("sale:"+r.q.Name()+":0", "ff:{sale:"+r.q.Name()+":0}:facts:out")
	storetest.Must(t, r.db.Client().XAdd(t.Context(), &redis.XAddArgs{Stream: box.Key, Values: []string{"t", "a", "k", "x", "a", "", "d", "1"}}).Err())
	r.s.Left(box) // a process that begins looks at all outboxes
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.s.Run(ctx) }()
	list, err := r.s.Read(t.Context(), waiting(t, soon), "", nil, 10)
	if err != nil || len(list.Items) != 1 {
		t.Errorf("there are %v, %v", list, err)
	}
	stop()
	storetest.Must(t, <-done)
}
