// Package app is the program: it reads the configuration, builds the stores, workers and HTTP
// server, runs and stops them in stages, and holds the commands. config.go lists the settings
// and app.go builds the parts. live in run.go decides what starts and stops when. The loops are
// in app.go, chat.go and sales.go; stages.go runs and stops them. commands.go has everything but
// serving.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/caarlos0/env/v11"

	"fanfare/store/redisdb"
)

// outputs are where a command writes: results to out, everything else to err.
type outputs struct {
	out, err io.Writer
	json     bool // err gets JSON, one value a line; a server then writes only JSON
}

// outputsOf reads from the environment how to write; anything else in it may be wrong. A server
// without a terminal writes JSON by default. A command writes text, because mostly a person runs
// it, wherever its stderr goes.
func outputsOf(serving bool, environ []string, stdout, stderr io.Writer) outputs {
	format := strings.TrimSpace(env.ToMap(environ)["FANFARE_LOG_FORMAT"])
	return outputs{stdout, stderr, format == "json" || serving && format != "text" && !terminal(stderr)}
}

// say writes a message that is not a result.
func (to outputs) say(format string, args ...any) {
	if to.json {
		slog.New(slog.NewJSONHandler(to.err, nil)).Info(fmt.Sprintf(format, args...))
		return
	}
	fmt.Fprintf(to.err, format+"\n", args...)
}

// fail writes why the command ends.
func (to outputs) fail(why string) {
	if to.json {
		slog.New(slog.NewJSONHandler(to.err, nil)).Error("fanfare ends", "error", why)
		return
	}
	fmt.Fprintf(to.err, "fanfare: %s\n", why)
}

// usageError is a command line that cannot be understood.
type usageError string

// Error says what is wrong with the command line.
func (e usageError) Error() string { return string(e) }

// Program is what the program gets from outside.
type Program struct {
	Args           []string // without the program's name
	Environ        []string // as os.Environ gives it
	Stdout, Stderr io.Writer
	// Documents has the Markdown of the repository, by its paths there. Default: the pages below /docs/ say
	// that it is missing.
	Documents fs.FS
}

// Run is the whole program, and returns the exit code. It ends when ctx ends. The code is 0 after a clean stop, 1 if
// something failed, and 2 if the command line cannot be understood.
func Run(ctx context.Context, p Program) int {
	to := outputsOf(len(p.Args) == 0 || p.Args[0] == "serve", p.Environ, p.Stdout, p.Stderr)
	err := dispatch(ctx, p, to)
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		to.fail(string(usage) + " (see fanfare --help)")
		return 2
	}
	to.fail(err.Error())
	return 1
}

// dispatch finds the command. Commands without configuration come first.
func dispatch(ctx context.Context, p Program, to outputs) error {
	args := p.Args
	name := "serve"
	if len(args) > 0 {
		name = args[0]
	}
	if wantsHelp(args) {
		return help(to)
	}
	parse, ok := commands()[name]
	switch {
	case name == "version", name == "--version", name == "-version":
		return version(to)
	case !ok:
		names := slices.AppendSeq([]string{"help", "version"}, maps.Keys(commands()))
		return usageError(fmt.Sprintf("there is no command %q%s", name, nearest(name, slices.Values(names))))
	}
	if len(args) > 0 {
		args = args[1:]
	}
	run, err := parse(args)
	if err != nil {
		return err
	}
	c, err := parseConfig(p.Environ)
	if err != nil {
		return err
	}
	c.documents = p.Documents
	if err := run(ctx, c, to); err != nil {
		return fmt.Errorf("%s", c.scrub(err.Error()))
	}
	return nil
}

// serve runs until ctx ends, then stops in the order: not ready, HTTP,
// delivery, jobs, Redis, SQL.
func serve(ctx context.Context, c *config, to outputs) error {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP) // until the end: SIGHUP must not end a process that starts or stops
	log := newLogger(c, to)
	redisdb.LogLibrary(log)
	slog.SetDefault(log) //nolint:forbidigo // for messages of other libraries through package log
	if c.needsHold() {
		lock, err := c.hold()
		if err != nil {
			return err
		}
		defer lock.Close()
	}
	stopTraces, err := startTraces(ctx, c, log)
	if err != nil {
		return err
	}
	defer stopTraces()
	a, err := build(ctx, c, log)
	if err != nil {
		return err
	}
	defer a.close()
	tuneMemory(c, a.child != nil)
	preparation := a.beginPreparation(ctx)
	defer preparation.end()
	if err := preparation.soon(); err != nil {
		if ctx.Err() != nil {
			return nil // the process was stopped before it had begun to serve
		}
		return err
	}
	front, err := listen(ctx, c, log)
	if err != nil {
		return err
	}
	private, err := listenPrivately(ctx, c, log)
	if err != nil {
		return errors.Join(err, front.listener.Close())
	}
	a.noteListening(front, private)
	public, operators := a.handlers()
	front.server.Handler, front.streams = public, &a.following
	a.registry.MustRegister(certificateEnds{a.sender, front.cert})
	front.server.RegisterOnShutdown(sync.OnceFunc(func() { close(a.closing) }))
	loops := []loop{{"http", front.run}}
	if private != nil {
		private.server.Handler = operators
		loops = append(loops, loop{"private http", private.run})
	}
	return a.live(ctx, front, loops, preparation, hangup, to)
}

// live serves requests, first only with the answer that the process is starting. It waits for a
// reason to stop, and then stops everything.
func (a *app) live(ctx context.Context, front *front, http []loop, preparation *preparation, hangup <-chan os.Signal, to outputs) error {
	stages := newStages(a.log)
	stages.start(ctx, "http", http...)
	var broken error
	select {
	case <-preparation.done:
		if ctx.Err() == nil {
			broken = preparation.err
		}
	case broken = <-stages.broken:
	case <-ctx.Done():
	}
	if broken == nil && ctx.Err() == nil {
		stages.startBehind(ctx, "redis", a.redisLoops()...)
		stages.startBehind(ctx, "jobs", a.jobLoops()...)
		stages.startBehind(ctx, "push", a.pushLoops()...)
		a.starting.Store(nil)
		a.announce(front, to)
		broken = a.wait(ctx, stages, front, hangup)
	}

	a.stopping.Store(true)
	a.log.Info("stopping", "timeout", a.config.ShutdownTimeout)
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.config.ShutdownTimeout)
	defer cancel()
	began := time.Now()
	late := stages.stop(patience)
	a.log.Info("stopped", "took", time.Since(began).Round(time.Millisecond))
	return errors.Join(broken, late)
}

// wait returns when ctx ends, or with an error when a loop broke. Meanwhile
// SIGHUP reloads what can be reloaded.
func (a *app) wait(ctx context.Context, stages *stages, front *front, hangup <-chan os.Signal) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-stages.broken:
			return err
		case <-hangup:
			a.reload(front)
		}
	}
}

// newLogger writes text for people and JSON for machines.
func newLogger(c *config, to outputs) *slog.Logger {
	o := &slog.HandlerOptions{Level: slog.Level(c.LogLevel), ReplaceAttr: plainDurations}
	if to.json {
		return slog.New(slog.NewJSONHandler(to.err, o))
	}
	return slog.New(slog.NewTextHandler(to.err, o))
}

// plainDurations writes durations in short form ("20s"), also in JSON.
func plainDurations(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// terminal reports whether the output goes to a terminal, so that a person probably reads it.
func terminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
