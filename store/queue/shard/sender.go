package shard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/batch"
	"fanfare/store/redisdb"
)

// Statuses of a call's answer (lua/part_call.lua).
const (
	callDone      = 1
	callForgotten = 2 // Redis lost an answered call: nothing was done
	callOutdated  = 3 // a later call of the series was done already: nothing was done
)

// commonArgs is the number of arguments that all calls begin with (send, lua/part_call.lua).
const commonArgs = 10

// Values of a call's answer by position. After them come callGiven values for each claimed job.
const (
	callStatus = iota
	callAlive
	callClock
	callWaiting
	callDue
	callAnswer
	callParked
	callJobs
	callGiven = 3
)

// call is one numbered call to a shard, with the jobs, results and marks that it sends and the
// number of jobs that it may claim.
type call struct {
	ctx      context.Context // never ends
	script   *redisdb.Script
	args     []any // those after the common ones
	requests []*Request
	late     *batch.Late // timer shared by requests that nobody else waits with; stopped with the answer
	results  []ended
	marks    []*marked
	unmark   []string       // jobs whose marks are deleted
	leaves   bool           // it may leave facts for the relay
	stored   map[int]*Entry // the jobs that it stores, by the position of their text in the arguments

	session  *session // the session that claims; nil: nobody claims
	room     int      // places taken for the jobs that it claims
	reuse    int      // how many of these places its own results free
	held     int      // jobs that the session had when an enqueueing call was made
	reclaim  []unclaimed
	isolated *isolatedClaim
	wanted   uint64 // value of claims.wanted when it was made

	began  time.Time
	number uint64
}

// sender sends calls one after the other. Work that arrives while a call is in flight
// leaves with the next one. Calls are numbered, so that Redis does none of them twice. A
// call with results is repeated until it is answered, and no newer call leaves before
// that: so a lost answer loses no work.
type sender struct {
	*Shard
	next  func() *call // makes the call that leaves now; nil: the sender stops
	apply func(c *call, answer []any, sent time.Time)
	// fail is called after each error; over: the call is not sent again.
	fail func(c *call, err error, over bool)
	// resolve is called after an answer if an earlier call was given up that may have
	// claimed jobs.
	resolve func()

	mu      sync.Mutex
	running bool
	again   bool          // somebody asked for a call while the sender was stopping
	ended   chan struct{} // closed when the sender stops

	series string // changed by the sender's goroutine alone, under the lock
	// Only that goroutine reads and writes the rest.
	number       uint64    // of the last call
	answered     uint64    // of the last answered call
	compareAfter bool      // a call that may have claimed jobs was given up: compare after the next answer
	last         time.Time // when the last answered call was sent
}

// wake has the sender look for work.
func (s *sender) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.again = true
	if !s.running {
		s.running, s.ended = true, make(chan struct{})
		go s.run()
	}
}

// lead makes the next call in the caller's goroutine. If a call is in flight, waiting work
// leaves with the call after it. Later calls are made by a goroutine of the sender.
func (s *sender) lead() {
	s.mu.Lock()
	if s.running {
		s.again = true
		s.mu.Unlock()
		return
	}
	s.running, s.again, s.ended = true, false, make(chan struct{})
	s.mu.Unlock()
	defer batch.CrashOnPanic()
	runtime.Gosched() // callers that are about to hand something in join this call
	if c := s.next(); c != nil {
		s.deliver(c)
	}
	if s.goesOn() {
		go s.run()
	}
}

// goesOn reports whether somebody asked for a call meanwhile, or else stops the sender.
func (s *sender) goesOn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.again {
		s.running = false
		close(s.ended)
	}
	return s.again
}

func (s *sender) run() {
	for {
		s.mu.Lock()
		s.again = false
		s.mu.Unlock()
		runtime.Gosched()
		if c := s.next(); c != nil {
			s.deliver(c)
		} else if !s.goesOn() {
			return
		}
	}
}

// await waits until the sender has stopped.
func (s *sender) await() {
	s.mu.Lock()
	running, ended := s.running, s.ended
	s.mu.Unlock()
	if running {
		<-ended
	}
}

// deliver sends a call until it ends, in one of three ways. It is answered; or it failed and
// certainly did not run; or it is given up although it may have run. In the third case its number
// is used up, and the jobs that it may have claimed are found by a comparison after the next
// answer (resolve).
func (s *sender) deliver(c *call) {
	c.began, c.number = time.Now(), s.number+1
	for mayHaveRun := false; ; {
		// Redis forgets an answered call after memoTTL. A series that may be forgotten soon is not
		// continued, but a call that may have run stays in its series as long as Redis would know it.
		if s.series == "" || time.Since(s.last) > memoTTL/2 && (!mayHaveRun || time.Since(c.began) > memoTTL/2) {
			// The call runs again, and an earlier try may have claimed jobs already.
			s.compareAfter = s.compareAfter || mayHaveRun && c.session != nil
			s.renew()
			c.number = 1
		}
		done, err := s.try(c)
		if done {
			return
		}
		if err == nil {
			c.number = 1
			continue // the call leaves again in a new series
		}
		code := api.CodeOf(err)
		mayHaveRun = mayHaveRun || code == api.CodeUnknownOutcome
		// An error of the server means that this try changed nothing, even if it is a
		// repeat. An error before the call left says nothing of an earlier try.
		over := !mayHaveRun || code == api.CodeOverloaded || code == api.CodeInternal || !s.mustKnow(c)
		if over && mayHaveRun {
			s.number = c.number // used up: the next call does not get this one's answer, and Redis refuses a late copy of it
			s.compareAfter = s.compareAfter || c.session != nil
		}
		s.fail(c, err, over)
		if over {
			return
		}
		redisdb.Sleep(c.ctx, pauseAfterError)
	}
}

// try sends a call once and applies its answer.
func (s *sender) try(c *call) (done bool, err error) {
	if c.session != nil {
		c.session.calls.RLock()
		defer c.session.calls.RUnlock()
	}
	sent := time.Now()
	answer, err := s.send(c)
	if err != nil {
		return false, err
	}
	s.last = sent
	switch redisdb.Number(answer[callStatus]) {
	case callDone:
		s.number, s.answered = c.number, c.number
		s.apply(c, answer, sent)
		if s.compareAfter {
			s.compareAfter = false
			s.resolve()
		}
		return true, nil
	case callForgotten:
		s.Logger.Warn("Redis forgot what it had answered", "shard", s.n)
		if c.session != nil {
			c.session.worker.process.inBackground(func() { c.session.compare() })
		}
	case callOutdated: // it leaves again in a new series
	}
	s.renew()
	return false, nil
}

// mustKnow reports whether a call that may have run has to be repeated, because it records
// results. Any other call is given up, so that results behind it leave at once; jobs that
// it may have claimed are found by a comparison (resolve).
func (s *sender) mustKnow(c *call) bool {
	return len(c.results)+len(c.marks) > 0 && !c.session.worker.process.closed.Load()
}

// name is the present series, so that the regular look can extend its memo.
func (s *sender) name() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.series
}

// leave ends the series and returns its name; "" while a call is in flight.
func (s *sender) leave() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.series
	if s.running {
		return ""
	}
	s.series = ""
	return old
}

// renew starts a new series: no call of the old one is sent any more.
func (s *sender) renew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.series, s.number, s.answered, s.last = rand.Text()[:nameLength], 0, 0, time.Now()
}

// send is one try of a call.
func (s *sender) send(c *call) ([]any, error) {
	name := ""
	if c.session != nil {
		name = c.session.name
	}
	mode, most := "m", c.room-len(c.reclaim)
	if c.isolated != nil {
		mode, most = c.isolated.letter, c.isolated.most
	}
	if c.session == nil {
		most = 0
	}
	args := make([]any, 0, commonArgs+len(c.reclaim)+len(c.args))
	args = append(args, name, s.series, strconv.FormatUint(c.number, 10), strconv.FormatUint(s.answered, 10), MS(memoTTL),
		MS(s.Lease), most, claimBytes, mode, len(c.reclaim))
	for _, a := range c.reclaim {
		args = append(args, a.place)
	}
	args = append(args, c.args...)
	cmd := c.script.Cmd(c.ctx, s.Keys(), args...)
	if err := s.db.Share(c.ctx, redisdb.Write, cmd); err != nil {
		return nil, err
	}
	answer, err := cmd.Slice()
	if err == nil && len(answer) < callJobs {
		err = errors.New("too few values")
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("run %v in %s shard %d: %w", c.script, s.Name, s.n, err)
	}
	return answer, nil
}
