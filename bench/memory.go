package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/delivery/apns/apnstest"
)

// benchMemory lets a million one-device events wait for an APNs that takes
// requests and never answers: the first of them for a device each.
func benchMemory(ctx context.Context, w *world) (found, error) {
	n := w.few(int(crowd))
	s, err := w.stage(ctx, population(n), 0)
	defer s.close()
	if err != nil {
		return found{}, err
	}
	if err := keepFile(ctx, s.redis); err != nil {
		return found{}, err
	}
	kept, err := s.retained(ctx, n)
	if err != nil {
		return found{}, err
	}
	s.apns.ScriptAll(apnstest.Failing(apnstest.Hang))
	first, err := s.fillBacklog(ctx, s.server, n)
	if err != nil {
		return found{}, err
	}
	rest, err := s.fillBacklog(ctx, s.server, 9*n)
	if err != nil {
		return found{}, err
	}
	peak, err := s.server.peak()
	return found{rows: []row{
		{"memory of fanfare with 1,000,000 notifications waiting for APNs, peak", peak, "MiB", 0, "", valueAtMost(94)},
		{"Redis, memory per waiting one-device event, each for a device of its own", first, "bytes", 0, "", valueAtMost(400)},
		{"the same, for devices for which others wait already", rest, "bytes", 0, "", goal{}},
		{"Redis, memory that an ended one-device event leaves for its retention", kept, "bytes", 0, "", valueAtMost(400)},
	}}, err
}

// keepFile has a Redis not write its file anew while it grows: its memory could
// only be measured after each time.
func keepFile(ctx context.Context, store *process) error {
	client := redis.NewClient(&redis.Options{Addr: store.addr})
	defer client.Close()
	return client.ConfigSet(ctx, "auto-aof-rewrite-percentage", "0").Err()
}

// retained warms up with an event to each of n users, sends another to half of
// them, and gives what each of those left behind.
func (s *stage) retained(ctx context.Context, n int) (float64, error) {
	var used [2]float64
	all := int64(0)
	for i, events := range []int{n, n / 2} {
		if err := s.postMany(ctx, s.server, events); err != nil {
			return 0, err
		}
		all += int64(events)
		if err := s.await(ctx, all); err != nil {
			return 0, err
		}
		err := eventually(ctx, time.Minute, "every result", func() (bool, error) {
			time.Sleep(100 * time.Millisecond) // the question has a price
			depth, err := queueDepth(s.server, "notifications")
			return depth == 0, err
		})
		if err != nil {
			return 0, err
		}
		if used[i], err = usedMemory(ctx, s.redis); err != nil {
			return 0, err
		}
	}
	return (used[1] - used[0]) / float64(n/2), nil
}

// warm sends one event to each user and waits for all: then caches are filled, and what
// arrives later belongs to what is measured.
func (s *stage) warm(ctx context.Context, front *process) error {
	const size = 100 // of postMany's batches
	before := s.taken.Load()
	if err := s.postMany(ctx, front, int(s.devices)); err != nil {
		return err
	}
	return s.await(ctx, before+int64(s.devices)/size*size)
}

// warmFans sends one event to each follower: parts of an event to all of them use what
// is cached, and do not cache what is not.
func (s *stage) warmFans(ctx context.Context, n int) error {
	const size = 100
	before := s.taken.Load()
	err := each(ctx, s.server.addr, n/size, func(c *caller, i int) error {
		return c.call(batch("fan-%d", i*size, size, n), http.StatusAccepted)
	})
	if err != nil {
		return err
	}
	return s.await(ctx, before+int64(n/size*size))
}

// fillBacklog posts n one-device events, waits until all are targeted, and gives
// what each of them takes of Redis.
func (s *stage) fillBacklog(ctx context.Context, front *process, n int) (float64, error) {
	before, err := usedMemory(ctx, s.redis)
	if err != nil {
		return 0, err
	}
	if err := s.postMany(ctx, front, n); err != nil {
		return 0, err
	}
	err = eventually(ctx, 10*time.Minute, "targeting", func() (bool, error) {
		time.Sleep(100 * time.Millisecond) // the question has a price
		depth, err := queueDepth(front, "events")
		return depth == 0, err
	})
	if err != nil {
		return 0, err
	}
	waiting, err := queueDepth(front, "notifications")
	if err == nil && waiting < n*99/100 { // few are given up after many attempts
		err = fmt.Errorf("only %d of %d notifications wait", waiting, n)
	}
	if err != nil {
		return 0, err
	}
	after, err := usedMemory(ctx, s.redis)
	return (after - before) / float64(n), err
}

// postMany posts n one-device events, 100 in a request.
func (s *stage) postMany(ctx context.Context, front *process, n int) error {
	const size = 100
	return each(ctx, front.addr, n/size, func(c *caller, i int) error {
		return c.call(s.devices.batch(i*size, size), http.StatusAccepted)
	})
}

// queueDepth is the number of jobs of a queue, in whatever state they live.
func queueDepth(p *process, name string) (int, error) {
	resp, err := http.Get("http://" + p.addr + "/v1/stats")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var stats struct {
		Queues []struct {
			Name                       string
			Depth                      int
			Blocked, Scheduled, Parked int
			InFlight                   int `json:"in_flight"`
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&stats); err != nil {
		return 0, err
	}
	for _, q := range stats.Queues {
		if q.Name == name {
			return q.Depth + q.Blocked + q.Scheduled + q.Parked + q.InFlight, nil
		}
	}
	return 0, fmt.Errorf("there is no queue %s", name)
}

// usedMemory is what Redis says it uses, in bytes, while no rewrite of its file
// is under way.
func usedMemory(ctx context.Context, store *process) (used float64, err error) {
	client := redis.NewClient(&redis.Options{Addr: store.addr})
	defer client.Close()
	err = eventually(ctx, time.Minute, "Redis to be at rest", func() (bool, error) {
		info, err := client.InfoMap(ctx, "memory", "persistence").Result()
		if err != nil {
			return false, err
		}
		used, err = strconv.ParseFloat(info["Memory"]["used_memory"], 64)
		p := info["Persistence"]
		return p["aof_rewrite_in_progress"] == "0" && p["aof_rewrite_scheduled"] == "0", err
	})
	if err == nil && used == 0 {
		err = errors.New("no used_memory in the INFO of Redis")
	}
	return used, err
}
