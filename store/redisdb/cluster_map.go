package redisdb

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"fanfare/store/batch"
)

const (
	// mapParts is the share of a round trip's time that reading the map of slots may take: the client may
	// ask a master that hangs, and time for the other masters must remain, also while scripts are loaded.
	mapParts = 2 * loadParts
	// mapRest is the least time between two readings that failures cause. The library keeps each map for a
	// minute, and in an outage all callers want a new one.
	mapRest = 50 * time.Millisecond
)

// clusterMap reads a Cluster's map of slots, for both of its clients.
type clusterMap struct {
	client, blocking *redis.ClusterClient
	readings         *batch.Group[struct{}, []*redis.Client]
	last             atomic.Pointer[mastersAt] // nil: it may be outdated
}

// outdated has the map read again by the next call that wants it.
func (m *clusterMap) outdated() { m.last.Store(nil) }

// mastersAt are the masters of a map, and when it was read.
type mastersAt struct {
	nodes []*redis.Client
	at    time.Time
}

func newClusterMap(client, blocking *redis.ClusterClient, timeout time.Duration) *clusterMap {
	m := &clusterMap{client: client, blocking: blocking}
	m.readings = batch.New(batch.Options{Timeout: timeout / mapParts, Rest: mapRest}, m.readNow)
	return m
}

// read returns the masters of a map whose reading began after the call, and which other callers share. If the
// map can't be read, they are those of the last one.
func (m *clusterMap) read(ctx context.Context) ([]*redis.Client, error) {
	return m.readings.Do(ctx, struct{}{})
}

func (m *clusterMap) readNow(ctx context.Context, _ []struct{}) ([]*redis.Client, error) {
	m.blocking.ReloadState(ctx) // soon, and not more often than it thinks right
	var mu sync.Mutex
	now := &mastersAt{at: time.Now()}
	err := m.client.ForEachMaster(ctx, func(_ context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		now.nodes = append(now.nodes, c)
		return nil
	})
	if err == nil {
		m.last.Store(now)
	}
	return now.nodes, err
}

// masters returns the masters of a map that is not much older than reloadInterval.
func (m *clusterMap) masters(ctx context.Context) ([]*redis.Client, error) {
	if last := m.last.Load(); last != nil && time.Since(last.at) < reloadInterval {
		return last.nodes, nil
	}
	return m.read(ctx)
}

// node is the master with an address; nil: the map has none.
func (m *clusterMap) node(ctx context.Context, addr string) *redis.Client {
	for _, masters := range []func(context.Context) ([]*redis.Client, error){m.masters, m.read} {
		nodes, _ := masters(ctx)
		for _, c := range nodes {
			if c.Options().Addr == addr {
				return c
			}
		}
	}
	return nil
}

// eachMaster calls f for every master, on a Cluster at the same time. If it fails for one, the next call reads
// the map of slots again.
func (db *DB) eachMaster(ctx context.Context, f func(context.Context, *redis.Client) error) error {
	if db.cluster == nil {
		return f(ctx, db.client.(*redis.Client))
	}
	nodes, err := db.cluster.masters(ctx)
	if err != nil {
		return err
	}
	var all errgroup.Group
	for _, c := range nodes {
		all.Go(func() error { return f(ctx, c) })
	}
	if err = all.Wait(); err != nil {
		db.cluster.outdated()
	}
	return err
}
