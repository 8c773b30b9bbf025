package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// outstanding bounds what is posted and not delivered yet, so that a round ends
// soon after its posts and no side works on a longer queue than another.
const outstanding = 20_000

// posts is a way to post: how many callers send what, and how many
// notifications come of each request.
type posts struct {
	name    string
	callers int
	each    int
	render  func(n int) []byte
}

// waysToPost are those that the table compares.
func waysToPost(p population, fans int) []posts {
	return []posts{
		{"one", connections, 1, func(n int) []byte { return p.post(n, 1) }},
		{"batch", 16, 100, func(n int) []byte { return p.batch(n, 100) }},
		{"ten", connections, 10, func(n int) []byte { return p.post(n, 10) }},
		{"wide", 4, int(devices), func(n int) []byte { return p.post(n, int(devices)) }},
		{"fans", 1, fans, func(int) []byte {
			return request(http.MethodPost, "/v1/events", []byte(event(`{"contacts_of":"star"}`)))
		}},
	}
}

// benchPush measures what is delivered end to end against stock apns2 from a
// loop, with no HTTP, queue or record; and the push stage alone.
func benchPush(ctx context.Context, w *world) (found, error) {
	fans := w.few(followers)
	s, err := w.stage(ctx, devices, fans)
	defer s.close()
	if err != nil {
		return found{}, err
	}
	sides := []side{s.sendLoop(w, "stock"), s.sendLoop(w, "stage")}
	for _, p := range waysToPost(devices, fans) {
		sides = append(sides, s.delivering(p, s.server))
	}
	if err := errors.Join(s.warm(ctx, s.server), s.warmFans(ctx, fans)); err != nil {
		return found{}, err
	}
	m, err := w.turns(ctx, sides...)
	return found{rows: pushRows(m)}, err
}

// pushRows are the rows of benchPush.
func pushRows(m medians) []row {
	against := func(work, side string, goal float64) row {
		return row{work, m.of(side, "rate"), "/s", m.of("stock", "rate"), "stock apns2 in a loop", atLeast(goal)}
	}
	return []row{
		against("delivered, one event per POST, one device", "one", .5),
		against("delivered, 100 events per batch POST", "batch", 1),
		against("delivered, one event to 10 devices", "ten", 1),
		against("delivered, one event to 2,000 devices", "wide", 1.2),
		against("delivered, one event to 100,000 devices", "fans", 1.2),
		against("push stage alone (delivery/apns, no queue)", "stage", 1.8),
		{"Redis, processor time per one-device event at saturation", m.of("one", "redis"), "µs", 0, "", valueAtMost(25)},
		{"fanfare, processor time per one-device event at saturation", m.of("one", "fanfare"), "µs", 0, "", valueAtMost(90)},
	}
}

// sendLoop is a side that sends to the stand-in from a process of its own:
// "stock" apns2, or fanfare's "stage".
func (s *stage) sendLoop(w *world, which string) side {
	return side{which, func(ctx context.Context, d time.Duration) (sample, error) {
		before := s.taken.Load()
		name, args, err := w.self("send", which, s.apns.Dir()+","+s.apns.URL(), d.String())
		if err != nil {
			return nil, err
		}
		got, err := w.figures(ctx, name, args...)
		if err == nil && float64(s.taken.Load()-before) < got["count"] {
			err = fmt.Errorf("%s says that %.0f were sent, %d arrived", which, got["count"], s.taken.Load()-before)
		}
		return got, err
	}}
}

// delivering is a side that posts for one round and waits for the last
// notification: notifications per second, and what each of them took of Redis
// and of the processes.
func (s *stage) delivering(p posts, servers ...*process) side {
	rendered := make([][]byte, min(int(devices), 200_000/p.each+1))
	if s.devices > devices { // each device once before any has its turn again
		rendered = make([][]byte, int(s.devices)/p.each)
	}
	for i := range rendered {
		rendered[i] = p.render(i * int(s.devices) / len(rendered))
	}
	return side{p.name, func(ctx context.Context, d time.Duration) (sample, error) {
		usage, err := measureCPU(append([]*process{s.redis}, servers...)...)
		if err != nil {
			return nil, err
		}
		n, took, err := s.postAll(ctx, p, rendered, d, servers)
		if err != nil {
			return nil, err
		}
		used, err := usage()
		if err != nil {
			return nil, err
		}
		got := sample{"rate": float64(n) / took.Seconds(), "count": float64(n), "redis": micros(used[0]) / float64(n)}
		for _, d := range used[1:] {
			got["fanfare"] += micros(d) / float64(n)
		}
		return got, nil
	}}
}

func micros(d time.Duration) float64 { return float64(d) / 1e3 }

// measureCPU begins to measure processor time; the answer gives what each
// process used since.
func measureCPU(all ...*process) (func() ([]time.Duration, error), error) {
	before, err := cpuOf(all)
	return func() ([]time.Duration, error) {
		after, err := cpuOf(all)
		for i := range after {
			after[i] -= before[i]
		}
		return after, err
	}, err
}

func cpuOf(all []*process) ([]time.Duration, error) {
	out := make([]time.Duration, len(all))
	for i, p := range all {
		var err error
		if out[i], err = p.cpu(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// postAll posts for a while, never too far ahead, and waits until all has
// arrived. It gives the number of notifications and the time from the first
// POST to the last arrival.
func (s *stage) postAll(ctx context.Context, p posts, rendered [][]byte, d time.Duration, servers []*process) (int64, time.Duration, error) {
	var n, posted atomic.Int64
	before, wrong, began := s.taken.Load(), s.wrong.Load(), time.Now()
	l := &load{connections: p.callers, want: http.StatusAccepted, next: func(int) []byte {
		for posted.Load()-(s.taken.Load()-before) >= outstanding {
			if ctx.Err() != nil || time.Since(began) > d {
				return nil
			}
			time.Sleep(time.Millisecond)
		}
		posted.Add(int64(p.each))
		return rendered[n.Add(1)%int64(len(rendered))]
	}}
	for _, server := range servers {
		l.addrs = append(l.addrs, server.addr)
	}
	if _, err := l.run(ctx, d); err != nil {
		return 0, 0, err
	}
	if err := s.await(ctx, before+posted.Load()); err != nil {
		return 0, 0, err
	}
	took := time.Since(began)
	if got := s.wrong.Load() - wrong; got > 0 {
		return 0, 0, fmt.Errorf("the stand-in refused %d requests", got)
	}
	if more := s.taken.Load() - before - posted.Load(); more > 0 {
		return 0, 0, fmt.Errorf("%d notifications more than were posted", more)
	}
	return posted.Load(), took, nil
}

// await waits until so many notifications have arrived in all. It gives up when
// none came for a while.
func (s *stage) await(ctx context.Context, all int64) error {
	const patience = time.Minute
	last, since := s.taken.Load(), time.Now()
	return eventually(ctx, time.Hour, "all notifications", func() (bool, error) {
		now := s.taken.Load()
		if now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) > patience {
			return false, fmt.Errorf("%d notifications are missing, and none came for %v", all-now, patience)
		}
		return now >= all, nil
	})
}

// greeting is the event that is posted: one user, a text of its own.
const greeting = `{"type":"greeting","audience":{"users":["user-1"]},"alert":{"title":"Hello","body":"from the benchmark"}}`

// pair is a fanfare, a bare server, and the Redis of both.
type pair struct{ redis, server, bare *process }

// pair starts all three.
func (w *world) pair(ctx context.Context, env ...string) (p pair, err error) {
	if p.redis, err = w.redis(); err != nil {
		return p, err
	}
	if p.server, err = w.fanfare(ctx, p.redis, env...); err != nil {
		return p, err
	}
	p.bare, err = w.bare(p.redis)
	return p, err
}

// flood is a side that sends a load.
func (*world) flood(name string, l *load) side {
	return side{name, l.run}
}

// benchAccept compares POST /v1/events with the bare server. The process plays
// the role api alone, so that accepting is what is measured.
func benchAccept(ctx context.Context, w *world) (found, error) {
	p, err := w.pair(ctx, "FANFARE_ROLES=api")
	if err != nil {
		return found{}, err
	}
	post := request(http.MethodPost, "/v1/events", []byte(greeting))
	m, err := w.turns(ctx,
		w.flood("ours", fixed(p.server.addr, http.StatusAccepted, post)),
		w.flood("bare", fixed(p.bare.addr, http.StatusAccepted, post)))
	const work, baseline = "POST /v1/events accepted, 64 callers, API role alone", "bare chi handler, one ungathered XADD"
	return found{rows: []row{
		{work, m.of("ours", "rate"), "/s", m.of("bare", "rate"), baseline, atLeast(1)},
		{work + ", p99", m.of("ours", "p99"), "ms", m.of("bare", "p99"), baseline, atMost(1)},
	}}, err
}
