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
	fromStart    = "-"
	// lookAfter is when it is looked whether a new entry was taken, and how long
	// it may then stay untaken before the blocking read is taken for dead: both
	// together are less than the second of Q5.
	lookAfter = 250 * time.Millisecond
	// After an absence of Redis leases are left alone for this share of a lease,
	// at most lingerMost, in which the results of all processes arrive.
	lingerParts, lingerMost = 4, time.Second
	// consumersEvery is how often crashed processes' consumers are looked for.
	consumersEvery = 10 * time.Minute
)

// upkeep is what one maintaining step answered.
type upkeep struct {
	wake      time.Duration // till something is due; negative: nothing known
	more      bool
	recovered int64
	alone     int64
	waiting   bool      // entries wait that nobody was given, or began
	from      [3]string // where the next step goes on
	parked    []any     // some names under which jobs are parked
}

// maintain lets delayed jobs start when they are due and brings back what dead
// processes left. It looks once per lease, because that is how late a death may
// be noticed, and when something is known to be due.
func (s *shardWorker) maintain(ctx context.Context) {
	q := s.worker.q
	from := [3]string{fromStart, fromStart, fromStart}
	next, clean := time.Now(), time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	q.looks[s.shard].Store(1)
	defer q.looks[s.shard].Store(0)
	consumers := time.NewTicker(consumersEvery)
	defer consumers.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case in := <-q.nudges[s.shard]:
			if at := time.Now().Add(in); at.Before(next) {
				next = at
				timer.Reset(in)
			}
			continue
		case <-consumers.C:
			if _, err := s.dropConsumers(ctx); err != nil {
				s.recoverFrom(ctx, err)
			}
			continue
		case <-timer.C:
		}
		// Leases that ended while Redis was away end for good only after the
		// results of their jobs had their chance.
		troubled := q.troubledSince(clean)
		s.results.settle(ctx, troubled)
		if troubled {
			s.lingerAfterAbsence(ctx)
		}
		began := time.Now()
		u, err := s.upkeep(ctx, from)
		q.tellParked(s.shard, u.parked)
		if from = u.from; err == nil {
			clean = began
		}
		wait := s.after(ctx, u, err)
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
}

// after acts on a step and says when the next one is.
func (s *shardWorker) after(ctx context.Context, u upkeep, err error) time.Duration {
	q := s.worker.q
	if err != nil {
		s.recoverFrom(ctx, err)
		return pauseAfterError
	}
	if u.recovered > 0 {
		q.o.Logger.Warn("leases ended, jobs start again", "shard", s.shard, "jobs", u.recovered)
	}
	if u.alone > 0 {
		go s.runAlone(ctx)
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

// upkeep runs one bounded step of maintenance.
func (s *shardWorker) upkeep(ctx context.Context, from [3]string) (upkeep, error) {
	q := s.worker.q
	start := upkeep{wake: -1, from: [3]string{fromStart, fromStart, fromStart}}
	cmd := q.scripts.maintain.Cmd(ctx, q.keys(s.shard),
		ms(q.o.Retention), ms(q.o.GroupRetention), maxLost, ms(q.dead.retention), q.dead.most,
		ms(servedLeases*q.o.Lease), from[0], from[1], from[2])
	if err := q.trip(ctx, stepMaintain, cmd); err != nil {
		return start, err
	}
	v, err := cmd.Slice()
	if err != nil {
		return start, fmt.Errorf("maintain %s shard %d: %w", q.o.Name, s.shard, err)
	}
	if len(v) != 10 {
		return start, fmt.Errorf("maintain %s shard %d: %d values", q.o.Name, s.shard, len(v))
	}
	wake := time.Duration(-1)
	if n := redisdb.Number(v[1]); n >= 0 {
		wake = time.Duration(n) * time.Millisecond
	}
	parked, _ := v[9].([]any)
	return upkeep{wake: wake, parked: parked, more: redisdb.Number(v[2]) == 1, recovered: redisdb.Number(v[3]), alone: redisdb.Number(v[4]), waiting: redisdb.Number(v[8]) > 0,
		from: [3]string{redisdb.Text(v[5]), redisdb.Text(v[6]), redisdb.Text(v[7])}}, nil
}

// runAlone runs the jobs that must not have neighbours, one at a time: nothing
// else of this queue is unfinished in this process meanwhile, so that a job
// which kills its process takes nobody with it. A job that has lived for a
// lease is not of that kind: others go on beside it.
func (s *shardWorker) runAlone(ctx context.Context) {
	w := s.worker
	select {
	case w.lonely <- struct{}{}:
	default:
		return // one is on its way; the next look finds the rest
	}
	defer func() { <-w.lonely }()
	if !w.gate.alone(ctx, w.q.o.Lease) {
		return
	}
	defer w.gate.together()
	batch, err := s.claim(w.writes, &s.lone, 1, claimAlone, nil)
	if err != nil || len(batch) == 0 {
		w.gate.release(1)
		return
	}
	if ctx.Err() != nil {
		batch[0].Finish(Result{Outcome: Release})
		return
	}
	go w.handle(w.jobs, batch)
	limit := time.NewTimer(w.q.o.Lease)
	defer limit.Stop()
	select {
	case <-batch[0].ended:
	case <-limit.C:
	}
	w.q.nudge(s.shard, 0)
}

// checkReader tells that entries wait although the reader does as well. At the
// second such look in one wait of the reader its connection must be dead: it is
// poked.
func (s *shardWorker) checkReader(waiting bool) (suspect bool) {
	if s.worker.q.db.Embedded() {
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

// dropConsumers removes consumers that crashed processes left.
func (s *shardWorker) dropConsumers(ctx context.Context) (int64, error) {
	q := s.worker.q
	cmd := q.scripts.consumers.Cmd(ctx, q.keys(s.shard), ms(q.idle), consumerDrop)
	if err := q.trip(ctx, stepMaintain, cmd); err != nil {
		return 0, err
	}
	gone, err := cmd.Int64()
	if err != nil {
		return 0, fmt.Errorf("drop consumers of %s shard %d: %w", q.o.Name, s.shard, err)
	}
	return gone, nil
}
