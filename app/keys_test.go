package app

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestParseExpiry(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 15, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"90d": "2027-02-20T15:00:00Z", "12h": "2026-11-23T03:00:00Z", "2027-01-31": "2027-02-01T00:00:00Z",
		"2026-11-22": "2026-11-23T00:00:00Z", "2027-01-31T12:00:00+02:00": "2027-01-31T10:00:00Z",
	} {
		at, err := parseExpiry(text, now)
		if err != nil || at.UTC().Format(time.RFC3339) != want {
			t.Errorf("%s: %v %v, want %s", text, at, err, want)
		}
	}
	if at, err := parseExpiry("", now); at != nil || err != nil {
		t.Errorf("%v %v", at, err)
	}
	for _, text := range []string{"0d", "-3d", "d", "12", "never", "2026-11-21", "-1h", "2026-11-22T15:00:00Z", "2027-13-01", "3000000d", "213503982334966d", "9999-12-31", "2026-11-23T15:00:00,5Z"} {
		if at, err := parseExpiry(text, now); err == nil {
			t.Errorf("%s: %v", text, at)
		}
	}
}

// A key can be revoked by its secret, for example if only the leaked key is known. The output names
// the key and does not show the secret.
func TestRevokeByTheKeyItself(t *testing.T) {
	t.Parallel()
	environ := []string{"FANFARE_DATABASE_URL=sqlite:" + filepath.Join(t.TempDir(), "x.db")}
	run := func(want int, args ...string) (out, errs string) {
		var o, e bytes.Buffer
		if code := Run(t.Context(), Program{Args: args, Environ: environ, Stdout: &o, Stderr: &e}); code != want {
			t.Fatalf("%s: exit code %d: %s", args, code, &e)
		}
		return strings.TrimSpace(o.String()), e.String()
	}
	const isNew = "the database is new"
	key, errs := run(0, "keys", "create", "--name", "leaked", "--scopes", "push,chat")
	if !strings.Contains(errs, isNew) {
		t.Errorf("nobody learns that this database is not the server's: %s", errs)
	}
	if _, errs := run(0, "keys", "list"); strings.Contains(errs, isNew) {
		t.Errorf("it is new twice: %s", errs)
	}
	for key, code := range map[string]int{key: 0, strings.Replace(key, "ff_", "ff_x", 1): 1} {
		_, said := run(code, "keys", "revoke", key)
		if code == 0 && !strings.Contains(said, "(leaked, for push,chat) is ended") {
			t.Errorf("revoked: %s", said)
		}
		if strings.Contains(said, key) {
			t.Errorf("the key is shown: %s", said)
		}
	}
	if list, _ := run(0, "keys", "list"); strings.HasSuffix(list, "never") {
		t.Errorf("it is not revoked:\n%s", list)
	}
}
