package batch_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"fanfare/store/batch"
)

// crashing says that this process is the one that is to crash.
const crashing = "BATCH_TEST_CRASHES"

// A panic in what one does for many ends the process, though a server would recover it.
func TestCrashOnPanic(t *testing.T) {
	t.Parallel()
	if os.Getenv(crashing) != "" {
		defer func() { _ = recover() }()
		defer batch.CrashOnPanic()
		panic("nobody is to catch this")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCrashOnPanic$")
	cmd.Env = append(os.Environ(), crashing+"=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "panic: nobody is to catch this") || !strings.Contains(string(out), "crash_test.go") {
		t.Errorf("%v: %s", err, out)
	}
}
