package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"
)

// world is what the benchmarks stand on: a temporary directory with the built
// program, and the processes of the subject that runs.
type world struct {
	options
	dir     string
	program string // the file of the fanfare that is measured

	mu        sync.Mutex
	processes []*process
}

// newWorld builds the program.
func newWorld(o options) (*world, error) {
	dir, err := os.MkdirTemp("", "fanfare-bench-")
	if err != nil {
		return nil, err
	}
	w := &world{options: o, dir: dir, program: filepath.Join(dir, "fanfare")}
	if err := w.buildFanfare(); err != nil {
		w.close()
		return nil, fmt.Errorf("%w (run this in the folder of fanfare)", err)
	}
	return w, nil
}

// build compiles the program of a folder, which may be a module of its own.
func (w *world) build(folder, to string, flags ...string) error {
	args := append([]string{"build", "-C", folder, "-o", to}, flags...)
	if out, err := exec.Command("go", append(args, ".")...).CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", folder, err, out)
	}
	return nil
}

func (w *world) binary(name string) string { return filepath.Join(w.dir, name) }

// close ends what is left and removes the directory.
func (w *world) close() {
	w.reset()
	_ = os.RemoveAll(w.dir)
}

// reset ends the processes of a subject, the last one first, and removes their
// files.
func (w *world) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.processes) - 1; i >= 0; i-- {
		w.processes[i].kill()
		_ = os.RemoveAll(w.processes[i].cmd.Dir)
	}
	w.processes = nil
}

// run measures one subject. If a process ends by itself meanwhile, that is the
// error; with any other comes what the processes had to say.
func (w *world) run(ctx context.Context, s subject) (found, error) {
	defer w.reset()
	f, err := s.run(ctx, w)
	switch {
	case ctx.Err() != nil:
		return f, errors.Join(err, ctx.Err())
	case err != nil:
		return f, errors.Join(err, w.complaints(time.Second))
	}
	return f, errors.Join(w.complaints(0), f.check())
}

// complaints names the processes that ended by themselves. If something is
// wrong already, it waits a moment for them and adds every log's last lines.
func (w *world) complaints(wait time.Duration) error {
	<-time.After(wait)
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for _, p := range w.processes {
		if tail := p.log.String(); p.ended() {
			errs = append(errs, fmt.Errorf("%s ended by itself (%v); its last lines:\n%s", p.name, p.cmd.ProcessState, tail))
		} else if tail != "" && wait > 0 {
			errs = append(errs, fmt.Errorf("the last lines of %s:\n%s", p.name, tail))
		}
	}
	return errors.Join(errs...)
}

// check refuses rows without figures.
func (f *found) check() error {
	for _, r := range f.rows {
		if err := r.check(); err != nil {
			return err
		}
	}
	return nil
}

// few is a size, or a hundredth of it in a quick run.
func (w *world) few(n int) int {
	if w.quick {
		return max(n/100, 10)
	}
	return n
}

// freeAddr is a loopback address that was free just now.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// redis starts a redis-server with an append-only file that is synced each
// second, as fanfare's documentation asks for.
func (w *world) redis() (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	return w.start("redis", addr, nil, "redis-server", "--port", port, "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "yes", "--appendfsync", "everysec", "--loglevel", "warning")
}

// fanfare starts the program on a Redis and waits until it is ready.
func (w *world) fanfare(ctx context.Context, redis *process, env ...string) (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	env = append([]string{"FANFARE_ADDR=" + addr, "FANFARE_REDIS_URL=redis://" + redis.addr, "FANFARE_LOG_LEVEL=error"}, env...)
	p, err := w.start("fanfare", addr, env, w.program)
	if err != nil {
		return nil, err
	}
	if err := ready(ctx, "http://"+addr+"/readyz"); err != nil {
		return nil, err
	}
	p.log.forget() // its greeting
	return p, nil
}

// migrate makes the tables of a database, so that rows can be put into it before
// fanfare starts.
func (w *world) migrate(ctx context.Context, database string) error {
	cmd := exec.CommandContext(ctx, w.program, "migrate")
	cmd.Env = []string{"FANFARE_DATABASE_URL=" + database}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make tables: %w\n%s", err, out)
	}
	return nil
}

// ready waits until the server says so.
func ready(ctx context.Context, url string) error {
	return eventually(ctx, 20*time.Second, "fanfare to be ready", func() (bool, error) {
		if resp, err := http.Get(url); err == nil {
			return resp.StatusCode == http.StatusOK, resp.Body.Close()
		}
		return false, nil
	})
}

// eventually asks until the answer is yes.
func eventually(ctx context.Context, within time.Duration, what string, done func() (bool, error)) error {
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); ; {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if time.Since(began) > within {
			return fmt.Errorf("waited %v for %s", within, what)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// machine says when and on what is measured, without any name.
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
