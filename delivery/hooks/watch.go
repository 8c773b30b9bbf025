package hooks

import (
	"context"
	"sync"
	"time"

	"fanfare/store/redisdb"
	"fanfare/store/wake"
	"fanfare/store/webhooks"
)

// watch is what the readers of one lane wait for. It looks at the end of the lane for all of them, so that any number of webhooks with
// nothing to send cost what one costs.
type watch struct {
	mu      sync.Mutex
	readers map[chan struct{}]bool
}

func newWatch() *watch { return &watch{readers: map[chan struct{}]bool{}} }

// join returns a channel that gets a value when the lane has other facts than before, and leave, which must be called.
func (w *watch) join() (told <-chan struct{}, leave func()) {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.readers[c] = true
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.readers, c)
	}
}

// lookPause is the least time between two looks: all lanes tell of new facts by one channel.
const lookPause = 20 * time.Millisecond

// run looks at the end of a lane, when somebody says that there are new facts and once in pollEvery, until ctx ends.
func (w *watch) run(ctx context.Context, feed webhooks.Feed, lane int) {
	told, leave := feed.Join(ctx)
	defer leave()
	last := ""
	for ctx.Err() == nil {
		end, err := feed.End(ctx, lane)
		if err == nil && end != last {
			w.tell()
		}
		if last = end; err != nil {
			last = "" // there may be new facts when Redis is back
		}
		redisdb.Sleep(ctx, lookPause)
		_ = wake.Await(ctx, told, pollEvery)
	}
}

func (w *watch) tell() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.readers {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
