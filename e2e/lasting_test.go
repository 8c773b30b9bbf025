package e2e

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// skipFaults skips a test of long faults, pairs of faults or wrong clocks, which takes too long for make test.
// make faults and make clocks run it, and FANFARE_TEST_FAULTS=short (.ci/run, make faults-short) a short form.
func skipFaults(t testing.TB) {
	t.Helper()
	if !thorough() {
		t.Skip("faults that last, and wrong clocks: make faults, or FANFARE_TEST_FAULTS=short")
	}
}

// thorough reports whether these tests try what takes too long for make test, as those of .ci/run do.
func thorough() bool { return storetest.Full() || os.Getenv("FANFARE_TEST_FAULTS") != "" }

// lasts is how long a fault lasts: the promised time, or a shorter time that is still longer than
// the short leases and deadlines of the test.
func lasts(promise, otherwise time.Duration) time.Duration {
	if storetest.Full() {
		return promise
	}
	return otherwise
}

// placesOn finds names whose keys are on one master of a Cluster, or names whose keys are not. A user's keys
// include those of the notifications' shard: an event whose first owner could not end it stores them there.
func placesOn(t *testing.T, c *storetest.RedisCluster, name string, master *storetest.RedisServer, there bool) places {
	t.Helper()
	fits := func(keys ...string) bool {
		return !slices.ContainsFunc(keys, func(key string) bool { return (c.MasterOf(t, key) == master) != there })
	}
	notifications := queue.New(storetest.Open(t, c.URL()), queue.Options{Name: "notifications"})
	var at places
	for n := 0; len(at.users) < 3 || at.reader == "" || at.chat == "" || at.sale == ""; n++ {
		reader, chat, sale := fmt.Sprint(name, "-reader-", n), fmt.Sprint(name, "-chat-", n), fmt.Sprint(name, "-sale-", n)
		if len(at.users) < 3 && fits(fmt.Sprintf("ff:{u:user-%d}:settings", n), notifications.KeyBeside(notifications.Route(deviceToken(n)), "any")) {
			at.users = append(at.users, n)
		}
		if at.reader == "" && fits("ff:{chats:"+reader+"}:index", "ff:{live:"+reader+"}:present", "ff:{c:"+reader+"}:recent") {
			at.reader = reader
		}
		if at.chat == "" && fits(fmt.Sprintf("ff:{chat:%03d}:meta", crc32.ChecksumIEEE([]byte(chat))%256)) {
			at.chat = chat
		}
		if at.sale == "" && fits("ff:{sale:"+sale+":0}:meta") {
			at.sale = sale
		}
	}
	return at
}

// shardsOn tells which shards of a queue are on one master of a Cluster.
func shardsOn(t *testing.T, c *storetest.RedisCluster, name string, master *storetest.RedisServer) (there []bool) {
	t.Helper()
	q := queue.New(storetest.Open(t, c.URL()), queue.Options{Name: name})
	for n := range q.Shards() {
		there = append(there, c.MasterOf(t, q.KeyBeside(n, "any")) == master)
	}
	return there
}

// One master of a Cluster and its replica stay away. Work on the other masters goes on, and work
// that needs the missing one is answered 503 or waits. Nothing is sent twice, and all accepted work
// is done when they are back.
func TestAMasterAndItsReplicaStayAway(t *testing.T) {
	t.Parallel()
	skipFaults(t)
	for name, way := range map[string]struct{ leave, back func(*storetest.RedisServer) }{
		"Dead":    {(*storetest.RedisServer).Kill, (*storetest.RedisServer).Restart},
		"Hanging": {(*storetest.RedisServer).Pause, (*storetest.RedisServer).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := storetest.PrivateCluster(t, 1, "--appendonly", "yes", "--cluster-require-full-coverage", "no")
			apns := apnstest.Start(t, apnstest.Options{})
			servers := mustServeMany(t, 2, quick(append(apns.Env(), "FANFARE_REDIS_URL="+c.URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t))...)...)
			master, replica := c.Nodes[0], c.Nodes[3] // which is its replica
			others := newTraffic(t, "others", servers, apns, placesOn(t, c, "others", master, false))
			gone := newTraffic(t, "gone", servers, apns, placesOn(t, c, "gone", master, true))
			for _, w := range []*traffic{others, gone} {
				w.mustPrepare()
				w.start()
			}
			others.awaitDone(20)
			gone.awaitDone(20)
			there := shardsOn(t, c, "events", master)
			way.leave(replica) // first, because otherwise it would take over
			way.leave(master)
			left := time.Now()
			<-time.After(2 * requestDeadline) // pending requests are answered, and it is known which master is away
			others.report("at first")
			gone.report("at first")
			<-time.After(lasts(time.Minute-2*requestDeadline, 4*time.Second))
			others.checkGoesOn(kinds...)
			gone.checkIsRefused()
			servers[0].must(200, nil, "GET", "/readyz", nil) // a load balancer keeps sending requests
			late, accepted := others.missing(time.Now().Add(-requestDeadline-answerLate)), others.all()
			late = slices.DeleteFunc(late, func(id string) bool { // the master accepted it in its last moment
				n, ok := queue.ParseID(id)
				return ok && there[n] && accepted[id].at.Sub(left).Abs() < 2*time.Second
			})
			if len(late) > 0 {
				t.Errorf("%d events to users who are not concerned are late", len(late))
			}
			way.back(master)
			way.back(replica)
			back := time.Now()
			gone.awaitDone(10)
			t.Logf("all is done again %v after they were back", time.Since(back).Round(time.Millisecond))
			for _, w := range []*traffic{others, gone} {
				w.finish()
				w.checkPromises(time.Minute)
				w.report("in the end")
			}
			checkRepeats(t, apns, fault{"it was left", left, left}, fault{"it came back", back, back})
		})
	}
}

// A master of a Cluster dies under load. cluster-node-timeout decides when its replica takes over.
// After that the server can soon write there again.
func TestWritesAreBackWithTheReplica(t *testing.T) {
	t.Parallel()
	skipFaults(t)
	c := storetest.PrivateCluster(t, 1, "--appendonly", "yes")
	apns := apnstest.Start(t, apnstest.Options{})
	servers := mustServeMany(t, 2, quick(append(apns.Env(), "FANFARE_REDIS_URL="+c.URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t))...)...)
	master, replica := c.Nodes[0], c.Nodes[3]
	w := newTraffic(t, "all", servers, apns, placesOn(t, c, "all", master, true))
	w.mustPrepare()
	w.start()
	w.awaitDone(20)
	master.Kill()
	killed := time.Now()
	storetest.Eventually(t, time.Minute, "the replica is the master", func() bool {
		info, err := replica.Client().Info(t.Context(), "replication").Result()
		return err == nil && strings.Contains(info, "role:master")
	})
	promoted := time.Now()
	w.report("without a master")
	w.awaitDone(1)
	ours := time.Since(promoted)
	t.Logf("promoted %v after the death, all is written again %v later", promoted.Sub(killed).Round(time.Millisecond), ours.Round(time.Millisecond))
	// The map of slots is read each second, from a server that may be the dead one. The rest of the
	// time is for a busy machine.
	if ours > 8*time.Second {
		t.Errorf("writes were back %v after there was a master", ours)
	}
	w.awaitDone(5)
	w.end() // writes that the master had not sent to its replica are lost
	w.report("in the end")
}

// SQL or APNs stays away under load and refuses connections or is silent. Work that does not need
// it goes on. When it is back, all accepted work is done, and nothing has to be restarted. The
// short form lasts longer than each timer of the server, except those that are settings and the 10
// minutes for which users' settings stay in the cache.
func TestSQLOrAPNsStaysAway(t *testing.T) {
	t.Parallel()
	skipFaults(t)
	withoutSQL := []string{"event", "message", "reserve", "confirm"}
	for name, way := range map[string]struct {
		link        string
		begin, end  func(*storetest.Proxy)
		goOn        []string
		stillPushed bool
	}{
		"SQLRefuses":    {"SQL", (*storetest.Proxy).Cut, (*storetest.Proxy).Mend, withoutSQL, true},
		"SQLBlackHole":  {"SQL", hold, release, withoutSQL, true},
		"APNsBlackHole": {"APNs", hold, release, kinds, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			apns := apnstest.Start(t, apnstest.Options{})
			proxies, urls := map[string]*storetest.Proxy{}, map[string]string{}
			for link, url := range map[string]string{"SQL": storetest.MySQL(t), "APNs": apns.URL()} {
				proxies[link], urls[link] = storetest.ProxyTo(t, url)
			}
			p := mustServe(t, t.TempDir(), quick(append(apns.Env(), "FANFARE_APNS_URL="+urls["APNs"], "FANFARE_REDIS_URL="+storetest.Redis(t).URL(),
				"FANFARE_DATABASE_URL="+urls["SQL"], "FANFARE_RETRY_MAX=5s")...)...)
			w := newTraffic(t, "all", []*program{p}, apns, places{users: []int{0, 1, 2}, reader: "reader", chat: "chat", sale: "sale"})
			w.mustPrepare()
			w.start()
			w.awaitDone(10)
			way.begin(proxies[way.link])
			away := time.Now()
			long := lasts(10*time.Minute, 14*time.Second) // a connection to APNs is given up after 10 s
			<-time.After(long * 9 / 10)                   // settings stay in the cache for 10 minutes
			w.checkGoesOn(way.goOn...)
			late := w.missing(time.Now().Add(-requestDeadline - answerLate))
			t.Logf("away for %v: %d events accepted, of which %d wait", time.Since(away).Round(time.Second), len(w.all()), len(late))
			if way.stillPushed && len(late) > 0 {
				t.Errorf("%d pushes wait for it", len(late))
			}
			<-time.After(long / 10)
			way.end(proxies[way.link])
			back := time.Now()
			w.awaitDone(10)
			w.finish()
			w.report("in the end")
			w.checkPromises(lasts(10*time.Minute, 2*time.Minute)) // thousands of notifications wait, on a busy machine
			t.Logf("all was done %v after it was back", time.Since(back).Round(time.Millisecond))
		})
	}
}

func hold(p *storetest.Proxy)    { p.Hold(true) }
func release(p *storetest.Proxy) { p.Hold(false) }

// Redis is at 100 % of maxmemory with notifications that have to be retried. When APNs works again,
// it drains by itself: nothing has to be restarted, and nothing is sent twice.
func TestAFullRedisDrainsWhenAPNsHeals(t *testing.T) {
	t.Parallel()
	skipFaults(t)
	// An empty Redis has 4 MiB here for keys and scripts, and buffers of connections take up to 2
	// MiB more. Only the memory of the events is free again at the end, and that must be more than
	// a tenth.
	memory := storetest.Sized(20, 9) << 20
	apns, redis := apnstest.Start(t, apnstest.Options{}), storetest.Redis(t, "--maxmemory", fmt.Sprint(memory))
	p := mustServe(t, t.TempDir(), quick(append(apns.Env(), "FANFARE_REDIS_URL="+redis.URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t), "FANFARE_RETRY_MAX=2s", "FANFARE_LOG_LEVEL=error")...)...)
	p.mustRegister(100)
	apns.ScriptAll(apnstest.Fail(503, "ServiceUnavailable"))
	accepted, refusal := p.postUntilRefused(t)
	if refusal.Code != "overloaded" || accepted == 0 {
		t.Errorf("%d accepted, refused with %+v", accepted, refusal)
	}
	full := func() bool { // fill the rest of this Redis
		err := redis.Client().Set(t.Context(), fmt.Sprint("filler-", rand.Int64()), strings.Repeat("x", 1<<10), 0).Err()
		return err != nil && strings.HasPrefix(err.Error(), "OOM")
	}
	storetest.Eventually(t, time.Minute, "Redis is full", func() bool {
		for range 100 {
			if full() {
				return true
			}
		}
		return false
	})
	// This is longer than the leases and the longest backoff. Memory that is freed in the meantime
	// is filled again.
	for until := time.Now().Add(lasts(time.Minute, 6*time.Second)); time.Now().Before(until); <-time.After(100 * time.Millisecond) {
		for range 100 {
			if full() {
				break
			}
		}
	}
	used := usedMemory(t, redis)
	refused := apns.Total()
	apns.ScriptAll()
	healed := time.Now()
	delivered := map[string]int{}
	storetest.Eventually(t, 3*time.Minute, "everything is delivered", func() bool {
		clear(delivered)
		for _, r := range apns.Requests() {
			if r.Status == 200 {
				delivered[r.ID]++
			}
		}
		return len(delivered) >= accepted
	})
	t.Logf("%d events, %d of %d bytes used, %d requests refused, all delivered after %v", accepted, used, memory, refused, time.Since(healed).Round(time.Millisecond))
	for id, n := range delivered {
		if n > 1 {
			t.Errorf("%s was delivered %d times", id, n)
		}
	}
	storetest.Eventually(t, 30*time.Second, "events are accepted again", func() bool {
		status, _, err := p.try("POST", "/v1/events", greeting("user-0"))
		return err == nil && status == 202
	})
}
