package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"fanfare/delivery/apns/apnstest"
)

// greeting is a POST of an event to one user.
var greeting = post(1, 1, devices)

// accept compares POST /v1/events with the bare server. The process has only the role api, so that
// only accepting is measured.
func accept(w *world) sample {
	s := w.stage(plan{bare: true, env: apiRole})
	return w.turns(s.flood("accept", s.server, http.StatusAccepted, greeting),
		s.flood("bare", s.bare, http.StatusAccepted, greeting))
}

// push compares the rate of delivered notifications, from end to end, with stock apns2 in a loop,
// which has no HTTP, no queue and no record. It also compares the push stage without the queue.
func push(w *world) sample {
	fans := w.few(followers)
	s := w.stage(plan{users: devices, fans: fans})
	s.warm("user-%d", devices)
	s.warm("fan-%d", fans)
	return w.turns(append(s.posts(fans, s.server), s.sendLoop("stock"), s.sendLoop("stage"))...)
}

// posts are the ways to post that are compared: the number of callers, their requests, and the
// number of notifications that each request causes.
func (s *stage) posts(fans int, servers ...*process) []*side {
	return []*side{
		s.delivering("one", connections, 1, func(n int) []byte { return post(n, 1, s.users) }, servers...),
		s.delivering("batch", 16, 100, func(n int) []byte { return batch("user-%d", n, 100, s.users) }, servers...),
		s.delivering("ten", connections, 10, func(n int) []byte { return post(n, 10, s.users) }, servers...),
		s.delivering("wide", 4, devices, func(n int) []byte { return post(n, devices, s.users) }, servers...),
		s.delivering("fans", 1, fans, func(int) []byte { return toFans }, servers...),
	}
}

// badges compares events of a type that raises the badge of its user with those of one that has no badge.
func badges(w *world) sample {
	s := w.stage(plan{users: devices})
	s.each(1, func(c *caller, _ int) {
		c.call(http.MethodPut, "/v1/event-types/none", `{"title":"Hello","body":"from the benchmark"}`, http.StatusCreated)
		c.call(http.MethodPut, "/v1/event-types/badge", `{"title":"Hello","body":"from the benchmark","badge":"add"}`, http.StatusCreated)
	})
	s.warm("user-%d", devices)
	of := func(typ string) *side {
		return s.delivering(typ, connections, 1, func(n int) []byte {
			return request(http.MethodPost, "/v1/events", fmt.Sprintf(`{"type":"%s","audience":{"users":["user-%d"]}}`, typ, n%devices))
		}, s.server)
	}
	return w.turns(of("none"), of("badge"))
}

// facts compares events of which it is told that they are over, in the feed or also to a webhook, with events of which nothing is told.
func facts(w *world) sample {
	off, on, hook, r := w.stage(plan{users: devices}), w.stage(plan{users: devices}), w.stage(plan{users: devices, env: hookNets}), w.receiver()
	on.each(1, func(c *caller, _ int) {
		c.call(http.MethodPut, "/v1/facts/types", `{"types":["event.done"]}`, http.StatusOK)
	})
	of := func(name string, s *stage) *side {
		s.warm("user-%d", devices) // longer than the server takes to learn of the type
		return s.delivering(name, connections, 1, func(n int) []byte { return post(n, 1, s.users) }, s.server)
	}
	sides := []*side{of("off", off), of("on", on)}
	hook.putHook("shop", r.url, http.StatusCreated)
	hook.warm("user-%d", devices)
	w.awaitFacts(r, devices)
	return w.turns(append(sides, hook.hooked("hook", r))...)
}

// audiences compares an event to a topic, and one to all users, with one to the contacts of a
// user, who are as many.
func audiences(w *world) sample {
	fans := w.few(followers)
	s := w.stage(plan{users: 1, fans: fans, fill: func(into tables) {
		into.rows("topic_members (topic, user_id, joined_at)", fans, func(i int) string {
			return fmt.Sprintf("('star','fan-%d',1)", i)
		})
	}})
	s.warm("user-%d", s.users)
	s.warm("fan-%d", fans)
	to := func(name string, each int, audience string) *side {
		return s.delivering(name, 1, each, func(int) []byte { return toAudience(audience) }, s.server)
	}
	return w.turns(to("contacts", fans, `{"contacts_of":"star"}`), to("topic", fans, `{"topic":"star"}`),
		to("all", fans+s.users, `{"all":true}`))
}

// delivering is a side that posts for one round and waits for the last notification.
func (s *stage) delivering(name string, callers, each int, render func(n int) []byte, servers ...*process) *side {
	n := min(devices, 200_000/each+1)
	if s.users > devices { // no device gets a second notification before all have got one
		n = s.users / each
	}
	requests := made(n, func(i int) []byte { return render(i * s.users / n) })
	return &side{name: name, stage: s, servers: servers, callers: callers, requests: requests, status: http.StatusAccepted,
		each: int64(each), done: s.taken.Load}
}

// sendLoop is a side that sends to the stand-in from its own process: apns2 as it is ("stock",
// "stock-far"), or fanfare's push stage ("stage").
func (s *stage) sendLoop(which string) *side {
	return &side{name: which, run: func(d time.Duration) sample {
		before := s.taken.Load()
		found := s.figures(self("send", which, s.apns.Dir()+","+s.apns.URL(), d.String())...)
		if arrived := float64(s.taken.Load() - before); arrived < found["count"] {
			failf("%s says that %.0f were sent, %.0f arrived", which, found["count"], arrived)
		}
		return found
	}}
}

// latency measures the time from POST to the arrival at APNs.
func latency(w *world) sample {
	s := w.stage(plan{users: devices})
	l := s.arriving(pace, s.oneOfDevices)
	return w.turns(&side{name: "ours", run: func(d time.Duration) sample { return l.load(w.ctx, 2*d) }})
}

// oneOfDevices renders an event to one of the devices, and its token.
func (s *stage) oneOfDevices(n int) ([]byte, string) { return post(n, 1, devices), token(n % devices) }

// arriving is a load of events to one device each, at even intervals. Each call waits for the
// arrival of its notification.
func (s *stage) arriving(rate float64, render func(n int) (post []byte, token string)) *side {
	return &side{servers: []*process{s.server}, rate: rate, call: func(c *caller, n int) {
		post, token := render(n)
		arrived := make(chan time.Time, 1)
		s.waiting.Store(token, arrived)
		must(c.send(post, http.StatusAccepted))
		c.ended = moment(s.ctx, arrived)
	}}
}

// moment waits for the time of an arrival.
func moment(ctx context.Context, came <-chan time.Time) (at time.Time) {
	select {
	case at = <-came:
	case <-time.After(10 * time.Second):
		failf("something did not arrive within 10 s")
	case <-ctx.Done():
		must(context.Cause(ctx))
	}
	return at
}

// memory lets a million one-device events wait for an APNs that accepts requests and never answers.
// The first of these events each have their own device. Before, an event to each user warms up, and
// another one to half of the users shows what an ended event leaves behind.
func memory(w *world) sample {
	n := w.few(crowd)
	s := w.stage(plan{users: n})
	var used [2]float64
	for i := range used {
		s.warm("user-%d", n/(i+1))
		s.rest("notifications")
		used[i] = s.memory()
	}
	s.apns.ScriptAll(apnstest.Failing(apnstest.Hang))
	first, rest := s.fillBacklog("notifications", n), s.fillBacklog("notifications", 9*n)
	return sample{"peak": s.server.peak(), "first": first, "rest": rest, "kept": max(used[1]-used[0], 1) / float64(n/2)}
}

// fillBacklog posts n one-device events, which wait themselves, or whose notifications wait, and returns the memory
// that each of them takes in Redis.
func (s *stage) fillBacklog(queue string, n int) float64 {
	before := s.memory()
	s.postMany("user-%d", n, s.users)
	if queue != "events" {
		s.rest("events")
	}
	if waiting := s.depth(queue); waiting < int64(n)*99/100 { // a few are given up after many attempts
		failf("only %d of %d %s wait", waiting, n, queue)
	}
	return max(s.memory()-before, 1) / float64(n)
}

// backlog lets n one-device events wait, beside a process without the role push, and then lets a
// process with that role deliver them. It measures the POSTs, the time of a POST with the backlog,
// and the delivery.
func backlog(w *world, n int) []float64 {
	s := w.stage(plan{users: w.few(crowd), env: noPush})
	s.postMany("user-%d", s.users, s.users)
	began := time.Now()
	bytes := s.fillBacklog("events", n)
	filled := time.Since(began)
	steady := s.flood("", s.server, http.StatusAccepted, greeting)
	steady.callers, steady.rate = 8, pace
	posted := steady.load(w.ctx, w.seconds*2)
	all := int64(s.users+n) + int64(posted["count"])
	worker := s.join(w.pushRole())
	began = time.Now()
	s.await(all)
	rate := float64(all) / time.Since(began).Seconds()
	return []float64{float64(n) / filled.Seconds(), posted["p50"], posted["p99"], rate, s.server.peak(), worker.peak(), bytes}
}

// workers posts to n processes with all roles.
func workers(w *world, n int) []float64 {
	s := w.stage(plan{users: devices})
	servers := append(made(n-1, func(int) *process { return s.join() }), s.server)
	return w.turns(s.posts(1, servers...)[:2]...).
		line("one rate", "one fanfare", "one redis", "batch rate", "batch fanfare", "batch redis")
}
