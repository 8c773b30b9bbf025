package queue_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// TestPlacesOfLostJobsComeBack: a process with one place loses its lease, and hears of it
// by the answer to its result, or before that by a renewal. It goes on with other jobs.
func TestPlacesOfLostJobsComeBack(t *testing.T) {
	t.Parallel()
	for name, lease := range map[string]time.Duration{"ByItsResult": time.Hour, "ByARenewal": 200 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
				w := setup(t, db, func(o *queue.Options) { o.Lease, o.InFlight = lease, 1 })
				ran, lost := make(chan string, 10), make(chan bool, 1)
				w.run(queue.Each(func(ctx context.Context, c *queue.Claimed) queue.Result {
					if c.Type == "lost" && len(lost) == 0 {
						lost <- true
						owners := w.prefix(0) + "owners"
						session, err := db.Client().ZRange(t.Context(), owners, 0, -1).Result()
						storetest.Must(t, err)
						storetest.Must(t, db.Client().ZRem(t.Context(), owners, session).Err())
						storetest.Must(t, db.Client().ZAdd(t.Context(), w.prefix(0)+"gone", redis.Z{Member: session[0]}).Err())
						if lease < time.Hour {
							select {
							case <-ctx.Done():
							case <-time.After(time.Minute):
								t.Error("the job's context did not end within a minute after its lease was lost")
							}
						}
					}
					ran <- c.Type
					return queue.Result{}
				}))
				next := func(what string) string {
					select {
					case kind := <-ran:
						return kind
					case <-time.After(time.Minute):
						t.Fatalf("%s did not run within a minute; Redis has %+v", what, w.mustState(0))
						return ""
					}
				}
				w.mustEnqueue(queue.Job{Type: "lost"})
				next("the job whose lease is lost")
				for range 3 {
					w.mustEnqueue(queue.Job{Type: "other"})
				}
				for others := 0; others < 3; {
					if next("a job after the lost one: its place") == "other" {
						others++
					}
				}
			})
		})
	}
}

// TestRoomOfTheHandler: a process claims what its handler has room for, also of what it
// stores itself, and leaves the rest to others; room that comes back by itself is used.
func TestRoomOfTheHandler(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		var room, first, second atomic.Int64
		room.Store(5)
		hold := func(n *atomic.Int64, room *atomic.Int64) queue.Handler {
			return func(_ context.Context, batch []*queue.Claimed) {
				n.Add(int64(len(batch)))
				room.Add(-int64(len(batch)))
			}
		}
		w := setup(t, db, func(o *queue.Options) {
			o.Lease = time.Minute
			o.Room = func() int { return max(int(room.Load()), 0) }
		})
		w.run(hold(&first, &room))
		jobs := make([]queue.Job, 50)
		w.mustEnqueue(jobs...)
		storetest.Eventually(t, time.Minute, "what there is room for", func() bool { return first.Load() >= 5 })
		other := w.another(func(o *queue.Options) { o.Room = nil })
		other.run(hold(&second, new(atomic.Int64)))
		storetest.Eventually(t, time.Minute, "the rest to be claimed", func() bool { return first.Load()+second.Load() == 50 })
		held := first.Load()
		if held > 10 { // two calls of a moment may claim so many each
			t.Errorf("%d were claimed by a process with room for 5", held)
		}
		room.Store(5) // nobody tells its shard
		storetest.Eventually(t, time.Minute, "room to be used that came back", func() bool {
			w.mustEnqueue(queue.Job{})
			return first.Load() > held
		})
	})
}
