package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns"
	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/transport"
)

// devices is how many phones take part, one for each user.
const devices = 2000

// token makes the n-th device token.
func token(n int) string { return fmt.Sprintf("%064x", 0xabc000000+n) }

// stage is a whole set-up: Redis, the stand-in for APNs in this process,
// fanfare, and a device for each user.
type stage struct {
	apns          *apnstest.Server
	redis, server *process
	arrivals      arrivals
	callers       callers
}

// callers is a pool of connections to the server.
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
	if arrived, ok := a.waiting[r.Token]; ok {
		delete(a.waiting, r.Token)
		arrived <- r.At
	}
}

func (w *world) stage(ctx context.Context) (*stage, error) {
	s := &stage{arrivals: arrivals{waiting: map[string]chan time.Time{}}}
	var err error
	if s.apns, err = apnstest.New(apnstest.Options{CountsOnly: true, OnRequest: s.arrivals.note}); err != nil {
		return nil, err
	}
	if s.redis, err = w.redis(); err != nil {
		return nil, err
	}
	if s.server, err = w.fanfare(ctx, s.redis, s.apns.Env()...); err != nil {
		return nil, err
	}
	s.callers.addr = s.server.addr
	return s, s.register()
}

func (s *stage) close() {
	s.server.stop()
	s.redis.stop()
	_ = s.apns.Close()
}

// register gives each user a device.
func (s *stage) register() error {
	c, err := dial(s.server.addr)
	if err != nil {
		return err
	}
	defer c.conn.Close()
	body := []byte(`{"platform":"apns","topic":"com.example.app","environment":"production"}`)
	for n := range devices {
		path := fmt.Sprintf("/v1/users/user-%d/devices/%s", n, token(n))
		if status, err := c.call(request(http.MethodPut, s.server.addr, path, body)); err != nil || status/100 != 2 {
			return fmt.Errorf("register: %d %w", status, err)
		}
	}
	return nil
}

// post renders an event to a number of users, beginning with the n-th.
func (s *stage) post(n, users int) []byte {
	list := make([]byte, 0, users*12)
	for i := range users {
		list = fmt.Appendf(list, `"user-%d",`, (n+i)%devices)
	}
	body := fmt.Appendf(nil, `{"type":"greeting","audience":{"users":[%s]},"alert":{"title":"Hello","body":"from the benchmark"}}`, list[:len(list)-1])
	return request(http.MethodPost, s.server.addr, "/v1/events", body)
}

// benchPush measures what is delivered end to end, for events to one and to
// ten devices, against the bare sender: the same notifications sent straight
// to the stand-in from a loop, with no HTTP, queue or record.
func benchPush(ctx context.Context, w *world) ([]result, error) {
	s, err := w.stage(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	bare, err := s.send(ctx, w.seconds)
	if err != nil {
		return nil, err
	}
	var out []result
	for _, users := range []int{1, 10} {
		var rates []float64
		for round := range w.options.rounds + 1 {
			rate, err := s.endToEnd(ctx, w.seconds, users)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				rates = append(rates, rate)
			}
		}
		what := fmt.Sprintf("delivered, events to %d", users)
		out = append(out, against("push", what, "notif/s", median(rates), bare, "bare sender, nothing durable"))
	}
	return out, nil
}

// endToEnd posts for a while and waits for the last notification.
func (s *stage) endToEnd(ctx context.Context, d time.Duration, users int) (float64, error) {
	var n atomic.Int64
	posted, before, began := atomic.Int64{}, s.apns.Taken(), time.Now()
	rendered := make([][]byte, devices)
	for i := range rendered {
		rendered[i] = s.post(i, users)
	}
	rate, err := flood(ctx, s.server.addr, connections, http.StatusAccepted, d, func() []byte {
		posted.Add(1)
		return rendered[int(n.Add(int64(users)))%devices]
	})
	if err != nil {
		return 0, fmt.Errorf("after %.0f req/s: %w", rate, err)
	}
	total := int(posted.Load()) * users
	if err := s.apns.WaitTaken(before+total, 2*time.Minute); err != nil {
		return 0, err
	}
	return float64(total) / time.Since(began).Seconds(), nil
}

// send is the baseline of push: the sender alone, from 512 goroutines.
func (s *stage) send(ctx context.Context, d time.Duration) (float64, error) {
	sender, err := s.sender()
	if err != nil {
		return 0, err
	}
	defer sender.Close()
	var wg sync.WaitGroup
	var sent, failed atomic.Int64
	began := time.Now()
	for g := range 512 {
		wg.Go(func() {
			for n := g; time.Since(began) < d && ctx.Err() == nil; n++ {
				if sender.Send(ctx, s.notification(n)).Outcome == transport.Delivered {
					sent.Add(1)
				} else {
					failed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if failed.Load() > 0 {
		return 0, fmt.Errorf("%d of the bare sender's notifications failed", failed.Load())
	}
	return float64(sent.Load()) / time.Since(began).Seconds(), ctx.Err()
}

// sender sends straight to the stand-in.
func (s *stage) sender() (*apns.Sender, error) {
	return apns.New(apns.Options{
		URL: s.apns.URL(), CAFile: s.apns.CAFile(), KeyFile: s.apns.KeyFile(), KeyID: s.apns.KeyID(), TeamID: s.apns.TeamID(),
	})
}

func (s *stage) notification(n int) *transport.Notification {
	return &transport.Notification{
		ID: fmt.Sprintf("%08x-0000-5000-8000-%012x", n, n), Token: token(n % devices), Topic: apnstest.DefaultTopic,
		Environment: api.EnvProduction, PushType: api.PushAlert, Priority: 10,
		Payload: []byte(`{"aps":{"alert":{"title":"Hello","body":"from the benchmark"}},"event_id":"00000000000000000000000000000000","type":"greeting"}`),
	}
}

// benchLatency measures POST -> arrival at APNs at 200 events a second, against
// a bare send to the stand-in: what remains is our own share.
func benchLatency(ctx context.Context, w *world) ([]result, error) {
	s, err := w.stage(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	count := int(w.seconds.Seconds()*200) * w.options.rounds
	if _, err := s.paced(ctx, 400, s.postAndWait); err != nil { // warm up
		return nil, err
	}
	whole, err := s.paced(ctx, count, s.postAndWait)
	if err != nil {
		return nil, err
	}
	sender, err := s.sender()
	if err != nil {
		return nil, err
	}
	defer sender.Close()
	alone, err := s.paced(ctx, count, func(ctx context.Context, n int) (time.Duration, error) {
		arrived, began := s.arrivals.expect(token(n%devices)), time.Now()
		if a := sender.Send(ctx, s.notification(n)); a.Outcome != transport.Delivered {
			return 0, fmt.Errorf("bare send: %v", a.Outcome)
		}
		return (<-arrived).Sub(began), nil
	})
	if err != nil {
		return nil, err
	}
	p50, p99 := quantiles(whole)
	bare50, bare99 := quantiles(alone)
	return []result{
		against("latency", "POST to arrival at 200/s, p50", "ms", p50, bare50, "bare send"),
		against("latency", "POST to arrival at 200/s, p99", "ms", p99, bare99, "bare send"),
	}, nil
}

// postAndWait posts to the n-th user and waits for the arrival.
func (s *stage) postAndWait(ctx context.Context, n int) (time.Duration, error) {
	c, err := s.callers.take()
	if err != nil {
		return 0, err
	}
	defer s.callers.give(c)
	arrived, began := s.arrivals.expect(token(n%devices)), time.Now()
	status, err := c.call(s.post(n%devices, 1))
	if err != nil || status != http.StatusAccepted {
		return 0, errors.Join(err, fmt.Errorf("status %d", status))
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

// paced does something count times, 200 times a second whatever it takes, and
// gives how long each took.
func (s *stage) paced(ctx context.Context, count int, do func(context.Context, int) (time.Duration, error)) ([]time.Duration, error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	took, fails := make([]time.Duration, count), make([]error, count)
	var wg sync.WaitGroup
	for n := range count {
		<-tick.C
		wg.Go(func() { took[n], fails[n] = do(ctx, n) })
	}
	wg.Wait()
	return took, errors.Join(fails...)
}
