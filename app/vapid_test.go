package app

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fanfare/store/storetest"
)

// runVAPID runs fanfare vapid, and returns what it prints.
func runVAPID(t *testing.T, want int, args ...string) (out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	if code := Run(t.Context(), Program{Args: append([]string{"vapid"}, args...), Stdout: &o, Stderr: &e}); code != want {
		t.Fatalf("%s: exit code %d: %s", args, code, &e)
	}
	return o.String(), e.String()
}

// W4: a key for Web Push is made with one command. The private key is for its owner alone, is never
// printed, and never replaces another one. A server takes both keys.
func TestW4_AKeyForWebPush(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "web.pem")
	public, said := runVAPID(t, 0, "create", "--file", file)
	point, err := base64.RawURLEncoding.DecodeString(strings.TrimSuffix(public, "\n"))
	if err != nil || len(point) != 65 {
		t.Errorf("printed %q: %v", public, err)
	}
	private, err := os.ReadFile(file)
	storetest.Must(t, err)
	info, err := os.Stat(file)
	storetest.Must(t, err)
	if info.Mode().Perm() != 0o600 || !strings.Contains(string(private), "BEGIN PRIVATE KEY") {
		t.Errorf("the file has mode %v and is\n%s", info.Mode(), private)
	}
	if secret := strings.Split(string(private), "\n")[1]; strings.Contains(public+said, secret) || !strings.Contains(said, file) {
		t.Errorf("printed %s%s", public, said)
	}
	if out, said := runVAPID(t, 1, "create", "--file", file); out != "" || !strings.Contains(said, "is there already") {
		t.Errorf("printed %s%s", out, said)
	}
	if again, err := os.ReadFile(file); err != nil || !bytes.Equal(again, private) {
		t.Errorf("the file was replaced: %v", err)
	}
	if _, said := runVAPID(t, 1, "create", "--file", filepath.Join(dir, "no", "web.pem")); !strings.Contains(said, "write the private key: open") {
		t.Errorf("printed %s", said)
	}

	apps := filepath.Join(dir, "apps.json")
	storetest.Must(t, os.WriteFile(apps, fmt.Appendf(nil, `{"apps": [{"platform": "webpush", "topic": "shop", "public_key": %q, "private_key_file": "web.pem", "subject": "mailto:ops@example.com"}]}`,
		strings.TrimSpace(public)), 0o600))
	a := &app{config: mustParse(t, "FANFARE_APPS_FILE="+apps), log: slog.New(slog.DiscardHandler)}
	sender, err := a.openSender()
	storetest.Must(t, err)
	t.Cleanup(func() { _ = sender.Close() })
	names := strings.Join(slices.Sorted(maps.Keys(sender.Apps())), " ")
	if want := "shop/webpush:*.notify.windows.com shop/webpush:*.push.apple.com shop/webpush:*.push.services.mozilla.com shop/webpush:fcm.googleapis.com shop/webpush:other"; names != want {
		t.Errorf("apps %s, want %s", names, want)
	}
}

func TestVAPIDTakesCreateAlone(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"vapid takes create": nil, "vapid takes create: fanfare": {"make"}, `"x" belongs to no flag`: {"create", "x"}, "not defined: -files": {"create", "--files", "x"},
	} {
		if _, said := runVAPID(t, 2, args...); !strings.Contains(said, want) {
			t.Errorf("%s: %s", args, said)
		}
	}
}
