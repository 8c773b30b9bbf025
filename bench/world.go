package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// world has a temporary directory with the built program, and what the running subject has started.
// It is a testing.TB, so that a subject can start the servers and stand-ins of the tests. They end
// with the subject.
type world struct {
	testing.TB // nil: the methods that are needed are below
	options
	ctx     context.Context // ends when the benchmark is to stop
	fail    context.CancelCauseFunc
	dir     string
	program string // file of the program that is measured
	former  string // file of the program to compare with; "": there is none
	config  string // text that names the variables which that one knows
	pprof   string // address of the profiler in each fanfare
	ends    []func()
}

// The methods of testing.TB.

func (w *world) Helper()                           {}
func (w *world) Context() context.Context          { return w.ctx }
func (w *world) Fatal(args ...any)                 { failf("%s", fmt.Sprint(args...)) }
func (w *world) Fatalf(format string, args ...any) { failf(format, args...) }
func (w *world) Errorf(format string, args ...any) { failf(format, args...) }

// Cleanup has a function called when the subject ends, the last one first.
func (w *world) Cleanup(end func()) { w.ends = append(w.ends, end) }

// TempDir makes a directory that is removed when the subject ends.
func (w *world) TempDir() string {
	dir := got(os.MkdirTemp(w.dir, "run-"))
	w.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// newWorld makes a world, whose program is still to be built.
func newWorld(ctx context.Context, o options) *world {
	dir := got(os.MkdirTemp("", "fanfare-bench-"))
	w := &world{options: o, dir: dir, program: filepath.Join(dir, "fanfare")}
	w.ctx, w.fail = context.WithCancelCause(ctx)
	return w
}

// build compiles the program of a folder, which may be a separate module.
func (w *world) build(folder, to string, flags ...string) {
	w.output(nil, append(append([]string{"go", "build", "-C", folder, "-o", to}, flags...), ".")...)
}

// output runs a command to its end, and returns what it prints.
func (w *world) output(env []string, command ...string) []byte {
	var log strings.Builder
	cmd := exec.CommandContext(w.ctx, command[0], command[1:]...)
	cmd.Env, cmd.Stderr = env, &log
	out, err := cmd.Output()
	if err != nil {
		failf("%s: %w\n%s", strings.Join(command, " "), err, &log)
	}
	return out
}

// close ends the remaining processes and removes the directory.
func (w *world) close() {
	w.reset()
	_ = os.RemoveAll(w.dir)
}

// reset ends everything that a subject has started.
func (w *world) reset() {
	for i := len(w.ends) - 1; i >= 0; i-- {
		w.ends[i]()
	}
	w.ends = nil
}

// run measures one subject. If a process ended by itself in the meantime, that is the error, because
// others are its consequences.
func (w *world) run(s subject) (rows []row, lines [][]string) {
	err := attempt(func() { rows, lines = s.run(w) })
	w.reset()
	if err = cmp.Or(context.Cause(w.ctx), err); err != nil {
		failf("%s: %w", s.name, err)
	}
	return rows, lines
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
	_, _ = fmt.Sscanf(string(w.output(nil, "redis-server", "--version")), "Redis server v=%s", &redis)
	return fmt.Sprintf("%s, %d cores, Go %s, Redis %s with AOF everysec; medians of %d rounds of %.1f s.", time.Now().UTC().Format(time.DateOnly),
		runtime.NumCPU(), strings.TrimPrefix(runtime.Version(), "go"), redis, w.rounds, w.seconds.Seconds())
}

// process is a server that serves on addr.
type process struct {
	addr   string
	cmd    *exec.Cmd
	killed atomic.Bool
	done   chan struct{} // closed when it ended
}

// serve starts a server in its own directory and waits until it is ready. If it ends by itself, the
// benchmark fails. The server stays in the session of the benchmark: the kernel gives each session its
// own CPU group, and a side in another session would get another share of the processors.
func (w *world) serve(name, addr string, env []string, command ...string) *process {
	p := &process{addr: addr, cmd: exec.Command(command[0], command[1:]...), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stderr = w.TempDir(), os.Stderr
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, env...)
	must(p.cmd.Start())
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait()
		if state := p.cmd.ProcessState; state.Exited() || !p.killed.Load() {
			w.fail(fmt.Errorf("%s ended by itself (%v)", name, state))
		}
	}()
	w.Cleanup(p.kill)
	eventually(w.ctx, name+" to be ready", func() bool { return attempt(func() { get(addr, "/readyz") }) == nil })
	return p
}

// kill ends the process at once. Everything was measured before.
func (p *process) kill() {
	p.killed.Store(true)
	_ = p.cmd.Process.Kill()
	<-p.done
}

// self is a command that runs this program as a child process.
func self(role string, args ...string) []string {
	return append([]string{got(os.Executable()), "child", role}, args...)
}

// figures runs a child process that measures something and prints its figures as a JSON object.
func (w *world) figures(command ...string) (found sample) {
	must(json.Unmarshal(w.output(nil, command...), &found))
	return found
}

// freeAddr returns a free loopback address.
func (w *world) freeAddr() string { return fmt.Sprintf("127.0.0.1:%d", storetest.FreePort(w)) }

// redis starts a redis-server with an append-only file that is synced each second, as fanfare's
// documentation recommends.
func (w *world) redis() *storetest.RedisServer {
	return storetest.Redis(w, "--appendonly", "yes", "--appendfsync", "everysec")
}

// get reads a path of a server.
func get(addr, path string) []byte {
	resp, err := http.Get("http://" + addr + path)
	must(err)
	defer resp.Body.Close()
	text := got(io.ReadAll(resp.Body))
	if resp.StatusCode != http.StatusOK {
		failf("GET %s: %s", path, resp.Status)
	}
	return text
}

// peak is the largest memory of the process so far, in MiB.
func (p *process) peak() (kib float64) {
	text := string(got(os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))))
	_, rest, _ := strings.Cut(text, "VmHWM:")
	got(fmt.Sscan(rest, &kib))
	return kib / 1024
}

// ticks is the number of parts per second in which the kernel counts processor time.
const ticks = 100

// cpu is the user and system time that processes have used, in µs.
func cpu(processes []*process) (sum float64) {
	for _, p := range processes {
		text := string(got(os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))))
		// The name is in brackets and may contain anything. utime and stime are the 12th and 13th
		// field after it.
		fields := strings.Fields(text[strings.LastIndex(text, ")")+1:])
		var user, system float64
		got(fmt.Sscan(fields[11]+" "+fields[12], &user, &system))
		sum += (user + system) * 1e6 / ticks
	}
	return sum
}
