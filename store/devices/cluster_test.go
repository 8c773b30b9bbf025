package devices_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/devices"
	"fanfare/store/storetest"
)

// usersOf finds n users whose settings are on that master, or not.
func usersOf(t testing.TB, c *storetest.RedisCluster, master *storetest.RedisServer, there bool, n int) (users []string) {
	t.Helper()
	for i := 0; len(users) < n; i++ {
		user := fmt.Sprint("user", i)
		if settings, _ := devices.Keys(user); (c.MasterOf(t, settings) == master) == there {
			users = append(users, user)
		}
	}
	return users
}

// lateClock lets a node's TIME be behind.
type lateClock time.Duration

func (h lateClock) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (h lateClock) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (h lateClock) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			if clock, ok := cmd.(interface {
				Val() time.Time
				SetVal(time.Time)
			}); ok {
				clock.SetVal(clock.Val().Add(-time.Duration(h)))
			}
		}
		return err
	}
}

// TestP10_OneMastersClockIsNotAnothers: when a reader began is told by the clock
// that the fill is judged by, that of the user's own master.
func TestP10_OneMastersClockIsNotAnothers(t *testing.T) {
	t.Parallel()
	cluster := storetest.PrivateCluster(t, 0)
	w := setup(t, cluster.URL(), storetest.SQLite(t))
	late := cluster.Nodes[0]
	storetest.Must(t, w.db.Client().(*redis.ClusterClient).ForEachMaster(t.Context(), func(_ context.Context, c *redis.Client) error {
		if c.Options().Addr == late.Addr() {
			c.AddHook(lateClock(time.Minute))
		}
		return nil
	}))
	for _, user := range usersOf(t, cluster, late, false, 30) {
		mustTarget(t, w.store, devices.Query{User: user, Type: "like"})
		if _, hit := w.store.Cached(t.Context(), user, "like"); !hit {
			t.Errorf("%s was not cached", user)
		}
	}
}

// TestTargets_OneMasterAway: whose settings are elsewhere is served from the cache,
// and filled into it.
func TestTargets_OneMasterAway(t *testing.T) {
	t.Parallel()
	cluster := storetest.PrivateCluster(t, 0)
	for _, node := range cluster.Nodes { // or all would refuse
		storetest.Must(t, node.Client().ConfigSet(t.Context(), "cluster-require-full-coverage", "no").Err())
	}
	w := setup(t, cluster.URL(), storetest.SQLite(t))
	away := cluster.Nodes[0]
	gone := devices.Query{User: usersOf(t, cluster, away, true, 1)[0], Type: "like"}
	var cached, cold []devices.Query
	for i, user := range usersOf(t, cluster, away, false, 20) {
		q := devices.Query{User: user, Type: "like"}
		if i%2 == 0 {
			mustTarget(t, w.store, q)
			cached = append(cached, q)
		} else {
			cold = append(cold, q)
		}
	}
	away.Kill()
	found, err := w.withoutSQL(t).Targets(t.Context(), append(cached, gone))
	storetest.WantCode(t, err, api.CodeUnavailable)
	for i := range cached {
		if found[i].Err != nil {
			t.Errorf("%s was not served from the cache: %v", cached[i].User, found[i].Err)
		}
	}
	storetest.WantCode(t, found[len(cached)].Err, api.CodeUnavailable)
	found, err = w.store.Targets(t.Context(), append(cold, gone))
	storetest.Must(t, err)
	for i := range cold {
		if found[i].Err != nil {
			t.Errorf("%s: %v", cold[i].User, found[i].Err)
		}
		if _, hit := w.store.Cached(t.Context(), cold[i].User, "like"); !hit {
			t.Errorf("%s was not cached", cold[i].User)
		}
	}
}
