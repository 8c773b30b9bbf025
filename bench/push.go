package main

import (
	"context"
	"net/http"
	"time"

	"fanfare/delivery/apns/apnstest"
)

// outstanding is the largest number of notifications that are posted and not delivered yet. So a
// round ends soon after its last POST, and all sides work on queues of the same length.
const outstanding = 20_000

// greeting is a POST of an event to one user.
var greeting = post(1, 1, devices)

// accept compares POST /v1/events with the bare server. The process has only the role api, so that
// only accepting is measured.
func accept(w *world) []side {
	s := w.stage(plan{bare: true, env: []string{"FANFARE_ROLES=api"}})
	posting := func(to *process) *load {
		return requests(http.StatusAccepted, connections, [][]byte{greeting}, to.addr)
	}
	return []side{s.flood("ours", s.server, posting(s.server)), s.flood("bare", s.bare, posting(s.bare))}
}

// push compares the rate of delivered notifications, from end to end, with stock apns2 in a loop,
// which has no HTTP, no queue and no record. It also compares the push stage without the queue.
func push(w *world) []side {
	s := w.stage(plan{users: devices, fans: w.few(followers)})
	s.warm("user-%d", devices)
	s.warm("fan-%d", w.few(followers))
	return append([]side{s.sendLoop("stock"), s.sendLoop("stage")}, s.posts(w.few(followers), s.server)...)
}

// posts are the ways to post that are compared: the number of callers, their requests, and the
// number of notifications that each request causes.
func (s *stage) posts(fans int, servers ...*process) []side {
	return []side{
		s.delivering("one", connections, 1, func(n int) []byte { return post(n, 1, s.users) }, servers),
		s.delivering("batch", 16, 100, func(n int) []byte { return batch("user-%d", n, 100, s.users) }, servers),
		s.delivering("ten", connections, 10, func(n int) []byte { return post(n, 10, s.users) }, servers),
		s.delivering("wide", 4, devices, func(n int) []byte { return post(n, devices, s.users) }, servers),
		s.delivering("fans", 1, fans, func(int) []byte { return toFans }, servers),
	}
}

// audiences compares an event to a topic, and one to all users, with one to the contacts of a
// user, who are as many.
func audiences(w *world) []side {
	fans := w.few(followers)
	s := w.stage(plan{users: 1, fans: fans, topic: true})
	s.warm("user-%d", s.users)
	s.warm("fan-%d", fans)
	to := func(name string, each int, post []byte) side {
		return s.delivering(name, 1, each, func(int) []byte { return post }, []*process{s.server})
	}
	return []side{
		to("contacts", fans, toFans), to("topic", fans, toAudience(`{"topic":"star"}`)), to("all", fans+s.users, toAudience(`{"all":true}`)),
	}
}

// delivering is a side that posts for one round and waits for the last notification.
func (s *stage) delivering(name string, callers, each int, render func(n int) []byte, servers []*process) side {
	n := min(devices, 200_000/each+1)
	if s.users > devices { // no device gets a second notification before all have got one
		n = s.users / each
	}
	rendered := make([][]byte, n)
	for i := range rendered {
		rendered[i] = render(i * s.users / n)
	}
	var addrs []string
	for _, p := range servers {
		addrs = append(addrs, p.addr)
	}
	l := requests(http.StatusAccepted, callers, rendered, addrs...)
	l.done, l.each, l.ahead = s.taken.Load, int64(each), outstanding
	return side{name, func(ctx context.Context, d time.Duration) sample {
		before, wrong := s.taken.Load(), s.wrong.Load()
		found := l.run(ctx, d)
		if refused := s.wrong.Load() - wrong; refused > 0 {
			failf("the stand-in refused %d requests", refused)
		}
		if more := float64(s.taken.Load()-before) - found["count"]; more > 0 {
			failf("%.0f notifications more than were posted", more)
		}
		return found
	}, append([]*process{s.redis}, servers...)}
}

// sendLoop is a side that sends to the stand-in from its own process: apns2 as it is ("stock",
// "stock-far"), or fanfare's push stage ("stage").
func (s *stage) sendLoop(which string) side {
	return side{name: which, run: func(_ context.Context, d time.Duration) sample {
		before := s.taken.Load()
		found := s.figures(self("send", which, s.apns.Dir()+","+s.apns.URL(), d.String())...)
		if arrived := float64(s.taken.Load() - before); arrived < found["count"] {
			failf("%s says that %.0f were sent, %.0f arrived", which, found["count"], arrived)
		}
		return found
	}}
}

// latency measures the time from POST to the arrival at APNs.
func latency(w *world) []side {
	s := w.stage(plan{users: devices})
	l := s.arriving(pace, func(n int) ([]byte, string) { return post(n, 1, devices), token(n % devices) })
	return []side{{name: "ours", run: func(ctx context.Context, d time.Duration) sample { return l.run(ctx, 2*d) }}}
}

// arriving is a load of events to one device each, at even intervals. Each call waits for the
// arrival of its notification.
func (s *stage) arriving(rate float64, render func(n int) (post []byte, token string)) *load {
	return &load{callers: connections, rate: rate, call: func(ctx context.Context, _ int) calls {
		c := dial(ctx, s.server.addr)
		return func(n int, sent time.Time) time.Duration {
			post, token := render(n)
			arrived := make(chan time.Time, 1)
			s.waiting.Store(token, arrived)
			must(c.send(post, http.StatusAccepted))
			return moment(ctx, arrived).Sub(sent)
		}
	}}
}

// moment waits for the time of an arrival.
func moment(ctx context.Context, came <-chan time.Time) (at time.Time) {
	select {
	case at = <-came:
	case <-time.After(10 * time.Second):
		failf("something did not arrive within 10 s")
	case <-ctx.Done():
		must(ctx.Err())
	}
	return at
}

// memory lets a million one-device events wait for an APNs that accepts requests and never answers.
// The first of these events each have their own device.
func memory(w *world) medians {
	n := w.few(crowd)
	s := w.stage(plan{users: n})
	s.keepFile()
	kept := s.retained()
	s.apns.ScriptAll(apnstest.Failing(apnstest.Hang))
	first, rest := s.fillBacklog(n), s.fillBacklog(9*n)
	return medians{"peak": s.server.peak(), "first": first, "rest": rest, "kept": kept}
}

// retained sends an event to each user as a warm-up, and then another one to half of the users. It
// returns the memory that each of the latter leaves behind.
func (s *stage) retained() float64 {
	var used [2]float64
	for i := range used {
		s.warm("user-%d", s.users/(i+1))
		s.rest("notifications")
		used[i] = s.memory()
	}
	return (used[1] - used[0]) / float64(s.users/2)
}

// fillBacklog posts n one-device events, waits until all are targeted, and returns the memory that
// each of them takes in Redis.
func (s *stage) fillBacklog(n int) float64 {
	before := s.memory()
	s.postMany("user-%d", n, s.users)
	s.rest("events")
	if waiting := s.depth("notifications"); waiting < n*99/100 { // a few are given up after many attempts
		failf("only %d of %d notifications wait", waiting, n)
	}
	return (s.memory() - before) / float64(n)
}

// backlog lets n one-device events wait, in a process without the role delivery, and then lets a
// process with that role deliver them. It measures the POSTs, the time of a POST with the backlog,
// and the delivery.
func backlog(w *world, n int) []float64 {
	s := w.stage(plan{users: w.few(crowd), env: []string{"FANFARE_ROLES=api,targeting,jobs"}})
	s.postMany("user-%d", s.users, s.users)
	began := time.Now()
	bytes := s.fillBacklog(n)
	filled := time.Since(began)
	steady := requests(http.StatusAccepted, 8, [][]byte{greeting}, s.server.addr)
	steady.rate = pace
	posted := steady.run(w.ctx, w.seconds*2)
	all := int64(s.users+n) + int64(posted["count"])
	worker := s.join("FANFARE_ROLES=delivery")
	began = time.Now()
	s.await(all)
	rate := float64(all) / time.Since(began).Seconds()
	return []float64{float64(n) / filled.Seconds(), posted["p50"], posted["p99"], rate, s.server.peak(), worker.peak(), bytes}
}

// workers posts to n processes with all roles.
func workers(w *world, n int) (line []float64) {
	s := w.stage(plan{users: devices})
	servers := []*process{s.server}
	for len(servers) < n {
		servers = append(servers, s.join())
	}
	m := w.turns(s.posts(1, servers...)[:2]...)
	for _, way := range []string{"one ", "batch "} {
		line = append(line, m[way+"rate"], m[way+"fanfare"], m[way+"redis"])
	}
	return line
}
