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

// Apple answers after 30 to 300 ms; the section "Far" measures with a stand-in that
// does, so that what limits is how much is in hand, and not the processors alone.
const (
	near = 100 * time.Millisecond
	away = 300 * time.Millisecond
	// roomFor is FANFARE_MAX_IN_FLIGHT of the processes that are counted: large audiences
	// of the only app may have 500 of it. At 100 ms these are 5,000 requests a second, so
	// that room is the bound and not two processors for all.
	roomFor = "FANFARE_MAX_IN_FLIGHT=600"
	// farPace is how many one-user events a second are posted beside a fan-out.
	farPace = 50
	// otherApp is another app than the fan-out's, otherUsers have a phone with it each,
	// whose tokens begin at otherToken.
	otherApp   = "com.example.other"
	otherUsers = 200
	otherToken = 1 << 26
	// hangsSince is how long the app of the fan-out has hung when the other's events count.
	hangsSince = 2 * time.Second
)

// setLatency has the stand-in answer after d, a fifth more or less at random, when it
// has answered all that came before.
func (s *stage) setLatency(d time.Duration) {
	eventually(s.ctx, time.Minute, "the last answers", func() bool { return s.apns.Answered() >= s.apns.Total() })
	s.apns.SetLatency(d, d/5)
}

// at is a side whose answers take so long, named by its milliseconds. It also counts the
// entries that all streams of Redis got for each thing.
func (s *stage) at(d time.Duration, of side) side {
	name := fmt.Sprintf("%s %d", of.name, d.Milliseconds())
	return side{name: name, run: func(ctx context.Context, round time.Duration) sample {
		s.setLatency(d)
		before := s.entriesAdded()
		found := of.round(ctx, 2*round) // a window grows for a while first
		found["entries"] = (s.entriesAdded() - before) / found["count"]
		return found
	}}
}

// entriesAdded is how many entries all streams of a Redis ever got.
func (s *stage) entriesAdded() float64 {
	info := got(s.redis.db.InfoMap(s.ctx, "commandstats").Result())
	return statistic(info["Commandstats"]["cmdstat_xadd"], "calls")
}

// far sends to many devices: notifications of one device go one after the other, so
// that few devices would be the bound. It compares a stand-in that answers late with one
// that answers at once, and with stock apns2 over four connections.
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

// farProcesses sends one event to 100,000 followers by one, two and four processes with
// room for 500 requests of one app each.
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

// oneFanOut is a side that posts one event to all followers, however long that takes.
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

// farLatency measures the way of one-user events from POST to APNs while 100,000
// devices of the same app are sent to, and of another app's while the first one hangs.
// Each round has a stage of its own: what an app that hung leaves behind is nobody's any
// more.
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

// besideFans posts one-user events while event after event goes to all followers.
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

// farMemory sends what a million notifications that wait become when answers take
// 300 ms, by a process that finds them, and looks at its memory.
func farMemory(w *world) []side {
	return []side{{name: "far", run: func(ctx context.Context, d time.Duration) sample {
		defer w.reset()
		n := w.few(crowd)
		if d < w.seconds { // the round that warms up
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

// cold compares an event to 100,000 followers whose settings nobody has read lately with
// the same when all are cached, and what it takes of Redis.
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

// weighed is a side that sends one event to all followers and gives the most memory of
// Redis while that runs ("peak") and what is left when it is done ("left"), by recipient.
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
		each := func(bytes float64) float64 { return max(bytes, 1) / float64(fans) } // other things' ends may outweigh a few
		found["peak"], found["left"] = each(<-most-before), each(after-before)
		return found
	}}
}

// watchMemory asks Redis for its memory until ctx ends, then gives the most.
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

// fanOut sends one event to n followers twice: first when nobody's settings are cached,
// then when all followers' are.
func fanOut(w *world, n int) []float64 {
	s := w.stage(plan{users: devices, fans: n})
	side := s.oneFanOut(n)
	cold := side.round(w.ctx, 0)
	s.warm("fan-%d", n)
	warm := side.round(w.ctx, 0)
	return []float64{cold["rate"], warm["rate"], warm["first"], warm["last"], s.server.peak(), warm["fanfare"], warm["redis"]}
}
