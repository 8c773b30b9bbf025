package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// benchCold compares an event to 100,000 followers whose settings nobody has read
// lately with the same when all are cached, and what it takes of Redis.
func benchCold(ctx context.Context, w *world) (found, error) {
	lite, err := w.coldOn(ctx, database{})
	if err != nil {
		return found{}, err
	}
	w.reset()
	maria, err := w.mariadb(ctx)
	if err != nil {
		return found{}, err
	}
	large, err := w.coldOn(ctx, database{maria.url, "mysql", maria.dsn})
	const work, baseline = "one event to 100,000 devices, nobody cached, ", "all cached"
	const bytes = "Redis, memory per recipient of that event, "
	return found{rows: []row{
		{work + "SQLite", lite.of("cold", "rate"), "/s", lite.of("warm", "rate"), baseline, atLeast(.6)},
		{work + "MariaDB", large.of("cold", "rate"), "/s", large.of("warm", "rate"), baseline, atLeast(.6)},
		{bytes + "peak", lite.of("cold", "peak"), "bytes", 0, "", valueAtMost(200)},
		{bytes + "right after its end", lite.of("cold", "left"), "bytes", 0, "", valueAtMost(60)},
		{"Redis, processor time per recipient, nobody cached", lite.of("cold", "redis"), "µs", lite.of("warm", "redis"), baseline, goal{}},
	}}, err
}

// coldOn measures on one database; the zero one: SQLite.
func (w *world) coldOn(ctx context.Context, db database) (medians, error) {
	fans := w.few(followers)
	s, err := w.stageOn(ctx, db, devices, fans)
	defer s.close()
	if err != nil {
		return nil, err
	}
	if err := keepFile(ctx, s.redis); err != nil {
		return nil, err
	}
	return w.far().turns(ctx,
		side{"cold", func(ctx context.Context, _ time.Duration) (sample, error) {
			if err := forgetFans(ctx, s.redis); err != nil {
				return nil, err
			}
			return s.weighed(ctx, fans)
		}},
		side{"warm", func(ctx context.Context, _ time.Duration) (sample, error) {
			if err := s.warmFans(ctx, fans); err != nil {
				return nil, err
			}
			return s.weighed(ctx, fans)
		}})
}

// weighed sends one event to all followers and gives the most memory of Redis while
// that runs ("peak") and what is left when it is done ("left"), by recipient.
func (s *stage) weighed(ctx context.Context, fans int) (sample, error) {
	if err := s.atRest(ctx); err != nil {
		return nil, err
	}
	before, err := usedMemory(ctx, s.redis)
	if err != nil {
		return nil, err
	}
	most, stop := watchMemory(ctx, s.redis)
	defer stop()
	usage, err := measureCPU(s.redis)
	if err != nil {
		return nil, err
	}
	got, err := s.oneFanOut(fans).run(ctx, 0)
	if err != nil {
		return nil, err
	}
	used, err := usage()
	if err != nil {
		return nil, err
	}
	if err := s.atRest(ctx); err != nil {
		return nil, err
	}
	after, err := usedMemory(ctx, s.redis)
	stop()
	each := func(bytes float64) float64 { return max(bytes, 1) / float64(fans) } // other things' ends may outweigh a few
	got["peak"], got["left"], got["redis"] = each(<-most-before), each(after-before), micros(used[0])/float64(fans)
	return got, err
}

// atRest waits until nothing is in a queue of push.
func (s *stage) atRest(ctx context.Context) error {
	return eventually(ctx, time.Minute, "empty queues", func() (bool, error) {
		for _, name := range []string{"events", "notifications"} {
			if depth, err := queueDepth(s.server, name); depth > 0 || err != nil {
				return false, err
			}
		}
		return true, nil
	})
}

// watchMemory asks a Redis for its memory until it is stopped, then gives the most.
func watchMemory(ctx context.Context, store *process) (<-chan float64, func()) {
	ctx, stop := context.WithCancel(ctx)
	found := make(chan float64, 1)
	go func() {
		client := redis.NewClient(&redis.Options{Addr: store.addr})
		defer client.Close()
		most := 0.0
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			info, err := client.InfoMap(ctx, "memory").Result()
			var used float64
			if _, e := fmt.Sscan(info["Memory"]["used_memory"], &used); err == nil && e == nil {
				most = max(most, used)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				found <- most
				return
			}
		}
	}()
	return found, stop
}

// forgetFans removes the followers' settings from the cache.
func forgetFans(ctx context.Context, store *process) error {
	client := redis.NewClient(&redis.Options{Addr: store.addr})
	defer client.Close()
	var cursor uint64
	for {
		keys, next, err := client.Scan(ctx, cursor, fanSettings, 1000).Result()
		if err == nil && len(keys) > 0 {
			err = client.Unlink(ctx, keys...).Err()
		}
		if cursor = next; err != nil || cursor == 0 {
			return err
		}
	}
}
