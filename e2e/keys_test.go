package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fanfare/store/storetest"
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

// A key that one server made works on the others, and ends on all of them when one has revoked it.
func TestN19_OtherServersFollow(t *testing.T) {
	t.Parallel()
	vars := []string{"FANFARE_REDIS_URL=" + storetest.Redis(t).URL(), "FANFARE_DATABASE_URL=" + storetest.MySQL(t), "FANFARE_LOG_LEVEL=debug",
		"FANFARE_TRUSTED_PROXIES=127.0.0.0/8"}
	key := mustCreateKey(t, t.TempDir(), "admin", vars...)
	servers := mustServeMany(t, 2, vars...)
	one, other := servers[0], servers[1]
	one.key, other.key = key, key
	var made struct{ ID, Key string }
	one.must(201, &made, "POST", "/v1/keys", map[string]any{"name": "looks on", "scopes": []string{"ops:read"}})
	asked := 0
	answers := func(p *program, want int) func() bool {
		return func() bool {
			asked++ // each time from another address, because one with 20 wrong keys gets 429
			status, _, err := p.try("GET", "/v1/stats", nil, "Authorization", "Bearer "+made.Key, "X-Forwarded-For", fmt.Sprint("192.0.2.", asked%256))
			return err == nil && status == want
		}
	}
	if !answers(one, 200)() {
		t.Error("the server that made the key does not take it at once")
	}
	storetest.Eventually(t, 30*time.Second, "the other server takes the key", answers(other, 200))
	other.must(204, nil, "DELETE", "/v1/keys/"+made.ID, nil)
	if !answers(other, 401)() {
		t.Error("the server that revoked the key takes it still")
	}
	storetest.Eventually(t, 30*time.Second, "the first server refuses the key", answers(one, 401))
	for _, p := range servers {
		if strings.Contains(p.stderr.String(), made.Key) {
			t.Error("the key is in the log")
		}
	}
}
