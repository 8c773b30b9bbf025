package lock_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"fanfare/store/lock"
	"fanfare/store/storetest"
)

// The environment of the child process: Redis, the lock's name and its lease.
const (
	holderRedis = "FANFARE_TEST_HOLDER_REDIS"
	holderName  = "FANFARE_TEST_HOLDER_NAME"
	holderLease = "FANFARE_TEST_HOLDER_LEASE"
)

// outside is the list that stands for the outside world.
const outside = "outside"

// TestHolderProcess is no test but the child of K9's: it holds the lock x and
// does what it is told, line by line: write, if its lease lasts, or say done.
func TestHolderProcess(t *testing.T) {
	t.Parallel()
	if os.Getenv(holderRedis) == "" {
		t.Skip("only as a child process")
	}
	db := storetest.Open(t, os.Getenv(holderRedis))
	lease, err := time.ParseDuration(os.Getenv(holderLease))
	if err != nil {
		t.Fatal(err)
	}
	h := mustHold(t, lock.New(db, lock.Options{Name: os.Getenv(holderName), Lease: lease}), "x")
	fmt.Println("says held")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		switch lines.Text() {
		case "write":
			if !h.Alive() { // asked immediately before the write
				fmt.Println("says over")
				continue
			}
			db.Client().RPush(context.Background(), outside, h.Fence)
			fmt.Println("says written")
		case "done":
			ok, err := h.Done(context.Background())
			fmt.Println("says done", ok, err)
		}
	}
}

// holder is a child process and what it says.
type holder struct {
	t     testing.TB
	cmd   *exec.Cmd
	tell  io.Writer
	lines *bufio.Scanner
}

func mustStartHolder(t testing.TB, url, name string, lease time.Duration) *holder {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestHolderProcess$", "-test.count=1", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), holderRedis+"="+url, holderName+"="+name, holderLease+"="+lease.String())
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return &holder{t, cmd, in, bufio.NewScanner(out)}
}

func (h *holder) mustSay(want string) {
	h.t.Helper()
	for h.lines.Scan() {
		if said, ok := strings.CutPrefix(h.lines.Text(), "says "); ok {
			if said != want {
				h.t.Fatalf("the holder says %q, want %q", said, want)
			}
			return
		}
	}
	h.t.Fatalf("the holder ended, want %q", want)
}

func (h *holder) mustSignal(s syscall.Signal) {
	h.t.Helper()
	if err := h.cmd.Process.Signal(s); err != nil {
		h.t.Fatal(err)
	}
}

// TestK9_ALeaseIsNotCut: for Redis a lease never ends before it ends for its holder, who counts from before it sent the
// call. Not even a part of a millisecond is missing.
func TestK9_ALeaseIsNotCut(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Redis(t).URL())
	l := setup(t, db, lock.Options{Lease: time.Minute})
	for n := range 50 {
		id := fmt.Sprint(n)
		calls := []struct {
			what string
			call func() time.Duration // answers how long the lease is
		}{
			{"acquire", func() time.Duration { return mustAgain(t, l, id).Left }},
			{"acquire again", func() time.Duration { return mustAgain(t, l, id).Left }},
			{"renew", func() time.Duration {
				h := mustAgain(t, l, id).Lease
				mustBe(t, true, "renew", h.Renew)
				return h.Duration()
			}},
		}
		for _, c := range calls {
			sent := db.Client().Time(t.Context()).Val()
			lease := c.call()
			if until, _ := lock.Until(t.Context(), l, id); until.Before(sent.Add(lease)) {
				t.Fatalf("%s: the lease is %v shorter than its holder was told", c.what, sent.Add(lease).Sub(until))
			}
		}
	}
}

// mustAgain acquires a lock with one request for each lock.
func mustAgain(t *testing.T, l *lock.Locker, id string) lock.Answer {
	t.Helper()
	a, err := lock.TryAgain(t.Context(), l, id, "request-"+id)
	if err != nil || a.Status != lock.Acquired {
		t.Fatalf("%v, %v", a.Status, err)
	}
	return a
}

// TestK9_StoppedPastTheLease stops a real process with SIGSTOP until another
// has the lock, and lets it go on with the order to write in its pipe: it
// starts no write, and its done is lost.
func TestK9_StoppedPastTheLease(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	db := storetest.Open(t, server.URL())
	l := setup(t, db, lock.Options{Lease: time.Minute})
	h := mustStartHolder(t, server.URL(), lock.NameOf(l), time.Second)
	h.mustSay("held")
	h.mustSignal(syscall.SIGSTOP)
	next, err := l.Acquire(t.Context(), "x")
	if err != nil || next.Status != lock.Acquired || next.Attempt != 2 {
		t.Fatalf("%+v, %v", next, err)
	}
	fmt.Fprintln(h.tell, "write")
	fmt.Fprintln(h.tell, "done")
	h.mustSignal(syscall.SIGCONT)
	h.mustSay("over")
	h.mustSay("done false <nil>")
	if n := db.Client().LLen(t.Context(), outside).Val(); n != 0 {
		t.Errorf("%d writes after the lease", n)
	}
	mustBe(t, true, "done of the new holder", next.Lease.Done)
}

// The same process writes while its lease lasts: the check above can fail.
func TestK9_NotStoppedItWrites(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	db := storetest.Open(t, server.URL())
	h := mustStartHolder(t, server.URL(), "held", time.Hour)
	h.mustSay("held")
	fmt.Fprintln(h.tell, "write")
	h.mustSay("written")
	if n := db.Client().LLen(t.Context(), outside).Val(); n != 1 {
		t.Errorf("%d writes", n)
	}
	fmt.Fprintln(h.tell, "done")
	h.mustSay("done true <nil>")
}
