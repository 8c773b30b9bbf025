package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// text renders the cells of a line of growth.
func text(values ...float64) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = figure(v)
	}
	return out
}

// count prints a whole number.
func count(n int) string {
	if n < 100 {
		return strconv.Itoa(n)
	}
	return figure(float64(n))
}

// sizes are what a cost grows along, smaller ones in a quick run.
func (w *world) sizes(all ...int) []int {
	if !w.quick {
		return all
	}
	return all[:min(2, len(all))]
}

// growBacklog lets 1,000 to 1,000,000 one-device events wait in processes
// without the role delivery, then drains them by one with it.
func growBacklog(ctx context.Context, w *world) (found, error) {
	t := table{Head: []string{"notifications waiting", "accepted /s", "POST p50 ms", "POST p99 ms", "delivered /s", "accepting MiB", "sending MiB", "Redis bytes each"}}
	for _, n := range w.sizes(1000, 10_000, 100_000, 1_000_000) {
		line, err := w.backlog(ctx, n)
		if err != nil {
			return found{}, fmt.Errorf("%d: %w", n, err)
		}
		t.Lines = append(t.Lines, append([]string{count(n)}, line...))
		w.reset()
	}
	return found{tables: []table{t}}, nil
}

// backlog measures one size: how it is posted, how a POST behaves meanwhile, and
// how it drains.
func (w *world) backlog(ctx context.Context, n int) ([]string, error) {
	s, err := w.stage(ctx, population(w.few(int(crowd))), 0, "FANFARE_ROLES=api,targeting,jobs")
	defer s.close()
	if err != nil {
		return nil, err
	}
	if err := s.postMany(ctx, s.server, int(s.devices)); err != nil { // each user once: then caches are filled
		return nil, err
	}
	began := time.Now()
	bytes, err := s.fillBacklog(ctx, s.server, n)
	if err != nil {
		return nil, err
	}
	filled := time.Since(began)
	steady := &load{addrs: []string{s.server.addr}, connections: 8, want: http.StatusAccepted, rate: pace, next: func(int) []byte { return s.devices.post(0, 1) }}
	posted, err := steady.run(ctx, w.seconds*2)
	if err != nil {
		return nil, err
	}
	worker, err := w.join(ctx, s, "FANFARE_ROLES=delivery")
	if err != nil {
		return nil, err
	}
	all := int64(int(s.devices)+n) + int64(posted["count"])
	began = time.Now()
	if err := s.await(ctx, all); err != nil {
		return nil, err
	}
	rate := float64(all) / time.Since(began).Seconds()
	front, err := s.server.peak()
	if err != nil {
		return nil, err
	}
	back, err := worker.peak()
	return text(float64(n)/filled.Seconds(), posted["p50"], posted["p99"], rate, front, back, bytes), err
}

// growFanOut sends one event to 1,000 to 1,000,000 followers.
func growFanOut(ctx context.Context, w *world) (found, error) {
	t := table{Head: []string{"followers", "nobody cached: delivered /s", "all cached: delivered /s", "first arrival ms", "last arrival s", "fanfare MiB", "fanfare µs each", "Redis µs each"}}
	for _, n := range w.sizes(1000, 10_000, 100_000, 1_000_000) {
		line, err := w.fanOut(ctx, n)
		if err != nil {
			return found{}, fmt.Errorf("%d: %w", n, err)
		}
		t.Lines = append(t.Lines, append([]string{count(n)}, line...))
		w.reset()
	}
	return found{tables: []table{t}}, nil
}

// fanOut measures one size twice: first when nobody's settings are cached, then when
// all followers' are.
func (w *world) fanOut(ctx context.Context, n int) ([]string, error) {
	s, err := w.stage(ctx, devices, n)
	defer s.close()
	if err != nil {
		return nil, err
	}
	var first, last time.Duration
	var used []time.Duration
	var cold string
	for round := range 2 {
		if round == 1 {
			cold = figure(float64(n) / last.Seconds())
			if err := s.warmFans(ctx, n); err != nil {
				return nil, err
			}
		}
		before, began := s.taken.Load(), time.Now()
		usage, err := measureCPU(s.server, s.redis)
		if err == nil {
			err = s.postToFans(ctx)
		}
		if err == nil {
			err = s.await(ctx, before+1)
		}
		if err != nil {
			return nil, err
		}
		first = time.Since(began)
		if err := s.await(ctx, before+int64(n)); err != nil {
			return nil, err
		}
		last = time.Since(began)
		if used, err = usage(); err != nil {
			return nil, err
		}
	}
	peak, err := s.server.peak()
	warm := text(float64(n)/last.Seconds(), float64(first)/1e6, last.Seconds(), peak, micros(used[0])/float64(n), micros(used[1])/float64(n))
	return append([]string{cold}, warm...), err
}

// growWorkers posts to 1, 2 and 4 processes with all roles.
func growWorkers(ctx context.Context, w *world) (found, error) {
	t := table{Head: []string{"processes", "one device, delivered /s", "fanfare µs each", "Redis µs each", "batches of 100, delivered /s", "fanfare µs each", "Redis µs each"}}
	s, err := w.stage(ctx, devices, 0)
	defer s.close()
	if err != nil {
		return found{}, err
	}
	servers := []*process{s.server}
	for _, n := range w.sizes(1, 2, 4) {
		for len(servers) < n {
			p, err := w.join(ctx, s)
			if err != nil {
				return found{}, err
			}
			servers = append(servers, p)
		}
		ways := waysToPost(devices, 0)
		m, err := w.turns(ctx, s.delivering(ways[0], servers...), s.delivering(ways[1], servers...))
		if err != nil {
			return found{}, err
		}
		line := text(m.of("one", "rate"), m.of("one", "fanfare"), m.of("one", "redis"), m.of("batch", "rate"), m.of("batch", "fanfare"), m.of("batch", "redis"))
		t.Lines = append(t.Lines, append([]string{count(n)}, line...))
	}
	return found{tables: []table{t}}, nil
}
