package shard_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/queue"
	"fanfare/store/queue/shard"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// TestAWakeUpIsPutBackOnce: what tells of a delayed job goes back when a dead connection
// was given it, and stays there while nobody reads.
func TestAWakeUpIsPutBackOnce(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		p := w.mustStep()
		w.mustEnqueue(queue.Job{Delay: time.Hour})
		if n, err := p.Block(t.Context()); err != nil || n != 1 {
			t.Fatalf("a blocking read was given %d entries, %v", n, err)
		}
		ready := w.prefix() + "ready"
		pending := func() int64 {
			storetest.Must(t, p.Maintain())
			v, err := db.Client().XPending(t.Context(), ready, "g").Result()
			storetest.Must(t, err)
			return v.Count
		}
		storetest.Eventually(t, time.Minute, "it is put back", func() bool { return pending() == 0 })
		for range 3 {
			storetest.Must(t, p.Maintain())
		}
		if n := db.Client().XLen(t.Context(), ready).Val(); n != 1 {
			t.Errorf("%d entries wait, not the one wake-up", n)
		}
		if jobs, err := p.Claim(10); err != nil || len(jobs) != 0 {
			t.Errorf("%d jobs were claimed, %v", len(jobs), err)
		}
		if n := db.Client().XLen(t.Context(), ready).Val(); n != 0 {
			t.Errorf("%d entries are left after a claim", n)
		}
		w.mustBeConsistent()
	})
}

// TestNobodyBlocksWithoutALife: a session ends while its shard waits for a free place. Who
// blocked then would look at nothing, and begin no session, until something is enqueued.
func TestNobodyBlocksWithoutALife(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		p := w.mustStep()
		p.EndSession()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := p.Block(ctx); err != nil || ctx.Err() != nil {
			t.Errorf("it blocked: %v, %v", err, ctx.Err())
		}
		storetest.Must(t, p.Begin())
		w.mustEnqueue(queue.Job{})
		if n, err := p.Block(t.Context()); err != nil || n != 1 {
			t.Errorf("with another session it was given %d entries, %v", n, err)
		}
	})
}

// TestConsumersGoWithTheirLives: one whose session ended, with a job in hand, and one
// of whose session Redis knows nothing any more.
func TestConsumersGoWithTheirLives(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		w.mustEnqueue(queue.Job{}, queue.Job{}, queue.Job{})
		lives := map[string]*shard.Stepper{}
		for _, name := range []string{"crashed", "forgotten", "present"} {
			p := w.mustStep()
			if batch, err := p.Claim(1); err != nil || len(batch) != 1 {
				t.Fatal(batch, err)
			}
			lives[name] = p
		}
		owners := w.prefix() + "owners"
		db.Client().ZAdd(t.Context(), owners, redis.Z{Score: 1, Member: lives["crashed"].Session()})
		db.Client().ZRem(t.Context(), owners, lives["forgotten"].Session())
		if err := lives["present"].Maintain(); err != nil {
			t.Fatal(err)
		}
		for _, stream := range []string{"main", "ready", "few", "alone"} {
			for _, c := range db.Client().XInfoConsumers(t.Context(), w.prefix()+stream, "g").Val() {
				if c.Name != lives["present"].Session() {
					t.Errorf("%s has the consumer %s", stream, c.Name)
				}
			}
		}
		if batch, err := lives["present"].Claim(10); err != nil || len(batch) != 2 {
			t.Errorf("%d of 2 jobs came back, %v", len(batch), err)
		}
		w.mustBeConsistent()
	})
}
