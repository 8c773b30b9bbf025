package storetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// Eventually waits until cond is true, and fails the test if that takes longer than the given time.
// what completes the sentence "did not happen: ...".
func Eventually(t testing.TB, within time.Duration, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	for wait := time.Millisecond; !cond(); wait = min(2*wait, 50*time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("did not happen within %v: %s", within, what)
		}
		time.Sleep(wait)
	}
}

// Logger writes lines of this level and above to the test's log, which is shown if the test fails.
// After the end of the test it discards lines, because processes that the test killed half-way may
// still log.
func Logger(t testing.TB, level slog.Level) *slog.Logger {
	w := &testLog{out: t.Output()}
	t.Cleanup(w.end)
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

// testLog is a test's output while the test runs.
type testLog struct {
	mu  sync.Mutex
	out io.Writer
}

func (w *testLog) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(line)
}

func (w *testLog) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out = io.Discard
}

// SkipShort skips a test in short mode (make quick). It is for tests that need a real server, the
// whole program, or many seconds.
func SkipShort(t testing.TB, needs string) {
	t.Helper()
	if testing.Short() {
		t.Skip("short mode: this needs " + needs)
	}
}

// FreePort is a loopback port on which nobody listens. No other call returns the same port while
// this process lives, neither in this process nor in the test binary of another package. The port
// is below the range from which kernels take ports for outgoing connections, so that a server can
// use it again later.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := firstPort + rand.IntN(portCount)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = l.Close()
		}
		if err == nil && takePort(t, port) {
			return port
		}
	}
	t.Fatal("no free port found")
	return 0
}

// takenPorts are the locks on ports of this process. They end with the process.
var takenPorts struct {
	sync.Mutex
	files []*os.File
}

// takePort locks a file for a port. The lock applies to other open files of the same process as
// well.
func takePort(t testing.TB, port int) bool {
	t.Helper()
	dir := filepath.Join(os.TempDir(), "fanfare-test-ports")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return false
	}
	takenPorts.Lock()
	defer takenPorts.Unlock()
	takenPorts.files = append(takenPorts.files, file)
	return true
}

const (
	firstPort = 15000
	portCount = 15000
)

// Open opens a Redis and runs its background work until the test ends.
func Open(t testing.TB, url string) *redisdb.DB {
	t.Helper()
	return OpenWith(t, redisdb.Options{URL: url})
}

// OpenWith is Open with all options.
func OpenWith(t testing.TB, o redisdb.Options) *redisdb.DB {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	db, err := redisdb.Open(t.Context(), o)
	if err != nil {
		t.Fatalf("open redis: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := db.Run(ctx); err != nil {
			t.Errorf("run redis: %v", err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		_ = db.Close()
	})
	return db
}

// EachRedis runs a test on one real node, on the embedded Redis and on a Cluster, as parallel
// subtests "redis", "embedded" and "cluster". Each node and embedded Redis is fresh. The Cluster is
// shared by the tests of a binary, so each test must use its own names, or EachRedisAlone.
func EachRedis(t *testing.T, fn func(t *testing.T, db *redisdb.DB)) {
	t.Helper()
	eachRedis(t, Cluster, fn)
}

// EachRedisAlone is EachRedis for tests that use the real names of keys: each test uses the Cluster
// exclusively, and it is empty. Either all tests of a binary that use the Cluster must be of this
// kind, or none.
func EachRedisAlone(t *testing.T, fn func(t *testing.T, db *redisdb.DB)) {
	t.Helper()
	eachRedis(t, emptyCluster, fn)
}

// EachRedisOwn is EachRedis with a Cluster of each test's own, for tests whose sweepers would find what others have made, or the other
// way round.
func EachRedisOwn(t *testing.T, fn func(t *testing.T, db *redisdb.DB)) {
	t.Helper()
	eachRedis(t, func(t testing.TB) *RedisCluster { return PrivateCluster(t, 0) }, fn)
}

// EachServer is EachRedis without the embedded Redis, for promises of memory and speed, and for chaos: the embedded Redis
// is for trying fanfare out, keeps nothing of a killed process, and runs scripts many times slower.
func EachServer(t *testing.T, fn func(t *testing.T, db *redisdb.DB)) {
	t.Helper()
	eachServer(t, Cluster, fn)
}

func eachRedis(t *testing.T, cluster func(testing.TB) *RedisCluster, fn func(t *testing.T, db *redisdb.DB)) {
	t.Helper()
	eachServer(t, cluster, fn)
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		// Its scripts run in this process, beside all that the test does.
		fn(t, OpenWith(t, redisdb.Options{URL: "embedded", Timeout: 20 * time.Second}))
	})
}

func eachServer(t *testing.T, cluster func(testing.TB) *RedisCluster, fn func(t *testing.T, db *redisdb.DB)) {
	t.Helper()
	for name, url := range map[string]func(t *testing.T) string{
		"redis":   func(t *testing.T) string { return Redis(t).URL() },
		"cluster": func(t *testing.T) string { return cluster(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn(t, Open(t, url(t)))
		})
	}
}

// mustFind is the path of a server's program, which may be in sbin.
func mustFind(t testing.TB, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
		for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/usr/local/bin"} {
			path := filepath.Join(dir, name)
			if info, err := os.Stat(path); err == nil && !info.IsDir() {
				return path
			}
		}
	}
	t.Fatalf("%v is not installed; `make test` installs it", names)
	return ""
}

// Calls is how often a Redis ran a command since it began, or since its statistics were reset.
func Calls(t testing.TB, c redis.Cmdable, command string) (n int) {
	t.Helper()
	info, err := c.InfoMap(t.Context(), "commandstats").Result()
	Must(t, err)
	if text := info["Commandstats"]["cmdstat_"+command]; text != "" {
		_, err = fmt.Sscanf(text, "calls=%d", &n)
		Must(t, err)
	}
	return n
}

// UsedMemory is how many bytes Redis uses, without the buffers of its connections.
func UsedMemory(t testing.TB, db *redisdb.DB) int64 {
	t.Helper()
	info, err := db.Client().InfoMap(t.Context(), "memory").Result()
	if err != nil {
		t.Fatal(err)
	}
	used, err := strconv.ParseInt(info["Memory"]["used_memory"], 10, 64)
	buffers, err2 := strconv.ParseInt(info["Memory"]["mem_clients_normal"], 10, 64)
	if err = errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return used - buffers
}
