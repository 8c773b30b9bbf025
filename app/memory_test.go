package app

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// TestGCPercent: the live heap may grow to roomyHeap, or to twice its size.
func TestGCPercent(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for live, want := range map[uint64]int{0: 400, 4 * mib: 400, 10 * mib: 260, 16 * mib: 125, 20 * mib: 100, 35 * mib: 100, roomyHeap: 100, 4 << 30: 100} {
		if got := gcPercent(live); got != want {
			t.Errorf("with %d MiB that live GOGC is %d, want %d", live/mib, got, want)
		}
		if heap := live + live*uint64(gcPercent(live))/100; heap > max(roomyHeap, 2*live) {
			t.Errorf("%d MiB that live may grow to %d", live/mib, heap/mib)
		}
	}
}

// TestAfterEachCollection: the function that adapts GOGC runs at once and after each collection,
// not only after the first.
func TestAfterEachCollection(t *testing.T) {
	t.Parallel()
	runs := make(chan bool, 100)
	afterEachCollection(func() {
		select {
		case runs <- true:
		default: // later tests cause collections as well
		}
	})
	for n := range 4 {
		select {
		case <-runs:
		case <-time.After(20 * time.Second):
			t.Fatalf("after %d runs there is none", n)
		}
		runtime.GC()
	}
}

// The memory limit is the least one of the process's control group and of the groups above it, wherever they are.
func TestContainerMemory(t *testing.T) {
	t.Parallel()
	const v1None = "9223372036854771712\n" // what version 1 writes for no limit
	for name, tc := range map[string]struct {
		self  string
		files map[string]string
		want  int64
	}{
		"Nothing":             {"", nil, 0},
		"OwnNamespace":        {"0::/\n", map[string]string{"memory.max": "1000\n"}, 1000},
		"OwnNamespaceNoMax":   {"0::/\n", map[string]string{"memory.max": "max\n"}, 0},
		"Unit":                {"0::/system.slice/fanfare.service\n", map[string]string{"system.slice/fanfare.service/memory.max": "1000\n", "system.slice/memory.max": "max\n"}, 1000},
		"SliceAbove":          {"0::/system.slice/fanfare.service\n", map[string]string{"system.slice/fanfare.service/memory.max": "3000\n", "system.slice/memory.max": "2000\n"}, 2000},
		"UnitWithoutLimit":    {"0::/a/b\n", map[string]string{"a/b/memory.max": "max\n", "a/memory.max": "max\n"}, 0},
		"ANameWithAColon":     {"0::/a:b\n", map[string]string{"a:b/memory.max": "1000\n"}, 1000},
		"AboveTheNamespace":   {"0::/../other\n", map[string]string{"memory.max": "1000\n"}, 1000},
		"Version1":            {"5:cpu,cpuacct:/x\n4:memory:/docker/a\n0::/\n", map[string]string{"memory/docker/a/memory.limit_in_bytes": "1000\n", "memory/memory.limit_in_bytes": v1None}, 1000},
		"Version1InAMount":    {"4:memory:/docker/a\n", map[string]string{"memory/memory.limit_in_bytes": "1000\n"}, 1000},
		"Version1NoLimit":     {"4:memory:/docker/a\n", map[string]string{"memory/docker/a/memory.limit_in_bytes": v1None}, 0},
		"Version1Controllers": {"4:hugetlb,memory:/a\n", map[string]string{"memory/a/memory.limit_in_bytes": "1000\n"}, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			put := func(file, text string) {
				file = filepath.Join(root, file)
				storetest.Must(t, os.MkdirAll(filepath.Dir(file), 0o700))
				storetest.Must(t, os.WriteFile(file, []byte(text), 0o600))
			}
			if tc.self != "" {
				put("proc/self/cgroup", tc.self)
			}
			for file, text := range tc.files {
				put("sys/fs/cgroup/"+file, text)
			}
			if got := containerMemory(root); got != tc.want {
				t.Errorf("%d, want %d", got, tc.want)
			}
		})
	}
}
