package redisdb

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// errSilent says that a command was not sent because its master hangs.
var errSilent = errors.New("the master answers nothing")

const (
	// A master hangs if it has answered nothing after this share of a round trip's time-out.
	silentParts = 2
	// probeAgain is the wait between two probes of a master that hangs.
	probeAgain = 100 * time.Millisecond
	// mapEvery is the wait between two readings of the map of slots while a master hangs.
	mapEvery = time.Second
)

// silences are the masters of a Cluster that accept connections and answer nothing. Their
// commands are refused at once; otherwise every round trip to several masters would take its
// whole time-out. A probe in the background notices when such a master answers again.
type silences struct {
	mu     sync.Mutex
	nodes  map[Client]context.CancelFunc // each ends its probe
	closed bool
	probes sync.WaitGroup
}

func (s *silences) has(node Client) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, is := s.nodes[node]
	return is
}

// pipeTo is pipe to a master of a Cluster, unless it is silent.
func (db *DB) pipeTo(ctx context.Context, node Client, cmds []redis.Cmder) {
	if db.silent.has(node) {
		for _, cmd := range cmds {
			cmd.SetErr(notSent{errSilent})
		}
		return
	}
	began := time.Now()
	pipe(ctx, node, cmds)
	if time.Since(began) >= db.o.Timeout/silentParts && noneAnswered(cmds) {
		db.silent.add(context.WithoutCancel(ctx), node, db.o.Timeout, db.cluster)
	}
}

// noneAnswered reports whether every command timed out.
func noneAnswered(cmds []redis.Cmder) bool {
	for _, cmd := range cmds {
		if !isTimeout(cmd.Err()) {
			return false
		}
	}
	return len(cmds) > 0
}

// add notes a silent master, and probes it until it answers. Meanwhile the map is read again and again: a replica
// may take over.
func (s *silences) add(ctx context.Context, node Client, timeout time.Duration, m *clusterMap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.nodes[node]; known || s.closed {
		return
	}
	if s.nodes == nil {
		s.nodes = map[Client]context.CancelFunc{}
	}
	ctx, s.nodes[node] = context.WithCancel(ctx)
	s.probes.Go(func() {
		for ctx.Err() == nil && !answers(ctx, node, timeout) {
			Sleep(ctx, probeAgain)
		}
		s.remove(node)
	})
	s.probes.Go(func() {
		for ctx.Err() == nil {
			_, _ = m.read(ctx)
			Sleep(ctx, mapEvery)
		}
	})
}

// answers reports whether a PING to a master ends before its time-out. A refused connection
// counts as an answer, and so does the closed client of a master that has left the Cluster.
func answers(ctx context.Context, node Client, timeout time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return !isTimeout(node.Ping(ctx).Err()) // the end of the context counts as a time-out
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func (s *silences) remove(node Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[node]()
	delete(s.nodes, node)
}

// close ends the probes.
func (s *silences) close() {
	s.mu.Lock()
	s.closed = true
	for _, end := range s.nodes {
		end()
	}
	s.mu.Unlock()
	s.probes.Wait()
}

// Sleep waits, at most until ctx ends, such as between two tries to reach Redis.
func Sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
