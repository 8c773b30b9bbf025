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

// session is a worker's share of a shard: the name of the consumer in whose pending lists
// its jobs are, and one lease on all of them. A session that is over never comes back;
// the worker begins another one under a new name.
type session struct {
	shard *shardWorker
	name  string
	epoch int64 // above that of every earlier session; the fence of its claims

	renewed  atomic.Int64 // when the lease began, ns since the worker's start
	deadline atomic.Int64 // when it is over
	over     atomic.Bool
	idle     atomic.Bool // Redis was told that the session holds no job, and gave it a longer lease

	// calls is read-locked while a call is in flight and applied, and locked by compare.
	calls sync.RWMutex
}

// extend moves the end of the lease to one lease after a call was sent. idle: the call
// said that the session holds no job.
func (l *session) extend(sent time.Time, idle bool) {
	s := l.shard
	s.worked()
	since := int64(sent.Sub(s.worker.started))
	for old := l.renewed.Load(); since > old; old = l.renewed.Load() {
		if l.renewed.CompareAndSwap(old, since) {
			l.deadline.Store(since + int64(s.o.Lease))
			l.idle.Store(idle)
			return
		}
	}
}

// beginSession begins a session and makes the consumer groups that an emptied Redis lost.
func (s *shardWorker) beginSession(ctx context.Context) error {
	if err := s.init(ctx); err != nil {
		return err
	}
	cmd := s.scripts.begin.Cmd(ctx, s.keys(), strings.ReplaceAll(randomText(6), "-", "_"), ms(s.o.Lease))
	sent := time.Now()
	if err := s.trip(ctx, cmd); err != nil {
		return err
	}
	name, err := cmd.Text()
	if err != nil {
		return fmt.Errorf("begin in %s shard %d: %w", s.o.Name, s.n, err)
	}
	l := &session{shard: s, name: name}
	l.epoch, _ = strconv.ParseInt(name[strings.LastIndexByte(name, '-')+1:], 10, 64)
	l.renewed.Store(-1)
	l.extend(sent, true)
	s.mu.Lock()
	s.session = l
	s.mu.Unlock()
	s.wantMore()
	return nil
}

// present is the current session, nil if there is none.
func (s *shardWorker) present() *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session
}

// end notes that a session is over: its jobs belong to other processes from now on.
func (l *session) end() {
	if l.over.Swap(true) {
		return
	}
	s := l.shard
	s.mu.Lock()
	if s.session == l {
		s.session = nil
	}
	if alone := s.claims.alone; alone != nil { // it will not be made
		close(alone.got)
		s.claims.alone = nil
	}
	var held []*Claimed
	for c := range s.live {
		if c.session == l {
			c.gone = true
			held = append(held, c)
		}
	}
	dropped := s.takeGone() // before a call of the next session takes these results along
	s.mu.Unlock()
	select {
	case s.wakeReader <- struct{}{}: // the goroutine that blocks there has to begin another session
	default:
	}
	if len(held) > 0 {
		s.o.Logger.Warn("lease lost", "shard", s.n, "jobs", len(held))
	}
	for _, c := range held {
		c.lose()
	}
	s.lost(dropped...)
}

// dropGone forgets the results of jobs that other processes have now.
func (s *shardWorker) dropGone() {
	s.mu.Lock()
	dropped := s.takeGone()
	s.mu.Unlock()
	s.lost(dropped...)
}

// takeGone removes the waiting results and marks of jobs that other processes have now,
// and returns these results. The lock is held.
func (s *shardWorker) takeGone() (dropped []ended) {
	dropped = s.results.takeGone()
	for _, e := range dropped {
		delete(s.live, e.c)
	}
	s.announce()
	return dropped
}

// lost ends jobs whose results do not count any more.
func (s *shardWorker) lost(dropped ...ended) {
	for _, e := range dropped {
		s.tell(e, finishLost)
		e.c.conclude()
	}
	s.worker.limiter.release(len(dropped))
}

// compare asks Redis which jobs the session has pending, until it gets an answer. A job
// that is not pending is lost; a pending job that this process does not know is handed
// back, uncounted. While the session lives, no other process would find such jobs.
func (l *session) compare() {
	s := l.shard
	for !l.over.Load() && !s.worker.closed.Load() {
		err := l.compareOnce()
		if err == nil {
			return
		}
		s.failed("compare jobs", err)
		sleep(s.worker.writes, pauseAfterError)
	}
}

func (l *session) compareOnce() error {
	l.calls.Lock()
	defer l.calls.Unlock()
	s := l.shard
	held := map[string]*Claimed{}
	s.mu.Lock()
	for c := range s.live {
		if c.session == l && !c.gone {
			held[c.place] = c
		}
	}
	s.mu.Unlock()
	args := []any{l.name, ms(s.o.Retention), ms(s.o.GroupRetention), ms(s.o.ReportRetention)}
	for place := range held {
		args = append(args, place)
	}
	cmd := s.scripts.compare.Cmd(s.worker.writes, s.keys(), args...)
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

// A lease is renewed after a quarter of its time and checked ten times in it. A lease
// whose renewals succeed never has less than half of its time left (Fresh).
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
	if clock-l.renewed.Load() >= int64(s.o.Lease/renewParts) {
		s.wakeMaintainer(0)
	}
}

// overdue ends the contexts of the jobs of a session whose lease is over by the clock of
// this process. Their results may still count.
func (s *shardWorker) overdue(l *session) {
	for _, c := range s.unfinished() {
		if c.session == l && !c.lost.Load() {
			c.lose()
		}
	}
}

func (s *shardWorker) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live) > 0
}
