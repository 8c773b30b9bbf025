package handlers

import (
	"context"
	"sync"
	"time"

	"fanfare/api"
	"fanfare/handlers/web"
)

// figuresEvery is how often the figures of the queues are read while a stream follows them.
const figuresEvery = 2 * time.Second

// statsFeed reads the figures of the queues once for all streams of this process, and not at all while there
// is none.
type statsFeed struct {
	read func(context.Context) (*api.Stats, error)

	mu      sync.Mutex
	streams int
	stop    context.CancelFunc // ends the reading
	latest  *statsReading      // nil: none is done yet
	pending *statsReading      // the next one
}

// statsReading is one reading of the figures. done is closed when the other members are valid.
type statsReading struct {
	done  chan struct{}
	event web.StreamEvent // what streams send of it
	err   error
}

func newReading() *statsReading { return &statsReading{done: make(chan struct{})} }

// join adds a stream and returns the reading with which it begins. The caller must call leave.
func (f *statsFeed) join(ctx context.Context) *statsReading {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.streams++
	if f.streams == 1 {
		reading, stop := context.WithCancel(context.WithoutCancel(ctx))
		f.stop, f.latest, f.pending = stop, nil, newReading()
		go f.run(reading, f.pending)
	}
	if f.latest != nil {
		return f.latest
	}
	return f.pending
}

// leave removes a stream. With the last one the reading ends.
func (f *statsFeed) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.streams--
	if f.streams == 0 {
		f.stop()
	}
}

// after returns the reading to wait for after r: the latest one, if a slow reader has missed it.
func (f *statsFeed) after(r *statsReading) *statsReading {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.latest != r {
		return f.latest
	}
	return f.pending
}

// run reads until ctx ends.
func (f *statsFeed) run(ctx context.Context, r *statsReading) {
	ticker := time.NewTicker(figuresEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		var stats *api.Stats
		if stats, r.err = f.read(ctx); r.err == nil {
			r.event, r.err = statsEvent("stats", stats)
		} else {
			r.event = web.StreamEvent{Name: "unavailable", Data: &api.Unavailable{Code: api.CodeOf(r.err)}}
		}
		if r = f.publish(ctx, r); r == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// statsEvent is an event whose data is encoded once for all streams.
func statsEvent(name string, data any) (web.StreamEvent, error) {
	text, err := web.Encode(data)
	return web.StreamEvent{Name: name, Data: web.Encoded(text)}, err
}

// publish wakes the streams and returns the next reading; nil: all streams have left.
func (f *statsFeed) publish(ctx context.Context, r *statsReading) *statsReading {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil {
		return nil
	}
	f.latest, f.pending = r, newReading()
	close(r.done)
	return f.pending
}
