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
	"syscall"
	"time"
)

// world is what the benchmarks stand on: a temporary directory with the built
// program, and the processes started so far.
type world struct {
	options
	dir       string
	processes []*process
}

// process is a child that serves on addr.
type process struct {
	cmd  *exec.Cmd
	addr string
}

// newWorld builds the program.
func newWorld(o options) (*world, error) {
	dir, err := os.MkdirTemp("", "fanfare-bench-")
	if err != nil {
		return nil, err
	}
	w := &world{options: o, dir: dir}
	if out, err := exec.Command("go", "build", "-o", w.binary(), ".").CombinedOutput(); err != nil {
		w.close()
		return nil, fmt.Errorf("build fanfare (run this in its folder): %w\n%s", err, out)
	}
	return w, nil
}

func (w *world) binary() string { return filepath.Join(w.dir, "fanfare") }

// close ends every process that is left and removes the directory.
func (w *world) close() {
	for _, p := range w.processes {
		p.stop()
	}
	_ = os.RemoveAll(w.dir)
}

// start runs a child. Children of one shell share its CPU group, which keeps
// ratios true.
func (w *world) start(addr string, env []string, name string, args ...string) (*process, error) {
	cmd := exec.Command(name, args...)
	dir, err := os.MkdirTemp(w.dir, "run-")
	if err != nil {
		return nil, err
	}
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, env...)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd, addr}
	w.processes = append(w.processes, p)
	return p, p.awaitPort()
}

// awaitPort waits until something listens.
func (p *process) awaitPort() error {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		conn, err := net.DialTimeout("tcp", p.addr, time.Second)
		if err == nil {
			return conn.Close()
		}
		<-time.After(20 * time.Millisecond)
	}
	return fmt.Errorf("nothing listens on %s", p.addr)
}

// stop asks the process to end and waits for it.
func (p *process) stop() {
	if p.cmd.ProcessState != nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(30*time.Second, func() { _ = p.cmd.Process.Kill() })
	_ = p.cmd.Wait()
	kill.Stop()
}

// freeAddr is a loopback address that was free just now.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// redis starts a redis-server without persistence.
func (w *world) redis() (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	return w.start(addr, nil, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--loglevel", "warning")
}

// fanfare starts the program on a Redis and waits until it is ready.
func (w *world) fanfare(ctx context.Context, redis *process, env ...string) (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	env = append([]string{"FANFARE_ADDR=" + addr, "FANFARE_REDIS_URL=redis://" + redis.addr, "FANFARE_LOG_LEVEL=error"}, env...)
	p, err := w.start(addr, env, w.binary())
	if err != nil {
		return nil, err
	}
	return p, ready(ctx, "http://"+addr+"/readyz")
}

func ready(ctx context.Context, url string) error {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		<-time.After(20 * time.Millisecond)
	}
	return errors.New("fanfare did not become ready")
}
