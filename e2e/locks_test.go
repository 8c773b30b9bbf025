package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// acquire acquires a lock, which must succeed.
func (p *program) acquire(name string, body map[string]any, headers ...string) (h api.LockHold) {
	p.t.Helper()
	p.must(200, &h, "POST", "/v1/locks/"+name+"/acquire", body, headers...)
	return h
}

// A hold belongs to whoever has its token, not to the process that gave it: it outlives every process, and a
// restart of Redis. A caller that waits at one process is woken by a call at another one.
func TestL1_HoldsOutliveProcesses(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t, "--appendonly", "yes")
	vars := []string{"FANFARE_REDIS_URL=" + redis.URL(), "FANFARE_DATABASE_URL=" + storetest.MySQL(t)}
	both := mustServeMany(t, 2, vars...)
	hour := map[string]any{"lease_ms": time.Hour.Milliseconds()}
	h := both[0].acquire("x", hour, "Idempotency-Key", "one")
	both[0].kill()
	token := map[string]string{"token": h.Token}
	both[1].must(200, nil, "POST", "/v1/locks/x/renew", token)
	if again := both[1].acquire("x", hour, "Idempotency-Key", "one"); again.Token != h.Token {
		t.Errorf("a repeat at another process: %+v, was %+v", again, h)
	}
	redis.Kill()
	redis.Restart()
	storetest.Eventually(t, time.Minute, "the hold is there after a restart of Redis", func() bool {
		status, _, err := both[1].try("POST", "/v1/locks/x/renew", token)
		return err == nil && status == http.StatusOK
	})
	third := mustServe(t, t.TempDir(), vars...)
	woken := make(chan api.LockHold)
	go func() {
		var h api.LockHold
		status, answer, err := both[1].try("POST", "/v1/locks/x/acquire", map[string]any{"lease_ms": time.Hour.Milliseconds(), "wait_ms": 15_000})
		if err != nil || status != 200 || json.Unmarshal(answer, &h) != nil {
			t.Errorf("the waiting acquire: %d %s %v", status, answer, err)
		}
		woken <- h
	}()
	storetest.Eventually(t, time.Minute, "it listens", func() bool {
		const channel = "ff:{l:locks:x}:free"
		return redis.Client().PubSubNumSub(t.Context(), channel).Val()[channel] == 1
	})
	third.must(200, nil, "POST", "/v1/locks/x/fail", token)
	next := <-woken
	if next.Attempt != 2 || next.Fence <= h.Fence {
		t.Errorf("woken with %+v after %+v", next, h)
	}
	third.must(409, nil, "POST", "/v1/locks/x/renew", token)

	// Emptied Redis: the holder learns that the lock is lost, and there is at most one attempt more (K10).
	storetest.Must(t, redis.Client().FlushAll(t.Context()).Err())
	third.must(409, nil, "POST", "/v1/locks/x/renew", map[string]string{"token": next.Token})
	if last := third.acquire("x", hour); last.Attempt != 1 || last.Fence <= next.Fence {
		t.Errorf("after Redis was emptied: %+v, before %+v", last, next)
	}
}

// workerScript is the script of docs/locks.md, with shorter times.
var workerScript = regexp.MustCompile("(?s)```sh\n(#!/bin/sh\n.*?)```")

// The worker of docs/locks.md: of two that are started for the same work one does it; when one is killed, the other
// does it with a higher fence.
func TestL1_TheWorkerOfTheDocument(t *testing.T) {
	t.Parallel()
	both := mustServeMany(t, 2, "FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t))
	found := workerScript.FindStringSubmatch(storetest.RepositoryFile(t, "docs/locks.md"))
	if found == nil {
		t.Fatal("docs/locks.md has no worker")
	}
	dir := t.TempDir()
	script, fences := filepath.Join(dir, "worker.sh"), filepath.Join(dir, "fences")
	text := strings.NewReplacer(`"lease_ms": 30000`, `"lease_ms": 3000`, "sleep 10", "sleep 1").Replace(found[1])
	storetest.Must(t, os.WriteFile(script, []byte(text), 0o700))
	work := func(at *program, name, command string) *exec.Cmd {
		cmd := exec.Command("sh", script, name, "sh", "-c", command)
		cmd.Env = append(os.Environ(), "FANFARE_URL="+at.base, "FENCES="+fences)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		storetest.Must(t, cmd.Start())
		t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		return cmd
	}
	written := func() []string {
		text, _ := os.ReadFile(fences) // there may be none yet
		return strings.Fields(string(text))
	}
	const write = `echo $FENCE >>"$FENCES"; `
	var codes []int
	for _, cmd := range []*exec.Cmd{work(both[0], "report", write+"sleep 0.5"), work(both[1], "report", write+"sleep 0.5")} {
		_ = cmd.Wait()
		codes = append(codes, cmd.ProcessState.ExitCode())
	}
	slices.Sort(codes)
	if got := written(); len(got) != 1 || !slices.Equal(codes, []int{0, 75}) {
		t.Errorf("two workers ended with %v and wrote %q", codes, got)
	}
	both[0].must(409, nil, "POST", "/v1/locks/report/acquire", nil)

	storetest.Must(t, os.Remove(fences))
	killed := work(both[0], "import", write+"sleep 60")
	storetest.Eventually(t, time.Minute, "the first works", func() bool { return len(written()) == 1 })
	second := work(both[1], "import", write)
	storetest.Must(t, syscall.Kill(-killed.Process.Pid, syscall.SIGKILL))
	_ = killed.Wait()
	if err := second.Wait(); err != nil {
		t.Errorf("the second worker: %v", err)
	}
	if got := written(); len(got) != 2 || fmt.Sprintf("%020s", got[0]) >= fmt.Sprintf("%020s", got[1]) {
		t.Errorf("the fences of the two: %q", got)
	}
	var now api.Lock
	failed := work(both[0], "bad", "exit 3")
	_ = failed.Wait()
	both[0].must(200, &now, "GET", "/v1/locks/bad", nil)
	if code := failed.ProcessState.ExitCode(); code != 3 || now.State != api.LockFree || now.Attempt != 1 {
		t.Errorf("work that fails ends with %d, and its lock is %+v", code, now)
	}
	stopped := work(both[0], "stop", write+"sleep 60")
	storetest.Eventually(t, time.Minute, "the work to be stopped has begun", func() bool { return len(written()) == 3 })
	storetest.Must(t, stopped.Process.Signal(syscall.SIGTERM))
	_ = stopped.Wait()
	both[0].must(200, &now, "GET", "/v1/locks/stop", nil)
	if now.State != api.LockFree || now.Attempt != 1 {
		t.Errorf("the lock of work that was stopped: %+v", now)
	}
	both[0].must(200, &now, "GET", "/v1/locks/import", nil)
	if now.State != api.LockDone {
		t.Errorf("the lock of the work: %+v", now)
	}
}
