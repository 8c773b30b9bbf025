package redisdb_test

import (
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// However often Redis refused, the first command after it is back is answered.
func TestRefusalsAreNotRemembered(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	db := storetest.Open(t, server.URL())
	ping := func() error { return db.Share(t.Context(), redisdb.Read, redis.NewStatusCmd(t.Context(), "ping")) }
	storetest.Must(t, ping())
	server.Kill()
	for range 100 { // more than the pool has connections
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				err := db.Pipeline(t.Context(), redisdb.Write, redis.NewStatusCmd(t.Context(), "ping"))
				if code := api.CodeOf(db.Err(err, redisdb.Write)); code != api.CodeUnavailable && code != api.CodeUnknownOutcome { // its last answers may be lost
					t.Errorf("while it is away: %v", err)
				}
			})
		}
		all.Wait()
	}
	storetest.WantCode(t, db.Err(db.Pipeline(t.Context(), redisdb.Write, redis.NewStatusCmd(t.Context(), "ping")), redisdb.Write), api.CodeUnavailable)
	server.Restart()
	storetest.Must(t, ping())
}

// A Redis that answers reads and refuses changes is told apart from one that is away, whatever the reason, until it takes changes
// again.
func TestPingNoticesRefusedChanges(t *testing.T) {
	t.Parallel()
	type call = []any
	for name, ways := range map[string]struct{ begin, end []call }{
		"Replicas": {[]call{{"config", "set", "min-replicas-to-write", "1"}}, []call{{"config", "set", "min-replicas-to-write", "0"}}},
		"Replica":  {[]call{{"replicaof", "127.0.0.1", storetest.FreePort(t)}}, []call{{"replicaof", "no", "one"}}},
		"Pause":    {[]call{{"client", "pause", 100_000, "write"}}, []call{{"client", "unpause"}}},
		"Disk":     {[]call{{"config", "set", "save", "3600 1"}, {"bgsave"}}, []call{{"config", "set", "save", ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := storetest.Redis(t)
			db := storetest.Open(t, server.URL())
			if name == "Disk" {
				storetest.Must(t, os.RemoveAll(server.Client().ConfigGet(t.Context(), "dir").Val()["dir"])) // so that it cannot save
			}
			do := func(calls []call) {
				t.Helper()
				for _, args := range calls {
					storetest.Must(t, server.Client().Do(t.Context(), args...).Err())
				}
			}
			do(ways.begin)
			storetest.Eventually(t, 20*time.Second, "changes are refused", func() bool {
				_, err := db.Ping(t.Context())
				return errors.Is(err, redisdb.ErrReadOnly)
			})
			storetest.Must(t, db.Share(t.Context(), redisdb.Read, redis.NewIntCmd(t.Context(), "exists", "k")))
			do(ways.end)
			storetest.Eventually(t, 20*time.Second, "changes are taken", func() bool {
				_, err := db.Ping(t.Context())
				return err == nil
			})
			storetest.Must(t, db.Share(t.Context(), redisdb.Write, redis.NewStatusCmd(t.Context(), "set", "k", 1)))
		})
	}
}
