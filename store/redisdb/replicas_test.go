package redisdb_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// A write is answered when enough replicas have it, also one of a script that the
// server did not know; what says that it changed nothing waits for nobody.
func TestReplicas(t *testing.T) {
	t.Parallel()
	master := storetest.Redis(t)
	replica := storetest.Redis(t, "--replicaof", fmt.Sprintf("127.0.0.1 %d", master.Port()))
	db := storetest.Open(t, master.URL())
	send := func(need int, wrote bool) (*redis.Cmd, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := &redisdb.Replicas{
			DB: db, Need: need,
			Mark:  func(key string) string { return key + ":mark" },
			Wrote: func(redis.Cmder) bool { return wrote },
		}
		cmd := mustScript(t, "return redis.call('INCR', KEYS[1])").Cmd(ctx, []string{keyOf(t, 1)})
		return cmd, r.Send(ctx, redisdb.Write, cmd)
	}
	storetest.Eventually(t, 20*time.Second, "the replica has a write", func() bool {
		_, err := send(1, true)
		return err == nil
	})
	if n, err := replica.Client().Get(t.Context(), keyOf(t, 1)).Int(); err != nil || n == 0 {
		t.Errorf("the replica has %d, %v", n, err)
	}
	cmd, err := send(2, true)
	storetest.WantCode(t, err, api.CodeUnknownOutcome)
	if n, err := cmd.Int(); err != nil || n < 2 {
		t.Errorf("written: %d, %v", n, err)
	}
	t.Run("AFullRedis", func(t *testing.T) { // whose scripts that free memory are not refused
		storetest.Must(t, master.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())
		defer func() { storetest.Must(t, master.Client().ConfigSet(context.Background(), "maxmemory", "0").Err()) }()
		r := &redisdb.Replicas{DB: db, Need: 1, Mark: func(key string) string { return key + ":mark" }, Wrote: func(redis.Cmder) bool { return true }}
		freeing := mustScript(t, "redis.call('DEL', KEYS[1]..'x') return redis.call('INCR', KEYS[1])").Cmd(t.Context(), []string{keyOf(t, 1)})
		if err := r.Send(t.Context(), redisdb.Write, freeing); err != nil {
			t.Errorf("a write that a full Redis takes: %v", err)
		}
	})
	if _, err := send(2, false); err != nil {
		t.Errorf("waited for replicas that need nothing: %v", err)
	}
}
