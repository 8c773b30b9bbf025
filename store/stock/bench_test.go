package stock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// buyers is how many want the one item at the same time.
const buyers = 64

// plenty is more than a benchmark sells.
const plenty = 1 << 40

// BenchmarkDeduct compares ways to take one unit of one item that 64 buyers
// want, in one run on one server: the whole reservation (window, limit, stock,
// hold, record), the same without a limit, a bare script that decrements down to
// nought, an optimistic transaction (WATCH), and a lock around GET and SET.
func BenchmarkDeduct(b *testing.B) {
	db := storetest.Open(b, storetest.Redis(b).URL())
	c := db.Client().(redis.UniversalClient)
	locks := redsync.New(goredis.NewPool(c))
	ways := []struct {
		name string
		take func(ctx context.Context, n int64) error
	}{
		{"Reserve", reserveOne(b, db, offer{stock: map[string]int64{"s": plenty}, limit: plenty})},
		{"ReserveUnlimited", reserveOne(b, db, offer{stock: map[string]int64{"s": plenty}})},
		{"SellAtOnce", reserveOne(b, db, offer{stock: map[string]int64{"s": plenty}, hold: -1})},
		{"BareScript", decrementBounded(b, db)},
		{"Watch", func(ctx context.Context, _ int64) error { return watchOne(ctx, c) }},
		{"Lock", func(ctx context.Context, _ int64) error { return lockedOne(ctx, c, locks) }},
	}
	for _, way := range ways {
		b.Run(way.name, func(b *testing.B) {
			if err := c.Set(b.Context(), "bare", strconv.Itoa(plenty), 0).Err(); err != nil {
				b.Fatal(err)
			}
			var n atomic.Int64
			b.SetParallelism(buyers / 2)
			b.ResetTimer()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if err := way.take(b.Context(), n.Add(1)); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "units/s")
		})
	}
}

// reserveOne buys as one of a thousand users.
func reserveOne(b *testing.B, db *redisdb.DB, o offer) func(context.Context, int64) error {
	w := newLiveWorld(b, db)
	w.mustOpen(o)
	return func(ctx context.Context, n int64) error {
		_, err := w.Reserve(ctx, ReserveStock{Sale: w.sale, Request: &api.ReservationRequest{
			User: fmt.Sprint("user-", n%1000), Lines: []api.Line{units("s", 1)},
		}})
		return err
	}
}

const bareScript = `local n = tonumber(redis.call('GET', KEYS[1]))
if n < 1 then return 0 end
redis.call('DECRBY', KEYS[1], 1)
return 1`

// decrementBounded is the least that a sale can be: it remembers nobody.
func decrementBounded(b *testing.B, db *redisdb.DB) func(context.Context, int64) error {
	script, err := redisdb.NewScript(fstest.MapFS{"bare.lua": {Data: []byte(bareScript)}}, "bare.lua")
	storetest.Must(b, err)
	return func(ctx context.Context, _ int64) error {
		_, err := db.Eval(ctx, redisdb.Write, script, []string{"bare"})
		return err
	}
}

func watchOne(ctx context.Context, c redis.UniversalClient) error {
	for {
		err := c.Watch(ctx, func(tx *redis.Tx) error {
			n, err := tx.Get(ctx, "bare").Int64()
			if err != nil || n < 1 {
				return err
			}
			_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Set(ctx, "bare", n-1, 0).Err() })
			return err
		}, "bare")
		if !errors.Is(err, redis.TxFailedErr) {
			return err
		}
	}
}

func lockedOne(ctx context.Context, c redis.UniversalClient, locks *redsync.Redsync) error {
	m := locks.NewMutex("bare:lock", redsync.WithTries(1<<20), redsync.WithRetryDelay(time.Millisecond))
	if err := m.LockContext(ctx); err != nil {
		return err
	}
	n, err := c.Get(ctx, "bare").Int64()
	if err == nil && n > 0 {
		err = c.Set(ctx, "bare", n-1, 0).Err()
	}
	_, unlock := m.UnlockContext(ctx)
	return errors.Join(err, unlock)
}
