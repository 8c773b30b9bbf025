package e2e

import (
	"fmt"
	"hash/crc32"
	"slices"
	"testing"
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

// lasts is how long a fault lasts: as promised, or for a part of it that is longer
// than the leases and deadlines of a set-up with short ones.
func lasts(promise, otherwise time.Duration) time.Duration {
	if full() {
		return promise
	}
	return otherwise
}

// placesOn finds names that live on one master of a Cluster, or none that does.
func placesOn(t *testing.T, c *storetest.RedisCluster, name string, master *storetest.RedisServer, there bool) places {
	t.Helper()
	fits := func(keys ...string) bool {
		return !slices.ContainsFunc(keys, func(key string) bool { return (c.MasterOf(t, key) == master) != there })
	}
	var at places
	for n := 0; len(at.users) < 3 || at.reader == "" || at.chat == "" || at.sale == ""; n++ {
		reader, chat, sale := fmt.Sprint(name, "-reader-", n), fmt.Sprint(name, "-chat-", n), fmt.Sprint(name, "-sale-", n)
		if len(at.users) < 3 && fits(fmt.Sprintf("ff:{u:user-%d}:settings", n)) {
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

// One master of a Cluster and its replica stay away: what lives on the others goes on,
// what lives there is answered 503 or waits, nobody is sent anything twice, and all that
// was accepted is done when they are back.
func TestAMasterAndItsReplicaStayAway(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]struct{ leave, back func(*storetest.RedisServer) }{
		"Dead":    {(*storetest.RedisServer).Kill, (*storetest.RedisServer).Restart},
		"Hanging": {(*storetest.RedisServer).Pause, (*storetest.RedisServer).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := storetest.PrivateCluster(t, 1, "--appendonly", "yes", "--cluster-require-full-coverage", "no")
			apns := apnstest.Start(t, apnstest.Options{})
			servers := mustServeMany(t, 2, quick(append(apns.Env(), "FANFARE_REDIS_URL="+c.URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t))...)...)
			master, replica := c.Nodes[0], c.Nodes[3] // which follows it
			others := newTraffic(t, "others", servers, apns, placesOn(t, c, "others", master, false))
			gone := newTraffic(t, "gone", servers, apns, placesOn(t, c, "gone", master, true))
			for _, w := range []*traffic{others, gone} {
				w.mustPrepare()
				w.start()
			}
			others.awaitDone(20)
			gone.awaitDone(20)
			way.leave(replica) // first, or it would take over
			way.leave(master)
			left := time.Now()
			<-time.After(2 * requestDeadline) // what was under way is answered; who is away is known
			others.report("at first")
			gone.report("at first")
			<-time.After(lasts(time.Minute-2*requestDeadline, 4*time.Second))
			others.checkGoesOn()
			gone.checkIsRefused()
			if late := others.missing(time.Now().Add(-requestDeadline - answerLate)); len(late) > 0 {
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

// checkRepeats makes sure that nothing was sent twice for which a fault is no reason.
func checkRepeats(t *testing.T, apns *apnstest.Server, faults ...fault) {
	t.Helper()
	first, repeats := map[string]apnstest.Request{}, 0
	for _, r := range apns.Requests() {
		pair := eventOf(t, r) + " " + r.Token
		before, again := first[pair]
		if !again {
			first[pair] = r
			continue
		}
		if repeats++; unknownWindow(before, r, faults) == "" {
			t.Errorf("%s was sent at %s, answered at %s and sent again at %s; %v", pair, clock(before.At), clock(before.Answered), clock(r.At), faults)
		}
	}
	t.Logf("%d notifications, %d repeats", len(first), repeats)
}
