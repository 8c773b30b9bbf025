package facts

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// reads counts what a Redis is asked for: round trips, how many entries of streams were read, and how many at most in one round trip.
type reads struct{ trips, entries, most atomic.Int64 }

func (r *reads) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *reads) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		r.note(cmd)
		return err
	}
}

func (r *reads) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		r.note(cmds...)
		return err
	}
}

func (r *reads) note(cmds ...redis.Cmder) {
	if cmds[0].Name() == "info" { // the look of redisdb at the server, at any time
		return
	}
	n := int64(0)
	for _, cmd := range cmds {
		if found, ok := cmd.(*redis.XMessageSliceCmd); ok {
			n += int64(len(found.Val()))
		}
	}
	r.trips.Add(1)
	r.entries.Add(n)
	for most := r.most.Load(); n > most && !r.most.CompareAndSwap(most, n); most = r.most.Load() {
	}
}

// H4: since when the oldest fact of a type is there is found with few facts read, however many of other types the lanes hold.
func TestH4_TheOldestFactOfATypeIsFoundAtABoundedCost(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		var counted reads
		many := db.Cluster() // the clients of its nodes make the round trips
		db.Client().AddHook(&counted)
		keys := make([]string, 2) // of the first two lanes
		for n := 0; keys[0] == "" || keys[1] == ""; n++ {
			if key := fmt.Sprint("key", n); w.q.LaneOf(key) < len(keys) {
				keys[w.q.LaneOf(key)] = key
			}
		}
		oldest := func(after []string, trips, entries int64) (ms int64, sure bool) {
			t.Helper()
			counted.trips.Store(0)
			counted.entries.Store(0)
			since, sure, err := w.s.Oldest(t.Context(), after, func(typ string) bool { return typ == "a" })
			storetest.Must(t, err)
			if got := counted.trips.Load(); got != trips && !many {
				t.Errorf("%d round trips, want %d", got, trips)
			}
			if got := counted.entries.Load(); got != entries && !many {
				t.Errorf("%d facts are read, want %d", got, entries)
			}
			if since.IsZero() {
				return 0, sure
			}
			return since.UnixMilli(), sure
		}
		of := func(lane int, number int64) int64 { // when that fact of a lane came
			t.Helper()
			facts, _, _, err := w.s.ReadLane(t.Context(), lane, "", nil, int(number), 1<<20)
			storetest.Must(t, err)
			return timeOf(facts[number-1])
		}
		begin := make([]string, w.s.Lanes())
		_, err := w.s.Ends(t.Context()) // connects
		storetest.Must(t, err)
		if ms, sure := oldest(begin, 1, 0); ms != 0 || !sure {
			t.Errorf("in empty lanes: %d %v", ms, sure)
		}

		for range 10 {
			w.mustTell("b", keys[0], 300)
		}
		w.mustTell("b", keys[1], 30)
		if ms, sure := oldest(begin, 2, 500+30); ms != of(0, 500) || sure {
			t.Errorf("behind 3000 others: %d %v, want %d", ms, sure, of(0, 500))
		}
		ends, err := w.s.Ends(t.Context())
		storetest.Must(t, err)
		if ms, sure := oldest(ends, 1, 0); ms != 0 || !sure {
			t.Errorf("at the ends: %d %v", ms, sure)
		}
		w.mustTell("a", keys[1], 400) // its first is after 30 others
		if ms, sure := oldest([]string{ends[0], "", ends[2], ends[3]}, 2, 20+410); ms != of(1, 31) || !sure {
			t.Errorf("after 30 others: %d %v, want %d", ms, sure, of(1, 31))
		}
		if ms, sure := oldest(ends, 1, 20); ms != of(1, 31) || !sure {
			t.Errorf("at once: %d %v, want %d", ms, sure, of(1, 31))
		}
		_, _, err = w.s.Oldest(t.Context(), []string{"x"}, nil)
		storetest.WantCode(t, err, api.CodeValidation)

		if n := w.s.Between(ends[0], ends[0]) + w.s.Between(ends[0], "") + w.s.Between("", ""); n != 0 {
			t.Errorf("%d facts between equal positions", n)
		}
		now, err := w.s.Ends(t.Context())
		storetest.Must(t, err)
		if w.s.Between("", ends[0]) != 3000 || w.s.Between(ends[1], now[1]) != 400 {
			t.Errorf("%d and %d facts between", w.s.Between("", ends[0]), w.s.Between(ends[1], now[1]))
		}
	})
}
