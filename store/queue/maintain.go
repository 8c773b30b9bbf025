package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// settings of the maintenance of a shard.
const (
	servedLeases = 3 // a shard counts as served for so many leases
	// lookAfter is when a shard where entries wait is looked at again.
	lookAfter = 250 * time.Millisecond
	// What a blocking read was given has to be claimed within unclaimedFor; who
	// enqueued checks that after checkAfter, and again: all of it is less than the
	// second of Q5.
	checkAfter, checks, unclaimedFor = 300 * time.Millisecond, 3, 500 * time.Millisecond
	// After an absence of Redis leases are left alone for this share of a lease,
	// at most lingerMost, in which the results of all processes arrive.
	lingerParts, lingerMost = 4, time.Second
	// orphansEvery is how many looks pass between two for consumers without a life.
	orphansEvery = 16
)

// upkeep is what one look answered.
type upkeep struct {
	alive   bool          // the life that looked
	wake    time.Duration // till something is due; negative: nothing known
	more    bool
	ended   int64 // lives
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
	next, clean, told := time.Now(), time.Now(), &q.nudges[s.shard]
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
		// Lives that ended while Redis was away end for good only after the results
		// of their jobs had their chance.
		troubled := q.troubledSince(s.shard, clean)
		s.settle(ctx)
		if troubled {
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

// lingerAfterAbsence waits until Redis answers and then a moment more, so that
// also the results of other processes get there before their leases are looked
// at: they are written as soon as Redis is back.
func (s *shardWorker) lingerAfterAbsence(ctx context.Context) {
	q := s.worker.q
	for ctx.Err() == nil {
		if q.db.Pipeline(ctx, redisdb.Read, redis.NewIntCmd(ctx, "exists", q.keys(s.shard)[0])) == nil {
			break
		}
		sleep(ctx, pauseAfterError)
	}
	sleep(ctx, min(q.o.Lease/lingerParts, lingerMost))
	s.settle(ctx) // they may have found no way yet
}

// after acts on a look and says when the next one is.
func (s *shardWorker) after(ctx context.Context, l *life, u upkeep, err error) time.Duration {
	q := s.worker.q
	if err != nil {
		s.pauseAfter(ctx, err)
		return pauseAfterError
	}
	q.tellParked(s.shard, u.parked)
	if !u.alive {
		l.end()
	}
	if u.lost > 0 { // a process that held nothing leaves nothing to start again
		q.o.Logger.Warn("leases ended, jobs start again", "shard", s.shard, "processes", u.ended, "jobs", u.lost)
	}
	if u.alone > 0 && !s.isStopped() {
		go s.runAlone(ctx)
	}
	if u.waiting {
		s.wish()
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

// flag is a truth as scripts read it.
func flag(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// look runs one bounded step of maintenance.
func (s *shardWorker) look(ctx context.Context, l *life, orphans bool) (u upkeep, err error) {
	q := s.worker.q
	line, busy := q.lines[s.shard], s.busy()
	cmd := q.scripts.look.Cmd(ctx, q.keys(s.shard), l.name, ms(q.o.Lease), flag(busy),
		ms(q.o.Retention), ms(q.o.GroupRetention), ms(q.o.ReportRetention), maxLost, ms(q.dead.retention), q.dead.most,
		ms(servedLeases*q.o.Lease), flag(orphans), s.ends.name(), line.name(), ms(memoTTL))
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

// runAlone runs the next job that must not have neighbours. Others get as much time before
// the one after it as it took from them: such jobs may be many, and each may be slow.
func (s *shardWorker) runAlone(ctx context.Context) {
	w := s.worker
	select {
	case w.lonely <- struct{}{}:
	default:
		return // one is on its way; the next look finds the rest
	}
	began := time.Now()
	ran := s.oneAlone(ctx)
	if ran {
		sleep(ctx, time.Since(began))
	}
	<-w.lonely
	if ran {
		w.q.nudge(s.shard, 0)
	}
}

// oneAlone runs one job while nothing else of this queue is unfinished in this process,
// so that a job which kills its process takes nobody with it. One that has lived for a
// lease is not of that kind: others go on beside it. False: there was none.
func (s *shardWorker) oneAlone(ctx context.Context) (ran bool) {
	w := s.worker
	if !w.gate.alone(ctx, w.q.o.Lease) {
		return false
	}
	defer w.gate.together()
	c := s.claimAlone(ctx)
	if c == nil {
		w.gate.release(1)
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
	if s.life == nil || s.results.troubled || s.stopped {
		s.mu.Unlock()
		return nil
	}
	s.alone = a
	s.mu.Unlock()
	s.ends.kick()
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
	return <-a.got // it is under way
}

// checkReader tells that entries wait although the reader does as well. At the
// second such look in one wait of the reader its connection must be dead: it is
// poked.
func (s *shardWorker) checkReader(waiting bool) (suspect bool) {
	if s.worker.q.embedded {
		return false // no wire that could be dead; its reads end often by themselves
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
	case s.poke <- struct{}{}:
	default:
	}
	return false
}
