package main

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"fanfare/delivery/apns/apnstest"
)

// pace is how many single events or jobs a second a latency is measured at.
const pace = 200

// arrivals tells a poster when its notification reached APNs.
type arrivals struct {
	mu      sync.Mutex
	waiting map[string]chan time.Time // by token
}

func (a *arrivals) expect(token string) <-chan time.Time {
	arrived := make(chan time.Time, 1)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting[token] = arrived
	return arrived
}

func (a *arrivals) note(r *apnstest.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting) == 0 {
		return
	}
	if arrived, ok := a.waiting[r.Token]; ok {
		delete(a.waiting, r.Token)
		arrived <- r.At
	}
}

// callers is a pool of connections to a server.
type callers struct {
	addr string
	mu   sync.Mutex
	idle []*caller
}

func (p *callers) take() (*caller, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return c, nil
	}
	return dial(p.addr)
}

func (p *callers) give(c *caller) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, c)
}

// benchLatency measures the way from POST to the arrival at APNs.
func benchLatency(ctx context.Context, w *world) (found, error) {
	s, err := w.stage(ctx, devices, 0)
	defer s.close()
	if err != nil {
		return found{}, err
	}
	pool := &callers{addr: s.server.addr}
	m, err := w.turns(ctx, side{"ours", func(ctx context.Context, d time.Duration) (sample, error) {
		return paced(ctx, d*2, func(n int) (time.Duration, error) { return s.postAndWait(ctx, pool, n) })
	}})
	const work = "POST to arrival at 200/s, "
	return found{rows: []row{
		{work + "p50", m.of("ours", "p50"), "ms", 0, "", valueAtMost(.8)},
		{work + "p99", m.of("ours", "p99"), "ms", 0, "", valueAtMost(3)},
	}}, err
}

// postAndWait posts to the n-th user and waits for the arrival.
func (s *stage) postAndWait(ctx context.Context, pool *callers, n int) (time.Duration, error) {
	return s.postAndAwait(ctx, pool, s.devices.post(n, 1), token(n%int(s.devices)))
}

// postAndAwait posts an event to one device and waits for the arrival there.
func (s *stage) postAndAwait(ctx context.Context, pool *callers, post []byte, token string) (time.Duration, error) {
	c, err := pool.take()
	if err != nil {
		return 0, err
	}
	defer pool.give(c)
	arrived, began := s.arrivals.expect(token), time.Now()
	if err := c.call(post, http.StatusAccepted); err != nil {
		return 0, err
	}
	select {
	case at := <-arrived:
		return at.Sub(began), nil
	case <-time.After(10 * time.Second):
		return 0, errors.New("a notification did not arrive within 10 s")
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// paced does something 200 times a second for a while, whatever it takes, and
// gives the quantiles of how long it took.
func paced(ctx context.Context, d time.Duration, do func(n int) (time.Duration, error)) (sample, error) {
	return pacedAt(ctx, pace, d, do)
}

func pacedAt(ctx context.Context, rate int, d time.Duration, do func(n int) (time.Duration, error)) (sample, error) {
	count := max(int(d.Seconds()*float64(rate)), 1)
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	took, fails := make([]time.Duration, count), make([]error, count)
	var all sync.WaitGroup
	for n := range count {
		<-tick.C
		all.Go(func() { took[n], fails[n] = do(n) })
		if ctx.Err() != nil {
			break
		}
	}
	all.Wait()
	p50, p99 := quantiles(took)
	return sample{"p50": p50, "p99": p99}, errors.Join(append(fails, ctx.Err())...)
}
