package redisdb

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// maxTries bounds how often one command is sent: a lost answer, an unknown
	// script and a moved slot each cost a try.
	maxTries = 4
	// tryBackoff is the wait before the second try of a command that a server refused
	// or did not get. It doubles with each try.
	tryBackoff = 20 * time.Millisecond
)

// roundTrip sends commands until each is answered, or another try is pointless.
type roundTrip struct {
	db       *DB
	cmds     []redis.Cmder
	outcomes []outcome // by command, over all tries
	lost     []bool    // an earlier try of it may have run
}

// roundTrip makes one round trip and its repeats within ctx's deadline.
func (db *DB) roundTrip(ctx context.Context, cmds []redis.Cmder) *roundTrip {
	t := &roundTrip{db: db, cmds: cmds}
	db.send(ctx, cmds)
	again := t.classifyFirst()
	for try := 1; try < maxTries && len(again) > 0 && t.prepare(ctx, again, try); try++ {
		t.resend(ctx, again)
		again = t.classifyAgain(again)
	}
	return t
}

// classifyFirst classifies all commands; when all were answered it allocates
// nothing.
func (t *roundTrip) classifyFirst() (again []int) {
	for i, cmd := range t.cmds {
		v := classify(cmd.Err())
		if v == answered {
			continue
		}
		if t.outcomes == nil {
			t.outcomes, t.lost = make([]outcome, len(t.cmds)), make([]bool, len(t.cmds))
		}
		t.outcomes[i], t.lost[i] = v, v == unknown
		if v != full && v != silent {
			again = append(again, i)
		}
	}
	return again
}

// classifyAgain classifies the commands that were sent again. A command whose answer was
// lost twice is not sent a third time.
func (t *roundTrip) classifyAgain(sent []int) (again []int) {
	for _, i := range sent {
		v := classify(t.cmds[i].Err())
		repeat := v != answered && v != full && v != silent && (v != unknown || !t.lost[i])
		t.lost[i] = t.lost[i] || v == unknown
		if v != answered && t.lost[i] {
			v = unknown
		}
		t.outcomes[i] = v
		if repeat {
			again = append(again, i)
		}
	}
	return again
}

// prepare does what the next try needs: load scripts, read the cluster's map
// again, wait. It says whether there is time for a try.
func (t *roundTrip) prepare(ctx context.Context, again []int, try int) bool {
	wait, scripts := false, map[*Script]struct{}{}
	for _, i := range again {
		if t.outcomes[i] == noScript {
			if s := scriptOf(t.cmds[i]); s != nil {
				scripts[s] = struct{}{}
				continue
			}
		}
		wait = true
	}
	if len(scripts) > 0 && try > 1 && t.db.cluster != nil {
		_, _ = t.db.cluster.read(ctx) // the master that still lacks them may be new
	}
	if loaded := t.db.load(ctx, scripts); loaded && !wait {
		return ctx.Err() == nil
	}
	return t.db.pause(ctx, tryBackoff<<(try-1))
}

// pause waits and, in a cluster, reads the map of slots again.
func (db *DB) pause(ctx context.Context, wait time.Duration) bool {
	Sleep(ctx, wait)
	if ctx.Err() == nil && db.cluster != nil {
		_, _ = db.cluster.read(ctx) // the next try shows whether the map is right
	}
	return ctx.Err() == nil
}

// loadParts is the share of a round trip's time that loading scripts may take in a Cluster, so that commands
// for other masters can be tried again if a master hangs.
const loadParts = 4

// load makes scripts known to all masters of the last map, and reports whether it succeeded. A failure shows
// in the next try. Only a server's refusal is logged, because the next try's NOSCRIPT would
// hide its reason; callers report lost connections themselves, once for an outage.
func (db *DB) load(ctx context.Context, scripts map[*Script]struct{}) bool {
	if len(scripts) == 0 {
		return true
	}
	if db.kind == kindCluster {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, db.o.Timeout/loadParts)
		defer cancel()
	}
	err := db.eachOf(ctx, (*clusterMap).known, func(ctx context.Context, c Client) error { // reading the map could take all of this time
		pipe := c.Pipeline()
		for s := range scripts {
			pipe.ScriptLoad(ctx, s.source)
		}
		_, err := pipe.Exec(ctx)
		return err
	})
	if err != nil && classify(err) == answered {
		db.o.Logger.WarnContext(ctx, "load scripts", "error", err)
	}
	return err == nil
}

func (t *roundTrip) resend(ctx context.Context, again []int) {
	cmds := make([]redis.Cmder, 0, len(again))
	var asked []redis.Cmder
	for _, i := range again {
		if strings.HasPrefix(t.cmds[i].Err().Error(), "ASK ") {
			asked = append(asked, t.cmds[i])
			continue
		}
		t.cmds[i].SetErr(nil)
		cmds = append(cmds, t.cmds[i])
	}
	t.db.send(ctx, cmds)
	t.db.ask(ctx, asked)
}

// send sends each command once to its node, to all nodes at the same time. The result is in the
// error of each command.
func (db *DB) send(ctx context.Context, cmds []redis.Cmder) {
	if db.cluster == nil {
		pipe(ctx, db.client, cmds)
		return
	}
	db.sendCluster(ctx, cmds)
}

func pipe(ctx context.Context, c Client, cmds []redis.Cmder) {
	if len(cmds) == 0 {
		return
	}
	p := c.Pipeline()
	for _, cmd := range cmds {
		_ = p.Process(ctx, cmd) // only queues
	}
	if _, err := p.Exec(ctx); err != nil {
		tell(cmds, err)
	}
}

// tell sets a pipeline's error on its commands if none has an error. go-redis does not when
// the server answered a new connection with an error (a wrong password, too many clients),
// so that nothing was sent.
func tell(cmds []redis.Cmder, err error) {
	for _, cmd := range cmds {
		if cmd.Err() != nil {
			return
		}
	}
	for _, cmd := range cmds {
		cmd.SetErr(err)
	}
}

// errorOf is the error for the call that sent cmds[from:to], nil if all were answered. If
// one part of a write was done and another refused, the outcome is unknown.
func (t *roundTrip) errorOf(m Mode, from, to int) error {
	if t.outcomes == nil {
		return nil
	}
	worst, done, cause := answered, false, error(nil)
	for i := from; i < to; i++ {
		v := t.outcomes[i]
		if v == answered {
			done = done || t.cmds[i].Err() == nil || errors.Is(t.cmds[i].Err(), redis.Nil)
			continue
		}
		if worst == answered || v == unknown {
			worst, cause = v, t.cmds[i].Err()
		}
	}
	if worst == answered {
		return nil
	}
	if done && m == Write {
		worst = unknown
	}
	return asError(worst, m, cause)
}
