package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// process is a child that serves on addr.
type process struct {
	name, addr string
	cmd        *exec.Cmd
	log        *tail
	done       chan struct{} // closed when it ended
}

// tail keeps the last lines that a child wrote.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - 4096; over > 0 {
		t.text = append([]byte(nil), t.text[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// command prepares a child in a directory of its own. It stays in our session:
// the kernel gives each session a CPU group of its own, and a side in another
// one would have another share of the processors.
func (w *world) command(env []string, name string, args ...string) (*exec.Cmd, error) {
	dir, err := os.MkdirTemp(w.dir, "run-")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, env...)
	return cmd, nil
}

// start runs a child and waits until it listens.
func (w *world) start(title, addr string, env []string, name string, args ...string) (*process, error) {
	cmd, err := w.command(env, name, args...)
	if err != nil {
		return nil, err
	}
	p := &process{title, addr, cmd, &tail{}, make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.log, p.log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		_ = cmd.Wait()
	}()
	w.mu.Lock()
	w.processes = append(w.processes, p)
	w.mu.Unlock()
	return p, p.awaitPort()
}

// forget drops what was written at the start.
func (t *tail) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = nil
}

// awaitPort waits until something listens; what was said until then is of no use.
func (p *process) awaitPort() error {
	return eventually(context.Background(), 60*time.Second, p.name+" to listen", func() (bool, error) {
		if p.ended() {
			return false, errors.New(p.name + " ended before it listened")
		}
		if conn, err := net.DialTimeout("tcp", p.addr, time.Second); err == nil {
			p.log.forget()
			return true, conn.Close()
		}
		return false, nil
	})
}

// ended tells whether the process is gone.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// kill ends the process at once: what it was to show was measured before.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// child is the rest of the arguments of a child that is this program.
func (w *world) self(role string, args ...string) (string, []string, error) {
	path, err := os.Executable()
	return path, append([]string{"child", role}, args...), err
}

// figures runs a child that measures something by itself, and prints what it
// found as a JSON object.
func (w *world) figures(ctx context.Context, name string, args ...string) (sample, error) {
	cmd, err := w.command(nil, name, args...)
	if err != nil {
		return nil, err
	}
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	cmd.Cancel = nil
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("%v: %w\n%s", args, err, log.String())
	}
	var s sample
	return s, json.Unmarshal(out.Bytes(), &s)
}

// ticks is how many parts of a second the kernel counts processor time in.
const ticks = 100

// cpu is the processor time that the process has used, user and system.
func (p *process) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	// The name is in brackets and may hold anything; utime and stime are the
	// 12th and 13th field behind it.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/PID/stat has %d fields", len(fields))
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * (time.Second / ticks), err
}

// peak is the most memory that the process ever had, in MiB.
func (p *process) peak() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kib / 1024, err
		}
	}
	return 0, errors.New("no VmHWM")
}
