package storetest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// startTimeout is how long a server may take to answer. The machine may be very busy, and the
// append-only file may be long.
const startTimeout = 2 * time.Minute

// RedisServer is a redis-server process of one test.
type RedisServer struct {
	t      testing.TB
	port   int
	config string // a configuration file, if any
	args   []string
	dir    string

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{}
	client redisdb.Client
}

// Redis starts a redis-server on a free loopback port, without persistence
// unless args ask for it (Restart then finds the data again). It is killed
// when the test ends.
func Redis(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	return redisFrom(t, "", args...)
}

func redisFrom(t testing.TB, config string, args ...string) *RedisServer {
	t.Helper()
	SkipShort(t, "a redis-server")
	s := &RedisServer{t: t, dir: t.TempDir(), config: config, args: args}
	t.Cleanup(s.stop)
	s.mustStartSomewhere()
	return s
}

// mustStartSomewhere tries several ports, because another process may take a port between the check
// and the start.
func (s *RedisServer) mustStartSomewhere() {
	s.t.Helper()
	var err error
	for range 5 {
		s.port = FreePort(s.t)
		if err = s.start(); err == nil {
			return
		}
		s.stop()
		s.client = nil
	}
	s.t.Fatalf("start redis-server: %v", err)
}

// Addr is host:port.
func (s *RedisServer) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// URL is the URL for redisdb.Options.
func (s *RedisServer) URL() string { return "redis://" + s.Addr() }

// MustUser makes or changes the server's user "app" by rules of ACL SETUSER, and returns the URL with
// which this user connects.
func (s *RedisServer) MustUser(t testing.TB, rules ...string) (url string) {
	t.Helper()
	args := []any{"acl", "setuser", "app", "on", ">secret"}
	for _, rule := range rules {
		args = append(args, rule)
	}
	Must(t, s.Client().Do(context.WithoutCancel(t.Context()), args...).Err())
	return "redis://app:secret@" + s.Addr()
}

// Port is the port on which it listens, also after a restart.
func (s *RedisServer) Port() int { return s.port }

// Client is a plain client with which a test reads Redis directly.
func (s *RedisServer) Client() redisdb.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		s.client = redis.NewClient(&redis.Options{Addr: s.Addr(), Protocol: 2, DisableIdentity: true})
	}
	return s.client
}

// Wait waits until so many replicas have everything that Client wrote, at most for limit, and returns how many have it.
func (s *RedisServer) Wait(ctx context.Context, replicas int, limit time.Duration) (int64, error) {
	return s.Client().(*redis.Client).Wait(ctx, replicas, limit).Result()
}

// Kill ends the process at once, as kill -9 does, and waits for its end.
func (s *RedisServer) Kill() {
	s.mu.Lock()
	cmd, exited := s.cmd, s.exited
	s.mu.Unlock()
	_ = cmd.Process.Kill()
	<-exited
}

// Restart kills the process if it still lives and starts it again on the same
// port, with the same data directory.
func (s *RedisServer) Restart() {
	s.t.Helper()
	s.Kill()
	s.mustStart()
}

// Pause stops the process with SIGSTOP: connections stay open, nothing answers.
func (s *RedisServer) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (s *RedisServer) Resume() { s.signal(syscall.SIGCONT) }

func (s *RedisServer) signal(sig os.Signal) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Errorf("signal redis: %v", err)
	}
}

func (s *RedisServer) mustStart() {
	s.t.Helper()
	if err := s.start(); err != nil {
		s.t.Fatalf("start redis-server: %v", err)
	}
}

// arguments are the command line: loopback only, nothing on disk by default.
func (s *RedisServer) arguments() []string {
	args := []string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir, "--save", "",
		"--appendonly", "no", "--maxmemory-policy", "noeviction", "--loglevel", "warning",
		"--logfile", s.dir + "/redis.log", "--repl-diskless-sync-delay", "0",
	}
	if s.config != "" {
		// A sentinel has no data and refuses options for storing it.
		args = []string{s.config, "--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir}
	}
	return append(args, s.args...)
}

// start runs the process and waits until it answers.
func (s *RedisServer) start() error {
	cmd := exec.Command(mustFind(s.t, "redis-server"), s.arguments()...)
	exited, err := launch(cmd)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.cmd, s.exited = cmd, exited
	s.mu.Unlock()
	return s.awaitPong()
}

func (s *RedisServer) awaitPong() error {
	deadline := time.Now().Add(startTimeout)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		err := s.Client().Ping(ctx).Err()
		cancel()
		// An error about a password or TLS is an answer too.
		if err == nil || redis.HasErrorPrefix(err, "NOAUTH") {
			return nil
		}
		select {
		case <-s.exited:
			log, _ := os.ReadFile(s.dir + "/redis.log")
			return fmt.Errorf("it ended: %s", log)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("it does not answer: %w", err)
		}
	}
}

// stop ends everything; it also ends a paused process.
func (s *RedisServer) stop() {
	s.mu.Lock()
	cmd, exited, client := s.cmd, s.exited, s.client
	s.mu.Unlock()
	if client != nil {
		_ = client.Close()
	}
	if cmd != nil && cmd.Process != nil {
		_ = cmd.Process.Kill()
		<-exited
	}
}
