// Command fanfare is the real-time backend of a product in one process:
// HTTP/JSON in front, Redis as the engine, SQL as the record, APNs behind.
//
// This package alone reads the environment and decides what runs: config.go
// says what can be set, house.go opens the rooms, crew.go runs and stops them,
// commands.go is everything that is not serving.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// outputs are where a command writes: answers to out, everything else to err.
type outputs struct{ out, err io.Writer }

// usageError is a command line that means nothing.
type usageError string

// Error says what is wrong with it.
func (e usageError) Error() string { return string(e) }

// run is the whole program: arguments and environment in, exit code out. It
// ends when ctx does: 0 after a clean stop, 1 when something failed, 2 when
// the command line means nothing.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	err := dispatch(ctx, args, environ, outputs{stdout, stderr})
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "fanfare: %s; see fanfare --help\n", usage)
		return 2
	}
	fmt.Fprintf(stderr, "fanfare: %v\n", err)
	return 1
}

// dispatch finds the command. Those without configuration come first.
func dispatch(ctx context.Context, args, environ []string, to outputs) error {
	name := "serve"
	if len(args) > 0 {
		name = args[0]
	}
	if wantsHelp(args) {
		return help(to)
	}
	command, ok := commands()[name]
	switch {
	case name == "version":
		return version(to)
	case !ok:
		return usageError(fmt.Sprintf("there is no command %q", name))
	}
	if len(args) > 0 {
		args = args[1:]
	}
	check, err := command.parse(args)
	if err != nil {
		return err
	}
	c, err := parseConfig(environ)
	if err != nil {
		return err
	}
	if err := check(ctx, c, to); err != nil {
		return fmt.Errorf("%s", c.scrub(err.Error()))
	}
	return nil
}

// serve runs until ctx ends, then stops in the order: not ready, HTTP,
// delivery, jobs, Redis, SQL.
func serve(ctx context.Context, c *config, to outputs) error {
	log := newLogger(c, to.err)
	tuneMemory(c)
	if c.needsHold() {
		lock, err := c.hold()
		if err != nil {
			return err
		}
		defer lock.Close()
	}
	h, err := openHouse(ctx, c, log)
	if err != nil {
		return err
	}
	defer h.close()
	if err := h.prepare(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // asked to stop before it had begun
		}
		return err
	}
	front, err := listen(ctx, c, log)
	if err != nil {
		return err
	}
	front.server.Handler = h.handler()
	front.server.RegisterOnShutdown(sync.OnceFunc(func() { close(h.closing) }))
	return h.live(ctx, front, to)
}

// live starts everything, waits for a reason to stop, and stops everything.
func (h *house) live(ctx context.Context, front *front, to outputs) error {
	crew := newCrew(h.log)
	crew.start(ctx, "redis", h.redisLoops()...)
	crew.start(ctx, "jobs", h.jobLoops()...)
	crew.start(ctx, "delivery", h.deliveryLoops()...)
	crew.start(ctx, "http", loop{"http", front.run})
	h.announce(front, to)
	broken := h.wait(ctx, crew, front)

	h.stopping.Store(true)
	h.log.Info("stopping", "timeout", h.config.ShutdownTimeout)
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.config.ShutdownTimeout)
	defer cancel()
	began := time.Now()
	late := crew.stop(patience)
	h.log.Info("stopped", "took", time.Since(began).Round(time.Millisecond))
	return errors.Join(broken, late)
}

// wait returns when ctx ends, or with an error when a loop broke. Meanwhile
// SIGHUP reloads what can be reloaded.
func (h *house) wait(ctx context.Context, crew *crew, front *front) error {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-crew.broken:
			return err
		case <-hangup:
			h.reload(front)
		}
	}
}

// newLogger writes text for people and JSON for machines.
func newLogger(c *config, w io.Writer) *slog.Logger {
	o := &slog.HandlerOptions{Level: slog.Level(c.LogLevel), ReplaceAttr: plainDurations}
	if c.LogFormat == "text" || (c.LogFormat == "" && terminal(w)) {
		return slog.New(slog.NewTextHandler(w, o))
	}
	return slog.New(slog.NewJSONHandler(w, o))
}

// plainDurations writes durations as people do ("20s"), also in JSON.
func plainDurations(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// terminal tells whether a person is likely to read what is written.
func terminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// tuneMemory trades memory for speed (GOGC=250: a process before a backlog stays
// under 150 MB; more gains little) and sets the limit at which the collector works
// harder, unless GOGC and GOMEMLIMIT say otherwise.
func tuneMemory(c *config) {
	if !c.ownGC {
		debug.SetGCPercent(250)
	}
	if limit := memoryLimit(containerMemory(), machineMemory()); !c.ownMemory && limit > 0 {
		debug.SetMemoryLimit(limit)
	}
}

// memoryLimit is 90 % of the container's memory, or else half of the machine's,
// which others share; 0 when neither is known.
func memoryLimit(container, machine int64) int64 {
	if container > 0 && (machine == 0 || container < machine) {
		return container / 10 * 9
	}
	return machine / 2
}

// containerMemory is the memory limit of this process's control group, in
// bytes; 0 when there is none.
func containerMemory() int64 {
	text, err := os.ReadFile("/sys/fs/cgroup/memory.max")
	if err != nil {
		return 0
	}
	var limit int64
	if _, err := fmt.Sscan(strings.TrimSpace(string(text)), &limit); err != nil {
		return 0 // "max"
	}
	return limit
}

// machineMemory is the machine's memory in bytes; 0 when it is not known.
func machineMemory() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	var kib int64
	if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kib); err != nil {
		return 0
	}
	return kib << 10
}
