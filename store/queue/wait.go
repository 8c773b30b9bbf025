package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// reader waits for entries on a connection of its own, which it knows by its
// number, so that a stop can end the wait at once.
type reader struct {
	shard *shardWorker
	home  *redis.Client // the node that has the shard
	conn  *redis.Conn
	id    int64
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
	db := r.shard.worker.q.db
	switch c := db.Blocking().(type) {
	case *redis.Client:
		r.home = c
	case *redis.ClusterClient:
		node, err := c.MasterForKey(ctx, r.shard.worker.q.stream(r.shard.shard, 'm'))
		if err != nil {
			return fmt.Errorf("find node of shard: %w", err)
		}
		r.home = node
	}
	conn := r.home.Conn()
	if !db.Embedded() {
		id, err := conn.ClientID(ctx).Result()
		if err != nil {
			_ = conn.Close()
			return fmt.Errorf("open blocking read: %w", err)
		}
		r.id = id
	}
	r.conn = conn
	return nil
}

// wait blocks until an entry is delivered, the time is over, or ctx ends. It
// returns the entries' places for the next claim.
func (r *reader) wait(ctx context.Context) ([]string, error) {
	s := r.shard
	s.drainPoke()
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	s.setBlocked(time.Now())
	defer s.setBlocked(time.Time{})
	type got struct {
		places []string
		err    error
	}
	conn, result := r.conn, make(chan got, 1)
	go func() {
		places, err := s.block(ctx, conn)
		result <- got{places, err}
	}()
	for stopping, tick := ctx.Done(), (<-chan time.Time)(nil); ; {
		select {
		case g := <-result:
			if g.err != nil {
				r.close()
			}
			return g.places, g.err
		case <-s.poke:
			r.unblock(ctx)
			r.conn = nil // it may be deaf: its goroutine ends with its time-out
			go func() { <-result; _ = conn.Close() }()
			return nil, errDeaf
		case <-stopping:
			stopping, tick = nil, time.After(0)
		case <-tick: // the read may not have been blocking yet: tell it again
			r.unblock(context.WithoutCancel(ctx))
			tick = time.After(20 * time.Millisecond)
		}
	}
}

var errDeaf = errors.New("a blocking read missed entries: its connection may be dead")

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
func (s *shardWorker) block(ctx context.Context, conn *redis.Conn) ([]string, error) {
	if !s.worker.q.db.Embedded() {
		return s.blockFor(context.WithoutCancel(ctx), conn, blockTime)
	}
	for ctx.Err() == nil {
		places, err := s.blockFor(context.WithoutCancel(ctx), conn, embeddedBlockTime)
		if err != nil || len(places) > 0 {
			return places, err
		}
	}
	return nil, nil
}

func (s *shardWorker) blockFor(ctx context.Context, conn *redis.Conn, limit time.Duration) ([]string, error) {
	q := s.worker.q
	if q.fault != nil {
		if err := q.fault(stepBlock, false); err != nil {
			return nil, err
		}
	}
	ready, main := q.stream(s.shard, 'r'), q.stream(s.shard, 'm')
	streams, err := conn.XReadGroup(ctx, &redis.XReadGroupArgs{Group: group, Consumer: q.o.Owner,
		Streams: []string{ready, main, ">", ">"}, Count: 1, Block: limit}).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("blocking read: %w", err)
	}
	var places []string
	for _, stream := range streams {
		letter := "m"
		if stream.Stream == ready {
			letter = "r"
		}
		for _, entry := range stream.Messages {
			places = append(places, letter+entry.ID)
		}
	}
	return places, nil
}

func (s *shardWorker) setBlocked(since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deafSince = since
}

// blockedSince tells since when the reader waits; zero: it does not.
func (s *shardWorker) blockedSince() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deafSince
}

func (s *shardWorker) drainPoke() {
	select {
	case <-s.poke:
	default:
	}
}
