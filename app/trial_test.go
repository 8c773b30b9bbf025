package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"fanfare/store/storetest"
)

// W16: somebody who tries fanfare out gets a key for Web Push in files that only this user may read, and the same one at the
// next start. If its files cannot be used, nobody is told that notifications are sent.
func TestW16_TheKeyOfATrial(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() *app {
		a := &app{config: mustParse(t, "FANFARE_EMBEDDED=memory", "FANFARE_DATABASE_URL=sqlite:"+filepath.Join(dir, "x.db")), log: slog.New(slog.DiscardHandler)}
		if _, err := a.openSender(); err != nil {
			t.Fatal(err)
		}
		return a
	}
	apps, key := filepath.Join(dir, "x.db.apps.json"), filepath.Join(dir, "x.db.vapid.pem")
	if a := open(); a.trialApps != apps {
		t.Fatalf("the apps are in %q", a.trialApps)
	}
	first, err := os.ReadFile(key)
	storetest.Must(t, err)
	for _, name := range []string{apps, key} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if again, err := os.ReadFile(key); open().trialApps != apps || err != nil || string(again) != string(first) {
		t.Errorf("another key: %v", err)
	}
	whole, err := os.ReadFile(apps)
	storetest.Must(t, err)
	storetest.Must(t, os.WriteFile(apps, whole[:len(whole)/2], 0o600))
	if a := open(); a.trialApps != "" {
		t.Error("half an apps file is said to send")
	}
	storetest.Must(t, os.WriteFile(apps, whole, 0o600))
	storetest.Must(t, os.Remove(key))
	if a := open(); a.trialApps != "" {
		t.Error("an app without its key is said to send")
	}
}
