package redisdb

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"fanfare/api"
)

// Options say which Redis and how to use it. The zero value is an embedded one.
type Options struct {
	// URL is redis:// (rediss:// for TLS), redis+sentinel:// or redis+cluster://. Empty or
	// "embedded" is an in-process Redis, which keeps its data only in a Snapshot.
	URL string
	// Socket is the Unix socket of a server that takes the place of URL, and Password the password of
	// that server.
	Socket, Password string
	// Snapshot is a file with what an in-process Redis had. Load reads it, DropSnapshot removes it, and Close of
	// an in-process Redis writes it. Default: nothing is kept.
	Snapshot string
	// Logger gets warnings and state changes; nil discards them.
	Logger *slog.Logger
	// PoolSize bounds the connections for requests to each node; default 32.
	PoolSize int
	// Timeout is the deadline of one round trip, repeats included; default 2 s, and 4 s
	// for an in-process Redis, which may be slow but is never away.
	Timeout time.Duration
	// TLS replaces the default configuration (system roots) of a rediss URL.
	TLS *tls.Config
}

func (o Options) withDefaults(k kind) Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.PoolSize <= 0 {
		o.PoolSize = defaultPoolSize
	}
	if o.Timeout <= 0 && k == kindEmbedded {
		o.Timeout = 4 * time.Second
	} else if o.Timeout <= 0 {
		o.Timeout = 2 * time.Second
	}
	return o
}

// DB is an open Redis. It is safe for concurrent use.
type DB struct {
	o        Options
	kind     kind
	client   Client
	blocking Client
	embedded *embedded
	loaded   bool // Load is done
	queues   callQueues
	cluster  *clusterMap               // nil: not a Cluster
	full     atomic.Pointer[api.Error] // set while memory is nearly full
	clocks   clockReadings
	silent   silences
	reading  atomic.Pointer[Reading]
	absences absences                     // see BackSince
	present  atomic.Pointer[clockReading] // see Clock
}

// Open reads the URL and makes the clients. It dials nothing. If Redis is away, Ping and the calls
// return errors.
func Open(ctx context.Context, o Options) (*DB, error) {
	t, err := o.target()
	if err != nil {
		return nil, err
	}
	o = o.withDefaults(t.kind)
	db := &DB{o: o, kind: t.kind}
	if t.kind == kindEmbedded {
		if db.embedded, err = startEmbedded(context.WithoutCancel(ctx)); err != nil {
			return nil, fmt.Errorf("start embedded redis: %w", err)
		}
		t = db.embedded.target()
	}
	db.client = t.newClient(o, o.PoolSize)
	db.blocking = t.newBlocking(o)
	if t.kind == kindCluster {
		db.cluster = newClusterMap(db.client, db.blocking, o.Timeout)
	}
	return db, nil
}

// target is the server that the options name.
func (o Options) target() (*target, error) {
	if o.Socket != "" {
		return &target{kind: kindSingle, addrs: []string{o.Socket}, socket: o.Socket, password: o.Password}, nil
	}
	t, err := parseURL(o.URL)
	if err != nil {
		return nil, fmt.Errorf("redis url: %w", err)
	}
	return t, nil
}

// Run watches Redis' memory and clock (see Overloaded, Reading and Clock). It also moves the
// clock of an embedded Redis, whose keys would otherwise never expire. It returns when ctx ends.
func (db *DB) Run(ctx context.Context) error {
	var g errgroup.Group
	g.Go(func() error { return db.watchMemory(ctx) })
	if db.embedded != nil {
		g.Go(func() error { return db.embedded.tick(ctx) })
	}
	return g.Wait()
}

// Close lets the shared round trip in flight end, refuses the calls that wait,
// and closes every connection. An in-process Redis writes its snapshot.
func (db *DB) Close() error {
	db.queues.close()
	db.silent.close()
	err := db.blocking.Close()
	if db.embedded != nil {
		db.writeSnapshot()
	}
	err = errors.Join(err, db.client.Close())
	if db.embedded != nil {
		db.embedded.close()
	}
	return err
}

// Embedded says whether this is the in-process Redis.
func (db *DB) Embedded() bool { return db.embedded != nil }

// Listens is where this process listens for the commands of its in-process Redis, as host:port; "": this is another one.
func (db *DB) Listens() string {
	if db.embedded == nil {
		return ""
	}
	return db.embedded.server.Addr()
}

// Cluster says whether keys live on several masters.
func (db *DB) Cluster() bool { return db.kind == kindCluster }

// Timeout is the deadline of one round trip, repeats included.
func (db *DB) Timeout() time.Duration { return db.o.Timeout }

// Client is the pool of the requests, for reads and administration. It never
// repeats a command of one node; a Cluster's client follows redirections.
// Send writes whose outcome matters with Share or Pipeline.
func (db *DB) Client() Client { return db.client }

// Blocking is a client with separate connections, for blocking reads and pub/sub.
func (db *DB) Blocking() Client { return db.blocking }

// ErrPartlyAway is in the chain of Ping's error while some masters of a Cluster serve their
// slots and others do not.
var ErrPartlyAway = errors.New("some masters of the Cluster are away")

// ErrReadOnly is in the chain of Ping's error while Redis answers and refuses changes or holds them back, such as for want of
// replicas, because its disk is full, or during a fail-over. Ping does not look for this in a Cluster.
var ErrReadOnly = errors.New("Redis refuses changes")

// Ping asks every master and returns the time of the slowest. A master counts as away if it says
// that its Cluster is down, as all masters do if one is away and cluster-require-full-coverage is
// on.
func (db *DB) Ping(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, db.o.Timeout)
	defer cancel()
	var serving atomic.Int64
	start := time.Now()
	err := db.eachMaster(ctx, func(ctx context.Context, c Client) error {
		err := db.pingMaster(ctx, c)
		if err == nil {
			serving.Add(1)
		}
		return err
	})
	took := time.Since(start)
	err = db.Err(err, Read)
	switch {
	case err != nil && serving.Load() > 0:
		err = fmt.Errorf("%w: %w", ErrPartlyAway, err)
	case refusesChanges(err): // also PING, with MISCONF
		err = fmt.Errorf("%w: %w", ErrReadOnly, err)
	}
	return took, err
}

func (db *DB) pingMaster(ctx context.Context, c Client) error {
	if db.kind != kindCluster {
		pipe := c.Pipeline()
		ping, change := pipe.Ping(ctx), pipe.Del(ctx, neverKey)
		_, err := pipe.Exec(ctx)
		// It refuses changes, or holds them back, as during a fail-over. If one answer is missing, both commands have its error.
		if err != nil && ping.Val() != "" {
			return fmt.Errorf("%w: %w", ErrReadOnly, change.Err())
		}
		return err
	}
	info, err := c.ClusterInfo(ctx).Result()
	if err == nil && strings.Contains(info, "cluster_state:fail") {
		err = notSent{errors.New("a master says that its Cluster is down")}
	}
	return err
}
