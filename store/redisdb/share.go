package redisdb

import (
	"context"
	"encoding"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
)

const (
	// maxTripBytes bounds what one shared trip carries; a larger call travels
	// by itself.
	maxTripBytes = 64 << 10
	// maxWaiting bounds the calls that wait in one lane.
	maxWaiting = 1 << 16
	// tripsToWait is how many trips' time a call may wait for its departure.
	tripsToWait = 2
)

// call is what one caller of Share sends.
type call struct {
	ctx   context.Context
	cmds  []redis.Cmder
	mode  Mode
	size  int
	since time.Time
	done  chan struct{}
	err   error // valid once done is closed

	// Guarded by the lane.
	departed, abandoned bool
}

// lane gathers the calls for one master: one trip in flight, the others wait.
type lane struct {
	db      *DB
	mu      sync.Mutex
	waiting []*call
	flying  bool
}

// lanes are all lanes of a DB, by the address of the master.
type lanes struct {
	mu     sync.RWMutex
	byAddr map[string]*lane
	closed bool
	flying sync.WaitGroup
}

// Share sends commands with the next shared round trip, in the order given,
// and waits for the answers. It returns nil when every command was answered;
// each command then has its own value or error (redis.Nil, WRONGTYPE). Else it
// returns an *api.Error: unavailable, unknown_outcome or overloaded.
//
// After an error the commands and their arguments belong to the trip, which
// may still be in flight: do not look at them. On a Cluster all commands should be of one
// slot; others are sent too, but wait for each other.
func (db *DB) Share(ctx context.Context, m Mode, cmds ...redis.Cmder) error {
	size, err := sizeOf(cmds)
	if err != nil || len(cmds) == 0 {
		return err
	}
	if size > maxTripBytes {
		return db.Pipeline(ctx, m, cmds...)
	}
	l, err := db.lane(ctx, cmds[0])
	if err != nil {
		return err
	}
	c := &call{ctx: ctx, cmds: cmds, mode: m, size: size, since: time.Now(), done: make(chan struct{})}
	if err := l.join(c); err != nil {
		return err
	}
	return l.wait(c)
}

// Pipeline sends commands at once, in a round trip of their own. Its result is
// that of Share, but nothing is in flight any more when it returns.
func (db *DB) Pipeline(ctx context.Context, m Mode, cmds ...redis.Cmder) error {
	if _, err := sizeOf(cmds); err != nil || len(cmds) == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, db.o.Timeout)
	defer cancel()
	return db.run(ctx, cmds).errorOf(m, 0, len(cmds))
}

// Eval runs one script with the next shared round trip. Its error is that of
// Share, or the script's own.
func (db *DB) Eval(ctx context.Context, m Mode, s *Script, keys []string, args ...any) (any, error) {
	cmd := s.Cmd(ctx, keys, args...)
	if err := db.Share(ctx, m, cmd); err != nil {
		return nil, err
	}
	value, err := cmd.Result()
	if err != nil && err != redis.Nil {
		return nil, fmt.Errorf("run %s: %w", s.name, err)
	}
	return value, err
}

// lane finds the lane of the master that has the command's key.
func (db *DB) lane(ctx context.Context, cmd redis.Cmder) (*lane, error) {
	addr := ""
	if cluster, ok := db.client.(*redis.ClusterClient); ok {
		node, err := cluster.MasterForKey(ctx, firstKey(cmd))
		if err != nil {
			return nil, asError(unsent, Read, err)
		}
		addr = node.Options().Addr
	}
	db.lanes.mu.RLock()
	l := db.lanes.byAddr[addr]
	db.lanes.mu.RUnlock()
	if l != nil {
		return l, nil
	}
	return db.newLane(addr), nil
}

func (db *DB) newLane(addr string) *lane {
	db.lanes.mu.Lock()
	defer db.lanes.mu.Unlock()
	if l := db.lanes.byAddr[addr]; l != nil {
		return l
	}
	if db.lanes.byAddr == nil {
		db.lanes.byAddr = map[string]*lane{}
	}
	l := &lane{db: db}
	db.lanes.byAddr[addr] = l
	return l
}

// join puts a call into the lane and, if no trip is in flight, starts one.
func (l *lane) join(c *call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) >= maxWaiting {
		e := api.Errorf(api.CodeOverloaded, "too many calls wait for Redis")
		e.RetryAfter = time.Second
		return e
	}
	if l.db.lanes.isClosed() || !l.flying && !l.db.lanes.start() {
		return asError(unsent, Read, redis.ErrClosed)
	}
	l.waiting = append(l.waiting, c)
	if !l.flying {
		l.flying = true
		go l.fly()
	}
	return nil
}

// start counts a flying lane, unless the DB is closed.
func (ls *lanes) start() bool {
	ls.mu.RLock()
	defer ls.mu.RUnlock()
	if !ls.closed {
		ls.flying.Add(1)
	}
	return !ls.closed
}

// close lets lanes end: waiting calls are refused by their lane.
func (ls *lanes) close() {
	ls.mu.Lock()
	ls.closed = true
	ls.mu.Unlock()
	ls.flying.Wait()
}

// wait ends with the answer or with the caller's context.
func (l *lane) wait(c *call) error {
	select {
	case <-c.done:
		return c.err
	case <-c.ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-c.done:
		return c.err
	default:
	}
	c.abandoned = true
	if c.departed {
		return asError(unknown, c.mode, context.Cause(c.ctx))
	}
	return asError(unsent, c.mode, context.Cause(c.ctx))
}

// fly makes trips until nobody waits.
func (l *lane) fly() {
	defer l.db.lanes.flying.Done()
	for {
		batch := l.depart()
		if len(batch) == 0 {
			return
		}
		l.carry(batch)
	}
}

// depart takes what fits into the next trip, and refuses what waited too long.
// An empty result means that the lane has stopped.
func (l *lane) depart() []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	var batch []*call
	size, taken := 0, 0
	oldest := time.Now().Add(-tripsToWait * l.db.o.Timeout)
	for _, c := range l.waiting {
		if size+c.size > maxTripBytes && len(batch) > 0 {
			break
		}
		taken++
		switch {
		case c.abandoned:
		case c.since.Before(oldest) || l.db.lanes.isClosed():
			c.err = asError(unsent, c.mode, redis.ErrPoolTimeout)
			close(c.done)
		default:
			c.departed = true
			size += c.size
			batch = append(batch, c)
		}
	}
	l.keep(taken)
	l.flying = len(batch) > 0
	return batch
}

// keep drops the first calls and gives the memory of a long queue back.
func (l *lane) keep(taken int) {
	rest := l.waiting[taken:]
	if len(rest) == 0 {
		l.waiting = nil
		return
	}
	l.waiting = append([]*call(nil), rest...)
}

func (ls *lanes) isClosed() bool {
	ls.mu.RLock()
	defer ls.mu.RUnlock()
	return ls.closed
}

// carry makes one trip for a batch of calls and hands out the answers.
func (l *lane) carry(batch []*call) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(batch[0].ctx), l.db.o.Timeout)
	defer cancel()
	cmds := make([]redis.Cmder, 0, len(batch))
	for _, c := range batch {
		cmds = append(cmds, c.cmds...)
	}
	t := l.db.run(ctx, cmds)
	from := 0
	for _, c := range batch {
		to := from + len(c.cmds)
		c.err = t.errorOf(c.mode, from, to)
		from = to
		close(c.done)
	}
}

// sizeOf adds up what the commands take on the wire, and refuses what cannot
// be sent: in a shared trip one caller's mistake would be everybody's.
func sizeOf(cmds []redis.Cmder) (int, error) {
	size := 0
	for _, cmd := range cmds {
		for _, arg := range cmd.Args() {
			switch v := arg.(type) {
			case string:
				size += len(v) + 16
			case []byte:
				size += len(v) + 16
			case *Script:
				size += len(v.sha) + 16
			case nil, bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, float32, float64, time.Time, time.Duration:
				size += 32
			case encoding.BinaryMarshaler:
				size += 64
			default:
				return 0, fmt.Errorf("send %s: an argument of type %T", cmd.Name(), arg)
			}
		}
	}
	return size, nil
}
