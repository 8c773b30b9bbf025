package redisdb_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"testing"
	"time"

	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// won is a turn that somebody got between two times.
type won struct{ asked, answered time.Time }

// One of many processes has the turn at a time, also if its commands were sent twice. The others are told when they can have it. None
// gives it back.
func TestOneHasTheTurn(t *testing.T) {
	t.Parallel()
	storetest.EachServer(t, func(t *testing.T, db *redisdb.DB) { // the clock of the embedded Redis is coarse
		const lasts, precise = 200 * time.Millisecond, 10 * time.Millisecond
		key := "ff:{" + rand.Text() + "}:turn"
		twice := storetest.Faulty(t, db, func(_ string, answered bool) error {
			if answered {
				return storetest.ErrTwice
			}
			return nil
		})
		var mu sync.Mutex
		var all []won
		storetest.AtOnce(t, 8, func(ctx context.Context, i int) error {
			for {
				asked := time.Now()
				mine, again, err := []*redisdb.DB{db, twice}[i%2].Turn(ctx, key, lasts)
				if err != nil {
					return err
				}
				if again <= 0 || again > lasts+time.Millisecond {
					return fmt.Errorf("the next turn is in %v", again)
				}
				if mine {
					mu.Lock()
					defer mu.Unlock()
					all = append(all, won{asked, time.Now()})
					return nil
				}
				redisdb.Sleep(ctx, again)
			}
		})
		for i, a := range all {
			for _, b := range all[:i] {
				if apart := max(a.answered.Sub(b.asked), b.answered.Sub(a.asked)); apart < lasts-precise {
					t.Errorf("two have it within %v", apart)
				}
			}
		}
	})
}

// A turn does not last for hours because the clock of Redis was set back.
func TestATurnThatLastsTooLong(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		key := "ff:{" + rand.Text() + "}:turn"
		storetest.Must(t, db.Client().Set(t.Context(), key, "x", time.Hour).Err())
		if mine, again, err := db.Turn(t.Context(), key, time.Second); err != nil || !mine || again != time.Second {
			t.Errorf("%v, %v, %v", mine, again, err)
		}
	})
}
