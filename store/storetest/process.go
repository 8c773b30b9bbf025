package storetest

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
)

// launch starts a process of one test and returns a channel for its end. If the kernel can, it
// kills the process when the test binary dies without cleaning up. The kernel watches the thread
// that started the process, so that thread waits.
func launch(cmd *exec.Cmd) (exited chan struct{}, err error) {
	exited = make(chan struct{})
	started := make(chan error)
	dieWithParent(cmd)
	go func() {
		runtime.LockOSThread()
		defer close(exited)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	return exited, <-started
}

// guardian runs a server until its standard input ends, and then ends it by a signal and removes its directory.
// The input ends with the test binary, however that ends.
const guardian = `dir=$1 signal=$2; shift 2; "$@" </dev/null >/dev/null 2>&1 & pid=$!; read -r _; kill -$signal $pid; wait; rm -rf "$dir"`

// launchForBinary starts a server that all tests of this binary share. It ends by the signal, and dir is removed
// with it.
func launchForBinary(dir, signal, program string, args ...string) error {
	cmd := exec.Command("/bin/sh", append([]string{"-c", guardian, "guardian", dir, signal, program}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	lifeline, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", program, err)
	}
	lifelines.Store(lifeline, nil)
	return cmd.Process.Release() // nobody waits for it
}

// lifelines keeps the standard inputs of shared servers open: if they were collected, they would be
// closed.
var lifelines sync.Map

// mustTempDir is a directory that outlives the test; launchForBinary removes it.
func mustTempDir(t testing.TB, name string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", name)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
