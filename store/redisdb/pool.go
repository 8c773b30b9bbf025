package redisdb

import (
	"time"

	"github.com/redis/go-redis/v9"
)

// Pool is the state of a pool of connections to Redis, of all nodes together.
type Pool struct {
	// Name is "requests", or "blocking" for those that wait for work.
	Name string
	// Open connections, and how many of them nobody uses.
	Open, Idle int64
	// Waits counts those who had to wait for a connection, Waited is for how long in
	// all, and Timeouts counts those who waited in vain.
	Waits, Timeouts int64
	Waited          time.Duration
}

// Pools tells how the pools are now.
func (db *DB) Pools() []Pool {
	return []Pool{poolOf("requests", db.client), poolOf("blocking", db.blocking)}
}

// poolOf sums up a client's connections: pipelines, which is most of what is sent, have
// some of their own.
func poolOf(name string, c redis.UniversalClient) Pool {
	p, s := Pool{Name: name}, c.PoolStats()
	for _, s := range []*redis.PoolStats{s, (*redis.PoolStats)(s.PipelineStats)} {
		if s == nil {
			continue
		}
		p.Open += int64(s.TotalConns)
		p.Idle += int64(s.IdleConns)
		p.Waits += int64(s.WaitCount)
		p.Waited += time.Duration(s.WaitDurationNs)
		p.Timeouts += int64(s.Timeouts)
	}
	return p
}
