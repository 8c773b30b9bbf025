package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// While the disk of an embedded redis-server is full, changes are answered 503 and reads work. When there is room
// again, changes work by themselves, and what was answered gets into the server's file.
func TestEmbeddedServerOnAFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder := filepath.Join(dir, "fanfare-data")
	storetest.Must(t, os.Mkdir(folder, 0o700))
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a small disk needs root: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(folder, syscall.MNT_DETACH) })
	p := mustServe(t, dir, "FANFARE_EMBEDDED=redis")
	put := func(n int) int {
		status, answer, err := p.try("PUT", fmt.Sprintf("/v1/values/n-%d", n), map[string]any{"value": strings.Repeat("x", 8000)})
		storetest.Must(t, err)
		if status != 201 && status != 200 && status != 503 {
			t.Fatalf("%d %s", status, answer)
		}
		return status
	}
	last := 0
	storetest.Eventually(t, time.Minute, "the disk is full", func() bool {
		if put(last+1) == 503 {
			return true
		}
		last++
		return false
	})
	filler := filepath.Join(folder, "filler") // the rest of the last block
	_ = os.WriteFile(filler, make([]byte, 1<<20), 0o600)
	p.must(200, nil, "GET", "/v1/values/n-1", nil)
	p.must(503, nil, "PUT", "/v1/values/color", map[string]any{"value": "blue"})

	storetest.Must(t, syscall.Mount("tmpfs", folder, "tmpfs", syscall.MS_REMOUNT, "size=8m"))
	storetest.Must(t, os.Remove(filler))
	storetest.Eventually(t, 30*time.Second, "changes work again", func() bool { return put(last+1) != 503 })
	mustKillServer(t, dir)
	for n := range last + 1 {
		storetest.Eventually(t, 30*time.Second, "a value is there", func() bool {
			status, _, err := p.try("GET", fmt.Sprintf("/v1/values/n-%d", n+1), nil)
			storetest.Must(t, err)
			if status == 404 {
				t.Fatalf("value %d of %d is lost", n+1, last+1)
			}
			return status == 200
		})
	}
}
