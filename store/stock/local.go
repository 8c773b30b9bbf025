package stock

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
)

const (
	// localFor is how old an answer from memory may be.
	localFor = 100 * time.Millisecond
	// maxRemembered bounds the sales that are remembered at once.
	maxRemembered = 10_000
)

// memory is what this process knows of sales without asking. Whatever it says
// was true at most 100 ms ago. Times are on the monotonic clock, and count from
// before the question was sent.
type memory struct {
	on    bool
	clock func() time.Duration
	mu    sync.Mutex
	sales map[string]*remembered
}

// remembered is one sale.
type remembered struct {
	present *api.Sale
	read    time.Duration // when present was asked for
	flight  *flight

	refusal   *api.Error // sold_out as Redis said it
	available map[string]int64
	until     time.Duration // the end of refusal's truth
}

// flight is a read that several callers share.
type flight struct {
	done    chan struct{}
	present *api.Sale
	err     error
}

func newMemory(on bool) *memory {
	began := time.Now()
	return &memory{on: on, clock: func() time.Duration { return time.Since(began) }, sales: map[string]*remembered{}}
}

// now is the time on memory's own clock.
func (m *memory) now() time.Duration { return m.clock() }

// of finds or makes a sale's entry. The map stays bounded: it is emptied when it
// is full, which costs a question each. Callers hold mu.
func (m *memory) of(sale string) *remembered {
	k := m.sales[sale]
	if k == nil {
		if len(m.sales) >= maxRemembered {
			clear(m.sales)
		}
		k = &remembered{}
		m.sales[sale] = k
	}
	return k
}

// drop forgets everything about a sale.
func (m *memory) drop(sale string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.sales[sale]; k != nil {
		k.forget()
	}
}

func (k *remembered) forget() {
	k.present, k.flight, k.refusal = nil, nil, nil
}

// stale forgets how a sale stands, but not that it is sold out: units were
// taken, none came back.
func (m *memory) stale(sale string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.sales[sale]; k != nil {
		k.present, k.flight = nil, nil
	}
}

// dropAll forgets every sale.
func (m *memory) dropAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.sales {
		k.forget()
	}
}

// remember keeps a refusal until 100 ms after it was asked for, or until the
// next hold is due, if that is earlier.
func (m *memory) remember(sale string, s *SoldOut, err error, asked time.Duration) {
	refusal, ok := err.(*api.Error)
	if !m.on || !ok {
		return
	}
	until := asked + localFor
	if s.NextDue > 0 {
		until = min(until, asked+s.NextDue)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.of(sale)
	k.refusal, k.available, k.until = refusal, maps.Clone(s.Available), until
}

// soldOut refuses lines of which one asks for more than there was, when that is
// known for all of them.
func (m *memory) soldOut(sale string, lines []api.Line) error {
	if !m.on {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.sales[sale]
	if k == nil || k.refusal == nil || m.now() >= k.until {
		return nil
	}
	short := false
	asked := make(map[string]int64, len(lines))
	for _, l := range lines {
		available, known := k.available[l.SKU]
		if !known {
			return nil
		}
		asked[l.SKU] = available
		short = short || available < l.Quantity
	}
	if !short {
		return nil
	}
	return k.refusal.With("available", asked)
}

// sale gives a sale as it was at most 100 ms ago, else reads it. Callers that
// come while it is read share the answer, unless it has changed in between.
func (m *memory) sale(ctx context.Context, sale string, read func(context.Context, string) (*api.Sale, error)) (*api.Sale, error) {
	if !m.on {
		return read(ctx, sale)
	}
	m.mu.Lock()
	k := m.of(sale)
	if k.present != nil && m.now()-k.read < localFor {
		defer m.mu.Unlock()
		return k.present, nil
	}
	f := k.flight
	if f == nil {
		f = &flight{done: make(chan struct{})}
		k.flight = f
		go m.fly(context.WithoutCancel(ctx), sale, f, read)
	}
	m.mu.Unlock()
	select {
	case <-f.done:
		return f.present, f.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// flightTime bounds a shared read.
const flightTime = 5 * time.Second

// fly reads a sale for all who wait, and remembers it if nothing has changed.
func (m *memory) fly(ctx context.Context, sale string, f *flight, read func(context.Context, string) (*api.Sale, error)) {
	ctx, cancel := context.WithTimeout(ctx, flightTime)
	defer cancel()
	asked := m.now()
	f.present, f.err = read(ctx, sale)
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.sales[sale]
	if k != nil && k.flight == f {
		k.flight = nil
		if f.err == nil {
			k.present, k.read = f.present, asked
		}
	}
	close(f.done)
}

// listen forgets sales that another process changed. What is published while the
// connection is down is lost, so that a new one forgets all; without any of it
// an answer is 100 ms old at most.
func (s *Store) listen(ctx context.Context) {
	if s.o.NoLocal {
		<-ctx.Done()
		return
	}
	sub := s.db.Blocking().PSubscribe(ctx, ChangesPattern)
	defer sub.Close()
	events := sub.ChannelWithSubscriptions(redis.WithChannelSize(1024))
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-events:
			if !open {
				<-ctx.Done()
				return
			}
			s.hear(event)
		}
	}
}

func (s *Store) hear(event any) {
	message, ok := event.(*redis.Message)
	if !ok {
		s.memory.dropAll()
		return
	}
	s.memory.drop(saleOfChannel(message.Channel))
}
