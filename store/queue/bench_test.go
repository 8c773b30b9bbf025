package queue_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// BenchmarkThroughput is enqueueing, claiming and finishing at the same time:
// ns/op is per job through all three.
func BenchmarkThroughput(b *testing.B) {
	for name, payload := range map[string]int{"Small": 64, "Notification": 600, "Plain": 300} {
		b.Run(name, func(b *testing.B) {
			w := setup(b, storetest.Open(b, storetest.Redis(b).URL()), func(o *queue.Options) { o.Shards = 8; o.Lease = time.Minute; o.Logger = nil; o.InFlight = 4000 })
			var done atomic.Int64
			stop := w.run(finishAll(&done))
			body := make([]byte, payload)
			before := redisTime(b, w)
			b.ResetTimer()
			group := queue.NewID(0, epoch)
			for i := 0; i < b.N; {
				batch := make([]queue.Job, min(800, b.N-i))
				for j := range batch {
					batch[j] = queue.Job{ID: queue.NewID(j%8, epoch), Shard: j % 8, Type: "n", Group: group, Payload: body}
					if name == "Plain" {
						batch[j] = queue.Job{ID: queue.NewID(j%8, epoch), Shard: j % 8, Fresh: true, Report: "Qsome.type", Payload: body}
					}
				}
				w.mustEnqueue(batch...)
				i += len(batch)
			}
			for done.Load() < int64(b.N) {
				time.Sleep(time.Millisecond) //nolint:forbidigo // the pace of a poll
			}
			stop()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
			b.ReportMetric((redisTime(b, w)-before)/float64(b.N), "µs-of-Redis/job") // bears a busy machine
		})
	}
}

// redisTime is what Redis has used of a processor, in µs.
func redisTime(b *testing.B, w *world) float64 {
	v, err := w.db.Client().InfoMap(b.Context(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	var user, sys float64
	fmt.Sscan(v["CPU"]["used_cpu_user"], &user)
	fmt.Sscan(v["CPU"]["used_cpu_sys"], &sys)
	return (user + sys) * 1e6
}

func finishAll(done *atomic.Int64) queue.Handler {
	return func(_ context.Context, batch []*queue.Claimed) {
		for _, c := range batch {
			c.Finish(queue.Result{Label: "delivered"})
		}
		done.Add(int64(len(batch)))
	}
}

// BenchmarkPickUp is the time from the enqueueing of one job to its handler in
// an idle process.
func BenchmarkPickUp(b *testing.B) {
	w := setup(b, storetest.Open(b, storetest.Redis(b).URL()), func(o *queue.Options) { o.Lease = time.Minute; o.Logger = nil })
	started := make(chan time.Time, 1)
	w.run(queue.Each(func(context.Context, *queue.Claimed) queue.Result { started <- time.Now(); return queue.Result{} }))
	var total time.Duration
	for b.Loop() {
		id := queue.NewID(0, epoch)
		before := time.Now()
		if _, _, err := w.q.EnqueueOnce(b.Context(), queue.Once{}, queue.Job{ID: id}); err != nil {
			b.Fatal(err)
		}
		total += (<-started).Sub(before)
	}
	b.ReportMetric(float64(total.Microseconds())/float64(b.N), "µs/pick-up")
}

// BenchmarkBareStream is the floor: a stream with a consumer group, read in
// blocks of 100, XACK and XDEL, without records, marks, groups or retries.
func BenchmarkBareStream(b *testing.B) {
	c := storetest.Open(b, storetest.Redis(b).URL()).Client()
	ctx, body := b.Context(), string(make([]byte, 600))
	c.XGroupCreateMkStream(ctx, "s", "g", "0")
	ended := make(chan bool)
	b.ResetTimer()
	go func() {
		defer close(ended)
		for n := 0; n < b.N; {
			got, err := c.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "c", Streams: []string{"s", ">"}, Count: 100, Block: time.Second}).Result()
			if err != nil {
				continue
			}
			ids := make([]string, 0, 100)
			for _, m := range got[0].Messages {
				ids = append(ids, m.ID)
			}
			_, _ = c.Pipelined(ctx, func(p redis.Pipeliner) error { p.XAck(ctx, "s", "g", ids...); p.XDel(ctx, "s", ids...); return nil })
			n += len(ids)
		}
	}()
	for i := 0; i < b.N; i += 100 {
		_, _ = c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for range min(100, b.N-i) {
				p.XAdd(ctx, &redis.XAddArgs{Stream: "s", Values: []string{"i", "x", "p", body}})
			}
			return nil
		})
	}
	<-ended
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}
