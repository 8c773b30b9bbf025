// Package e2e tests the whole program: the binary, real servers, faults, and the README's tour. It
// does not import the code under test, only test servers and stand-ins.
package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// binary is the program under test, built once for all tests. With the race detector a data
// race ends a process with exit code 66.
type binary struct {
	once sync.Once
	path string
	err  error
}

var built binary

func TestMain(m *testing.M) {
	if latency := os.Getenv(apnsEnv); latency != "" {
		if err := beAPNs(latency); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	dir, err := os.MkdirTemp("", "fanfare-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	built.path, shipped.path, shifted.path = filepath.Join(dir, "fanfare"), filepath.Join(dir, "fanfare-shipped"), filepath.Join(dir, "fanfare-shifted")
	// Most of these tests wait most of the time, so more of them run at once than there are
	// processors.
	_ = flag.Set("test.parallel", strconv.Itoa(runtime.GOMAXPROCS(0)+1)) // the flag -parallel overrides it
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// withRace reports whether this test has the race detector.
func withRace() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// mustBuild returns the path of the program, with the race detector if this test has it, and else the shipped one.
func mustBuild(t testing.TB) string {
	t.Helper()
	path := mustBuildShipped(t)
	if withRace() {
		path = built.path
	}
	return path
}

// shipped is the program without the race detector, which takes several times the memory and time.
// Tests with bounds of memory or time use this one.
var shipped binary

// shippedVersion is the version of the shipped program.
const shippedVersion = "v9.8.7"

// mustBuildShipped returns the path of the program as the Dockerfile builds it, from the files that .dockerignore lets
// into the image. The other one is built with it, so that no test runs beside the compiler.
func mustBuildShipped(t testing.TB) string {
	t.Helper()
	flags := regexp.MustCompile(`(?s)go build -trimpath -ldflags="([^"]+)"`).FindStringSubmatch(storetest.RepositoryFile(t, "Dockerfile"))
	if flags == nil {
		t.Fatal("the Dockerfile has no build line")
	}
	if withRace() { // linking takes half as long without what debuggers read
		built.must(t, storetest.Root, []string{"CGO_ENABLED=1"}, "-race", "-ldflags=-s -w")
	}
	return shipped.must(t, mustCopyImage, []string{"CGO_ENABLED=0"}, "-trimpath", "-ldflags="+strings.ReplaceAll(flags[1], "$VERSION", shippedVersion))
}

// must builds the program at the first call, from the folder that from returns.
func (b *binary) must(t testing.TB, from func(testing.TB) string, env []string, flags ...string) string {
	t.Helper()
	storetest.SkipShort(t, "the whole program")
	b.once.Do(func() {
		build := exec.Command("go", slices.Concat([]string{"build", "-o", b.path}, flags, []string{"fanfare"})...)
		build.Dir, build.Env = from(t), append(os.Environ(), env...)
		if out, err := build.CombinedOutput(); err != nil {
			b.err = fmt.Errorf("build: %w\n%s", err, out)
		}
	})
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b.path
}

// program is one fanfare process.
type program struct {
	t              testing.TB
	cmd            *exec.Cmd
	dir            string
	base           string       // http://127.0.0.1:port
	key            string       // API key; "": none
	http           *http.Client // nil: the client that all tests share
	stdout, stderr storetest.Lines
	exited         chan struct{}
}

// environment is the environment of a child process. It has only what the process needs to run, so
// that a developer's settings do not change a test. An embedded Redis is the one in memory unless the
// test names another, whatever is on PATH.
func environment(vars []string) []string {
	set := func(prefix string) bool {
		return slices.ContainsFunc(vars, func(v string) bool { return strings.HasPrefix(v, prefix) && v != "FANFARE_REDIS_URL=embedded" })
	}
	if !set("FANFARE_REDIS_URL=") && !set("FANFARE_EMBEDDED=") {
		vars = append([]string{"FANFARE_EMBEDDED=memory"}, vars...)
	}
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TMPDIR=" + os.TempDir(),
		"GORACE=halt_on_error=1 exitcode=66 atexit_sleep_ms=10 clear_shadow_mmap_threshold=16777216"}, vars...)
}

// launch starts the program in a directory without waiting for anything.
func launch(t testing.TB, dir string, args []string, vars ...string) *program {
	t.Helper()
	return launchPath(t, mustBuild(t), dir, args, vars...)
}

// launchPath is launch for another build of the program.
func launchPath(t testing.TB, path, dir string, args []string, vars ...string) *program {
	t.Helper()
	p := &program{t: t, dir: dir, exited: make(chan struct{})}
	p.cmd = exec.Command(path, args...)
	p.cmd.Dir, p.cmd.Env = dir, environment(vars)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %v: %v", args, err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(p.cleanup)
	return p
}

// cleanup ends the process and its embedded server, shows its output if the test failed, and fails the test if there was a
// data race or a secret in the log.
func (p *program) cleanup() {
	p.kill()
	p.endServer()
	text := p.stderr.String()
	if line := p.secretLine(text); line != "" {
		p.t.Errorf("a secret is in the log: %s", line)
	}
	if strings.Contains(text, "DATA RACE") {
		p.t.Errorf("data race:\n%s", text)
	} else if p.t.Failed() {
		p.t.Logf("%v said:\n%s", p.cmd.Args[1:], tail(text, 6000))
	}
}

func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return "..." + s[len(s)-n:]
}

// mustServe starts a server on a free port and waits until it is ready.
func mustServe(t testing.TB, dir string, vars ...string) *program {
	t.Helper()
	p := launchServer(t, dir, vars...)
	p.awaitReady()
	return p
}

// launchServer starts a server on a free port without waiting for anything.
func launchServer(t testing.TB, dir string, vars ...string) *program {
	t.Helper()
	return launchServerPath(t, mustBuild(t), dir, vars...)
}

// launchServerPath is launchServer for another build of the program.
func launchServerPath(t testing.TB, path, dir string, vars ...string) *program {
	t.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", storetest.FreePort(t))
	p := launchPath(t, path, dir, nil, append([]string{"FANFARE_ADDR=" + addr}, vars...)...)
	p.base = "http://" + addr
	return p
}

// mustServeMany starts several servers at once, for tests of faults under load. They are the
// shipped program, so that they keep their leases on a busy machine, or have the race detector if
// tests run at full size.
func mustServeMany(t testing.TB, n int, vars ...string) []*program {
	t.Helper()
	path := mustBuildShipped(t)
	if storetest.Full() {
		path = mustBuild(t)
	}
	out := make([]*program, n)
	for i := range out {
		out[i] = launchServerPath(t, path, t.TempDir(), vars...)
	}
	for _, p := range out {
		p.awaitReady()
	}
	return out
}

// awaitReady waits until /readyz answers 200.
func (p *program) awaitReady() {
	p.t.Helper()
	deadline, why := time.Now().Add(30*time.Second), ""
	for time.Now().Before(deadline) {
		status, answer, err := p.try(http.MethodGet, "/readyz", nil)
		if err == nil && status == http.StatusOK {
			return
		}
		why = fmt.Sprintf("%d %s %v", status, answer, err)
		select {
		case <-p.exited:
			p.t.Fatalf("the server ended with %d before it was ready:\n%s", p.cmd.ProcessState.ExitCode(), p.stderr.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
	p.t.Fatalf("the server did not become ready: %s\n%s", why, p.stderr.String())
}

// kill ends the process like kill -9.
func (p *program) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// terminate sends SIGTERM and returns the exit code and the time.
func (p *program) terminate() (int, time.Duration) {
	p.t.Helper()
	began := time.Now()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	return p.exitCode(60 * time.Second), time.Since(began)
}

// exitCode waits for the process to end by itself.
func (p *program) exitCode(within time.Duration) int {
	p.t.Helper()
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // it then prints where it hangs
		<-p.exited
		p.t.Fatalf("still running after %v:\n%s", within, p.stderr.String())
		return -1
	}
}

// mustRun runs a command to its end and returns its exit code and output.
func mustRun(t testing.TB, dir string, args []string, vars ...string) (code int, stdout, stderr string) {
	t.Helper()
	p := launch(t, dir, args, vars...)
	code = p.exitCode(20 * time.Second)
	return code, p.stdout.String(), p.stderr.String()
}

// client is shared by all tests. It makes new connections to servers that were killed.
var client = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// try makes a request with a JSON body; nil: without a body. header is name, value, and so on.
func (p *program) try(method, path string, body any, header ...string) (int, []byte, error) {
	var reader io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		reader = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, p.base+path, reader)
	if err != nil {
		return 0, nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if method == http.MethodPut || method == http.MethodDelete {
		// The request is sent again on a new connection if the server closed an idle one at that
		// moment. The header with an empty value is not sent.
		req.Header["Idempotency-Key"] = nil
	}
	if p.key != "" {
		req.Header.Set("Authorization", "Bearer "+p.key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := cmp.Or(p.http, client).Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// must makes a request that must be answered with the given status, and decodes the answer into out
// unless out is nil.
func (p *program) must(want int, out any, method, path string, body any, header ...string) {
	p.t.Helper()
	status, answer, err := p.try(method, path, body, header...)
	if err != nil {
		p.t.Fatalf("%s %s: %v\n%s", method, path, err, tail(p.stderr.String(), 4000))
	}
	if status != want {
		p.t.Fatalf("%s %s: %d, want %d: %s", method, path, status, want, answer)
	}
	if out != nil {
		if err := json.Unmarshal(answer, out); err != nil {
			p.t.Fatalf("%s %s: %v in %s", method, path, err, answer)
		}
	}
}

// deviceToken makes the n-th device token.
func deviceToken(n int) string { return fmt.Sprintf("%064x", 0xabc000000+n) }

// manyDevices is the number from which devices are written directly to SQL, because a call for each
// would take most of a test's time.
const manyDevices = 1000

// mustRegister registers the devices user-0...n-1, one each.
func (p *program) mustRegister(n int) {
	p.t.Helper()
	if database := p.setting("FANFARE_DATABASE_URL"); n >= manyDevices && strings.HasPrefix(database, "mysql:") {
		mustInsertDevices(p.t, database, "user-%d", 0, n)
		return
	}
	p.each(n, func(i int) error {
		status, answer, err := p.try(http.MethodPut, fmt.Sprintf("/v1/users/user-%d/devices/%s", i, deviceToken(i)),
			map[string]string{"platform": "apns", "topic": "com.example.app", "environment": "production"})
		if err == nil && status/100 != 2 {
			err = fmt.Errorf("%d %s", status, answer)
		}
		return err
	})
}

// setting is the value of an environment variable of the process.
func (p *program) setting(name string) string {
	for _, v := range p.cmd.Env {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// each calls f for 0...n-1 from 16 goroutines and fails the test if there is an error.
func (p *program) each(n int, f func(i int) error) {
	p.t.Helper()
	if err := spread(n, f); err != nil {
		p.t.Fatal(err)
	}
}

// spread calls f for 0...n-1 from 16 goroutines.
func spread(n int, f func(i int) error) error {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		fails []error
		queue = make(chan int)
	)
	for range 16 {
		wg.Go(func() {
			for i := range queue {
				if err := f(i); err != nil {
					mu.Lock()
					fails = append(fails, err)
					mu.Unlock()
				}
			}
		})
	}
	for i := range n {
		queue <- i
	}
	close(queue)
	wg.Wait()
	if len(fails) > 3 {
		fails = fails[:3]
	}
	return errors.Join(fails...)
}

// greeting is an event to one user with its own text.
func greeting(users ...string) map[string]any {
	return map[string]any{
		"type":     "greeting",
		"audience": map[string]any{"users": users},
		"alert":    map[string]string{"title": "Hello", "body": "for " + users[0]},
	}
}
