package delivery

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"fanfare/store/queue"
)

const (
	// waitsLong is from which age on a waiting notification makes its event's
	// report live longer; before that the report's own lifetime will do.
	waitsLong = time.Minute
	// keepEvery is how often one event's report is made to live longer.
	keepEvery = time.Hour
	// maxKept bounds how many events are remembered for that.
	maxKept = 10_000
)

// reportKeeper keeps the records of events whose notifications wait: a report stays
// for the retention after the event's end, and the end may be long after the
// last change of some of its records.
type reportKeeper struct {
	o    Options
	mu   sync.Mutex
	kept map[string]time.Time
}

func newReportKeeper(o Options) *reportKeeper {
	return &reportKeeper{o: o, kept: map[string]time.Time{}}
}

// keep lets every record of a waiting notification's event live until the
// notification must have ended, and the retention after that.
func (r *reportKeeper) keep(ctx context.Context, w *work, res queue.Result) {
	age := w.now().Sub(w.EnqueuedAt) + res.Delay
	if (res.Outcome != queue.Park && age < waitsLong) || !r.due(w.m.Event) {
		return
	}
	ttl := r.o.MaxAge + r.o.Retention
	g, ctx := errgroup.WithContext(ctx)
	if shard, _, ok := queue.ParseID(w.m.Event); ok && shard < r.o.Events.Shards() {
		g.Go(func() error { return r.o.Events.Touch(ctx, shard, w.m.Event, ttl) })
	}
	for n := range r.o.Queue.Shards() {
		g.Go(func() error { return r.o.Queue.Touch(ctx, n, w.m.Event, ttl) })
	}
	if err := g.Wait(); err != nil {
		r.o.Logger.Debug("keep report", "event", w.m.Event, "error", err)
		r.forget(w.m.Event)
	}
}

// due tells whether an event's report was not kept lately, and notes it.
func (r *reportKeeper) due(event string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.kept[event]; ok && time.Since(last) < keepEvery {
		return false
	}
	if len(r.kept) >= maxKept {
		clear(r.kept)
	}
	r.kept[event] = time.Now()
	return true
}

func (r *reportKeeper) forget(event string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.kept, event)
}
