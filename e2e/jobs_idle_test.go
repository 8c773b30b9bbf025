package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// redisTraffic is how many commands a Redis has had, and how many connections it has.
func redisTraffic(t testing.TB, redis *storetest.RedisServer) (commands, connections int) {
	t.Helper()
	info, err := redis.Client().InfoMap(t.Context(), "commandstats", "clients").Result()
	storetest.Must(t, err)
	for name, line := range info["Commandstats"] {
		if strings.HasPrefix(name, "cmdstat_") {
			calls := 0
			_, err := fmt.Sscanf(line, "calls=%d", &calls)
			storetest.Must(t, err)
			commands += calls
		}
	}
	_, err = fmt.Sscan(info["Clients"]["connected_clients"], &connections)
	storetest.Must(t, err)
	return commands, connections
}

// A process with a thousand queues, which nobody uses just now, sends Redis as much as one with a single queue, and has
// as many connections.
func TestJ6_IdleQueuesCostNothing(t *testing.T) {
	t.Parallel()
	const most = 1000
	type side struct {
		redis                 *storetest.RedisServer
		server                *program
		commands, connections int
	}
	var sides []*side
	for _, queues := range []int{1, most} {
		s := &side{redis: storetest.Redis(t)}
		s.server = mustServeMany(t, 1, "FANFARE_REDIS_URL="+s.redis.URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t), "FANFARE_SHARDS=1")[0]
		for i := range queues { // one after the other, on few connections
			s.server.enqueue(fmt.Sprint("q", i), map[string]any{"type": "t"})
		}
		sides = append(sides, s)
	}
	mustPass := func(d time.Duration) {
		begun := time.Now()
		storetest.Eventually(t, time.Minute, "the time has passed", func() bool { return time.Since(begun) > d })
	}
	mustPass(3 * time.Second) // both have done what they do once
	one, many := sides[0], sides[1]
	// On a busy machine a process does some of what it does once later than that.
	for windows := 3; ; windows-- {
		for _, s := range sides {
			s.commands, _ = redisTraffic(t, s.redis)
		}
		mustPass(17 * time.Second) // what is not done each second is done every 10 or 15 s
		for _, s := range sides {
			commands, connections := redisTraffic(t, s.redis)
			s.commands, s.connections = commands-s.commands, connections
		}
		t.Logf("with one queue %d commands on %d connections, with %d queues %d on %d", one.commands, one.connections, most, many.commands, many.connections)
		// One command for each queue, or for each of their 64 groups every second, would be far more.
		if many.commands <= one.commands+most/4 {
			break
		}
		if windows == 1 {
			t.Errorf("an idle process sent %d commands with %d queues, and %d with one", many.commands, most, one.commands)
			break
		}
	}
	if many.connections > one.connections+8 { // a few more or less
		t.Errorf("an idle process has %d connections with %d queues, and %d with one", many.connections, most, one.connections)
	}
	if queues := many.server.queueOf("q999"); queues.Depth != 1 {
		t.Errorf("the last queue is %+v", queues)
	}
}
