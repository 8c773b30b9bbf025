package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"fanfare/delivery/apns/apnstest"
)

// Apple answers after 30 to 300 ms. The section "Far" measures with a stand-in that does the same,
// so that the number of requests in flight is the limit, and not only the processors.
const (
	near = 100 * time.Millisecond
	away = 300 * time.Millisecond
	// farPace is how many one-user events a second are posted during a fan-out.
	farPace = 50
	// otherApp is a different app than that of the fan-out. Each of otherUsers has a phone with it,
	// and the tokens of these phones begin at otherToken.
	otherApp   = "com.example.other"
	otherUsers = 200
	otherToken = 1 << 26
)

// setLatency waits until the stand-in has answered everything, and then lets it answer after d,
// plus or minus a random fifth.
func (s *stage) setLatency(d time.Duration) {
	eventually(s.ctx, "the last answers", func() bool { return s.apns.Answered() >= s.apns.Total() })
	s.apns.SetLatency(d, d/5)
}

// after is a side for which the stand-in is set to answer after a given time, and which is named
// after its milliseconds. It also counts the entries that were added to the streams of Redis for each
// notification.
func (s *stage) after(d time.Duration, set func(), of *side) *side {
	return &side{name: fmt.Sprintf("%s %d", of.name, d.Milliseconds()), run: func(round time.Duration) sample {
		set()
		before := s.spent()["xadd"].calls
		found := of.round(s.ctx, 2*round) // the window grows for a while first
		found["entries"] = (s.spent()["xadd"].calls - before) / found["count"]
		return found
	}}
}

// far sends to many devices, because notifications of one device are sent one after the other, and
// few devices would be the limit. It compares a stand-in that answers late with one that answers at
// once, and fanfare with stock apns2 over four connections.
func far(w *world) sample {
	var sides []*side
	s := w.stage(plan{users: crowd})
	s.warm("user-%d", crowd)
	ways := s.posts(1, s.server)
	one, batch, wide, stock := ways[0], ways[1], ways[3], s.sendLoop("stock-far")
	at := func(d time.Duration, all ...*side) {
		for _, of := range all {
			sides = append(sides, s.after(d, func() { s.setLatency(d) }, of))
		}
	}
	at(0, stock, batch, wide)
	at(near, stock, batch, wide, one)
	at(away, stock, batch, wide)
	return w.turns(sides...)
}

// burstTime is the part of a burst that is measured.
const burstTime = 3 * time.Second

// bursts measures the first three seconds of a burst to a quiet server, which has no connection to the
// stand-in, like the stock client that has just started.
func bursts(w *world) sample {
	s := w.stage(plan{users: burstUsers})
	s.warm("user-%d", burstUsers)
	ways := s.posts(1, s.server)
	var sides []*side
	for _, d := range []time.Duration{near, away} {
		for _, of := range []*side{s.sendLoop("stock-burst"), ways[1], ways[3]} {
			sides = append(sides, s.burst(d, of))
		}
	}
	return w.turns(sides...)
}

// burstUsers is how many users get the events of a burst. Requests to one device go one after the other, so
// with few devices these would be the limit.
const burstUsers = 40_000

// burst is a side whose rate is that of what arrives at the stand-in in the first three seconds.
func (s *stage) burst(d time.Duration, of *side) *side {
	return &side{name: fmt.Sprintf("%s %d", of.name, d.Milliseconds()), run: func(time.Duration) sample {
		s.setLatency(d)
		s.apns.GoAway()
		eventually(s.ctx, "all connections end", func() bool { return s.apns.Connections() == 0 })
		s.pause(time.Second)
		before, opened, arrived := s.taken.Load(), s.apns.Accepted(), int64(0)
		parallel(2, func(i int) {
			if i == 0 {
				of.round(s.ctx, burstTime)
				return
			}
			if of.run != nil { // another process, which has to start first
				eventually(s.ctx, "the first connection", func() bool { return s.apns.Accepted() > opened })
			}
			s.pause(burstTime)
			arrived = s.taken.Load() - before
		})
		return sample{"rate": float64(arrived) / burstTime.Seconds()}
	}}
}

// farProcesses sends one event to 100,000 followers, with one, two and four processes that can each
// have some 350 requests of one app under way. At 100 ms these are 3,500 requests a second, so that this
// limit counts and not the two processors that all share.
func farProcesses(w *world) sample {
	const room = "FANFARE_MAX_IN_FLIGHT=600" // a large audience of the only app may have two thirds of eight ninths of these
	fans, found := w.few(followers), sample{}
	s := w.stage(plan{users: devices, fans: fans, env: []string{room}})
	s.warm("fan-%d", fans)
	s.setLatency(near)
	for n := 1; n <= 4; n *= 2 {
		for range n / 2 { // the others are there already
			s.join(room)
		}
		found[strconv.Itoa(n)] = w.turns(s.oneFanOut(fans))["fan-out rate"]
	}
	return found
}

// oneFanOut is a side that posts one event to all followers and waits until it is delivered.
func (s *stage) oneFanOut(fans int) *side {
	return &side{name: "fan-out", stage: s, servers: []*process{s.server}, run: func(time.Duration) sample {
		before, began := s.taken.Load(), time.Now()
		s.postToFans()
		s.await(before + 1)
		first := time.Since(began)
		s.await(before + int64(fans))
		last := time.Since(began).Seconds()
		return sample{"rate": float64(fans) / last, "count": float64(fans), "first": float64(first) / 1e6, "last": last}
	}}
}

// farLatency measures the time of one-user events from POST to APNs while an event to 100,000
// devices of the same app is sent, and while another app hangs. Each round has its own stage, so
// that an app that hung leaves nothing for the next round.
func farLatency(w *world) sample {
	return w.turns(&side{name: "lone", run: func(d time.Duration) sample {
		defer w.reset()
		fans := w.few(followers)
		s := w.stage(plan{users: devices, fans: fans, fill: func(into tables) {
			into.devices("other-%d", otherToken, otherUsers, otherApp)
		}})
		s.warm("user-%d", devices)
		s.warm("other-%d", otherUsers)
		s.warm("fan-%d", fans)
		s.setLatency(near)
		var same sample
		beside(s.ctx, func() { same = s.arriving(farPace, s.oneOfDevices).load(s.ctx, 3*d) }, func(ctx context.Context) {
			before := s.taken.Load()
			s.postToFans()
			eventually(ctx, "a fan-out", func() bool { return s.taken.Load()-before >= int64(fans) })
		})
		s.apns.ScriptTopic(apnstest.DefaultTopic, apnstest.Failing(apnstest.Hang))
		s.postToFans()
		s.pause(2 * time.Second) // only from the third second on, events of the other app count
		other := s.arriving(farPace, func(n int) ([]byte, string) {
			return batch("other-%d", n, 1, otherUsers), token(otherToken + n%otherUsers)
		})
		return sample{"same": same["p99"], "other": other.load(s.ctx, 3*d)["p99"]}
	}})
}

// beside does something while something else is done again and again. The latter gets a context that
// ends then.
func beside(ctx context.Context, do func(), other func(ctx context.Context)) {
	over, stop := context.WithCancel(ctx)
	parallel(2, func(i int) {
		if i == 0 {
			defer stop()
			do()
			return
		}
		for over.Err() == nil {
			if err := attempt(func() { other(over) }); over.Err() == nil {
				must(err)
			}
		}
	})
}

// farMemory starts a process that finds a million waiting events, lets answers take 300 ms,
// and measures the memory of the process while it sends.
func farMemory(w *world) sample {
	return w.turns(&side{name: "far", run: func(d time.Duration) sample {
		defer w.reset()
		n := w.few(crowd)
		if d < w.seconds { // the warm-up round
			n = max(n/100, 10)
		}
		s := w.stage(plan{users: n, env: noPush})
		s.fillBacklog("events", 10*n)
		s.server.kill()
		s.setLatency(away)
		s.server = s.join()
		for began := time.Now(); time.Since(began) < 10*d && s.taken.Load() < int64(10*n); {
			s.pause(100 * time.Millisecond)
		}
		return sample{"peak": s.server.peak()}
	}})
}

// noPush are the roles of a process whose events wait.
var noPush = []string{"FANFARE_ROLES=api,jobs"}

// cold compares an event to 100,000 followers whose settings are not cached with the same event
// when all are cached. It also measures the memory of Redis.
func cold(w *world) sample {
	m, fans := sample{}, w.few(followers)
	for name, maria := range map[string]bool{"sqlite ": false, "mysql ": true} {
		s := w.stage(plan{users: devices, fans: fans, maria: maria})
		found := w.turns(
			s.weighed("cold", fans, s.forgetFans),
			s.weighed("warm", fans, func() { s.warm("fan-%d", fans) }))
		for figure, v := range found {
			m[name+figure] = v
		}
		w.reset()
	}
	return m
}

// weighed is a side that sends one event to all followers. It returns the memory that Redis takes
// for each recipient, at most while the event is sent ("peak") and after its end ("left").
func (s *stage) weighed(name string, fans int, prepare func()) *side {
	return &side{name: name, run: func(d time.Duration) (found sample) {
		prepare()
		s.rest("events", "notifications")
		before, peak := s.memory(), 0.0
		beside(s.ctx, func() { found = s.oneFanOut(fans).round(s.ctx, d) }, func(context.Context) {
			peak = max(peak, s.memory())
			s.pause(20 * time.Millisecond)
		})
		s.rest("events", "notifications")
		// If there are few recipients, memory that something else frees may be more.
		each := func(bytes float64) float64 { return max(bytes-before, 1) / float64(fans) }
		found["peak"], found["left"] = each(peak), each(s.memory())
		return found
	}}
}

// forgetFans removes the followers' settings from the cache.
func (s *stage) forgetFans() {
	pipe, keys := s.redis.Pipeline(), s.redis.Scan(s.ctx, 0, fanSettings, 1000).Iterator()
	for keys.Next(s.ctx) {
		pipe.Unlink(s.ctx, keys.Val())
	}
	must(keys.Err())
	got(pipe.Exec(s.ctx))
}

// fanOut sends one event to n followers twice: first when no settings are cached, and then when the
// settings of all followers are.
func fanOut(w *world, n int) []float64 {
	s := w.stage(plan{users: devices, fans: n})
	side := s.oneFanOut(n)
	cold := side.round(w.ctx, 0)
	s.warm("fan-%d", n)
	warm := side.round(w.ctx, 0)
	return []float64{cold["rate"], warm["rate"], warm["first"], warm["last"], s.server.peak(), warm["fanfare"], warm["redis"]}
}
