package values

import (
	"context"
	"crypto/rand"
	"embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fanfare/api"
	"fanfare/store/redisdb"
)

//go:embed lua
var scripts embed.FS

// Statuses of the calls of values_run.lua.
const (
	done     = 1
	mismatch = 2
	noRoom   = 3
	beyond   = 4
	early    = 5
	over     = 6
	reused   = 7
	replayed = 8
	absent   = 9
	noMemory = 10
)

// call is one call of a run.
type call struct {
	what, name string
	args       [3]any
	record     string // names its idempotency record; "": none

	// The answer:
	status int64
	rest   string // what belongs to the status
	err    error
}

// space is all names of a kind.
type space struct {
	crowds [groups]*redisdb.Crowd[*call]
}

// newSpace makes the names of a kind. seen is told of each run, with the time before it was sent, in the order of the
// runs of a group.
func newSpace(db *redisdb.DB, kind string, seen func(asked time.Time, calls []*call)) *space {
	s := &space{}
	script, process := redisdb.MustScript(scripts, "lua/values_run.lua"), rand.Text()
	for n := range s.crowds {
		g := &group{db: db, script: script, keys: keysOf(kind, n), process: process, seen: seen}
		s.crowds[n] = redisdb.NewCrowd(db, 0, g.run)
	}
	return s
}

// change makes one call.
func (s *space) change(ctx context.Context, c *call) error {
	if err := s.crowds[groupOf(c.name)].Do(ctx, c); err != nil {
		return err
	}
	if c.status == noMemory {
		return redisdb.NoMemory()
	}
	return c.err
}

// group makes the runs of one group, one after the other.
type group struct {
	db      *redisdb.DB
	script  *redisdb.Script
	keys    keys
	process string
	number  int64 // of the last run
	seen    func(time.Time, []*call)
}

// run makes the calls in one script.
func (g *group) run(ctx context.Context, calls []*call) {
	g.number++
	keys := []string{g.keys.run(g.process), g.keys.names()}
	args := append(make([]any, 0, 4+5*len(calls)), g.number, keepRun.Milliseconds(), groupNames, api.IdempotencyTTL.Milliseconds())
	for _, c := range calls {
		keys = append(keys, g.keys.content(c.name))
		if c.record != "" {
			keys = append(keys, g.keys.once(c.record))
		}
		args = append(append(args, c.what, c.name), c.args[:]...)
	}
	asked := time.Now()
	answers, err := g.db.List(ctx, redisdb.Write, g.script.Cmd(ctx, keys, args...))
	if err == nil && len(answers) != 1+len(calls) {
		err = api.Errorf(api.CodeUnknownOutcome, "a later script was faster") // of this process
	}
	for i, c := range calls {
		if c.err = err; err == nil {
			status, rest, _ := strings.Cut(redisdb.TextAt(answers, 1+i), ",")
			c.status, _ = strconv.ParseInt(status, 10, 64)
			c.rest = rest
		}
	}
	g.seen(asked, calls)
}

// retryNames is when a caller with one name too many may try again.
const retryNames = 10 * time.Second

// tooManyNames is the error for one name too many.
func tooManyNames() error {
	e := api.Errorf(api.CodeTooManyNames, "there are as many names as there may be, some %d", groups*groupNames)
	e.RetryAfter = retryNames
	return e
}

// unexpected is the error for an answer that the script never gives.
func (c *call) unexpected() error {
	return fmt.Errorf("%s of %s answered %d %q", c.what, c.name, c.status, c.rest)
}
