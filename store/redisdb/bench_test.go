package redisdb_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// way is one way of sending a request's command.
type way struct {
	name string
	send func(ctx context.Context, key string) error
}

// BenchmarkShare compares shared round trips with one for each request and with
// the library's own gathering: one small script for each request, 64 callers
// at once. The ways take turns, so that a noisy machine is noisy to all, and
// the medians' ratios to one round trip per request are reported.
//
//	go test -run '^$' -bench Share -benchtime 9x ./store/redisdb
func BenchmarkShare(b *testing.B) {
	ways := benchWays(b)
	rates := map[string][]float64{}
	for b.Loop() {
		for _, w := range ways {
			rates[w.name] = append(rates[w.name], rate(b, w, 64, 500*time.Millisecond))
		}
	}
	base := median(rates["single"])
	for _, w := range ways {
		b.ReportMetric(median(rates[w.name]), w.name+"/s")
		b.ReportMetric(median(rates[w.name])/base, w.name+"-ratio")
	}
}

// BenchmarkShareIdle measures one caller alone: gathering must not cost it a
// wait.
func BenchmarkShareIdle(b *testing.B) {
	ways := benchWays(b)
	took := map[string][]float64{}
	for b.Loop() {
		for _, w := range ways {
			start := time.Now()
			if err := w.send(b.Context(), "bench"); err != nil {
				b.Fatal(err)
			}
			took[w.name] = append(took[w.name], float64(time.Since(start).Microseconds()))
		}
	}
	for _, w := range ways {
		b.ReportMetric(median(took[w.name]), w.name+"-p50-us")
	}
}

func benchWays(b *testing.B) []way {
	b.Helper()
	db := storetest.Open(b, storetest.Redis(b).URL())
	client := db.Client().(*redis.Client)
	script := mustScript(b, "local n = redis.call('HINCRBY', KEYS[1], 'n', ARGV[1]) return {1, n}")
	gathered := func(ctx context.Context, key string) error {
		_, err := db.Eval(ctx, redisdb.Write, script, []string{key}, 1)
		return err
	}
	single := func(ctx context.Context, key string) error {
		return client.Process(ctx, script.Cmd(ctx, []string{key}, 1))
	}
	auto, err := client.AutoPipeline()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = auto.Close() })
	library := func(ctx context.Context, key string) error {
		return auto.Do(ctx, "evalsha", script.SHA(), 1, key, 1).Err()
	}
	if err := gathered(b.Context(), "bench"); err != nil { // loads the script
		b.Fatal(err)
	}
	return []way{{"single", single}, {"gathered", gathered}, {"auto", library}}
}

// rate is how many commands a second many callers at once get through.
func rate(b *testing.B, w way, callers int, d time.Duration) float64 {
	b.Helper()
	var count atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range callers {
		wg.Go(func() {
			for time.Since(start) < d {
				if err := w.send(b.Context(), "bench"); err != nil {
					b.Error(err)
					return
				}
				count.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(count.Load()) / time.Since(start).Seconds()
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
