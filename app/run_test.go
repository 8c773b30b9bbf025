package app

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// Run is the whole program, which a test can call. It ends cleanly with its context.
func TestRun(t *testing.T) {
	t.Parallel()
	t.Run("ServesUntilItsContextEnds", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var out, errs storetest.Lines
		ended := make(chan int, 1)
		environ := []string{"FANFARE_ADDR=127.0.0.1:0", "FANFARE_EMBEDDED=memory", "FANFARE_LOG_FORMAT=text", "FANFARE_DATABASE_URL=sqlite:" + filepath.Join(t.TempDir(), "x.db")}
		go func() { ended <- Run(ctx, Program{Environ: environ, Stdout: &out, Stderr: &errs}) }()
		storetest.Eventually(t, 20*time.Second, "the banner", func() bool { return strings.Contains(out.String(), "/docs/") })
		cancel()
		select {
		case code := <-ended:
			if code != 0 {
				t.Errorf("exit code %d:\n%s", code, errs.String())
			}
		case <-time.After(25 * time.Second):
			t.Errorf("still running:\n%s", errs.String())
		}
	})
	t.Run("StoppedBeforeItBegan", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var out, errs bytes.Buffer
		environ := []string{"FANFARE_ADDR=127.0.0.1:0", "FANFARE_EMBEDDED=memory", "FANFARE_DATABASE_URL=sqlite:" + filepath.Join(t.TempDir(), "x.db")}
		if code := Run(ctx, Program{Environ: environ, Stdout: &out, Stderr: &errs}); code != 0 {
			t.Errorf("exit code %d: %s", code, &errs)
		}
	})
	t.Run("UsageIsNotFailure", func(t *testing.T) {
		t.Parallel()
		var out, errs bytes.Buffer
		if code := Run(t.Context(), Program{Args: []string{"serve", "loudly"}, Stdout: &out, Stderr: &errs}); code != 2 || !strings.Contains(errs.String(), "loudly") {
			t.Errorf("exit code %d: %s", code, &errs)
		}
	})
	t.Run("SecretsAreNotInErrors", func(t *testing.T) {
		t.Parallel()
		var out, errs bytes.Buffer
		environ := []string{"FANFARE_REDIS_URL=redis://:hunter2@127.0.0.1:1/notanumber"}
		if code := Run(t.Context(), Program{Environ: append(environ, "FANFARE_DATABASE_URL=sqlite:"+filepath.Join(t.TempDir(), "x.db")), Stdout: &out, Stderr: &errs}); code != 1 {
			t.Errorf("exit code %d", code)
		}
		if text := errs.String(); strings.Contains(text, "hunter2") || !strings.Contains(text, "FANFARE_REDIS_URL") {
			t.Errorf("stderr: %s", text)
		}
	})
}

// Messages of a command have one form, even if it fails: text by default, and JSON if that is
// requested, or for a server without a terminal.
func TestWhatIsSaidHasOneForm(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		line string
		code int
		json bool // by default
	}{
		{"migrate", 0, false}, {"keys create --name first --scopes admin", 0, false}, {"keys revoke nobody", 1, false}, {"keys rotate-token-key", 0, false},
		{"keys craete", 2, false}, {"keys create --nam first", 2, false}, {"serv", 2, false}, {"healthcheck", 1, false},
		{"serve loudly", 2, true}, {"serve", 1, true},
	} {
		t.Run(row.line, func(t *testing.T) {
			t.Parallel()
			for _, format := range []string{"", "text", "json"} {
				var out, errs bytes.Buffer
				environ := []string{"FANFARE_ADDR=127.0.0.1:1", "FANFARE_EMBEDDED=memory", "FANFARE_LOG_FORMAT=" + format, "FANFARE_DATABASE_URL=sqlite:" + filepath.Join(t.TempDir(), "x.db")}
				if row.line == "serve" {
					environ = append(environ, "FANFARE_ROLES=nothing", "FANFARE_SHARDS=0")
				}
				if code := Run(t.Context(), Program{Args: strings.Fields(row.line), Environ: environ, Stdout: &out, Stderr: &errs}); code != row.code || errs.Len() == 0 {
					t.Errorf("%q: exit code %d: %s", format, code, &errs)
				}
				wantJSON := format == "json" || format == "" && row.json
				for line := range strings.Lines(errs.String()) {
					if json.Valid([]byte(line)) != wantJSON {
						t.Errorf("%q: %s", format, line)
					}
				}
			}
		})
	}
}

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ container, machine, want int64 }{
		{1000, 8000, 900}, {0, 8000, 4000}, {9000, 8000, 4000}, {1000, 0, 900}, {0, 0, 0},
	} {
		if got := memoryLimit(row.container, row.machine); got != row.want {
			t.Errorf("a container of %d on a machine of %d: %d, want %d", row.container, row.machine, got, row.want)
		}
	}
	if machineMemory() < 64<<20 {
		t.Errorf("the machine has %d bytes", machineMemory())
	}
}
