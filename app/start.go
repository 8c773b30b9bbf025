package app

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/redisdb"
)

const (
	// startSoon is how long a start may take before the server listens anyway, so that /readyz
	// can say what the start waits for.
	startSoon = 500 * time.Millisecond
	// refusedPatience is how long a start tolerates wrong credentials or a missing database,
	// because in a new installation they may be set up a moment later.
	refusedPatience = 10 * time.Second
	// startAgain is the pause between two attempts to reach a dependency that is away.
	startAgain = 250 * time.Millisecond
	// comeBack is the Retry-After of a server that is starting.
	comeBack = time.Second
)

// preparation is the work before the first request is served. It runs beside the HTTP server.
type preparation struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error // valid once done is closed
}

// beginPreparation begins to prepare, for as long as ctx lasts.
func (a *app) beginPreparation(ctx context.Context) *preparation {
	ctx, cancel := context.WithCancel(ctx)
	p := &preparation{cancel: cancel, done: make(chan struct{})}
	why := "it has just begun"
	a.starting.Store(&why)
	go func() {
		defer close(p.done)
		p.err = a.prepare(ctx)
	}()
	return p
}

// soon waits a moment for the preparation to end, and returns its error if it failed.
func (p *preparation) soon() error {
	select {
	case <-p.done:
		return p.err
	case <-time.After(startSoon):
		return nil
	}
}

// end cancels the preparation.
func (p *preparation) end() {
	p.cancel()
	<-p.done
}

// prepare waits for Redis and the database, brings the schema up to date, and checks the
// conditions for serving.
func (a *app) prepare(ctx context.Context) error {
	tell := func(why string) { a.starting.Store(&why) }
	database := patience{variable: databaseVariable, log: a.log, refused: record.Refused, tell: tell}
	for _, try := range []func(context.Context) error{a.record.Migrate, a.keys.Load, a.tokens.Load, a.tells.Load} {
		if err := database.until(ctx, try); err != nil {
			return err
		}
	}
	if err := a.makeFirstKey(ctx, database); err != nil {
		return err
	}
	if !a.config.loopback() && !a.keys.Any() {
		return fmt.Errorf("FANFARE_ADDR: %s can be reached from outside and there is no API key yet; make the first with: fanfare keys create --name first --scopes admin", a.config.Addr)
	}
	if a.config.embedded() {
		tell("it waits for the embedded Redis, which reads its data")
		if err := a.startEmbedded(ctx); err != nil {
			return err
		}
	}
	queues := patience{variable: "FANFARE_REDIS_URL", log: a.log, refused: redisdb.Refused, tell: tell}
	for _, q := range a.queues() {
		if err := queues.until(ctx, q.Init); err != nil {
			return err
		}
	}
	if !a.config.embedded() {
		if err := a.config.noteOtherRedis(time.Now()); err != nil {
			return err
		}
	}
	for _, redis := range a.redises() {
		for _, warning := range redis.Check(ctx) {
			a.log.Warn(warning)
		}
	}
	return a.redis.DropSnapshot() // the last step: from here on everything serves, and Close writes it again
}

// notYet returns an error as long as this process has not started.
func (a *app) notYet() error {
	why := a.starting.Load()
	if why == nil {
		return nil
	}
	e := api.Errorf(api.CodeUnavailable, "this server is starting: %s", *why)
	e.RetryAfter = comeBack
	return e
}

// patience says how a start waits for a dependency that is away: after a restart of everything,
// dependencies may come up in any order.
type patience struct {
	variable string // names the variable with the dependency's address
	log      *slog.Logger
	most     time.Duration    // 0: as long as it takes
	refused  func(error) bool // the dependency is there, but refuses access
	tell     func(why string) // receives the reason for waiting; default: discarded
}

// until tries until it succeeds, as long as the dependency is only away. Its error names the
// variable.
func (p patience) until(ctx context.Context, try func(context.Context) error) error {
	for began, told := time.Now(), false; ; {
		err := try(ctx)
		took := time.Since(began)
		if err == nil {
			if told {
				p.log.InfoContext(ctx, "what the start waited for is there", "variable", p.variable, "took", took.Round(time.Millisecond))
			}
			return nil
		}
		if !api.Passing(err) || ctx.Err() != nil || p.most > 0 && took > p.most || p.refused(err) && took > refusedPatience {
			return fmt.Errorf("%s: %w", p.variable, err)
		}
		if p.tell != nil {
			p.tell("it waits for what " + p.variable + " names")
		}
		if !told {
			told = true
			p.log.WarnContext(ctx, "the start waits", "variable", p.variable, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(startAgain):
		}
	}
}

// databaseVariable names the variable with the database's address.
const databaseVariable = "FANFARE_DATABASE_URL"
