package sales

import (
	"context"
	"maps"
	"sync"
	"time"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// streamEvery is how often a watched sale is read, so that a watcher gets at most 10 changes a
// second.
const streamEvery = 100 * time.Millisecond

// hub reads each watched sale once for all its watchers of this process.
type hub struct {
	mu    sync.Mutex
	sales map[string]*watched
}

// watched is one sale and its watchers.
type watched struct {
	stop     context.CancelFunc
	latest   api.Availability
	version  int // rises with every change of latest
	deleted  bool
	watchers map[*Watch]struct{}
}

// Watch is a subscription to a sale's availability. It belongs to one goroutine, which must call
// Stop.
type Watch struct {
	hub  *hub
	sale string
	of   *watched
	wake chan struct{}
	seen int
}

// Watch subscribes to a sale. The error is CodeSaleNotFound if there is no such sale. The first
// Next returns the present availability.
func (s *Store) Watch(ctx context.Context, sale string) (*Watch, error) {
	present, err := s.Sale(ctx, sale)
	if err != nil {
		return nil, err
	}
	w := &Watch{hub: &s.hub, sale: sale, wake: make(chan struct{}, 1)}
	w.wake <- struct{}{}
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if s.hub.sales == nil {
		s.hub.sales = map[string]*watched{}
	}
	k := s.hub.sales[sale]
	if k == nil {
		polling, stop := context.WithCancel(context.WithoutCancel(ctx))
		k = &watched{stop: stop, latest: availabilityOf(present), version: 1, watchers: map[*Watch]struct{}{}}
		s.hub.sales[sale] = k
		go s.poll(polling, sale, k)
	}
	w.of = k
	k.watchers[w] = struct{}{}
	return w, nil
}

// Wake has a value when Next may have something new.
func (w *Watch) Wake() <-chan struct{} { return w.wake }

// Next gives the sale's availability, and whether that is new to this watcher.
func (w *Watch) Next() (api.Availability, bool) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	fresh := w.seen != w.of.version
	w.seen = w.of.version
	return w.of.latest, fresh
}

// Deleted reports whether the sale was deleted. Then Next has nothing new any more.
func (w *Watch) Deleted() bool {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	return w.of.deleted
}

// Stop ends the subscription. When the last one of a sale ends, polling ends.
func (w *Watch) Stop() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	delete(w.of.watchers, w)
	if len(w.of.watchers) == 0 {
		w.hub.end(w.sale, w.of)
	}
}

// end ends the polling of a sale. Callers hold mu.
func (h *hub) end(sale string, k *watched) {
	k.stop()
	if h.sales[sale] == k {
		delete(h.sales, sale)
	}
}

// poll reads a sale, with a pause between reads, until nobody watches it or it was deleted. While
// Redis is away, watchers get nothing.
func (s *Store) poll(ctx context.Context, sale string, k *watched) {
	for ctx.Err() == nil {
		redisdb.Sleep(ctx, streamEvery)
		reading, cancel := context.WithTimeout(ctx, readTimeout)
		present, err := s.Sale(reading, sale)
		cancel()
		switch {
		case err == nil:
			s.hub.publish(k, availabilityOf(present))
		case api.CodeOf(err) == api.CodeSaleNotFound:
			s.hub.publishDeleted(sale, k)
		}
	}
}

// deleted ends the watches of a sale, also if there is another with the same id by now.
func (h *hub) deleted(sale string) {
	h.mu.Lock()
	k := h.sales[sale]
	h.mu.Unlock()
	if k != nil {
		h.publishDeleted(sale, k)
	}
}

// publishDeleted tells the watchers of a sale that it was deleted.
func (h *hub) publishDeleted(sale string, k *watched) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k.deleted = true
	h.end(sale, k)
	k.wakeAll()
}

// publish wakes the watchers of a sale if its availability changed.
func (h *hub) publish(k *watched, now api.Availability) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now.State == k.latest.State && maps.Equal(now.Available, k.latest.Available) {
		return
	}
	k.latest = now
	k.version++
	k.wakeAll()
}

// wakeAll wakes all watchers of a sale. Callers hold the hub's mu.
func (k *watched) wakeAll() {
	for w := range k.watchers {
		select {
		case w.wake <- struct{}{}:
		default: // the watcher has a wake-up already
		}
	}
}

func availabilityOf(s *api.Sale) api.Availability {
	a := api.Availability{State: s.State, Available: make(map[string]int64, len(s.Items))}
	for _, item := range s.Items {
		a.Available[item.SKU] = item.Available
	}
	return a
}
