package redisdb_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// TestClusterMasterHangs: after a first time-out what is for a master that hangs is
// refused at once and says that nothing happened; a pipeline to all masters is held up
// no more. When it answers again it is used again.
func TestClusterMasterHangs(t *testing.T) {
	t.Parallel()
	c := storetest.PrivateCluster(t, 0, "--cluster-require-full-coverage", "no")
	const timeout = 8 * time.Second
	db := storetest.OpenWith(t, redisdb.Options{URL: c.URL(), Timeout: timeout})
	hangs, key, other := c.Nodes[0], "", ""
	for i := 0; key == "" || other == ""; i++ {
		if name := fmt.Sprint("k", i); c.MasterOf(t, name) == hangs {
			key = name
		} else {
			other = name
		}
	}
	eventuallySet(t, db, deadline, key)
	eventuallySet(t, db, deadline, other)
	hangs.Pause()
	defer hangs.Resume()
	err := db.Share(t.Context(), redisdb.Write, redis.NewCmd(t.Context(), "set", key, "w"))
	storetest.WantCode(t, err, api.CodeUnknownOutcome)

	began := time.Now()
	err = db.Share(t.Context(), redisdb.Write, redis.NewCmd(t.Context(), "set", key, "x"))
	storetest.WantCode(t, err, api.CodeUnavailable)
	get := redis.NewStringCmd(t.Context(), "get", other)
	err = db.Pipeline(t.Context(), redisdb.Read, redis.NewStringCmd(t.Context(), "get", key), get)
	storetest.WantCode(t, err, api.CodeUnavailable)
	if get.Val() == "" {
		t.Errorf("the other master's key is %v", get)
	}
	if took := time.Since(began); took > timeout/2 {
		t.Errorf("two calls were refused after %v", took)
	}

	hangs.Resume()
	eventuallySet(t, db, deadline, key)
}
