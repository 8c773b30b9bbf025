package shard

import (
	"context"
	"crypto/rand"
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
	worker *Worker
	name   string
	epoch  int64 // above that of every earlier session; the fence of its claims

	renewed atomic.Int64 // when the lease began, ns since the worker's start
	over    atomic.Bool
	idle    atomic.Bool // Redis was told that the session holds no job, and gave it a longer lease

	// calls is read-locked while a call is in flight and applied, and locked by compare.
	calls sync.RWMutex
}

// cut is what a lease may lack at its end, because Redis cuts its time to milliseconds.
const cut = time.Millisecond

// extend moves the end of the lease to one lease after a call was sent, less cut. idle: the call
// said that the session holds no job.
func (s *session) extend(sent time.Time, idle bool) {
	w := s.worker
	w.worked()
	since := int64(sent.Sub(w.process.started) - cut)
	for old := s.renewed.Load(); since > old; old = s.renewed.Load() {
		if s.renewed.CompareAndSwap(old, since) {
			s.idle.Store(idle)
			return
		}
	}
}

// deadline is when the lease is over, ns since the worker's start.
func (s *session) deadline() int64 { return s.renewed.Load() + int64(s.worker.Lease) }

// beginSession begins a session and makes the consumer groups that an emptied Redis lost.
func (w *Worker) beginSession(ctx context.Context) error {
	if err := w.Init(ctx); err != nil {
		return err
	}
	cmd := w.Scripts.begin.Cmd(ctx, w.Keys(), rand.Text()[:nameLength], MS(w.Lease))
	sent := time.Now()
	if err := w.trip(ctx, cmd); err != nil {
		return err
	}
	name, err := cmd.Text()
	if err != nil {
		return fmt.Errorf("begin in %s shard %d: %w", w.Name, w.n, err)
	}
	l := &session{worker: w, name: name}
	l.epoch, _ = strconv.ParseInt(name[strings.LastIndexByte(name, '-')+1:], 10, 64)
	l.renewed.Store(-int64(cut) - 1) // before any call
	l.extend(sent, true)
	w.mu.Lock()
	w.session = l
	w.mu.Unlock()
	w.wantMore()
	return nil
}

// present is the current session, nil if there is none.
func (w *Worker) present() *session {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.session
}

// end notes that a session is over: its jobs belong to other processes from now on.
func (s *session) end() {
	if s.over.Swap(true) {
		return
	}
	w := s.worker
	w.mu.Lock()
	if w.session == s {
		w.session = nil
	}
	if isolated := w.claims.isolated; isolated != nil { // it will not be made
		close(isolated.got)
		w.claims.isolated = nil
	}
	held := 0
	for c := range w.live {
		if c.session == s {
			c.gone = true
			c.lose()
			held++
		}
	}
	dropped := w.takeGone() // before a call of the next session takes these results along
	w.mu.Unlock()
	w.reader.end() // its goroutine has to begin another session
	if held > 0 {
		w.Logger.Warn("lease lost", "shard", w.n, "jobs", held)
	}
	w.lost(dropped...)
}

// dropGone forgets the results of jobs that other processes have now.
func (w *Worker) dropGone() {
	w.mu.Lock()
	dropped := w.takeGone()
	w.mu.Unlock()
	w.lost(dropped...)
}

// takeGone removes the waiting results and marks of jobs that other processes have now,
// and returns these results. The lock is held.
func (w *Worker) takeGone() (dropped []ended) {
	dropped = w.results.takeGone()
	for _, e := range dropped {
		delete(w.live, e.c)
	}
	w.announce()
	return dropped
}

// lost ends jobs whose results do not count any more.
func (w *Worker) lost(dropped ...ended) {
	for _, e := range dropped {
		w.tell(e, finishLost)
		e.c.conclude()
	}
	w.process.limiter.release(len(dropped))
}

// compare asks Redis which jobs the session has pending, until it gets an answer. A job
// that is not pending is lost; a pending job that this process does not know is handed
// back, uncounted. While the session lives, no other process would find such jobs.
func (s *session) compare() {
	w := s.worker
	for !s.over.Load() && !w.process.closed.Load() {
		err := s.compareOnce()
		if err == nil {
			return
		}
		w.failed("compare jobs", err)
		redisdb.Sleep(w.process.writes, pauseAfterError)
	}
}

func (s *session) compareOnce() error {
	s.calls.Lock()
	defer s.calls.Unlock()
	w := s.worker
	held := map[string]*Claimed{}
	w.mu.Lock()
	for c := range w.live {
		if c.session == s && !c.gone {
			held[c.place] = c
		}
	}
	w.mu.Unlock()
	args := []any{s.name, MS(w.Retention), MS(w.GroupRetention), MS(w.ReportRetention)}
	for place := range held {
		args = append(args, place)
	}
	cmd := w.Scripts.compare.Cmd(w.process.writes, w.Keys(), args...)
	if err := w.trip(w.process.writes, cmd); err != nil {
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
		s.end()
		return nil
	}
	lost, _ := answer[1].([]any)
	w.mu.Lock()
	for _, place := range lost {
		if c := held[redisdb.Text(place)]; c != nil {
			c.gone = true
			c.lose()
		}
	}
	w.mu.Unlock()
	w.dropGone()
	return nil
}

const (
	// renewParts: a lease is renewed after a quarter of its time. A lease whose renewals
	// succeed never has less than half of its time left (Fresh).
	renewParts = 4
	leaveTime  = 2 * time.Second
)

// CheckLease is to be called ten times in a lease. It asks for a look at the shard, which
// renews the lease, while jobs are under way and once after the last of them.
func (w *Worker) CheckLease() {
	l, clock := w.present(), w.process.clock()
	if l == nil || !w.busy() && l.idle.Load() {
		return
	}
	if clock >= l.deadline() {
		w.overdue(l)
	}
	if clock-l.renewed.Load() >= int64(w.Lease/renewParts) {
		w.WakeMaintainer(0)
	}
}

// overdue ends the contexts of the jobs of a session whose lease is over by the clock of
// this process. Their results may still count.
func (w *Worker) overdue(l *session) {
	for _, c := range w.unfinished() {
		if c.session == l && !c.lost.Load() {
			c.lose()
		}
	}
}

func (w *Worker) busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.live) > 0
}

// Leave ends the session, in as many steps as it takes in leaveTime: jobs that it still has
// pending go back.
func (w *Worker) Leave() {
	w.Producer.attach(nil)
	ctx, cancel := context.WithTimeout(w.process.writes, leaveTime)
	defer cancel()
	if err := w.leave(ctx); err != nil {
		w.failed("leave shard", err)
	}
}

func (w *Worker) leave(ctx context.Context) error {
	l, ends, enqueues := w.present(), w.sender.leave(), w.Producer.leave()
	for l != nil && ctx.Err() == nil {
		cmd := w.Scripts.end.Cmd(ctx, w.Keys(), l.name, MS(w.Retention), MS(w.GroupRetention), MS(w.ReportRetention), ends, enqueues)
		if err := w.db.Pipeline(ctx, redisdb.Write, cmd); err != nil {
			return err
		}
		answer, err := cmd.Slice()
		if err != nil {
			if isNoGroup(err) {
				return nil
			}
			return fmt.Errorf("leave %s shard %d: %w", w.Name, w.n, err)
		}
		if redisdb.NumberAt(answer, 1) == 1 {
			return nil
		}
	}
	return ctx.Err()
}
