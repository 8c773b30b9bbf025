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
	of := func(name string, c redis.UniversalClient) Pool {
		s := c.PoolStats()
		return Pool{Name: name, Open: int64(s.TotalConns), Idle: int64(s.IdleConns), Waits: int64(s.WaitCount), Waited: time.Duration(s.WaitDurationNs), Timeouts: int64(s.Timeouts)}
	}
	return []Pool{of("requests", db.client), of("blocking", db.blocking)}
}
