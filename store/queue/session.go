package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"fanfare/store/redisdb"
)

// life is a worker's share of a shard from its begin to its end: the name under
// which Redis knows who has which job, and the lease on all of them. One that is
// over never comes back; another begins.
type life struct {
	shard *shardWorker
	name  string
	epoch int64 // above that of every earlier life; the fence of its claims

	renewed  atomic.Int64 // when the lease began, ns since the worker's start
	deadline atomic.Int64 // when it is over
	over     atomic.Bool
	idle     atomic.Bool // Redis was told that it holds nothing, and gave it more time

	// calls is held while one is under way and applied, and alone by compare.
	calls sync.RWMutex
}

// extend moves the lease's end to a lease after sent, when a call was sent. idle tells
// that it said that nothing is held.
func (l *life) extend(sent time.Time, idle bool) {
	w := l.shard.worker
	l.idle.Store(idle)
	w.q.worked(l.shard.shard)
	since := int64(sent.Sub(w.started))
	for old := l.renewed.Load(); since > old; old = l.renewed.Load() {
		if l.renewed.CompareAndSwap(old, since) {
			l.deadline.Store(since + int64(w.q.o.Lease))
			return
		}
	}
}

// beginLife begins a life and with it the groups that an emptied Redis lost.
func (s *shardWorker) beginLife(ctx context.Context) error {
	q := s.worker.q
	if err := q.Init(ctx); err != nil {
		return err
	}
	cmd := q.scripts.begin.Cmd(ctx, q.keys(s.shard), strings.ReplaceAll(randomText(6), "-", "_"), ms(q.o.Lease))
	sent := time.Now()
	if err := s.trip(ctx, cmd); err != nil {
		return err
	}
	name, err := cmd.Text()
	if err != nil {
		return fmt.Errorf("begin in %s shard %d: %w", q.o.Name, s.shard, err)
	}
	l := &life{shard: s, name: name}
	l.epoch, _ = strconv.ParseInt(name[strings.LastIndexByte(name, '-')+1:], 10, 64)
	l.renewed.Store(-1)
	l.extend(sent, true)
	s.mu.Lock()
	s.life = l
	s.mu.Unlock()
	s.wish()
	return nil
}

// present is the life under way, nil when there is none.
func (s *shardWorker) present() *life {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life
}

// end notes that a life is over: what it held is others' now.
func (l *life) end() {
	if l.over.Swap(true) {
		return
	}
	s := l.shard
	s.mu.Lock()
	if s.life == l {
		s.life = nil
	}
	if s.alone != nil { // nobody claims for it any more
		close(s.alone.got)
		s.alone = nil
	}
	var held []*Claimed
	for c := range s.live {
		if c.life == l {
			c.gone = true
			held = append(held, c)
		}
	}
	dropped := s.takeGone() // before another life's call takes them along
	s.mu.Unlock()
	select {
	case s.poke <- struct{}{}: // who waits in a blocking read has to begin another life
	default:
	}
	if len(held) > 0 {
		s.worker.q.o.Logger.Warn("lease lost", "shard", s.shard, "jobs", len(held))
	}
	for _, c := range held {
		c.lose()
	}
	s.lost(dropped...)
}

// dropGone forgets the results of jobs that are no longer this process'.
func (s *shardWorker) dropGone() {
	s.mu.Lock()
	dropped := s.takeGone()
	s.mu.Unlock()
	s.lost(dropped...)
}

// takeGone takes the results that wait of jobs that are no longer this process'. The
// lock is held.
func (s *shardWorker) takeGone() (dropped []ended) {
	kept := []ended(nil)
	for _, e := range s.results.waiting {
		if e.c.gone {
			dropped = append(dropped, e)
			s.unrecorded.Add(-e.parts)
			delete(s.live, e.c)
		} else {
			kept = append(kept, e)
		}
	}
	for c := range s.results.marks {
		if c.gone {
			s.dropMarks(c)
		}
	}
	if s.results.waiting = kept; s.results.none() {
		s.writing.Store(0)
	}
	s.announce()
	return dropped
}

// lost ends with results that count for nothing.
func (s *shardWorker) lost(dropped ...ended) {
	for _, e := range dropped {
		s.tell(e, finishLost)
		e.c.conclude()
	}
	s.worker.gate.release(len(dropped))
}

// compare asks what Redis has pending for the life, until it answers: what is not
// pending is lost, and what this process does not know of goes back, uncounted. Nobody
// else would find that while the life goes on.
func (l *life) compare() {
	w := l.shard.worker
	for !l.over.Load() && !w.closed.Load() {
		err := l.compareOnce()
		if err == nil {
			return
		}
		w.q.failed(l.shard.shard, "compare jobs", err)
		sleep(w.writes, pauseAfterError)
	}
}

func (l *life) compareOnce() error {
	l.calls.Lock()
	defer l.calls.Unlock()
	s, q := l.shard, l.shard.worker.q
	held := map[string]*Claimed{}
	s.mu.Lock()
	for c := range s.live {
		if c.life == l && !c.gone {
			held[c.place] = c
		}
	}
	s.mu.Unlock()
	args := []any{l.name, ms(q.o.Retention), ms(q.o.GroupRetention), ms(q.o.ReportRetention)}
	for place := range held {
		args = append(args, place)
	}
	cmd := q.scripts.compare.Cmd(s.worker.writes, q.keys(s.shard), args...)
	if err := s.trip(s.worker.writes, cmd); err != nil {
		return err
	}
	answer, err := cmd.Slice()
	if err == nil && len(answer) != 2 {
		err = errors.New("too few values")
	}
	if err != nil {
		return err
	}
	if redisdb.Number(answer[0]) == 0 {
		l.end()
		return nil
	}
	lost, _ := answer[1].([]any)
	s.mu.Lock()
	for _, place := range lost {
		if c := held[redisdb.Text(place)]; c != nil {
			c.gone = true
		}
	}
	s.mu.Unlock()
	for _, place := range lost {
		if c := held[redisdb.Text(place)]; c != nil {
			c.lose()
		}
	}
	s.dropGone()
	return nil
}

// keep has the leases renewed and ends the contexts of the jobs whose lease is over.
func (w *worker) keep(ctx context.Context) {
	ticker := time.NewTicker(max(w.q.o.Lease/lookParts, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			for _, s := range w.shards {
				s.keep()
			}
		case <-ctx.Done():
			return
		}
	}
}

// Leases are renewed after a quarter of their time, looked at ten times in it: a
// lease whose renewals come through never has less than half left (Fresh).
const (
	renewParts = 4
	lookParts  = 10
)

// keep asks for a look at the shard, which renews the lease, while jobs are under way and
// once after the last of them.
func (s *shardWorker) keep() {
	l, clock := s.present(), s.worker.clock()
	if l == nil || !s.busy() && l.idle.Load() {
		return
	}
	if clock >= l.deadline.Load() {
		s.overdue(l)
	}
	if clock-l.renewed.Load() >= int64(s.worker.q.o.Lease/renewParts) {
		s.worker.q.nudge(s.shard, 0)
	}
}

// overdue ends the contexts of jobs whose lease is over by this process' clock. A
// result that comes all the same may still count.
func (s *shardWorker) overdue(l *life) {
	for _, c := range s.unfinished() {
		if c.life == l && !c.lost.Load() {
			c.lose()
		}
	}
}

func (s *shardWorker) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live) > 0
}
