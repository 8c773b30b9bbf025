package values

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

const soon = 20 * time.Second

// named is a name that no other test uses.
func named(t testing.TB, what string) string { return fmt.Sprintf("%s-%d", what, counted.Add(1)) }

var counted atomic.Int64

func mustPut(t testing.TB, v *Values, name, content string, ttl time.Duration) int64 {
	t.Helper()
	version, _, err := v.Put(t.Context(), name, json.RawMessage(content), ttl, api.Match{})
	storetest.Must(t, err)
	return version
}

// mustMake makes a counter of a number and a largest number.
func mustMake(t testing.TB, c *Counters, name string, value, most int64, more ...func(*api.CounterRequest)) {
	t.Helper()
	r := &api.CounterRequest{Value: &value, Min: new(int64), Max: &most}
	for _, f := range more {
		f(r)
	}
	_, err := c.Put(t.Context(), name, r)
	storetest.Must(t, err)
}

func (c *Counters) add(ctx context.Context, name string, delta int64) (int64, error) {
	change, _, err := c.Add(ctx, name, delta, false, api.Idempotency{})
	if err != nil {
		return 0, err
	}
	return change.Value, nil
}

func mustBe(t testing.TB, c *Counters, name string, want int64) {
	t.Helper()
	got, err := c.Get(t.Context(), name)
	storetest.Must(t, err)
	if got.Value != want {
		t.Errorf("%s is %d, want %d", name, got.Value, want)
	}
}

// counting counts the commands of one name.
func counting(t testing.TB, db *redisdb.DB, name string) (*redisdb.DB, *atomic.Int64) {
	t.Helper()
	var n atomic.Int64
	return storetest.Faulty(t, db, func(what string, answered bool) error {
		if what == name && answered {
			n.Add(1)
		}
		return nil
	}), &n
}
