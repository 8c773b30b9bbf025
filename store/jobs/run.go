package jobs

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"fanfare/api"
	"fanfare/store/redisdb"
)

const (
	// Calls of at most smallJobs jobs and smallBytes share a script with others: Redis does nothing else while one runs.
	smallJobs, smallBytes = 4, 64 << 10
	// keepRun is longer than a command may be under way, and keepLarge longer than a call repeats it.
	keepRun, keepLarge = 10 * time.Minute, 10 * time.Second
)

// Statuses of the calls of jobs_run.lua.
const (
	done     = 1
	noRoom   = 3 // of an enqueueing
	over     = 4
	reused   = 7
	replayed = 8
	absent   = 9
	noMemory = 10
	tooFar   = 11
	noBytes  = 13
)

// call is one call of a run.
type call struct {
	what string
	args []any

	// The answer:
	status int64
	rest   string        // what belongs to the status
	due    time.Duration // until a job of the queue is due; negative: none is
	jobs   []any         // of a claim: id, history, text and lease of each
	fence  string
	err    error
}

// series names runs of which each ends before the next begins, and of which Redis remembers the last.
type series struct {
	name   string
	number int64
	keep   time.Duration
}

// do makes a call for a queue, together with others if it is small.
func (s *Store) do(ctx context.Context, queue string, c *call, jobs, bytes int) error {
	n, err := s.groupOf(queue), error(nil)
	if jobs <= smallJobs && bytes <= smallBytes {
		err = s.crowds[n].Do(ctx, c)
	} else {
		trip, cancel := untilDeadline(ctx)
		defer cancel()
		s.run(trip, n, series{rand.Text(), 1, keepLarge}, []*call{c})
	}
	switch {
	case err != nil:
		return err
	case c.err == nil && c.status == noMemory:
		return redisdb.NoMemory()
	}
	return c.err
}

// untilDeadline has the deadline of ctx. It does not end if the caller leaves.
func untilDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if at, has := ctx.Deadline(); has {
		return context.WithDeadline(context.WithoutCancel(ctx), at)
	}
	return context.WithCancel(context.WithoutCancel(ctx))
}

// run makes calls in one script.
func (s *Store) run(ctx context.Context, group int, of series, calls []*call) {
	args := []any{of.name, of.number, of.keep.Milliseconds(), s.backFor(ctx, group), s.o.RetryBase.Milliseconds(), s.o.RetryMax.Milliseconds(), s.maxAge(), s.o.Tells()}
	for _, c := range calls {
		args = append(append(args, c.what, len(c.args)), c.args...)
	}
	began := time.Now()
	answers, err := s.db.List(ctx, redisdb.Write, runScript.Cmd(ctx, s.keys(group), args...))
	if err == nil && len(answers) != 1+len(calls) {
		err = api.Errorf(api.CodeUnknownOutcome, "a later script was faster") // of this process
	}
	if err != nil && s.db.Away(err) && (ctx.Err() == nil || time.Since(began) >= s.db.Timeout()) { // it did not just have too little time
		s.failedOf(group).Store(int64(time.Since(s.begun)))
	}
	for i, c := range calls {
		if c.err = err; err == nil {
			c.read(redisdb.ListAt(answers, 1+i))
		}
	}
}

func (c *call) read(answer []any) {
	status, rest, _ := strings.Cut(redisdb.TextAt(answer, 0), ",")
	c.status, _ = strconv.ParseInt(status, 10, 64)
	c.rest = rest
	c.due = time.Duration(redisdb.NumberAt(answer, 1)) * time.Millisecond
	if c.jobs = nil; len(answer) > 2 {
		c.fence, c.jobs = redisdb.TextAt(answer, 2), answer[3:]
	}
}

// failedOf is when a call last found the master of a group away. Without a Cluster all groups have one master.
func (s *Store) failedOf(group int) *atomic.Int64 {
	if !s.db.Cluster() {
		group = 0
	}
	return &s.failed[group]
}

// backFor is how long ago, in ms, the master of a group was back from an absence, as far as this process knows. It does not
// know the time before its begin, which it takes for the end of an absence.
func (s *Store) backFor(ctx context.Context, group int) int64 {
	at, away := s.db.BackSince(ctx, s.keys(group)[0])
	if away {
		return 0
	}
	back := max(time.Duration(s.failedOf(group).Load()), at.Sub(s.begun))
	return max(0, (time.Since(s.begun) - back).Milliseconds())
}

func (s *Store) maxAge() int64 { return max(-1, s.o.MaxAge.Milliseconds()) }
