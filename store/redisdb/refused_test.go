package redisdb_test

import (
	"sync"
	"testing"

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
