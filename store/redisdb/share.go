package redisdb

import (
	"context"
	"encoding"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/batch"
)

const (
	// maxBatchBytes is the largest size of a shared round trip. A larger call has its own round
	// trip.
	maxBatchBytes = 64 << 10
	// maxWaiting bounds the calls that wait in one queue.
	maxWaiting = 1 << 16
	// timeoutsToWait bounds how long a call may wait until it is sent, in time-outs of
	// a round trip.
	timeoutsToWait = 2
)

// Sender sends commands: Share, Pipeline, or a function that calls them.
type Sender func(ctx context.Context, m Mode, cmds ...redis.Cmder) error

// call is one call of Share.
type call struct {
	ctx   context.Context
	cmds  []redis.Cmder
	mode  Mode
	size  int
	since time.Time
	done  chan struct{}
	err   error // valid once done is closed

	// Guarded by the queue's lock.
	sent, abandoned bool
}

// callQueue gathers the calls for one master: while a round trip is in flight,
// others wait for the next.
type callQueue struct {
	db      *DB
	mu      sync.Mutex
	waiting []*call
	running bool
	closed  bool
}

// callQueues are all queues of a DB, by the address of the master.
type callQueues struct {
	mu      sync.RWMutex
	byAddr  map[string]*callQueue
	closed  bool
	running sync.WaitGroup
}

// Share sends commands with the next shared round trip, in the given order, and waits for the
// answers. It returns nil if every command was answered. Each command then has its own value or
// error (redis.Nil, WRONGTYPE). Otherwise Share returns an *api.Error: unavailable, unknown_outcome
// or overloaded.
//
// After an error the round trip may still be in flight and use the commands and their arguments, so
// the caller must not change them. On a Cluster all commands should be for one slot. Commands for
// several slots are sent too, but wait for each other.
func (db *DB) Share(ctx context.Context, m Mode, cmds ...redis.Cmder) error {
	if len(cmds) == 0 {
		return nil
	}
	size, err := sizeOf(cmds)
	if err != nil {
		return err
	}
	if size > maxBatchBytes {
		return db.pipeline(ctx, m, cmds)
	}
	q, err := db.queueOf(ctx, cmds[0])
	if err != nil {
		return err
	}
	c := &call{ctx: ctx, cmds: cmds, mode: m, size: size, since: time.Now(), done: make(chan struct{})}
	leads, err := q.add(c)
	if err != nil {
		return err
	}
	if leads {
		q.lead()
	}
	return q.wait(c)
}

// Pipeline sends commands at once, in their own round trip. It returns what Share returns, but when
// it returns, nothing is in flight any more.
func (db *DB) Pipeline(ctx context.Context, m Mode, cmds ...redis.Cmder) error {
	if _, err := sizeOf(cmds); err != nil || len(cmds) == 0 {
		return err
	}
	return db.pipeline(ctx, m, cmds)
}

func (db *DB) pipeline(ctx context.Context, m Mode, cmds []redis.Cmder) error {
	ctx, cancel := context.WithTimeout(ctx, db.o.Timeout)
	defer cancel()
	return db.roundTrip(ctx, cmds).errorOf(m, 0, len(cmds))
}

// Do is Share, and returns the first error of a command's own as well, also redis.Nil.
func (db *DB) Do(ctx context.Context, m Mode, cmds ...redis.Cmder) error {
	if err := db.Share(ctx, m, cmds...); err != nil {
		return err
	}
	return FirstError(cmds)
}

// FirstError is the first error of a command's own; nil: there is none.
func FirstError(cmds []redis.Cmder) error {
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Value sends one command as Do does, and returns its value.
func Value[T any](ctx context.Context, db *DB, m Mode, cmd valued[T]) (value T, err error) {
	if err := db.Share(ctx, m, cmd); err != nil {
		return value, err
	}
	return cmd.Result()
}

// valued is a command of go-redis whose value is a T.
type valued[T any] interface {
	redis.Cmder
	Result() (T, error)
}

// List sends the command of a script that answers with a list as Do does, and returns the list.
func (db *DB) List(ctx context.Context, m Mode, cmd *redis.Cmd) ([]any, error) {
	if err := db.Share(ctx, m, cmd); err != nil {
		return nil, err
	}
	return ListOf(cmd)
}

// Eval runs one script with the next shared round trip. Its error is from Share or from the script.
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

// queueOf finds the queue of the master that has the command's key.
func (db *DB) queueOf(ctx context.Context, cmd redis.Cmder) (*callQueue, error) {
	addr := ""
	if db.cluster != nil {
		node, err := masterOf(ctx, db.client, firstKey(cmd))
		if err != nil {
			return nil, asError(unsent, Read, err)
		}
		addr = addrOf(node)
	}
	db.queues.mu.RLock()
	q := db.queues.byAddr[addr]
	db.queues.mu.RUnlock()
	if q != nil {
		return q, nil
	}
	return db.newQueue(addr), nil
}

func (db *DB) newQueue(addr string) *callQueue {
	db.queues.mu.Lock()
	defer db.queues.mu.Unlock()
	if q := db.queues.byAddr[addr]; q != nil {
		return q
	}
	if db.queues.byAddr == nil {
		db.queues.byAddr = map[string]*callQueue{}
	}
	q := &callQueue{db: db, closed: db.queues.closed}
	db.queues.byAddr[addr] = q
	return q
}

// add appends a call. If no round trip is in flight, it starts one. If the context of the call
// cannot end, leads is true and the caller has to make that round trip itself, which saves waking a
// goroutine.
func (q *callQueue) add(c *call) (leads bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) >= maxWaiting {
		e := api.Errorf(api.CodeUnavailable, "too many calls wait for Redis")
		e.RetryAfter = time.Second
		return false, e
	}
	if q.closed {
		return false, asError(unsent, Read, redis.ErrClosed)
	}
	q.waiting = append(q.waiting, c)
	if q.running {
		return false, nil
	}
	q.running = true
	q.db.queues.running.Add(1)
	if c.ctx.Done() == nil {
		return true, nil
	}
	go q.run()
	return false, nil
}

// lead makes one round trip. A goroutine sends the calls that arrived meanwhile.
func (q *callQueue) lead() {
	defer batch.CrashOnPanic()
	if batch := q.nextBatch(); len(batch) > 0 {
		q.sendBatch(batch)
		q.mu.Lock()
		q.running = len(q.waiting) > 0
		more := q.running
		q.mu.Unlock()
		if more {
			go q.run()
			return
		}
	}
	q.db.queues.running.Done()
}

// close waits until the queues have ended: they refuse the waiting calls.
func (all *callQueues) close() {
	all.mu.Lock()
	all.closed = true
	for _, q := range all.byAddr {
		q.mu.Lock()
		q.closed = true
		q.mu.Unlock()
	}
	all.mu.Unlock()
	all.running.Wait()
}

// wait ends with the answer or with the caller's context.
func (q *callQueue) wait(c *call) error {
	select {
	case <-c.done:
		return c.err
	case <-c.ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-c.done:
		return c.err
	default:
	}
	c.abandoned = true
	if c.sent {
		return asError(unknown, c.mode, context.Cause(c.ctx))
	}
	return asError(unsent, c.mode, context.Cause(c.ctx))
}

// run makes round trips until no call waits.
func (q *callQueue) run() {
	defer q.db.queues.running.Done()
	for {
		batch := q.nextBatch()
		if len(batch) == 0 {
			return
		}
		q.sendBatch(batch)
	}
}

// nextBatch takes the calls that fit into the next round trip, and refuses calls that have
// waited too long. After an empty result the queue has stopped.
func (q *callQueue) nextBatch() []*call {
	q.mu.Lock()
	defer q.mu.Unlock()
	var batch []*call
	size, taken := 0, 0
	oldest := time.Now().Add(-timeoutsToWait * q.db.o.Timeout)
	for _, c := range q.waiting {
		if size+c.size > maxBatchBytes && len(batch) > 0 {
			break
		}
		taken++
		switch {
		case c.abandoned:
		case c.since.Before(oldest) || q.closed:
			c.err = asError(unsent, c.mode, redis.ErrPoolTimeout)
			close(c.done)
		default:
			c.sent = true
			size += c.size
			batch = append(batch, c)
		}
	}
	q.waiting = append([]*call(nil), q.waiting[taken:]...) // a copy: it frees the memory of a long queue
	q.running = len(batch) > 0
	return batch
}

// sendBatch makes one round trip for a batch of calls and hands out the answers.
func (q *callQueue) sendBatch(batch []*call) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(batch[0].ctx), q.db.o.Timeout)
	defer cancel()
	cmds := make([]redis.Cmder, 0, len(batch))
	for _, c := range batch {
		cmds = append(cmds, c.cmds...)
	}
	t := q.db.roundTrip(ctx, cmds)
	from := 0
	for _, c := range batch {
		c.err = t.errorOf(c.mode, from, from+len(c.cmds))
		from += len(c.cmds)
		close(c.done)
	}
}

// sizeOf estimates the bytes of the commands on the wire. It refuses arguments that cannot be
// sent: in a shared round trip one caller's mistake would fail all calls.
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
