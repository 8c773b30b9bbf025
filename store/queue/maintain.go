package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// Settings of the maintenance of a shard.
const (
	servedLeases = 3 // a shard counts as served for so many leases
	// lookAfter is when a shard where entries wait is looked at again.
	lookAfter = 250 * time.Millisecond
	// Entries that a blocking read was given have to be claimed within unclaimedFor. A
	// process that enqueued checks that up to `checks` times, checkAfter apart. All of it
	// takes less than the second of Q5.
	checkAfter, checks, unclaimedFor = 300 * time.Millisecond, 3, 500 * time.Millisecond
	// After an absence of Redis no session is ended for this share of a lease, at most
	// lingerMost, so that the results of all processes can arrive.
	lingerParts, lingerMost = 4, time.Second
	// orphansEvery is how many looks pass between two for consumers without a session.
	orphansEvery = 16
)

// upkeep is what one look answered.
type upkeep struct {
	alive   bool          // the session that looked is
	wake    time.Duration // time until something is due; negative: nothing is known to be
	more    bool
	ended   int64 // sessions
	lost    int64 // jobs whose lease was lost
	alone   int64 // jobs that wait to run alone
	waiting bool  // entries wait for a claim
	parked  []any // some names under which jobs are parked
}

// maintain lets delayed jobs start when they are due and brings back what dead
// processes left. It looks once per lease, because that is how late a death may
// be noticed, and when something is known to be due.
func (s *shardWorker) maintain(ctx context.Context) {
	q := s.worker.q
	next, clean, told := time.Now(), time.Now(), &q.alarms[s.shard]
	timer := time.NewTimer(0)
	defer timer.Stop()
	for looks := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-told.came:
			if at := told.take(); !at.IsZero() && at.Before(next) {
				next = at
				timer.Reset(time.Until(at))
			}
			continue
		case <-timer.C:
		}
		// The leases of sessions may have ended while Redis was away. They are ended only
		// after the results of their jobs had a chance to arrive.
		failing := q.failedSince(s.shard, clean)
		s.awaitFlush(ctx)
		if failing {
			s.lingerAfterAbsence(ctx)
		}
		began := time.Now()
		wait := pauseAfterError
		if l := s.present(); l != nil {
			u, err := s.look(ctx, l, looks%orphansEvery == 0)
			if looks++; err == nil {
				clean = began
			}
			wait = s.after(ctx, l, u, err)
		}
		next = time.Now().Add(wait)
		timer.Reset(wait)
	}
}

// lingerAfterAbsence waits until Redis answers and then a moment more, so that the results
// of other processes, which they write as soon as Redis is back, arrive before their
// leases are looked at.
func (s *shardWorker) lingerAfterAbsence(ctx context.Context) {
	q := s.worker.q
	for ctx.Err() == nil {
		if q.db.Pipeline(ctx, redisdb.Read, redis.NewIntCmd(ctx, "exists", q.keys(s.shard)[0])) == nil {
			break
		}
		sleep(ctx, pauseAfterError)
	}
	sleep(ctx, min(q.o.Lease/lingerParts, lingerMost))
	s.awaitFlush(ctx) // results of this process may still wait
}

// after acts on the answer of a look and returns the time until the next one.
func (s *shardWorker) after(ctx context.Context, l *session, u upkeep, err error) time.Duration {
	q := s.worker.q
	if err != nil {
		s.pauseAfter(ctx, err)
		return pauseAfterError
	}
	q.tellParked(s.shard, u.parked)
	if !u.alive {
		l.end()
	}
	if u.lost > 0 { // nothing starts again after a process that held no job
		q.o.Logger.Warn("leases ended, jobs start again", "shard", s.shard, "processes", u.ended, "jobs", u.lost)
	}
	if u.alone > 0 && !s.isStopped() {
		go s.runAlone(ctx)
	}
	if u.waiting {
		s.wantMore()
	}
	if u.more {
		return 0
	}
	wait := q.o.Lease - time.Duration(rand.Int64N(int64(q.o.Lease)/8+1))
	if s.checkReader(u.waiting) {
		wait = min(wait, lookAfter)
	}
	if u.wake >= 0 {
		wait = min(wait, u.wake)
	}
	return max(wait, time.Millisecond)
}

// flag is a boolean as scripts read it.
func flag(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// look runs one bounded step of maintenance.
func (s *shardWorker) look(ctx context.Context, l *session, orphans bool) (u upkeep, err error) {
	q := s.worker.q
	producer, busy := q.producers[s.shard], s.busy()
	cmd := q.scripts.look.Cmd(ctx, q.keys(s.shard), l.name, ms(q.o.Lease), flag(busy),
		ms(q.o.Retention), ms(q.o.GroupRetention), ms(q.o.ReportRetention), maxLost, ms(q.dead.retention), q.dead.most,
		ms(servedLeases*q.o.Lease), flag(orphans), s.sender.name(), producer.name(), ms(memoTTL))
	sent := time.Now()
	if err := s.trip(ctx, cmd); err != nil {
		return u, err
	}
	v, err := cmd.Slice()
	if err == nil && len(v) != 9 {
		err = fmt.Errorf("%d values", len(v))
	}
	if err != nil {
		return u, fmt.Errorf("maintain %s shard %d: %w", q.o.Name, s.shard, err)
	}
	u = upkeep{alive: redisdb.Number(v[0]) == 1, wake: time.Duration(redisdb.Number(v[1])) * time.Millisecond,
		more: redisdb.Number(v[2]) == 1, ended: redisdb.Number(v[3]), lost: redisdb.Number(v[4]), alone: redisdb.Number(v[5]),
		waiting: redisdb.Number(v[6]) > 0, parked: redisdb.ListAt(v, 7)}
	q.parked[s.shard].tell(redisdb.Number(v[8]))
	if u.alive {
		l.extend(sent, !busy)
	}
	return u, nil
}

// runAlone runs the next job that must not have neighbours. Such jobs may be many and slow:
// before the next one, the other jobs get as much time as this one took.
func (s *shardWorker) runAlone(ctx context.Context) {
	w := s.worker
	select {
	case w.isolating <- struct{}{}:
	default:
		return // one runs already; the next look finds the rest
	}
	began := time.Now()
	ran := s.oneAlone(ctx)
	if ran {
		sleep(ctx, time.Since(began))
	}
	<-w.isolating
	if ran {
		w.q.wakeMaintainer(s.shard, 0)
	}
}

// oneAlone runs one job while nothing else of this queue is unfinished in this process,
// so that a job which kills its process takes no other job with it. A job that has run for
// a lease is not of that kind: other jobs start beside it. False: there was none.
func (s *shardWorker) oneAlone(ctx context.Context) (ran bool) {
	w := s.worker
	if !w.limiter.alone(ctx, w.q.o.Lease) {
		return false
	}
	defer w.limiter.together()
	c := s.claimAlone(ctx)
	if c == nil {
		w.limiter.release(1)
		return false
	}
	if s.isStopped() {
		c.Finish(Result{Outcome: Release})
		return false
	}
	go w.handle(w.jobs, []*Claimed{c})
	limit := time.NewTimer(w.q.o.Lease)
	defer limit.Stop()
	select {
	case <-c.ended:
	case <-limit.C:
	}
	return true
}

// claimAlone claims one job that must run alone; nil: there is none, or Redis is
// away.
func (s *shardWorker) claimAlone(ctx context.Context) *Claimed {
	a := &aloneClaim{got: make(chan *Claimed, 1)}
	s.mu.Lock()
	if s.session == nil || s.results.failing || s.stopped {
		s.mu.Unlock()
		return nil
	}
	s.alone = a
	s.mu.Unlock()
	s.sender.wake()
	select {
	case c := <-a.got:
		return c
	case <-ctx.Done():
	}
	s.mu.Lock()
	if s.alone == a {
		s.alone = nil
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	return <-a.got // the claim is in flight
}

// checkReader tells that entries wait while the reader blocks. If the next look finds the
// same wait of the reader, its connection must be dead, and the reader is woken.
func (s *shardWorker) checkReader(waiting bool) (suspect bool) {
	if s.worker.q.embedded {
		return false // there is no connection that could be dead
	}
	since := s.blockedSince()
	if !waiting || since.IsZero() {
		s.suspect = time.Time{}
		return false
	}
	if !s.suspect.After(since) {
		s.suspect = time.Now()
		return true
	}
	if time.Since(s.suspect) < lookAfter {
		return true
	}
	s.suspect = time.Time{}
	select {
	case s.wakeReader <- struct{}{}:
	default:
	}
	return false
}
