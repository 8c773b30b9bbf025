package redisdb

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	defaultPoolSize = 32
	// blockingPoolSize bounds the connections for blocking reads and pub/sub;
	// they are opened only as they are needed.
	blockingPoolSize = 1024
	dialTimeout      = time.Second
	poolTimeout      = time.Second
	// The buffers of a connection, for reading and for writing, in bytes: of one for
	// single commands and blocking reads, and of one for round trips. The defaults of
	// go-redis would be 320 KiB for a pair of connections, two thirds of the memory of
	// a process at work.
	commandBuffer, tripBuffer = 4 << 10, 32 << 10
	// reloadInterval is how often a client reads the Cluster's map again while nothing fails. Failures
	// have it read earlier, see cluster_map.go.
	reloadInterval = 10 * time.Second
	// noRetry turns go-redis' retries off: zero would mean three. This package
	// repeats by itself, because only it remembers whether a write may have
	// happened.
	noRetry = -1
)

// newClient makes one client; nothing is dialled before its first command.
func (t *target) newClient(o Options, poolSize int) Client {
	switch t.kind {
	case kindSentinel:
		return redis.NewFailoverClient(optionsOf(t, o, poolSize).Failover())
	case kindCluster:
		return redis.NewClusterClient(clusterOptionsOf(t, o, poolSize))
	default:
		return redis.NewClient(optionsOf(t, o, poolSize).Simple())
	}
}

// newBlocking makes the client for blocking reads. A Cluster's client would repeat a read whose
// answer was lost, and the entries of the first read would stay pending unnoticed. So this client
// repeats nothing and does not follow redirections either. A redirection makes it read the map of
// slots again.
func (t *target) newBlocking(o Options) Client {
	if t.kind != kindCluster {
		return t.newClient(o, blockingPoolSize)
	}
	options := clusterOptionsOf(t, o, blockingPoolSize)
	options.MaxRedirects = noRetry
	return redis.NewClusterClient(options)
}

func (t *target) tlsConfig(o Options) *tls.Config {
	if !t.tls {
		return nil
	}
	if o.TLS != nil {
		return o.TLS.Clone()
	}
	return &tls.Config{MinVersion: tls.VersionTLS12}
}

// optionsOf are the settings of a client, in the form for all kinds.
func optionsOf(t *target, o Options, poolSize int) *redis.UniversalOptions {
	return &redis.UniversalOptions{
		Addrs: t.addrs, MasterName: t.master, DB: t.db, Username: t.username, Password: t.password,
		SentinelUsername: t.sentinelUsername, SentinelPassword: t.sentinelPassword,
		TLSConfig: t.tlsConfig(o), Dialer: newDialer(t.tlsConfig(o), t.socket), Protocol: 2, DisableIdentity: true,
		MaxRetries: noRetry, DialerRetries: 1, ContextTimeoutEnabled: true,
		DialTimeout: dialTimeout, ReadTimeout: o.Timeout, WriteTimeout: o.Timeout,
		PoolSize: poolSize, PipelinePoolSize: poolSize, PoolTimeout: poolTimeout,
		ReadBufferSize: commandBuffer, WriteBufferSize: commandBuffer,
		PipelineReadBufferSize: tripBuffer, PipelineWriteBufferSize: tripBuffer,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

func clusterOptionsOf(t *target, o Options, poolSize int) *redis.ClusterOptions {
	options := optionsOf(t, o, poolSize).Cluster()
	options.ClusterStateReloadInterval = reloadInterval // the only one that the common form lacks
	return options
}

// Pool is the state of a pool of connections to Redis, of all nodes together.
type Pool struct {
	// Name is "requests", or "blocking" for connections that wait for work.
	Name string
	// Open counts connections, Idle the unused ones among them.
	Open, Idle int64
	// Waits counts the waits for a connection, Waited is their total time, and Timeouts
	// counts the waits that ended without one.
	Waits, Timeouts int64
	Waited          time.Duration
}

// Pools gives the present state of the pools.
func (db *DB) Pools() []Pool {
	return []Pool{poolOf("requests", db.client), poolOf("blocking", db.blocking)}
}

// poolOf sums up a client's connections: pipelines, which carry most commands, have a pool of
// their own.
func poolOf(name string, c Client) Pool {
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

// LogLibrary sends the log lines of the client library to a logger, at level debug, because callers
// get failures as errors. It is a setting of the whole process.
func LogLibrary(log *slog.Logger) { redis.SetLogger(library{log}) }

// library is the client library's logger.
type library struct{ log *slog.Logger }

// Printf is called by the library to log.
func (l library) Printf(ctx context.Context, format string, v ...any) {
	if l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.DebugContext(ctx, "redis client", "said", fmt.Sprintf(format, v...))
	}
}
