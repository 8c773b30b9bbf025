package sales

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/singleflight"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/stock"
)

const (
	// cacheTime is how old an answer from memory may be.
	cacheTime = 100 * time.Millisecond
	// absentTime is for how long SQL is not asked again for a sale that it does not have.
	absentTime = time.Second
	// maxCached bounds the sales that are remembered at once, and the names that no sale has.
	maxCached = 10_000
)

// cache keeps sales in memory. Each of its answers was true at most 100 ms ago. Times are on
// the monotonic clock; the age of an answer counts from before the request for it was sent.
type cache struct {
	on    bool
	clock func() time.Duration
	reads singleflight.Group // of sales that are not remembered
	mu    sync.Mutex
	sales map[string]*cachedSale
	// absent has the names for which neither Redis nor SQL had a sale, with the time of the question.
	absent map[string]time.Duration
}

// cachedSale is one sale.
type cachedSale struct {
	present *api.Sale
	read    time.Duration // when present was asked for
	changes int           // rises when present is forgotten

	refusal   *api.Error // sold_out, as Redis answered
	available map[string]int64
	until     time.Duration // when refusal may be outdated
}

func newCache(on bool) *cache {
	began := time.Now()
	return &cache{on: on, clock: func() time.Duration { return time.Since(began) }, sales: map[string]*cachedSale{}, absent: map[string]time.Duration{}}
}

// now is the time on the cache's own clock.
func (c *cache) now() time.Duration { return c.clock() }

// entry finds or makes a sale's entry. A full map is emptied, so that it stays bounded; each
// sale is then read from Redis once more. Callers hold mu.
func (c *cache) entry(sale string) *cachedSale {
	k := c.sales[sale]
	if k == nil {
		if len(c.sales) >= maxCached {
			c.forgetAll()
			clear(c.sales)
		}
		k = &cachedSale{}
		c.sales[sale] = k
	}
	return k
}

// drop removes everything about a sale.
func (c *cache) drop(sale string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.absent, sale)
	if k := c.sales[sale]; k != nil {
		k.refusal = nil
		c.forget(sale, k)
	}
}

// dropState removes a sale's numbers, but not that it is sold out. It is for changes that take
// units and give none back.
func (c *cache) dropState(sale string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.sales[sale]; k != nil {
		c.forget(sale, k)
	}
}

// dropAll forgets every sale.
func (c *cache) dropAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetAll()
}

// forgetAll is dropAll for callers that hold mu.
func (c *cache) forgetAll() {
	clear(c.absent)
	for sale, k := range c.sales {
		k.refusal = nil
		c.forget(sale, k)
	}
}

// forget forgets a sale's numbers. A read that is under way still answers its waiting callers,
// but is not remembered, and new callers do not share it. Callers hold mu.
func (c *cache) forget(sale string, k *cachedSale) {
	k.present = nil
	k.changes++
	c.reads.Forget(sale)
}

// putAbsent remembers that neither Redis nor SQL has a sale. A full map is emptied.
func (c *cache) putAbsent(sale string, asked time.Duration) {
	if !c.on {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.absent) >= maxCached {
		clear(c.absent)
	}
	c.absent[sale] = asked
}

// isAbsent reports whether SQL did not have a sale less than a second ago.
func (c *cache) isAbsent(sale string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked, is := c.absent[sale]
	return is && c.now()-asked < absentTime
}

// putRefusal keeps a refusal until 100 ms after the request to Redis, or until the next hold is
// due, if that is earlier.
func (c *cache) putRefusal(sale string, s *stock.SoldOut, err error, asked time.Duration) {
	refusal, ok := err.(*api.Error)
	if !c.on || !ok {
		return
	}
	until := asked + cacheTime
	if s.NextDue > 0 {
		until = min(until, asked+s.NextDue)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.entry(sale)
	k.refusal, k.available, k.until = refusal, maps.Clone(s.Available), until
}

// soldOut refuses lines if a recent refusal has all their skus, and one line asks for more units
// than were available.
func (c *cache) soldOut(sale string, lines []api.Line) error {
	if !c.on {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.sales[sale]
	if k == nil || k.refusal == nil || c.now() >= k.until {
		return nil
	}
	short := false
	for _, l := range lines {
		available, known := k.available[l.SKU]
		if !known {
			return nil
		}
		short = short || available < l.Quantity
	}
	switch {
	case !short:
		return nil
	case len(lines) == len(k.available): // the same skus: the refusal can be used unchanged
		return k.refusal
	}
	asked := make(map[string]int64, len(lines))
	for _, l := range lines {
		asked[l.SKU] = k.available[l.SKU]
	}
	return k.refusal.With("available", asked)
}

// sale returns a sale that was read at most 100 ms ago, or reads it. Callers that arrive during the
// read share the answer, unless the sale changed in between.
func (c *cache) sale(ctx context.Context, sale string, read func(context.Context, string) (*api.Sale, error)) (*api.Sale, error) {
	if !c.on {
		return read(ctx, sale)
	}
	present, done := c.join(ctx, sale, read)
	if present != nil {
		return present, nil
	}
	select {
	case result := <-done:
		present, _ = result.Val.(*api.Sale)
		return present, result.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// join returns a sale that was read at most 100 ms ago, or the read that is under way, or a new
// one.
func (c *cache) join(ctx context.Context, sale string, read func(context.Context, string) (*api.Sale, error)) (*api.Sale, <-chan singleflight.Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.sales[sale]; k != nil && k.present != nil && c.now()-k.read < cacheTime {
		return k.present, nil
	}
	return nil, c.reads.DoChan(sale, func() (any, error) {
		return c.fetch(context.WithoutCancel(ctx), sale, read)
	})
}

// readTimeout bounds a shared read.
const readTimeout = 5 * time.Second

// fetch reads a sale, and remembers it if nothing has changed in the meantime.
func (c *cache) fetch(ctx context.Context, sale string, read func(context.Context, string) (*api.Sale, error)) (*api.Sale, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	c.mu.Lock()
	k, asked := c.entry(sale), c.now()
	changes := k.changes
	c.mu.Unlock()
	present, err := read(ctx, sale)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && k.changes == changes {
		k.present, k.read = present, asked
	}
	return present, err
}

// listen forgets sales that another process changed. Messages published while the connection is
// down are lost, so a new connection makes it forget all sales. Without any messages answers are
// still at most 100 ms old.
func (s *Store) listen(ctx context.Context) {
	if s.o.NoLocal {
		<-ctx.Done()
		return
	}
	events, end := redisdb.SubscribePattern(ctx, s.db.Blocking(), stock.ChangesPattern, 1024)
	defer end()
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-events:
			if !open {
				<-ctx.Done()
				return
			}
			s.onMessage(event)
		}
	}
}

func (s *Store) onMessage(event any) {
	message, ok := event.(*redis.Message)
	if !ok {
		s.cache.dropAll()
		return
	}
	sale := stock.SaleOfChannel(message.Channel)
	if message.Payload == stock.Deleted {
		s.live.Forget(sale)
		s.hub.deleted(sale)
	}
	s.cache.drop(sale)
}
