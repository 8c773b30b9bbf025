package shard

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
	// Of the jobs that lost two leases mostFew run at a time, and others wait for them for a
	// share of a lease.
	mostFew, fewParts = 32, 50
	// streamFew is the letter of the stream of these jobs (lua/part_shard.lua).
	streamFew = "f"
)

// upkeep is what one look answered.
type upkeep struct {
	alive   bool          // the session that looked is
	wake    time.Duration // time until something is due; negative: nothing is known to be
	more    bool
	ended   int64  // sessions
	lost    int64  // jobs whose lease was lost
	isolate string // letter of a stream whose jobs wait to run without others; "": none wait
	waiting bool   // entries wait for a claim
	parked  []any  // some names under which jobs are parked
}

// maintainer looks at one shard from time to time.
type maintainer struct {
	w       *Worker
	suspect time.Time // since when entries wait while the reader blocks; zero: they do not
}

// Maintain lets delayed jobs start when they are due and brings back what dead
// processes left. It looks once per lease, because that is how late a death may
// be noticed, and when something is known to be due.
func (w *Worker) Maintain(ctx context.Context) {
	m := &maintainer{w: w}
	next, clean, told := time.Now(), time.Now(), &m.w.alarm
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
		failing := m.w.failedSince(clean)
		m.w.awaitFlush(ctx)
		if failing {
			m.lingerAfterAbsence(ctx)
		}
		began := time.Now()
		wait := pauseAfterError
		if l := m.w.present(); l != nil {
			u, err := m.look(ctx, l, looks%orphansEvery == 0)
			if looks++; err == nil {
				clean = began
			}
			wait = m.after(ctx, l, u, err)
		}
		next = time.Now().Add(wait)
		timer.Reset(wait)
	}
}

// lingerAfterAbsence waits until Redis answers and then a moment more, so that the results
// of other processes, which they write as soon as Redis is back, arrive before their
// leases are looked at.
func (m *maintainer) lingerAfterAbsence(ctx context.Context) {
	for ctx.Err() == nil {
		if m.w.db.Pipeline(ctx, redisdb.Read, redis.NewIntCmd(ctx, "exists", m.w.Keys()[0])) == nil {
			break
		}
		redisdb.Sleep(ctx, pauseAfterError)
	}
	redisdb.Sleep(ctx, min(m.w.Lease/lingerParts, lingerMost))
	m.w.awaitFlush(ctx) // results of this process may still wait
}

// after acts on the answer of a look and returns the time until the next one.
func (m *maintainer) after(ctx context.Context, l *session, u upkeep, err error) time.Duration {
	if err != nil {
		m.w.pauseAfter(ctx, err)
		return pauseAfterError
	}
	m.w.tellParked(u.parked)
	if !u.alive {
		l.end()
	}
	if u.lost > 0 { // nothing starts again after a process that held no job
		m.w.Logger.Warn("leases ended, jobs start again", "shard", m.w.n, "processes", u.ended, "jobs", u.lost)
	}
	if u.isolate != "" && !m.w.stopped.Load() {
		go m.runIsolated(ctx, u.isolate)
	}
	if u.waiting {
		m.w.wantMore()
	}
	if u.more {
		return 0
	}
	wait := m.w.Lease - time.Duration(rand.Int64N(int64(m.w.Lease)/8+1))
	if m.checkReader(u.waiting) {
		wait = min(wait, lookAfter)
	}
	if u.wake >= 0 {
		wait = min(wait, u.wake)
	}
	return max(wait, time.Millisecond)
}

// look runs one bounded step of maintenance.
func (m *maintainer) look(ctx context.Context, l *session, orphans bool) (u upkeep, err error) {
	w, busy := m.w, m.w.busy()
	cmd := w.Scripts.look.Cmd(ctx, w.Keys(), l.name, MS(w.Lease), busy,
		MS(w.Retention), MS(w.GroupRetention), MS(w.ReportRetention), maxLost, MS(w.DeadRetention), w.MaxDead,
		MS(servedLeases*w.Lease), orphans, w.sender.name(), w.Producer.name(), MS(memoTTL), w.Tells())
	sent := time.Now()
	if err := w.trip(ctx, cmd); err != nil {
		return u, err
	}
	v, err := cmd.Slice()
	if err == nil && len(v) != 9 {
		err = fmt.Errorf("%d values", len(v))
	}
	if err != nil {
		return u, fmt.Errorf("maintain %s shard %d: %w", w.Name, w.n, err)
	}
	u = upkeep{alive: redisdb.Number(v[0]) == 1, wake: time.Duration(redisdb.Number(v[1])) * time.Millisecond,
		more: redisdb.Number(v[2]) == 1, ended: redisdb.Number(v[3]), lost: redisdb.Number(v[4]), isolate: redisdb.Text(v[5]),
		waiting: redisdb.Number(v[6]) > 0, parked: redisdb.ListAt(v, 7)}
	w.NoteParked(redisdb.Number(v[8]))
	if u.alive {
		l.extend(sent, !busy)
	}
	return u, nil
}

// isolation is how jobs of a stream run without others: at most so many together. Jobs that
// run already are waited for, and no other job begins, for at most its patience each.
type isolation struct {
	most     int
	patience time.Duration
}

// isolation returns how the jobs of a stream run. Those that lost two leases may be thousands, of
// which hardly any kills its process, so a group of them runs at a time, as far as the handler has
// room, and a request that hangs holds up the next group only briefly. Those that lost a third
// lease were in a group whose process died.
func (w *Worker) isolation(letter string) isolation {
	if letter == streamFew {
		return isolation{most: w.process.limiter.group(mostFew), patience: w.Lease / fewParts}
	}
	return isolation{most: 1, patience: w.Lease}
}

// runIsolated runs the next jobs of a stream that must not run beside others. There may be many
// and slow ones: before the next ones, the other jobs get as much time as these took.
func (m *maintainer) runIsolated(ctx context.Context, letter string) {
	p := m.w.process
	select {
	case p.isolating <- struct{}{}:
	default:
		m.w.WakeMaintainer(lookAfter) // some run already
		return
	}
	began := time.Now()
	ran := m.oneGroup(ctx, letter)
	if ran {
		redisdb.Sleep(ctx, time.Since(began))
	}
	<-p.isolating
	if ran {
		m.w.WakeMaintainer(0)
	}
}

// oneGroup runs some jobs while nothing else of this queue begins in this process, so that a job
// which kills its process takes few others with it. False: there were none.
func (m *maintainer) oneGroup(ctx context.Context, letter string) (ran bool) {
	p, how := m.w.process, m.w.isolation(letter)
	if !p.limiter.isolate(ctx, how) {
		return false
	}
	defer p.limiter.together()
	batch := m.claimIsolated(ctx, letter, how.most)
	p.limiter.release(how.most - len(batch))
	if len(batch) == 0 {
		return false
	}
	if m.w.stopped.Load() {
		for _, c := range batch {
			c.Finish(Result{Outcome: Release})
		}
		return false
	}
	go p.callbacks.Handle(p.jobs, batch)
	waiting, cancel := context.WithTimeout(ctx, how.patience)
	defer cancel()
	for _, c := range batch {
		select {
		case <-c.ended:
		case <-waiting.Done():
		}
	}
	return true
}

// claimIsolated claims at most so many jobs of a stream; none: there is none, or Redis is away.
func (m *maintainer) claimIsolated(ctx context.Context, letter string, most int) []*Claimed {
	a := &isolatedClaim{letter: letter, most: most, got: make(chan []*Claimed, 1)}
	m.w.mu.Lock()
	if m.w.session == nil || m.w.results.failing || m.w.stopped.Load() {
		m.w.mu.Unlock()
		return nil
	}
	m.w.claims.isolated = a
	m.w.mu.Unlock()
	m.w.sender.wake()
	select {
	case batch := <-a.got:
		return batch
	case <-ctx.Done():
	}
	m.w.mu.Lock()
	if m.w.claims.isolated == a {
		m.w.claims.isolated = nil
		m.w.mu.Unlock()
		return nil
	}
	m.w.mu.Unlock()
	return <-a.got // the claim is in flight
}

// checkReader tells that entries wait while the reader blocks. If the next look finds the
// same wait of the reader, its connection must be dead, and the reader is woken.
func (m *maintainer) checkReader(waiting bool) (suspect bool) {
	if m.w.embedded {
		return false // there is no connection that could be dead
	}
	since := m.w.reader.blocked.Load()
	if !waiting || since == nil {
		m.suspect = time.Time{}
		return false
	}
	if !m.suspect.After(*since) {
		m.suspect = time.Now()
		return true
	}
	if time.Since(m.suspect) < lookAfter {
		return true
	}
	m.suspect = time.Time{}
	m.w.reader.end()
	return false
}
