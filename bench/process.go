package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"time"

	_ "github.com/go-sql-driver/mysql" // to wait for MariaDB, and to fill its tables
	"github.com/redis/go-redis/v9"
)

// process is a child process that serves on addr.
type process struct {
	name, addr string
	cmd        *exec.Cmd
	log        *tail
	done       chan struct{} // closed when it ended
	db         *redis.Client // only for a Redis
}

// tail keeps the last lines of a child's output.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = bytes.Clone(t.text[max(0, len(t.text)-4096):])
	return len(p), nil
}

// take returns the lines and removes them.
func (t *tail) take() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := string(t.text)
	t.text = nil
	return text
}

// command prepares a child process in its own directory. The child stays in the session of the
// benchmark: the kernel gives each session its own CPU group, and a side in another session would
// get another share of the processors.
func (w *world) command(env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = got(os.MkdirTemp(w.dir, "run-"))
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, env...)
	return cmd
}

// start runs a child process and waits until it listens.
func (w *world) start(title, addr string, env []string, name string, args ...string) *process {
	p := &process{name: title, addr: addr, cmd: w.command(env, name, args...), log: &tail{}, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	must(p.cmd.Start())
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait()
	}()
	w.mu.Lock()
	w.processes = append(w.processes, p)
	w.mu.Unlock()
	eventually(w.ctx, time.Minute, title+" to listen", func() bool {
		if p.ended() {
			failf("%s ended before it listened", title)
		}
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		return err == nil && conn.Close() == nil
	})
	p.log.take() // output of the start
	return p
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

// kill ends the process at once. Everything was measured before.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
	if p.db != nil {
		_ = p.db.Close()
	}
}

// self is a command that runs this program as a child process.
func self(role string, args ...string) []string {
	return append([]string{got(os.Executable()), "child", role}, args...)
}

// figures runs a child process that measures something and prints its figures as a JSON object.
func (w *world) figures(command ...string) (found sample) {
	cmd := w.command(nil, command[0], command[1:]...)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	must(cmd.Start())
	stop := context.AfterFunc(w.ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	if err := cmd.Wait(); err != nil {
		failf("%v: %w\n%s", command, err, log.String())
	}
	must(json.Unmarshal(out.Bytes(), &found))
	return found
}

// freeAddr returns a free loopback address, and its port.
func freeAddr() (addr, port string) {
	l := got(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	addr = l.Addr().String()
	return addr, strings.TrimPrefix(addr, "127.0.0.1:")
}

// redis starts a redis-server with an append-only file that is synced each second, as fanfare's
// documentation recommends.
func (w *world) redis() *process {
	addr, port := freeAddr()
	p := w.start("redis", addr, nil, "redis-server", "--port", port, "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "yes", "--appendfsync", "everysec", "--loglevel", "warning")
	p.db = redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: time.Minute})
	return p
}

// fanfare starts the program on a Redis and waits until it is ready.
func (w *world) fanfare(redis *process, env ...string) *process {
	addr, _ := freeAddr()
	env = append([]string{"FANFARE_ADDR=" + addr, "FANFARE_REDIS_URL=redis://" + redis.addr, "FANFARE_LOG_LEVEL=error"}, env...)
	p := w.start("fanfare", addr, append(env, w.env...), w.program)
	eventually(w.ctx, 20*time.Second, "fanfare to be ready", func() bool {
		return attempt(func() { get(addr, "/readyz") }) == nil
	})
	p.log.take() // output of the start
	return p
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

// database says where the tables are, for fanfare and for the benchmark.
type database struct{ url, driver, dsn string }

// mariadb installs and starts a server that does not sync to disk, with an empty database.
func (w *world) mariadb() database {
	dir := got(os.MkdirTemp(w.dir, "mariadb-"))
	addr, port := freeAddr()
	const account = "'bench'@'127.0.0.1'"
	init := filepath.Join(dir, "init.sql")
	text := "CREATE DATABASE bench;\nCREATE USER " + account + " IDENTIFIED BY 'loopback';\nGRANT ALL ON *.* TO " + account + ";\n"
	must(os.WriteFile(init, []byte(text), 0o600))
	both := []string{"--no-defaults", "--datadir=" + dir + "/data"}
	if os.Geteuid() == 0 { // as root, mariadb needs the user by name
		both = append(both, "--user="+got(user.Current()).Username)
	}
	install := append(both, "--auth-root-authentication-method=normal", "--skip-test-db")
	if out, err := exec.CommandContext(w.ctx, "mariadb-install-db", install...).CombinedOutput(); err != nil {
		failf("install MariaDB: %w\n%s", err, out)
	}
	w.start("MariaDB", addr, nil, "mariadbd", append(both, "--socket="+dir+"/s", "--pid-file="+dir+"/pid",
		"--bind-address=127.0.0.1", "--port="+port, "--init-file="+init, "--skip-name-resolve", "--skip-log-bin",
		"--innodb-flush-log-at-trx-commit=0", "--max-connections=500")...)
	on := database{"mysql://bench:loopback@" + addr + "/bench", "mysql", "bench:loopback@tcp(" + addr + ")/bench"}
	db := on.open()
	defer db.Close()
	eventually(w.ctx, time.Minute, "MariaDB", func() bool { return db.PingContext(w.ctx) == nil })
	return on
}

// bare starts the baselines in their own process, like fanfare.
func (w *world) bare(redis *process) *process {
	addr, _ := freeAddr()
	command := self("bare", addr, redis.addr)
	return w.start("bare server", addr, nil, command[0], command[1:]...)
}

// peak is the largest memory of the process so far, in MiB.
func (p *process) peak() float64 {
	text := string(got(os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))))
	_, rest, _ := strings.Cut(text, "VmHWM:")
	var kib float64
	_, err := fmt.Sscan(rest, &kib)
	must(err)
	return kib / 1024
}

// ticks is the number of parts per second in which the kernel counts processor time.
const ticks = 100

// cpu is the user and system time that processes have used.
func cpu(all ...*process) (sum time.Duration) {
	for _, p := range all {
		text := got(os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid)))
		// The name is in brackets and may contain anything. utime and stime are the 12th and 13th
		// field after it.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		var user, system time.Duration
		_, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system)
		must(err)
		sum += (user + system) * (time.Second / ticks)
	}
	return sum
}

func micros(d time.Duration) float64 { return float64(d) / 1e3 }
