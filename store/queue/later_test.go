package queue_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// TestADelayIsHardlyLonger: jobs that are due at about the same time share a list, whose
// time is never before theirs, and after it by a 32nd of the delay and half a second at
// most.
func TestADelayIsHardlyLonger(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Shards = 1 })
		for _, delay := range []time.Duration{time.Millisecond, 20 * time.Millisecond, 250 * time.Millisecond, 3 * time.Second, time.Minute, 24 * time.Hour} {
			before := mustRedisTime(t, w)
			w.mustEnqueue(queue.Job{ID: fmt.Sprint("a", delay.Milliseconds()), Delay: delay})
			after := mustRedisTime(t, w)
			slot := int64(-1)
			fmt.Sscanf(w.mustState(0).DueAt[fmt.Sprint("a", delay.Milliseconds())], "%d", &slot)
			most := min(delay/32, 512*time.Millisecond)
			if first, last := before.Add(delay), after.Add(delay+most); slot < first.UnixMilli() || slot > last.UnixMilli()+1 {
				t.Errorf("delay %v: due at %d, not between %d and %d", delay, slot, first.UnixMilli(), last.UnixMilli())
			}
		}
		if problems := w.mustState(0).Problems(); len(problems) > 0 {
			t.Error(strings.Join(problems, "\n"))
		}
	})
}

func mustRedisTime(t *testing.T, w *world) time.Time {
	t.Helper()
	now, err := w.db.Client().Time(t.Context()).Result()
	storetest.Must(t, err)
	return now
}

// TestMemoryOfAWaitingJob measures what a notification takes that waits for its time:
// a backlog of an outage is millions of them.
func TestMemoryOfAWaitingJob(t *testing.T) {
	t.Parallel()
	const shards, most = 3, 350
	jobs := storetest.Sized(30_000, 9_000)
	p := mustPipeline(t, shards)
	payload := []byte(strings.Repeat("x", 110))
	enqueue := func(n int) {
		for from := 0; from < n; from += 600 {
			batch := make([]queue.Job, min(600, n-from))
			for i := range batch {
				id := uuid.New()
				batch[i] = queue.Job{ID: base64.RawURLEncoding.EncodeToString(id[:]), Shard: i % shards, Group: queue.NewID(0, epoch.Add(time.Duration(from+i)*time.Millisecond)),
					Guard: strings.Repeat("g", 16), Delay: 10*time.Minute + time.Duration(from+i)*time.Millisecond, Payload: payload}
			}
			p.notes.mustEnqueue(batch...)
		}
	}
	before := p.used()
	enqueue(jobs)
	if per := (p.used() - before) / int64(jobs); per > most {
		t.Errorf("%d bytes of Redis per waiting notification, more than %d", per, most)
	} else {
		t.Logf("%d bytes of Redis per waiting notification", per)
	}
}
