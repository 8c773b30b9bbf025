package queue_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

func TestQ17_AnyPayload(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Lease = 20 * time.Second })
		payloads := []string{"", "{}", "ünï\u2028\x00 \r\n$5", strings.Repeat("x", queue.MaxPayload), "same", "same", `{"i":"t","p":null}`}
		var got, guards seen
		for _, p := range payloads {
			if err := w.q.SetGuards(t.Context(), time.Minute, queue.Guard{Name: "guard", Value: "ab:c"}); err != nil {
				t.Fatal(err)
			}
			w.mustEnqueue(queue.Job{Type: "t y p e", Key: "ke y\n:", Group: "gr:oup", Guard: "guard", Payload: []byte(p),
				Attachment: []string{"one" + p, "two"}})
		}
		w.run(queue.Each(func(ctx context.Context, c *queue.Claimed) queue.Result {
			got.add(string(c.Payload))
			guards.add(c.GuardValue)
			if one, err := w.q.Attachment(ctx, c, 0); err != nil || one != "one"+string(c.Payload) {
				t.Errorf("attachment: %v", err)
			}
			return queue.Result{}
		}))
		eventually(t, "all ran", func() bool { return got.len() == len(payloads) })
		if !slices.Equal(got.all(), payloads) {
			t.Error("payloads are not what they were")
		}
		if slices.ContainsFunc(guards.all(), func(v string) bool { return v != "ab:c" }) {
			t.Errorf("guards %v", guards.all())
		}
		_, err := w.q.Enqueue(t.Context(), queue.Job{Payload: make([]byte, queue.MaxPayload+1)})
		if api.CodeOf(err) != api.CodeValidation {
			t.Errorf("too large: %v", err)
		}
		w.mustBeEmpty()
		w.mustBeConsistent()
	})
}

func TestQ17_AClaimIsBoundedByBytes(t *testing.T) {
	t.Parallel()
	storetest.EachServer(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Lease = 20 * time.Second })
		for range 100 {
			w.mustEnqueue(queue.Job{Payload: make([]byte, queue.MaxPayload)})
		}
		var most, all atomic.Int64
		w.run(func(_ context.Context, batch []*queue.Claimed) {
			most.Store(max(most.Load(), int64(len(batch))))
			for _, c := range batch {
				c.Finish(queue.Result{})
			}
			all.Add(int64(len(batch)))
		})
		eventually(t, "all ran", func() bool { return all.Load() == 100 })
		if most.Load() > 32 {
			t.Errorf("a claim took %d jobs of 64 KiB", most.Load())
		}
	})
}
