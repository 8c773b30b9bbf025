package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The first key comes from a file, which is read only while no key was ever made.
func TestAdminKeyFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "admin-key")
	key := "ff_first_" + strings.Repeat("5a", 32)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	vars := []string{"FANFARE_ADMIN_KEY_FILE=" + file, "FANFARE_ADDR=127.0.0.1:0"}
	if code, _, errs := mustRun(t, dir, nil, vars...); code != 1 || !strings.Contains(errs, "FANFARE_ADMIN_KEY_FILE: open ") {
		t.Errorf("no file: exit code %d: %s", code, errs)
	}
	write("hunter2\n")
	if code, _, errs := mustRun(t, dir, nil, vars...); code != 1 || !strings.Contains(errs, "FANFARE_ADMIN_KEY_FILE: what ") || strings.Contains(errs, "hunter2") {
		t.Errorf("no key: exit code %d: %s", code, errs)
	}
	write(key + "\n")
	p := mustServe(t, dir, "FANFARE_ADMIN_KEY_FILE="+file)
	p.must(401, nil, "GET", "/v1/event-types", nil)
	p.key = key
	p.must(200, nil, "GET", "/v1/event-types", nil)
	if said := p.stderr.String(); strings.Contains(said, key) {
		t.Error("the key is in the log")
	}
	p.terminate()
	if err := os.Remove(file); err != nil { // the file is not needed any more
		t.Fatal(err)
	}
	p = mustServe(t, dir, "FANFARE_ADMIN_KEY_FILE="+file)
	p.key = key
	p.must(200, nil, "GET", "/v1/event-types", nil)
}

func TestKeysAsJSON(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	code, out, errs := mustRun(t, dir, []string{"keys", "create", "--name", "ci", "--scopes", "push,ops", "--expires", "90d", "--json"})
	var made struct {
		ID, Name, Key        string
		Scopes               []string
		CreatedAt, ExpiresAt string
	}
	decode := func(text string, v any) {
		t.Helper()
		text = strings.NewReplacer("created_at", "CreatedAt", "expires_at", "ExpiresAt").Replace(text)
		if err := json.Unmarshal([]byte(text), v); err != nil {
			t.Fatalf("%v: %s%s", err, text, errs)
		}
	}
	decode(out, &made)
	if code != 0 || strings.Contains(errs, made.Key) || !strings.HasPrefix(made.Key, "ff_"+made.ID+"_") || made.Name != "ci" || len(made.Scopes) != 2 || made.ExpiresAt <= made.CreatedAt {
		t.Errorf("exit code %d: %+v %s", code, made, errs)
	}
	code, out, _ = mustRun(t, dir, []string{"keys", "list", "--json"})
	listed := []struct{ ID, Key, ExpiresAt string }{}
	decode(out, &listed)
	if code != 0 || len(listed) != 1 || listed[0].ID != made.ID || listed[0].Key != "" || listed[0].ExpiresAt != made.ExpiresAt {
		t.Errorf("exit code %d: %s", code, out)
	}
	for _, bad := range []string{"yesterday", "-1d", "2020-01-01"} {
		if code, _, errs := mustRun(t, dir, []string{"keys", "create", "--name", "ci", "--scopes", "push", "--expires", bad}); code != 2 || !strings.Contains(errs, bad) {
			t.Errorf("%s: exit code %d: %s", bad, code, errs)
		}
	}
}
