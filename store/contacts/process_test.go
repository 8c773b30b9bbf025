package contacts

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/record"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// roleEnv makes this test binary play one process of fanfare, so that tests can
// kill it as a process dies.
const roleEnv = "FANFARE_TEST_CONTACTS_PROCESS"

// process is the configuration of such a process.
type process struct {
	Role, Redis, SQL string
	Options          Options
	Upload           string
	Batch            bool
	Relay            record.RelayOptions
}

func TestMain(m *testing.M) {
	if text := os.Getenv(roleEnv); text != "" {
		var p process
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			panic(err)
		}
		go func() { // it ends with the test binary
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(1)
		}()
		if err := p.play(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func (p *process) play(ctx context.Context) error {
	rec, err := record.Open(ctx, record.Options{URL: p.SQL})
	if err != nil {
		return err
	}
	db, err := redisdb.Open(ctx, redisdb.Options{URL: p.Redis})
	if err != nil {
		return err
	}
	jobs := queue.New(db, queue.Options{Name: "jobs", Shards: 2, MaxAge: -1, Lease: time.Second, RetryMax: time.Second})
	s := New(db, rec, jobs, p.Options)
	if p.Role == "worker" {
		go func() { _ = rec.NewRelay(p.Relay, s.Outbox()).Run(ctx) }()
		return jobs.Run(ctx, queue.ByType(s.Jobs()))
	}
	// dies between commit and enqueue
	die := func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }
	s.announce = func(context.Context, ...queue.Job) { die() }
	s.batched = func(context.Context, record.OutboxRow) { die() }
	switch {
	case p.Batch:
		_, err = s.PutContacts(ctx, "me", []api.Contact{{Contact: "a", Relationship: "friend"}}, api.Idempotency{})
	case p.Upload == "":
		_, _, err = s.PutContact(ctx, "me", "a", &api.ContactRequest{Relationship: "friend"})
	default:
		_, _, _, err = s.PostUpload(ctx, uploadOf(p.Upload, "a", 50), api.Idempotency{})
	}
	return fmt.Errorf("it lives: %w", err)
}

// start runs the process; it is killed at the end of the test at the latest.
func (p *process) start(t testing.TB) *exec.Cmd {
	t.Helper()
	p.Options.Logger = nil
	text, err := json.Marshal(p)
	storetest.Must(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	lifeline, err := cmd.StdinPipe() // ends with this process, however it ends
	storetest.Must(t, err)
	storetest.Must(t, cmd.Start())
	t.Cleanup(func() { runtime.KeepAlive(lifeline) })
	t.Cleanup(func() { kill(cmd) })
	return cmd
}

// kill is kill -9, and waits for the end.
func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}
