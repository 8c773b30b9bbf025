package stock

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// eachProxied runs a test on a Redis and a Cluster whose connections it can cut.
func eachProxied(t *testing.T, fn func(t *testing.T, db *redisdb.DB, proxies []*storetest.Proxy)) {
	t.Helper()
	for name, open := range map[string]func(testing.TB) ([]*storetest.Proxy, string){
		"redis": func(t testing.TB) ([]*storetest.Proxy, string) {
			p, url := storetest.ProxyTo(t, storetest.Redis(t).URL())
			return []*storetest.Proxy{p}, url
		},
		"cluster": storetest.ProxiedCluster,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxies, url := open(t)
			fn(t, storetest.Open(t, url), proxies)
		})
	}
}

// cutter cuts connections while scripts are under way, so often: it loses some of what
// is sent, and some answers.
type cutter struct {
	left  atomic.Int64
	sides [2]cutSide // what is sent, what is answered
}

type cutSide struct{ passed, cuts atomic.Int64 }

func (c *cutter) watch(proxies []*storetest.Proxy) {
	for _, p := range proxies {
		p.OnSent(func(conn *storetest.ProxyConn, b []byte) storetest.Fate {
			if !bytes.Contains(b[:min(len(b), 64)], []byte("evalsha")) {
				return storetest.Pass
			}
			conn.Marked.Store(true) // its next answer is a script's
			return c.fate(0)
		})
		p.OnAnswer(func(conn *storetest.ProxyConn, _ []byte) storetest.Fate {
			if !conn.Marked.Swap(false) {
				return storetest.Pass
			}
			return c.fate(1)
		})
	}
}

// fate cuts every second of them while it may, and so that a repeat is cut too.
func (c *cutter) fate(side int) storetest.Fate {
	if c.sides[side].passed.Add(1)%4 < 2 || c.left.Add(-1) < 0 {
		return storetest.Pass
	}
	c.sides[side].cuts.Add(1)
	return storetest.Close
}

// Connections are cut while crowds are under way. Buyers who do not know the outcome
// repeat with their key: each has bought once or not at all, and all units are sold
// once.
func TestS16_CutOffInACrowd(t *testing.T) {
	t.Parallel()
	eachProxied(t, func(t *testing.T, db *redisdb.DB, proxies []*storetest.Proxy) {
		for _, partitions := range []int64{1, 3} {
			const buyers, each, stock, cuts = 60, 6, 300, 30
			w := newLiveWorld(t, db)
			w.mustOpen(offer{stock: map[string]int64{"s": stock}, partitions: partitions, limit: each})
			c := &cutter{}
			c.left.Store(cuts)
			c.watch(proxies)
			var told sync.Map // id -> user
			var lost atomic.Int64
			var all sync.WaitGroup
			for n := range buyers {
				all.Go(func() {
					user := fmt.Sprint("u", n)
					for k := range each {
						id, repeats := w.mustKnow(key(fmt.Sprint(user, " ", k), "b"), user)
						if lost.Add(repeats); id != "" {
							told.Store(id, user)
						}
					}
				})
			}
			all.Wait()
			c.left.Store(0)
			if sent, answers := c.sides[0].cuts.Load(), c.sides[1].cuts.Load(); sent == 0 || answers == 0 || lost.Load() == 0 {
				t.Errorf("%d and %d cuts, %d outcomes were unknown", sent, answers, lost.Load())
			}
			w.want("s", fmt.Sprint(0, stock, 0, stock))
			w.mustAddUp()
			found := 0
			for n := range buyers {
				user := fmt.Sprint("u", n)
				items, _, err := w.Reservations(t.Context(), w.sale, user, "", each+1)
				storetest.Must(t, err)
				for _, r := range items {
					if owner, ok := told.Load(r.ID); ok && owner == user {
						found++
					}
				}
			}
			if found != stock {
				t.Errorf("%d of %d reservations are known to their buyers", found, stock)
			}
		}
	})
}

// mustKnow reserves a unit and repeats until the outcome is known: the reservation's id,
// "" when all is sold, and how often it was unknown.
func (w *liveWorld) mustKnow(once api.Idempotency, user string) (id string, unknown int64) {
	for {
		got, err := w.reserveOnce(once, user, units("s", 1))
		switch api.CodeOf(err) {
		case "":
			return got.Reservation.ID, unknown
		case api.CodeSoldOut:
			return "", unknown
		case api.CodeUnknownOutcome:
			unknown++
		case api.CodeUnavailable, api.CodeOverloaded:
		default:
			w.t.Error(err)
			return "", unknown
		}
	}
}
