package queue_test

import (
	"context"
	"crypto/sha256"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// TestAllKeysOfAShardShareASlot leaves one of everything and computes slots.
func TestAllKeysOfAShardShareASlot(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		jobs := []queue.Job{{Type: "dead", Key: "k", Unique: "u", Group: queue.NewID(0, epoch), Guard: "g", Attachment: []string{"a"}},
			{Key: "held"}, {Key: "held"}, {Delay: time.Hour}, {Type: "park"}, {Type: "ok"}}
		if err := w.q.SetGuards(t.Context(), time.Minute, queue.Guard{Name: "g", Value: "v"}); err != nil {
			t.Fatal(err)
		}
		w.mustEnqueue(jobs...)
		if _, _, err := w.q.EnqueueOnce(t.Context(), queue.Once{Key: "{x}", Body: sha256.Sum256(nil)}, queue.Job{ID: queue.NewID(0, epoch)}); err != nil {
			t.Fatal(err)
		}
		hold := make(chan bool)
		var ran atomic.Int64
		w.run(queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result {
			defer ran.Add(1)
			switch {
			case c.Type == "dead":
				return queue.Result{Outcome: queue.Dead}
			case c.Type == "park":
				return queue.Result{Outcome: queue.Park, Parked: "app:{x}"}
			case c.Key == "held":
				<-hold
			}
			return queue.Result{}
		}))
		defer close(hold)
		eventually(t, "the others ran", func() bool { return ran.Load() == 4 })
		eventually(t, "one of everything is there", func() bool { return len(w.mustKeys()) >= 17 })
		kinds := map[string]bool{}
		for _, key := range w.mustKeys() {
			if strings.HasSuffix(key, "}:meta") {
				continue
			}
			if !strings.HasPrefix(key, w.prefix(0)) {
				t.Errorf("key %s has another tag", key)
			}
			kinds[strings.SplitN(strings.TrimPrefix(key, w.prefix(0)), ":", 2)[0]] = true
		}
		t.Logf("%d kinds of keys: %v", len(kinds), kinds)
	})
}
