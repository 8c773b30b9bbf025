package redisdb

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"fanfare/store/batch"
)

const (
	// mapParts is the share of a round trip's time that each of the two steps of a reading may take: it may ask a
	// master that hangs, and time for the other masters must remain.
	mapParts = 8
	// mapRest is the least time between two readings that failures cause.
	mapRest = 50 * time.Millisecond
	// firstReadings is how many readings of the first map are made at once.
	firstReadings = 8
	// mapSettles is for how long after a change other nodes may still answer with the map before.
	mapSettles = 2 * time.Second
)

// clusterMap reads a Cluster's map of slots, for both of its clients. They keep each map that they read for a
// minute, in an outage all callers want a new one, and that of a Cluster with many ranges has some 10 KB. So
// callers share readings, and the clients read a map only if it is new.
type clusterMap struct {
	client, blocking Client
	readings         *batch.Group[struct{}, []Client]
	last             atomic.Pointer[mastersAt] // nil: none was read yet

	// Of the readings, which come one after the other:
	step     time.Duration // the time of each of its steps
	nodes    []Client
	seen     uint64    // digest of the map
	changed  time.Time // when it was first seen
	reloaded time.Time // when the clients read the map last
}

// mastersAt are the masters of a map, and when it was read; the zero time: it may be outdated.
type mastersAt struct {
	nodes []Client
	at    time.Time
}

func newClusterMap(client, blocking Client, timeout time.Duration) *clusterMap {
	m := &clusterMap{client: client, blocking: blocking, step: timeout / mapParts}
	m.readings = batch.New(batch.Options{Timeout: 2 * m.step, Rest: mapRest}, m.readNow)
	return m
}

// invalidate has the map read again by the next call that wants it.
func (m *clusterMap) invalidate() {
	if last := m.last.Load(); last != nil {
		m.last.CompareAndSwap(last, &mastersAt{nodes: last.nodes}) // else it was read just now
	}
}

// read returns the masters of a map whose reading began after the call, and which other callers share. If no node
// answers, they are those of the last one.
func (m *clusterMap) read(ctx context.Context) ([]Client, error) {
	return m.readings.Do(ctx, struct{}{})
}

// readNow asks a master for the map, and has the clients read it if it is new, if none could be asked, and from time
// to time: the clients may have asked a node that did not know the new map yet.
func (m *clusterMap) readNow(ctx context.Context, _ []struct{}) (_ []Client, err error) {
	now := time.Now()
	first := len(m.nodes) == 0
	if first { // and once more below, so that the clients' map is not older than the one that is seen
		if m.nodes, err = m.reload(ctx); err != nil {
			return nil, err
		}
	}
	seen, known := m.ask(ctx)
	if known && seen != m.seen {
		if !first {
			m.changed = now
		}
		m.seen = seen
	}
	settled := m.reloaded.Sub(m.changed) >= mapSettles && now.Sub(m.reloaded) < reloadInterval
	if !known || !settled {
		m.reloaded = now
		if m.nodes, err = m.reload(ctx); err != nil {
			return nil, err
		}
	}
	m.last.Store(&mastersAt{m.nodes, now})
	return m.nodes, nil
}

// ask asks the masters for the map until one answers. known is false if none does, or if none is known yet.
func (m *clusterMap) ask(ctx context.Context) (digest uint64, known bool) {
	ctx, cancel := context.WithTimeout(ctx, m.step)
	defer cancel()
	for _, i := range rand.Perm(len(m.nodes)) {
		if slots, err := m.nodes[i].ClusterSlots(ctx).Result(); err == nil {
			return mastersDigest(slots), true
		}
	}
	return 0, false
}

// mastersDigest tells maps apart by the masters of the slots. Nodes list the same map in different orders.
func mastersDigest(slots []redis.ClusterSlot) uint64 {
	slices.SortFunc(slots, func(a, b redis.ClusterSlot) int { return cmp.Compare(a.Start, b.Start) })
	h := fnv.New64a()
	for _, s := range slots {
		if len(s.Nodes) > 0 {
			_, _ = fmt.Fprint(h, s.Start, "-", s.End, " ", s.Nodes[0].Addr, "\n")
		}
	}
	return h.Sum64()
}

// reload has both clients read the map, and returns its masters. The library asks one node after the other, in an
// order of its own, and one may hang. Then it has the last map; before the first one, several readings at once.
func (m *clusterMap) reload(ctx context.Context) (nodes []Client, err error) {
	reloadMap(ctx, m.blocking)
	if len(m.nodes) > 0 {
		return m.takeOver(ctx)
	}
	type result struct {
		nodes []Client
		err   error
	}
	results := make(chan result, firstReadings)
	for range firstReadings {
		go func() {
			nodes, err := m.takeOver(ctx)
			results <- result{nodes, err}
		}()
	}
	for range firstReadings {
		r := <-results
		if nodes, err = r.nodes, r.err; err == nil {
			break
		}
	}
	return nodes, err
}

// takeOver has the client of the requests read the map.
func (m *clusterMap) takeOver(ctx context.Context) (nodes []Client, err error) {
	var mu sync.Mutex
	err = forEachMaster(ctx, m.client, func(_ context.Context, c Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, c)
		return nil
	})
	return nodes, err
}

// masters returns the masters of a map that is not much older than reloadInterval.
func (m *clusterMap) masters(ctx context.Context) ([]Client, error) {
	if last := m.last.Load(); last != nil && time.Since(last.at) < reloadInterval {
		return last.nodes, nil
	}
	return m.read(ctx)
}

// known returns the masters of the last map, however old it is. It reads the map only if none was read before.
func (m *clusterMap) known(ctx context.Context) ([]Client, error) {
	if last := m.last.Load(); last != nil {
		return last.nodes, nil
	}
	return m.read(ctx)
}

// node is the master with an address; nil: the map has none.
func (m *clusterMap) node(ctx context.Context, addr string) Client {
	nodes, _ := m.masters(ctx)
	for _, c := range nodes {
		if addrOf(c) == addr {
			return c
		}
	}
	return nil
}

// eachMaster calls f for every master, on a Cluster at the same time. If it fails for one, the next call reads
// the map of slots again.
func (db *DB) eachMaster(ctx context.Context, f func(context.Context, Client) error) error {
	return db.eachOf(ctx, (*clusterMap).masters, f)
}

// eachOf is eachMaster for the masters that a method of the map gives.
func (db *DB) eachOf(ctx context.Context, masters func(*clusterMap, context.Context) ([]Client, error), f func(context.Context, Client) error) error {
	if db.cluster == nil {
		return f(ctx, db.client)
	}
	nodes, err := masters(db.cluster, ctx)
	if err != nil {
		return err
	}
	var all errgroup.Group
	for _, c := range nodes {
		all.Go(func() error { return f(ctx, c) })
	}
	if err = all.Wait(); err != nil {
		db.cluster.invalidate()
	}
	return err
}
