package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"
)

// world has a temporary directory with the built program, and the processes of the running subject.
type world struct {
	options
	ctx     context.Context // ends when the benchmark is to stop
	dir     string
	program string   // file of the program that is measured
	env     []string // additional variables of each fanfare

	mu        sync.Mutex
	processes []*process
	ends      []func() // close whatever else the running subject has opened
}

// newWorld builds the program.
func newWorld(ctx context.Context, o options) (*world, error) {
	dir, err := os.MkdirTemp("", "fanfare-bench-")
	if err != nil {
		return nil, err
	}
	w := &world{options: o, ctx: ctx, dir: dir, program: filepath.Join(dir, "fanfare")}
	if err := attempt(w.buildFanfare); err != nil {
		w.close()
		return nil, fmt.Errorf("%w (run this in the folder of fanfare)", err)
	}
	return w, nil
}

// build compiles the program of a folder, which may be a separate module.
func (w *world) build(folder, to string, flags ...string) {
	args := append([]string{"build", "-C", folder, "-o", to}, flags...)
	if out, err := exec.Command("go", append(args, ".")...).CombinedOutput(); err != nil {
		failf("build %s: %w\n%s", folder, err, out)
	}
}

// close ends the remaining processes and removes the directory.
func (w *world) close() {
	w.reset()
	_ = os.RemoveAll(w.dir)
}

// reset ends the processes of a subject, the last one first, and removes their files.
func (w *world) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, end := range w.ends {
		end()
	}
	w.ends = nil
	for i := len(w.processes) - 1; i >= 0; i-- {
		w.processes[i].kill()
		_ = os.RemoveAll(w.processes[i].cmd.Dir)
	}
	w.processes = nil
}

// run measures one subject. If a process ended by itself in the meantime, that is the error. Any
// other error comes with the last output of the processes.
func (w *world) run(s subject) (f found, err error) {
	defer w.reset()
	err = attempt(func() { f = s.measure(w) })
	switch {
	case w.ctx.Err() != nil:
		return f, errors.Join(err, w.ctx.Err())
	case err != nil:
		return f, errors.Join(err, w.complaints(time.Second))
	}
	return f, errors.Join(w.complaints(0), f.check())
}

// complaints names the processes that ended by themselves. If there is already an error, it waits a
// moment for them and adds the last lines of every log.
func (w *world) complaints(wait time.Duration) error {
	<-time.After(wait)
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for _, p := range w.processes {
		if tail := p.log.take(); p.ended() {
			errs = append(errs, fmt.Errorf("%s ended by itself (%v); its last lines:\n%s", p.name, p.cmd.ProcessState, tail))
		} else if tail != "" && wait > 0 {
			errs = append(errs, fmt.Errorf("the last lines of %s:\n%s", p.name, tail))
		}
	}
	return errors.Join(errs...)
}

// few is a size, or a hundredth of it in a quick run.
func (w *world) few(n int) int {
	if w.quick {
		return max(n/100, 10)
	}
	return n
}

// machine describes the date and the machine of the measurement, without its name.
func (w *world) machine() string {
	redis := "unknown"
	if out, err := exec.Command("redis-server", "--version").Output(); err == nil {
		if m := regexp.MustCompile(`v=(\S+)`).FindSubmatch(out); m != nil {
			redis = string(m[1])
		}
	}
	return fmt.Sprintf("%s, %d cores, Go %s, Redis %s with AOF everysec; medians of %d rounds of %.1f s.",
		time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), strings.TrimPrefix(runtime.Version(), "go"), redis, w.rounds, w.seconds.Seconds())
}
