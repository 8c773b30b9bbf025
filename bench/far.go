package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"fanfare/delivery/apns/apnstest"
)

// Apple answers after 30 to 300 ms. The section "Far" measures with a stand-in that does the same,
// so that the number of requests in flight is the limit, and not only the processors.
const (
	near = 100 * time.Millisecond
	away = 300 * time.Millisecond
	// roomFor is FANFARE_MAX_IN_FLIGHT of the processes whose number is varied. Large audiences of
	// the only app may have 500 requests of it under way. At 100 ms these are 5,000 requests a
	// second, so that this limit counts and not the two processors that all share.
	roomFor = "FANFARE_MAX_IN_FLIGHT=600"
	// farPace is how many one-user events a second are posted during a fan-out.
	farPace = 50
	// otherApp is a different app than that of the fan-out. Each of otherUsers has a phone with it,
	// and the tokens of these phones begin at otherToken.
	otherApp   = "com.example.other"
	otherUsers = 200
	otherToken = 1 << 26
	// hangsSince is how long the app of the fan-out has been hanging when events of the other app
	// begin to count.
	hangsSince = 2 * time.Second
)

// setLatency waits until the stand-in has answered everything, and then lets it answer after d,
// plus or minus a random fifth.
func (s *stage) setLatency(d time.Duration) {
	eventually(s.ctx, time.Minute, "the last answers", func() bool { return s.apns.Answered() >= s.apns.Total() })
	s.apns.SetLatency(d, d/5)
}

// at is a side for which APNs answers after a given time, and which is named after its
// milliseconds. It also counts the entries that were added to the streams of Redis for each
// notification.
func (s *stage) at(d time.Duration, of side) side {
	name := fmt.Sprintf("%s %d", of.name, d.Milliseconds())
	return side{name: name, run: func(ctx context.Context, round time.Duration) sample {
		s.setLatency(d)
		before := s.entriesAdded()
		found := of.round(ctx, 2*round) // the window grows for a while first
		found["entries"] = (s.entriesAdded() - before) / found["count"]
		return found
	}}
}

// entriesAdded is the number of entries that were ever added to the streams of a Redis.
func (s *stage) entriesAdded() float64 {
	info := got(s.redis.db.InfoMap(s.ctx, "commandstats").Result())
	return statistic(info["Commandstats"]["cmdstat_xadd"], "calls")
}

// far sends to many devices, because notifications of one device are sent one after the other, and
// few devices would be the limit. It compares a stand-in that answers late with one that answers at
// once, and fanfare with stock apns2 over four connections.
func far(w *world) (sides []side) {
	s := w.stage(plan{users: crowd})
	s.warm("user-%d", crowd)
	ways := s.posts(1, s.server)
	one, batch, wide := ways[0], ways[1], ways[3]
	for _, d := range []time.Duration{0, near, away} {
		sides = append(sides, s.at(d, s.sendLoop("stock-far")), s.at(d, batch), s.at(d, wide))
	}
	return append(sides, s.at(near, one))
}

// farProcesses sends one event to 100,000 followers, with one, two and four processes that can each
// have 500 requests of one app under way.
func farProcesses(w *world) medians {
	fans, m := w.few(followers), medians{}
	var env []string
	// The program of an older revision may not know the variable.
	if out := got(exec.CommandContext(w.ctx, w.program, "--help").CombinedOutput()); strings.Contains(string(out), "FANFARE_MAX_IN_FLIGHT") {
		env = []string{roomFor}
	}
	s := w.stage(plan{users: devices, fans: fans, env: env})
	s.warm("fan-%d", fans)
	for n := 1; n <= 4; n++ {
		if n > 1 {
			s.join(env...)
		}
		if n != 3 {
			m[strconv.Itoa(n)] = w.turns(s.at(near, s.oneFanOut(fans)))["fan-out 100 rate"]
		}
	}
	return m
}

// oneFanOut is a side that posts one event to all followers and waits until it is delivered.
func (s *stage) oneFanOut(fans int) side {
	return side{"fan-out", func(context.Context, time.Duration) sample {
		before, began := s.taken.Load(), time.Now()
		s.postToFans()
		s.await(before + 1)
		first := time.Since(began)
		s.await(before + int64(fans))
		last := time.Since(began).Seconds()
		return sample{"rate": float64(fans) / last, "count": float64(fans), "first": float64(first) / 1e6, "last": last}
	}, []*process{s.redis, s.server}}
}

// farLatency measures the time of one-user events from POST to APNs while an event to 100,000
// devices of the same app is sent, and while another app hangs. Each round has its own stage, so
// that an app that hung leaves nothing for the next round.
func farLatency(w *world) []side {
	return []side{{name: "lone", run: func(ctx context.Context, d time.Duration) sample {
		defer w.reset()
		fans := w.few(followers)
		s := w.stage(plan{users: devices, fans: fans, fill: func(into inserter) {
			into.devices("other-%d", otherToken, otherUsers, otherApp)
		}})
		s.warm("user-%d", devices)
		s.warm("other-%d", otherUsers)
		s.warm("fan-%d", fans)
		s.setLatency(near)
		same := s.besideFans(fans, 3*d)
		s.apns.ScriptTopic(apnstest.DefaultTopic, apnstest.Failing(apnstest.Hang))
		s.postToFans()
		pause(ctx, hangsSince)
		other := s.arriving(farPace, func(n int) ([]byte, string) {
			return batch("other-%d", n, 1, otherUsers), token(otherToken + n%otherUsers)
		})
		return sample{"same": same["p99"], "other": other.run(ctx, 3*d)["p99"]}
	}}}
}

// besideFans posts one-user events while one event after the other is sent to all followers.
func (s *stage) besideFans(fans int, d time.Duration) (found sample) {
	l := s.arriving(farPace, func(n int) ([]byte, string) { return post(n, 1, devices), token(n % devices) })
	over, stop := context.WithCancel(s.ctx)
	parallel(2, func(i int) {
		if i == 0 {
			defer stop()
			found = l.run(s.ctx, d)
			return
		}
		for over.Err() == nil {
			before := s.taken.Load()
			s.postToFans()
			_ = attempt(func() {
				eventually(over, time.Hour, "a fan-out", func() bool { return s.taken.Load()-before >= int64(fans) })
			})
		}
	})
	return found
}

// farMemory starts a process that finds a million waiting notifications, lets answers take 300 ms,
// and measures the memory of the process while it sends.
func farMemory(w *world) []side {
	return []side{{name: "far", run: func(ctx context.Context, d time.Duration) sample {
		defer w.reset()
		n := w.few(crowd)
		if d < w.seconds { // the warm-up round
			n = max(n/100, 10)
		}
		s := w.stage(plan{users: n, env: []string{"FANFARE_ROLES=api,targeting,jobs"}})
		s.fillBacklog(10 * n)
		s.server.kill()
		s.setLatency(away)
		s.server = s.join()
		for began := time.Now(); time.Since(began) < 10*d && s.taken.Load() < int64(10*n); {
			pause(ctx, 100*time.Millisecond)
		}
		return sample{"peak": s.server.peak()}
	}}}
}

// cold compares an event to 100,000 followers whose settings are not cached with the same event
// when all are cached. It also measures the memory of Redis.
func cold(w *world) medians {
	m, fans := medians{}, w.few(followers)
	for _, maria := range []bool{false, true} {
		s := w.stage(plan{users: devices, fans: fans, maria: maria})
		s.keepFile()
		found := w.turns(
			s.weighed("cold", fans, s.forgetFans),
			s.weighed("warm", fans, func() { s.warm("fan-%d", fans) }))
		for figure, v := range found {
			m[s.database.driver+" "+figure] = v
		}
		w.reset()
	}
	return m
}

// weighed is a side that sends one event to all followers. It returns the memory that Redis takes
// for each recipient, at most while the event is sent ("peak") and after its end ("left").
func (s *stage) weighed(name string, fans int, prepare func()) side {
	return side{name: name, run: func(ctx context.Context, d time.Duration) sample {
		prepare()
		s.rest("events", "notifications")
		before := s.memory()
		watched, stop := context.WithCancel(ctx)
		defer stop()
		most := s.watchMemory(watched)
		fanOut := s.oneFanOut(fans)
		found := fanOut.round(ctx, d)
		s.rest("events", "notifications")
		after := s.memory()
		stop()
		each := func(bytes float64) float64 { return max(bytes, 1) / float64(fans) } // if there are few recipients, memory that something else frees may be more
		found["peak"], found["left"] = each(<-most-before), each(after-before)
		return found
	}}
}

// watchMemory reads the memory of Redis until ctx ends, and then returns the largest value.
func (s *stage) watchMemory(ctx context.Context) <-chan float64 {
	most := make(chan float64, 1)
	go func() {
		highest := 0.0
		for ctx.Err() == nil {
			info, _ := s.redis.db.InfoMap(ctx, "memory").Result()
			used, _ := strconv.ParseFloat(info["Memory"]["used_memory"], 64)
			highest = max(highest, used)
			_ = attempt(func() { pause(ctx, 20*time.Millisecond) })
		}
		most <- highest
	}()
	return most
}

// forgetFans removes the followers' settings from the cache.
func (s *stage) forgetFans() {
	for cursor := uint64(0); ; {
		keys, next, err := s.redis.db.Scan(s.ctx, cursor, fanSettings, 1000).Result()
		must(err)
		if len(keys) > 0 {
			must(s.redis.db.Unlink(s.ctx, keys...).Err())
		}
		if cursor = next; cursor == 0 {
			return
		}
	}
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
