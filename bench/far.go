package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Apple answers after 30 to 300 ms; the section "Far" measures with a stand-in that
// does, so that what limits is how much is in hand, and not the processors alone.
const (
	near = 100 * time.Millisecond
	away = 300 * time.Millisecond
	// farRounds is how often its sides take turns: the median of three.
	farRounds = 3
	// roomFor is FANFARE_MAX_IN_FLIGHT of the processes that are counted: large audiences
	// of the only app may have 500 of it. At 100 ms these are 5,000 requests a second, so
	// that room is the bound and not two processors for all.
	roomFor = "600"
)

// far is the world with the rounds of this section.
func (w *world) far() *world {
	f := &world{options: w.options}
	f.rounds = min(w.rounds, farRounds)
	return f
}

// setLatency has the stand-in answer after d, a fifth more or less at random, when it
// has answered all that came before.
func (s *stage) setLatency(ctx context.Context, d time.Duration) error {
	err := eventually(ctx, time.Minute, "the last answers", func() (bool, error) {
		return s.apns.Answered() >= s.apns.Total(), nil
	})
	s.apns.SetLatency(d, d/5)
	return err
}

// at is a side whose answers take so long, named by its milliseconds.
func (s *stage) at(d time.Duration, of side) side {
	return side{fmt.Sprintf("%s %d", of.name, d.Milliseconds()), func(ctx context.Context, round time.Duration) (sample, error) {
		if err := s.setLatency(ctx, d); err != nil {
			return nil, err
		}
		before, err := entriesAdded(ctx, s.redis)
		if err != nil {
			return nil, err
		}
		got, err := of.run(ctx, 2*round) // a window grows for a while first
		if err != nil {
			return nil, err
		}
		after, err := entriesAdded(ctx, s.redis)
		got["entries"] = (after - before) / got["count"]
		return got, err
	}}
}

// entriesAdded is how many entries all streams of a Redis ever got.
func entriesAdded(ctx context.Context, store *process) (float64, error) {
	client := redis.NewClient(&redis.Options{Addr: store.addr})
	defer client.Close()
	info, err := client.InfoMap(ctx, "commandstats").Result()
	if err != nil {
		return 0, err
	}
	for pair := range strings.SplitSeq(info["Commandstats"]["cmdstat_xadd"], ",") {
		if calls, ok := strings.CutPrefix(pair, "calls="); ok {
			return strconv.ParseFloat(calls, 64)
		}
	}
	return 0, nil // not one yet
}

// benchFar sends to many devices: notifications of one device go one after the other, so
// that few devices would be the bound. It compares a stand-in that answers late with one
// that answers at once, and with stock apns2 over four connections.
func benchFar(ctx context.Context, w *world) (found, error) {
	s, err := w.stage(ctx, crowd, 0)
	defer s.close()
	if err != nil {
		return found{}, err
	}
	if err := s.warm(ctx, s.server); err != nil {
		return found{}, err
	}
	ways := waysToPost(crowd, 0)
	var sides []side
	for _, d := range []time.Duration{0, near, away} {
		sides = append(sides, s.at(d, s.sendLoop(w, "stock-far")), s.at(d, s.delivering(ways[1], s.server)),
			s.at(d, s.delivering(ways[3], s.server)))
	}
	sides = append(sides, s.at(near, s.delivering(ways[0], s.server)))
	m, err := w.far().turns(ctx, sides...)
	return found{rows: farRows(m)}, err
}

// farRows are the rows of benchFar.
func farRows(m medians) []row {
	const stock = "stock apns2 in a loop, 4 connections, 4,000 callers"
	const one, wide = "one device an event, 100 a batch", "one event to 2,000 devices"
	var rows []row
	against := func(work, side, after, base, baseline string, goal goal) {
		rows = append(rows, row{work + ", answers after " + after + " ms", m.of(side+" "+after, "rate"), "/s", m.of(base, "rate"), baseline, goal})
	}
	for _, after := range []string{"0", "100", "300"} {
		goals := map[string]goal{"100": atLeast(1), "300": atLeast(1)}
		against(one, "batch", after, "stock-far "+after, stock, goals[after])
	}
	against("the same", "batch", "100", "batch 0", "at once", atLeast(.8))
	against("the same", "batch", "300", "batch 0", "at once", atLeast(.6))
	against(wide, "wide", "100", "wide 0", "at once", atLeast(.8))
	against(wide, "wide", "300", "wide 0", "at once", atLeast(.6))
	return append(rows,
		row{"Redis, processor time per one-device event at saturation, 100 ms", m.of("one 100", "redis"), "µs", 0, "", valueAtMost(35)},
		row{"entries of streams per one-device event, 100 a batch, 100 ms", m.of("batch 100", "entries"), "", 0, "", valueAtMost(1.05)},
		row{"entries of streams per one-device event, one per POST, 100 ms", m.of("one 100", "entries"), "", 0, "", valueAtMost(1.05)})
}

// benchFarProcesses sends one event to 100,000 followers by one, two and four
// processes with room for 500 requests of one app each.
func benchFarProcesses(ctx context.Context, w *world) (found, error) {
	fans := w.few(followers)
	env, err := w.setIfKnown(ctx, "FANFARE_MAX_IN_FLIGHT", roomFor)
	if err != nil {
		return found{}, err
	}
	s, err := w.stage(ctx, devices, fans, env...)
	defer s.close()
	if err != nil {
		return found{}, err
	}
	if err := s.warmFans(ctx, fans); err != nil {
		return found{}, err
	}
	rates, servers := map[int]float64{}, []*process{s.server}
	for _, n := range []int{1, 2, 4} {
		for len(servers) < n {
			p, err := w.join(ctx, s, env...)
			if err != nil {
				return found{}, err
			}
			servers = append(servers, p)
		}
		m, err := w.far().turns(ctx, s.at(near, s.oneFanOut(fans)))
		if err != nil {
			return found{}, err
		}
		rates[n] = m.of("fan-out 100", "rate")
	}
	const work, baseline = "one event to 100,000 devices, 100 ms, room for 500 requests a process, ", "one process"
	return found{rows: []row{
		{work + "two processes", rates[2], "/s", rates[1], baseline, atLeast(1.7)},
		{work + "four", rates[4], "/s", rates[1], baseline, atLeast(3)},
	}}, nil
}

// oneFanOut is a side that posts one event to all followers, however long that takes.
func (s *stage) oneFanOut(fans int) side {
	return side{"fan-out", func(ctx context.Context, _ time.Duration) (sample, error) {
		before, began := s.taken.Load(), time.Now()
		if err := s.postToFans(ctx); err != nil {
			return nil, err
		}
		err := s.await(ctx, before+int64(fans))
		return sample{"rate": float64(fans) / time.Since(began).Seconds(), "count": float64(fans)}, err
	}}
}

// postToFans posts an event to all followers, over a connection of its own: the server
// ends one that was idle for long.
func (s *stage) postToFans(ctx context.Context) error {
	toAll := request(http.MethodPost, "/v1/events", []byte(event(`{"contacts_of":"star"}`)))
	return each(ctx, s.server.addr, 1, func(c *caller, _ int) error { return c.call(toAll, http.StatusAccepted) })
}

// setIfKnown is a variable's setting, if the program knows it: others are compared, too.
func (w *world) setIfKnown(ctx context.Context, name, value string) ([]string, error) {
	out, err := exec.CommandContext(ctx, w.program, "--help").CombinedOutput()
	if err != nil {
		return nil, errors.Join(err, errors.New("ask for the variables"))
	}
	if !strings.Contains(string(out), name) {
		return nil, nil
	}
	return []string{name + "=" + value}, nil
}
