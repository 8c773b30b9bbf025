package shard

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

const (
	// blockTime is how long a blocking read waits. Every new entry ends it, so it only
	// decides how often an idle process asks again. A dead connection is found by the
	// check after an enqueueing.
	blockTime = 2 * time.Minute
	// embeddedBlockTime is short because the embedded Redis cannot be told to
	// end a blocking read; its answers cost no network.
	embeddedBlockTime = 250 * time.Millisecond
	// unblockWithin is how long a stop waits for the end of a blocking read.
	unblockWithin = time.Second
	// pauseAfterError lies between tries while Redis is away.
	pauseAfterError = 100 * time.Millisecond
)

// Attend waits for new entries of the shard until ctx ends: calls claim while there is
// work, then a blocking read waits.
func (w *Worker) Attend(ctx context.Context) {
	w.Producer.attach(w)
	defer w.reader.close()
	for ctx.Err() == nil {
		if w.present() == nil {
			if err := w.beginSession(ctx); err != nil {
				w.pauseAfter(ctx, err)
				continue
			}
		}
		if !w.await(ctx, func() bool { return w.session == nil || !w.claims.some() }) || w.present() == nil {
			continue
		}
		if !w.process.limiter.open(ctx) {
			continue
		}
		arrived, err := w.reader.wait(ctx)
		if err != nil && w.present() != nil {
			w.pauseAfter(ctx, err)
		}
		if err != nil || len(arrived) > 0 {
			w.wantMore(arrived...)
		}
	}
}

// pauseAfter waits a moment after an error. If Redis lost the consumer groups, it ends the
// session instead; the next one makes them again.
func (w *Worker) pauseAfter(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	if isNoGroup(err) {
		if l := w.present(); l != nil {
			w.emptied("shard", w.n)
			l.end()
			return
		}
	}
	w.failed("read shard", err)
	redisdb.Sleep(ctx, pauseAfterError)
}

// reader waits for entries on a connection of its own. It knows the id of the connection,
// so that a stop can end the wait at once.
type reader struct {
	worker  *Worker
	ended   chan struct{}             // holds one value when the wait has to end
	blocked atomic.Pointer[time.Time] // since when it waits; nil: it does not
	home    redisdb.Client            // the node that has the shard
	conn    redisdb.Conn
	id      int64
}

// end ends the wait: the session is over, or the connection may be dead.
func (r *reader) end() {
	select {
	case r.ended <- struct{}{}:
	default:
	}
}

func (r *reader) close() {
	if r.conn != nil {
		_ = r.conn.Close()
		r.conn = nil
	}
}

// open connects to the node that has the shard's streams.
func (r *reader) open(ctx context.Context) error {
	if r.conn != nil {
		return nil
	}
	home, err := r.worker.db.MasterOf(ctx, r.worker.Keys()[0])
	if err != nil {
		return fmt.Errorf("find node of shard: %w", err)
	}
	r.home = home
	conn := redisdb.OwnConn(home)
	if !r.worker.embedded {
		id, err := conn.ClientID(ctx).Result()
		if err != nil {
			_ = conn.Close()
			return fmt.Errorf("open blocking read: %w", err)
		}
		r.id = id
		r.worker.worked()
	}
	r.conn = conn
	return nil
}

// wait blocks until an entry is delivered, the time or the session is over, or ctx ends.
// It returns the entries, which the next call claims.
func (r *reader) wait(ctx context.Context) ([]unclaimed, error) {
	w := r.worker
	select {
	case <-r.ended:
	default:
	}
	if w.present() == nil {
		return nil, nil // that may have been for the end of the session: nothing else would end the wait
	}
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	now := time.Now()
	r.blocked.Store(&now)
	defer r.blocked.Store(nil)
	type got struct {
		arrived []unclaimed
		err     error
	}
	conn, result := r.conn, make(chan got, 1)
	go func() {
		arrived, err := r.block(ctx, conn)
		result <- got{arrived, err}
	}()
	var giveUp <-chan time.Time
	for stopping, tick := ctx.Done(), (<-chan time.Time)(nil); ; {
		select {
		case g := <-result:
			if g.err != nil {
				r.close()
			}
			return g.arrived, g.err
		case <-r.ended:
			r.unblock(ctx)
			r.conn = nil // the connection may be dead: its goroutine ends by the time-out
			go func() {
				if g := <-result; len(g.arrived) > 0 { // it was alive, and got entries just now
					w.wantMore(g.arrived...)
				}
				_ = conn.Close()
			}()
			return nil, errMissed
		case <-stopping:
			stopping, tick, giveUp = nil, time.After(0), time.After(unblockWithin)
		case <-giveUp: // no answer: other processes put back the entries that the read was given
			r.conn = nil
			go func() { <-result; _ = conn.Close() }()
			return nil, ctx.Err()
		case <-tick: // the read may not have been blocking yet: unblock it again
			r.unblock(context.WithoutCancel(ctx))
			tick = time.After(20 * time.Millisecond)
		}
	}
}

var errMissed = errors.New("a blocking read missed entries: its connection may be dead")

// unblock ends the blocking read from another connection.
func (r *reader) unblock(ctx context.Context) {
	if r.id == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = r.home.ClientUnblock(ctx, r.id).Err() // if it fails, the time-out ends it
}

// block reads one entry of either stream, waiting for it.
func (r *reader) block(ctx context.Context, conn redisdb.Conn) ([]unclaimed, error) {
	if !r.worker.embedded {
		return r.blockFor(context.WithoutCancel(ctx), conn, blockTime)
	}
	for ctx.Err() == nil {
		arrived, err := r.blockFor(context.WithoutCancel(ctx), conn, embeddedBlockTime)
		if err != nil || len(arrived) > 0 {
			return arrived, err
		}
	}
	return nil, nil
}

func (r *reader) blockFor(ctx context.Context, conn redisdb.Conn, limit time.Duration) ([]unclaimed, error) {
	ready, main := r.worker.streams()
	streams, err := conn.XReadGroup(ctx, &redis.XReadGroupArgs{Group: group, Consumer: readConsumer,
		Streams: []string{ready, main, ">", ">"}, Count: 1, Block: limit}).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("blocking read: %w", err)
	}
	var arrived []unclaimed
	for _, stream := range streams {
		letter := "m"
		if stream.Stream == ready {
			letter = "r"
		}
		for _, entry := range stream.Messages {
			text, _ := entry.Values["e"].(string)
			arrived = append(arrived, unclaimed{letter + entry.ID, []byte(text)})
		}
	}
	return arrived, nil
}
