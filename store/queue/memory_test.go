package queue_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// TestMemoryOfAOneDeviceEvent measures what stays of events of one minute with
// one notification each: many in a shard, some, and few.
func TestMemoryOfAOneDeviceEvent(t *testing.T) {
	t.Parallel()
	large := storetest.Sized(400_000, 40_000)
	for _, c := range []struct{ events, shards int }{{large, 3}, {storetest.Sized(40_000, 16_000), 8}, {8_000, 8}, {800, 8}, {200, 8}} {
		t.Run(fmt.Sprintf("%dIn%dShards", c.events, c.shards), func(t *testing.T) {
			p := mustPipeline(t, c.shards)
			p.mustSend(64, epoch.Add(-time.Hour)) // what a queue costs at all is there now
			before, beforeInAll := p.used(), storetest.UsedMemory(p.t, p.db)
			p.mustSend(c.events, epoch)
			per := (p.used() - before) / int64(c.events)
			if c.events >= large { // enough to tell it from everything else
				per = max(per, (storetest.UsedMemory(p.t, p.db)-beforeInAll)/int64(c.events))
			}
			t.Logf("%d bytes of Redis per one-device event", per)
			if per > 400 {
				t.Errorf("%d bytes of Redis per one-device event, more than 400", per)
			}
		})
	}
}

// pipeline is an events queue whose jobs make one notification each.
type pipeline struct {
	t             testing.TB
	db            *redisdb.DB
	events, notes *world
	shards        int
	delivered     atomic.Int64
}

func mustPipeline(t testing.TB, shards int) *pipeline {
	p := &pipeline{t: t, db: storetest.Open(t, storetest.Redis(t).URL()), shards: shards}
	options := func(o *queue.Options) { o.Shards = shards; o.Lease = time.Minute; o.Logger = nil; o.InFlight = 4000 }
	p.events, p.notes = setup(t, p.db, options), setup(t, p.db, options)
	return p
}

// target makes a notification of each event, with the event's group.
func (p *pipeline) target(ctx context.Context, batch []*queue.Claimed) {
	jobs := make([]queue.Job, len(batch))
	for i, c := range batch {
		id := uuid.NewSHA1(uuid.NameSpaceOID, []byte(c.ID)).String()
		jobs[i] = queue.Job{ID: id, Shard: p.notes.q.Route(id), Type: "notification", Group: c.Group, Payload: []byte(`{"aps":{"alert":"x"}}`)}
	}
	for _, err := p.notes.q.Enqueue(ctx, jobs...); err != nil; _, err = p.notes.q.Enqueue(ctx, jobs...) {
		p.t.Log(err) // a machine may be too busy for its time-outs
	}
	for _, c := range batch {
		c.Finish(queue.Result{Counts: map[string]int64{"recipients": 1}})
	}
}

// mustSend sends n events of one minute through processes that are gone when
// all was delivered.
func (p *pipeline) mustSend(n int, minute time.Time) {
	p.t.Helper()
	p.events, p.notes = p.events.another(), p.notes.another()
	p.delivered.Store(0)
	stopNotes := p.notes.run(finishAll(&p.delivered))
	stopEvents := p.events.run(p.target)
	defer stopNotes()
	defer stopEvents()
	for i := 0; i < n; i += 800 {
		jobs := make([]queue.Job, min(800, n-i))
		for j := range jobs {
			shard := j % p.shards
			id := queue.NewID(shard, minute)
			jobs[j] = queue.Job{ID: id, Shard: shard, Type: "event", Group: id, Payload: []byte(`{"type":"photo.shared"}`)}
		}
		p.events.mustEnqueue(jobs...)
	}
	storetest.Eventually(p.t, 2*time.Minute, "all delivered", func() bool { return p.delivered.Load() == int64(n) })
	p.events.mustBeEmpty()
	p.notes.mustBeEmpty()
}

// keyOverhead is what a key with a lifetime costs beside MEMORY USAGE: its
// places in the two tables of a database, and its entry in the second.
const keyOverhead = 56

// used is what all keys cost. Redis' used_memory has the buffers of connections
// in it, which are more than a few hundred events.
func (p *pipeline) used() (bytes int64) {
	p.t.Helper()
	for _, key := range append(p.events.mustKeys(), p.notes.mustKeys()...) {
		bytes += p.db.Client().MemoryUsage(p.t.Context(), key, 0).Val() + keyOverhead
	}
	return bytes
}
