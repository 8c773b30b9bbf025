package redisdb_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// The pools show every connection that Redis has, those of pipelines too.
func TestPoolsShowEveryConnection(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	db := storetest.Open(t, server.URL())
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			cmd := redis.NewStatusCmd(t.Context(), "set", fmt.Sprint("{a}", i), "v")
			if err := db.Pipeline(t.Context(), redisdb.Write, cmd); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	var open, there int64
	storetest.Eventually(t, 30*time.Second, "the pools show what Redis has", func() bool {
		open = 0
		for _, p := range db.Pools() {
			open += p.Open
		}
		list, err := server.Client().ClientList(t.Context()).Result()
		there = int64(strings.Count(list, "cmd=")) - 1 // one is ours
		return err == nil && open == there && open > 0
	})
}
