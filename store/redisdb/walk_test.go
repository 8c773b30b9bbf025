package redisdb_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// Walk sees every key that matches, and DeleteIfValues deletes those that are to go.
func TestWalk(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		ctx, prefix := t.Context(), fmt.Sprintf("walk-%p:", t)
		for i := range 2500 {
			storetest.Must(t, db.Client().Set(ctx, fmt.Sprint(prefix, i), i%5, 0).Err())
		}
		var mu sync.Mutex
		seen, deleted := map[string]bool{}, int64(0)
		walk := func(f func(ctx context.Context, keys []string) error) {
			storetest.Must(t, db.Walk(ctx, prefix+"*", f))
		}
		walk(func(ctx context.Context, keys []string) error {
			n, err := db.DeleteIfValues(ctx, keys, func(value string) bool { return value == "3" })
			mu.Lock()
			defer mu.Unlock()
			deleted += n
			for _, key := range keys {
				seen[key] = true
			}
			return err
		})
		if len(seen) != 2500 || deleted != 500 {
			t.Errorf("%d keys seen, %d deleted", len(seen), deleted)
		}
		left := 0
		walk(func(_ context.Context, keys []string) error {
			mu.Lock()
			defer mu.Unlock()
			for _, key := range keys {
				if !strings.HasPrefix(key, prefix) {
					t.Errorf("%s does not match", key)
				}
			}
			left += len(keys)
			return nil
		})
		if left != 2000 {
			t.Errorf("%d keys are left", left)
		}
	})
}
