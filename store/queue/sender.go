package queue

import (
	"context"
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

)

// Values of a call's answer by position; callGiven values a job follow.
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

// call is one numbered call: what it brings to a shard and the room for what it
// claims there.
type call struct {
	ctx      context.Context // which never ends
	script   *redisdb.Script
	args     []any // after the common ones
	requests []*request
	late     *batch.Late // of the requests alone
	results  []ended
	marks    []*marked
	unmark   []string       // jobs whose marks go
	stored   map[int]*entry // what it stores, by the place of its text in the script's arguments

	life  *life // whose claims; nil: none
	room  int   // places taken for what it claims
	reuse int   // of them, those that its own results free
	held  int   // jobs that the life had when an enqueueing call was made
	adopt []arrival
	alone *aloneClaim
	want  uint64 // the wish to claim that it answers

	began  time.Time
	number uint64
}

// lane sends calls one after the other: what arrives while one is under way leaves
// with the next. Its calls are numbered, so that none is done twice; one with results
// is repeated until it is answered before a newer one leaves, so that a lost answer is
// no lost work.
type lane struct {
	q     *Queue
	shard int
	next  func() *call // what leaves now; nil: nothing, and the lane stops
	apply func(c *call, answer []any, sent time.Time)
	// fail is told of each error; over: the call is not sent again.
	fail func(c *call, err error, over bool)
	// resolve is called when a call was answered after one that may have claimed
	// jobs and was given up.
	resolve func()

	mu      sync.Mutex
	running bool
	again   bool          // somebody asked for a call while the lane was stopping
	ended   chan struct{} // closed when the lane stops

	series string // changed by the lane's goroutine alone, under the lock
	// The rest is of that goroutine alone.
	number   uint64    // of the last call
	answered uint64    // of the last answered call
	doubtful bool      // a call may have claimed jobs and was given up
	last     time.Time // when an answered call was sent last
}

// kick has the lane look for work.
func (l *lane) kick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.again = true
	if !l.running {
		l.running, l.ended = true, make(chan struct{})
		go l.run()
	}
}

// lead makes the next call in the caller's goroutine, unless one is under way: then what
// waits leaves with the one after. Others are left to a goroutine.
func (l *lane) lead() {
	l.mu.Lock()
	if l.running {
		l.again = true
		l.mu.Unlock()
		return
	}
	l.running, l.again, l.ended = true, false, make(chan struct{})
	l.mu.Unlock()
	defer batch.CrashOnPanic()
	runtime.Gosched() // who is about to call goes along
	if c := l.next(); c != nil {
		l.deliver(c)
	}
	if l.goesOn() {
		go l.run()
	}
}

// goesOn tells whether somebody asked for a call meanwhile, or else stops the lane.
func (l *lane) goesOn() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.again {
		l.running = false
		close(l.ended)
	}
	return l.again
}

func (l *lane) run() {
	for {
		l.mu.Lock()
		l.again = false
		l.mu.Unlock()
		runtime.Gosched()
		if c := l.next(); c != nil {
			l.deliver(c)
		} else if !l.goesOn() {
			return
		}
	}
}

// await waits until the lane has stopped.
func (l *lane) await() {
	l.mu.Lock()
	running, ended := l.running, l.ended
	l.mu.Unlock()
	if running {
		<-ended
	}
}

// deliver sends a call until it is answered, or known not to have run.
func (l *lane) deliver(c *call) {
	c.began, c.number = time.Now(), l.number+1
	for doubtful := false; ; {
		if l.series == "" || time.Since(l.last) > memoTTL/2 && (!doubtful || time.Since(c.began) > memoTTL/2) {
			l.doubtful = l.doubtful || doubtful && c.life != nil // it is done again, and may have claimed jobs before
			l.renew()
			c.number = 1
		}
		done, err := l.try(c)
		if done {
			return
		}
		if err == nil {
			c.number = 1
			continue // it leaves again in a new series
		}
		code := api.CodeOf(err)
		doubtful = doubtful || code == api.CodeUnknownOutcome
		// What a server says of this call is an answer, also to a repeat, of which
		// nothing was done. What never left says nothing of an earlier try.
		over := !doubtful || code == api.CodeOverloaded || code == api.CodeInternal || !l.mustKnow(c)
		if over && doubtful { // an earlier try may have run
			l.number = c.number // used up: the next call is not answered as this one was, one that comes late is refused
			l.doubtful = l.doubtful || c.life != nil
		}
		l.fail(c, err, over)
		if over {
			return
		}
		sleep(c.ctx, pauseAfterError)
	}
}

// try sends a call once and applies its answer.
func (l *lane) try(c *call) (done bool, err error) {
	if c.life != nil {
		c.life.calls.RLock()
		defer c.life.calls.RUnlock()
	}
	sent := time.Now()
	answer, err := l.send(c)
	if err != nil {
		return false, err
	}
	l.last = sent
	switch redisdb.Number(answer[callStatus]) {
	case callDone:
		l.number, l.answered = c.number, c.number
		l.apply(c, answer, sent)
		if l.doubtful {
			l.doubtful = false
			l.resolve()
		}
		return true, nil
	case callForgotten:
		l.q.o.Logger.Warn("Redis forgot what it had answered", "shard", l.shard)
		if c.life != nil {
			c.life.shard.worker.aside(func() { c.life.compare() })
		}
	}
	l.renew()
	return false, nil
}

// mustKnow tells whether a call that may have run has to be repeated: it records
// results. What another may have claimed is found by a comparison (resolve), so that
// results that wait behind it come first.
func (l *lane) mustKnow(c *call) bool {
	return len(c.results)+len(c.marks) > 0 && !c.life.shard.worker.closed.Load()
}

// name is the lane's series at present, for whoever has it remembered longer.
func (l *lane) name() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.series
}

// leave ends the series, unless a call is under way, and names it.
func (l *lane) leave() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.series
	if l.running {
		return ""
	}
	l.series = ""
	return old
}

// renew starts a new series: nothing of the old one is sent any more.
func (l *lane) renew() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.series, l.number, l.answered, l.last = randomText(6), 0, 0, time.Now()
}

// send is one try of a call.
func (l *lane) send(c *call) ([]any, error) {
	name := ""
	if c.life != nil {
		name = c.life.name
	}
	mode, most := "m", c.room-len(c.adopt)
	if c.alone != nil {
		mode, most = "a", 1
	}
	if c.life == nil {
		most = 0
	}
	args := make([]any, 0, 10+len(c.adopt)+len(c.args))
	args = append(args, name, l.series, strconv.FormatUint(c.number, 10), strconv.FormatUint(l.answered, 10), ms(memoTTL),
		ms(l.q.o.Lease), most, claimBytes, mode, len(c.adopt))
	for _, a := range c.adopt {
		args = append(args, a.place)
	}
	args = append(args, c.args...)
	cmd := c.script.Cmd(c.ctx, l.q.keys(l.shard), args...)
	if err := l.q.db.Share(c.ctx, redisdb.Write, cmd); err != nil {
		return nil, err
	}
	answer, err := cmd.Slice()
	if err == nil && len(answer) < callJobs {
		err = errors.New("too few values")
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("run %v in %s shard %d: %w", c.script, l.q.o.Name, l.shard, err)
	}
	return answer, nil
}
