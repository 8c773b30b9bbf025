package fanfare_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	fanfare "fanfare/clients/go"
)

// key is the API key of all servers of the tests.
const key = "ff_clientgo_0123456789abcdefghijklmnopqrstuvwxyz"

// program is the server that all tests start.
var program = sync.OnceValues(func() (string, error) {
	if name := os.Getenv("FANFARE_PROGRAM"); name != "" {
		return name, nil
	}
	name := filepath.Join(binaries, "fanfare")
	build := exec.Command("go", "build", "-trimpath", "-o", name, ".")
	build.Dir, build.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	return name, nil
})

var binaries string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "fanfare-client-")
	if err != nil {
		panic(err)
	}
	binaries = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// must ends a test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// until waits for a condition.
func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// server is a real server that can be killed and started again on its data. Calls reach it through a proxy, whose
// address stays and which can lose answers.
type server struct {
	t       *testing.T
	dir     string
	process *exec.Cmd
	at      atomic.Pointer[url.URL]
	proxy   *httptest.Server
	requests
	// lose says which answers are lost: those for which it is true arrive at the proxy and no further.
	lose atomic.Pointer[func(r *http.Request, status int) bool]
}

// requests counts what arrived at the proxy.
type requests struct {
	mu   sync.Mutex
	keys map[string]int // by Idempotency-Key
	all  int
}

func setup(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, dir: t.TempDir(), requests: requests{keys: map[string]int{}}}
	must(t, os.WriteFile(filepath.Join(s.dir, "key"), []byte(key), 0o600))
	t.Cleanup(func() { s.end(syscall.SIGTERM) }) // kill -9 would leave its Redis for the next start in the folder
	s.start()
	forward := &httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(s.at.Load())
		},
		ModifyResponse: func(resp *http.Response) error {
			if lose := s.lose.Load(); lose != nil && (*lose)(resp.Request, resp.StatusCode) {
				panic(http.ErrAbortHandler)
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	s.proxy = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.all++
		s.keys[r.Header.Get("Idempotency-Key")]++
		s.mu.Unlock()
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.proxy.CloseClientConnections()
		s.proxy.Close()
	})
	return s
}

// losing loses answers from now on.
func (s *server) losing(lose func(r *http.Request, status int) bool) { s.lose.Store(&lose) }

// arrived is how many requests have arrived.
func (s *server) arrived() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

// start starts the server on a free port.
func (s *server) start() {
	s.t.Helper()
	name, err := program()
	must(s.t, err)
	embedded := "memory"
	if _, err := exec.LookPath("redis-server"); err == nil {
		embedded = "redis" // survives kill -9
	}
	s.process = exec.Command(name)
	s.process.Dir = s.dir
	s.process.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "FANFARE_ADDR=127.0.0.1:0", "FANFARE_EMBEDDED=" + embedded, "FANFARE_ADMIN_KEY_FILE=key",
		"FANFARE_RETRY_BASE=20ms", "FANFARE_RETRY_MAX=200ms",
	}
	log, err := s.process.StderrPipe()
	must(s.t, err)
	s.process.Stdout = s.process.Stderr
	must(s.t, s.process.Start())
	found := make(chan *url.URL, 1)
	go func() {
		address := regexp.MustCompile(`"docs":"(http://[0-9.:]+)/docs/"`)
		lines := bufio.NewScanner(log)
		for lines.Scan() {
			if m := address.FindStringSubmatch(lines.Text()); m != nil {
				u, _ := url.Parse(m[1])
				found <- u
			}
			if testing.Verbose() {
				fmt.Fprintln(os.Stderr, lines.Text())
			}
		}
	}()
	select {
	case u := <-found:
		s.at.Store(u)
	case <-time.After(time.Minute):
		s.t.Fatal("the server does not start")
	}
	until(s.t, "the server is ready", func() bool {
		resp, err := http.Get(s.at.Load().String() + "/readyz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// kill ends the server with kill -9.
func (s *server) kill() { s.end(syscall.SIGKILL) }

// end ends it by a signal, and after 20 s by kill -9.
func (s *server) end(signal os.Signal) {
	if s.process == nil || s.process.Process == nil {
		return
	}
	_ = s.process.Process.Signal(signal)
	late := time.AfterFunc(20*time.Second, func() { _ = s.process.Process.Kill() })
	defer late.Stop()
	_ = s.process.Wait()
}

// needRedis skips a test without a Redis that survives kill -9.
func needRedis(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed: the imitation in memory keeps nothing over kill -9")
	}
}

// client makes a client that goes through the proxy.
func (s *server) client(o fanfare.Options) *fanfare.Client {
	s.t.Helper()
	if o.Token == nil && o.Key == "" {
		o.Key = key
	}
	c, err := fanfare.New(s.proxy.URL, o)
	must(s.t, err)
	return c
}

// within is a context that ends before the test does.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}
