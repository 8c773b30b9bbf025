package redisdb_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// deadline is what a request has in these tests.
const deadline = 5 * time.Second

// TestRedisDown: with no Redis there is an answer at once, and nothing happened.
func TestRedisDown(t *testing.T) {
	t.Parallel()
	w := setup(t)
	mustNil(t, w.Share(t.Context(), redisdb.Write, redis.NewCmd(t.Context(), "set", "k", "v")))
	w.server.Kill()
	start := time.Now()
	set := redis.NewCmd(t.Context(), "set", "k", "w")
	mustCode(t, w.Share(t.Context(), redisdb.Write, set), api.CodeUnavailable)
	mustCode(t, w.Pipeline(t.Context(), redisdb.Read, redis.NewCmd(t.Context(), "get", "k")), api.CodeUnavailable)
	if _, err := w.Ping(t.Context()); api.CodeOf(err) != api.CodeUnavailable {
		t.Errorf("ping: %v", err)
	}
	if d := time.Since(start); d > 3*time.Second {
		t.Errorf("took %v", d)
	}
}

// TestRedisRestarts: the same client goes on after a restart, on the data that
// the append-only file kept, and loads its scripts again.
func TestRedisRestarts(t *testing.T) {
	t.Parallel()
	w := setupWith(t, redisdb.Options{}, "--appendonly", "yes", "--appendfsync", "always")
	incr := mustScript(t, "return redis.call('INCR', KEYS[1])")
	_, err := w.Eval(t.Context(), redisdb.Write, incr, []string{"n"})
	mustNil(t, err)
	w.server.Restart()
	eventuallySet(t, w.DB, deadline, "other")
	got, err := w.Eval(t.Context(), redisdb.Write, incr, []string{"n"})
	if err != nil || got != int64(2) {
		t.Errorf("got %v, %v, want 2", got, err)
	}
}

// TestAnswerLost: Redis dies with a write in flight, so its outcome is unknown;
// of a read that cannot be.
func TestAnswerLost(t *testing.T) {
	t.Parallel()
	for mode, want := range map[redisdb.Mode]api.Code{redisdb.Write: api.CodeUnknownOutcome, redisdb.Read: api.CodeUnavailable} {
		t.Run(string(want), func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			call := w.mustHang(t, mode)
			w.server.Kill()
			mustCode(t, call.wait(t), want)
		})
	}
}

// mustHang sends a command that has reached Redis and is not answered.
func (w *world) mustHang(t *testing.T, m redisdb.Mode) *pending {
	t.Helper()
	mustNil(t, w.server.Client().Do(t.Context(), "client", "pause", 60_000, "write").Err())
	call := w.share(t.Context(), m, "set", "k", "v")
	storetest.Eventually(t, deadline, "the command reaches Redis", func() bool {
		return strings.Contains(w.server.Client().Info(t.Context(), "clients").Val(), "blocked_clients:1\r")
	})
	return call
}

// TestAnswerLostOnce: the connection breaks with a write in flight; it is sent
// again on another, and the caller sees nothing of it.
func TestAnswerLostOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	call := w.mustHang(t, redisdb.Write)
	mustNil(t, w.server.Client().Do(t.Context(), "client", "kill", "type", "normal", "skipme", "yes").Err())
	mustNil(t, w.server.Client().Do(t.Context(), "client", "unpause").Err())
	mustNil(t, call.wait(t))
	if call.cmd.Val() != "OK" {
		t.Errorf("got %v", call.cmd)
	}
}

// TestRedisPaused: a Redis that accepts but does not answer costs each caller
// at most its deadline. What was under way is unknown; what is answered
// unavailable did not happen.
func TestRedisPaused(t *testing.T) {
	t.Parallel()
	w := setupWith(t, redisdb.Options{Timeout: time.Second})
	mustNil(t, w.Share(t.Context(), redisdb.Read, redis.NewCmd(t.Context(), "ping")))
	w.server.Pause()
	start := time.Now()
	first := w.share(t.Context(), redisdb.Write, "set", "first", "1")
	mustCode(t, first.wait(t), api.CodeUnknownOutcome)
	if d := time.Since(start); d > 3*time.Second {
		t.Errorf("a round trip of one second took %v", d)
	}
	second := w.share(t.Context(), redisdb.Write, "set", "second", "1")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	short := w.share(ctx, redisdb.Write, "set", "short", "1")
	start = time.Now()
	err := short.wait(t) // unknown, if it had left by then
	if code := api.CodeOf(err); code != api.CodeUnavailable && code != api.CodeUnknownOutcome {
		t.Errorf("got %v", err)
	}
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("a deadline of 200 ms took %v", d)
	}
	later := api.CodeOf(second.wait(t)) // an old connection may have been left
	if later != api.CodeUnavailable && later != api.CodeUnknownOutcome {
		t.Errorf("got %v", later)
	}
	w.server.Resume()
	eventuallySet(t, w.DB, deadline, "after")
	if n := w.server.Client().Exists(t.Context(), "second").Val(); n != 0 && later == api.CodeUnavailable {
		t.Error("a write happened that was answered unavailable")
	}
}

// TestRedisPausedBeforeGreeting: a connection that was never greeted cannot have
// carried a write, although it was accepted.
func TestRedisPausedBeforeGreeting(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	db, err := redisdb.Open(t.Context(), redisdb.Options{URL: server.URL(), Timeout: 500 * time.Millisecond})
	mustNil(t, err)
	defer db.Close()
	server.Pause()
	set := redis.NewCmd(t.Context(), "set", "k", "v")
	mustCode(t, db.Share(t.Context(), redisdb.Write, set), api.CodeUnavailable)
	mustCode(t, db.Pipeline(t.Context(), redisdb.Write, set), api.CodeUnavailable)
	server.Resume()
	eventuallySet(t, db, deadline, "after")
	if n := server.Client().Exists(t.Context(), "k").Val(); n != 0 {
		t.Error("a write happened that was answered unavailable")
	}
}

// TestWaitingIsBounded: a caller without a deadline still gets an answer.
func TestWaitingIsBounded(t *testing.T) {
	t.Parallel()
	w := setupWith(t, redisdb.Options{Timeout: 300 * time.Millisecond})
	mustNil(t, w.Share(t.Context(), redisdb.Read, redis.NewCmd(t.Context(), "ping")))
	w.server.Pause()
	start := time.Now()
	var calls []*pending
	for range 20 {
		calls = append(calls, w.share(t.Context(), redisdb.Read, "get", "k"))
	}
	for _, c := range calls {
		mustCode(t, c.wait(t), api.CodeUnavailable)
	}
	if d := time.Since(start); d > deadline {
		t.Errorf("took %v", d)
	}
}

// TestSentinelFailOver: a dead master is replaced and writes go on, on the same
// client, and what the replica had is there.
func TestSentinelFailOver(t *testing.T) {
	t.Parallel()
	s := storetest.Sentinel(t)
	db := storetest.Open(t, s.URL())
	eventuallySet(t, db, deadline, "before")
	storetest.Eventually(t, deadline, "the replica has it", func() bool {
		return s.Second.Client().Exists(t.Context(), "before").Val() == 1
	})
	s.First.Kill()
	cmd := redis.NewCmd(t.Context(), "set", "k", "v")
	if err := db.Share(t.Context(), redisdb.Write, cmd); api.CodeOf(err) != api.CodeUnavailable && api.CodeOf(err) != api.CodeUnknownOutcome {
		t.Errorf("got %v while there is no master", err)
	}
	eventuallySet(t, db, 30*time.Second, "after")
	got := redis.NewCmd(t.Context(), "exists", "before", "after")
	mustNil(t, db.Share(t.Context(), redisdb.Read, got))
	if n, _ := got.Int64(); n != 2 {
		t.Errorf("%d of 2 keys are there", n)
	}
	// The sentinel that is asked may hear of it after the one that the client follows.
	storetest.Eventually(t, 20*time.Second, "the replica is the master", func() bool { return s.Master(t) == s.Second })
}

// TestClusterMasterDies: its slots come back with the replica, and meanwhile
// the other masters' queues are not held up.
func TestClusterMasterDies(t *testing.T) {
	t.Parallel()
	c := storetest.PrivateCluster(t, 1)
	db := storetest.Open(t, c.URL())
	key, other := "{a}k", ""
	for i := 0; other == ""; i++ {
		if k := keyOf(t, i); c.MasterOf(t, k+"x") != c.MasterOf(t, key) {
			other = k + "x"
		} else if k = string(rune('b'+i)) + "k"; c.MasterOf(t, k) != c.MasterOf(t, key) {
			other = k
		}
	}
	eventuallySet(t, db, deadline, key)
	eventuallySet(t, db, deadline, other)
	c.MasterOf(t, key).Kill()
	dead := make(chan error, 1)
	go func() {
		dead <- db.Share(t.Context(), redisdb.Write, redis.NewCmd(t.Context(), "set", key, "v"))
	}()
	start := time.Now()
	mustNil(t, db.Share(t.Context(), redisdb.Read, redis.NewCmd(t.Context(), "get", other)))
	if d := time.Since(start); d > time.Second {
		t.Errorf("a key of another master took %v", d)
	}
	if err := <-dead; err == nil {
		t.Error("a write to a dead master succeeded")
	}
	eventuallySet(t, db, 20*time.Second, key)
}

// TestClusterSlotMoves: commands follow a slot while it moves (ASK) and after
// it has (MOVED).
func TestClusterSlotMoves(t *testing.T) {
	t.Parallel()
	c := storetest.PrivateCluster(t, 0)
	db := storetest.Open(t, c.URL())
	const key = "moving"
	eventuallySet(t, db, deadline, "{moving}before")
	from := c.MasterOf(t, key)
	to := c.Nodes[0]
	if to == from {
		to = c.Nodes[1]
	}
	slot := from.Client().ClusterKeySlot(t.Context(), key).Val()
	fromID := from.Client().Do(t.Context(), "cluster", "myid").Val()
	toID := to.Client().Do(t.Context(), "cluster", "myid").Val()
	mustNil(t, to.Client().Do(t.Context(), "cluster", "setslot", slot, "importing", fromID).Err())
	mustNil(t, from.Client().Do(t.Context(), "cluster", "setslot", slot, "migrating", toID).Err())

	set := redis.NewCmd(t.Context(), "set", key, "v") // a new key belongs to the new node
	mustNil(t, db.Share(t.Context(), redisdb.Write, set))
	if set.Val() != "OK" {
		t.Fatalf("got %v", set)
	}
	mustNil(t, from.Client().Do(t.Context(), "migrate", "127.0.0.1", to.Port(), "{moving}before", 0, 1000).Err())
	for _, node := range []*storetest.RedisServer{to, from} {
		mustNil(t, node.Client().Do(t.Context(), "cluster", "setslot", slot, "node", toID).Err())
	}
	both := redis.NewCmd(t.Context(), "exists", key, "{moving}before")
	mustNil(t, db.Share(t.Context(), redisdb.Read, both))
	if n, err := both.Int64(); n != 2 {
		t.Errorf("%d of 2 keys are there: %v", n, err)
	}
}

// TestClusterSpansMasters: commands of one call may go to several masters.
func TestClusterSpansMasters(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Cluster(t).URL())
	var cmds []redis.Cmder
	for i := range 100 {
		cmds = append(cmds, redis.NewCmd(t.Context(), "set", keyOf(t, i)+string(rune('a'+i%26)), i))
	}
	cmds = append(cmds, redis.NewCmd(t.Context(), "xadd", "span{1}", "*", "a", "b"),
		redis.NewCmd(t.Context(), "xread", "count", 1, "streams", "span{1}", "0"),
		redis.NewCmd(t.Context(), "ping"))
	mustNil(t, db.Pipeline(t.Context(), redisdb.Write, cmds...))
	for _, cmd := range cmds {
		if cmd.Err() != nil {
			t.Errorf("%v: %v", cmd.Args(), cmd.Err())
		}
	}
}
