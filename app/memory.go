package app

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const (
	// roomyHeap is the heap, in bytes, that every process may fill before the collector runs, so
	// that a process with a small heap collects rarely. With a backlog of a million a process has
	// 90 to 98 MiB in all.
	roomyHeap = 36 << 20
	// leastPercent is GOGC once the live heap reaches roomyHeap; mostPercent is GOGC for a very
	// small one.
	leastPercent, mostPercent = 100, 400
)

// tuneMemory sets how hard the collector works, and the limit at which it works harder,
// unless GOGC and GOMEMLIMIT say otherwise. withChild says that an embedded server needs memory too.
func tuneMemory(c *config, withChild bool) {
	if !c.ownGC {
		tuneCollector()
	}
	container, machine := containerMemory("/"), machineMemory()
	if withChild && container > 0 { // the child is in the same container
		container -= childMemory(container, machine)
	}
	if limit := memoryLimit(container, machine); !c.ownMemory && limit > 0 {
		debug.SetMemoryLimit(limit)
	}
}

// tuneCollector adapts GOGC for as long as the process lives.
var tuneCollector = sync.OnceFunc(func() { afterEachCollection(new(tuner).tune) })

// afterEachCollection calls do now, and after each run of the collector.
func afterEachCollection(do func()) {
	do()
	runtime.SetFinalizer(&struct{ next *struct{} }{}, func(any) { afterEachCollection(do) })
}

// tuner adapts GOGC to the live heap.
type tuner struct{ percent int }

func (t *tuner) tune() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	// Each change stops the world for a moment.
	if now := gcPercent(live[0].Value.Uint64()); now > t.percent*21/20 || now < t.percent*19/20 {
		t.percent = now
		debug.SetGCPercent(now)
	}
}

// gcPercent is GOGC for a live heap of so many bytes.
func gcPercent(live uint64) int {
	if live >= roomyHeap {
		return leastPercent
	}
	return int(min(max(leastPercent, 100*(roomyHeap-live)/max(live, 1)), mostPercent))
}

// memoryLimit is 90 % of the container's memory limit. If there is none, it is half of the
// machine's memory, because other programs need memory too. It is 0 if neither is known.
func memoryLimit(container, machine int64) int64 {
	if container > 0 && (machine == 0 || container < machine) {
		return container / 10 * 9
	}
	return machine / 2
}

// childMemory is the maxmemory of an embedded server: a quarter of the memory, because the server may
// need twice its data for a moment while it writes its append-only file anew. It is 0 if the memory is
// not known.
func childMemory(container, machine int64) int64 {
	if container > 0 && (machine == 0 || container < machine) {
		return container / 4
	}
	return machine / 4
}

// containerMemory is the memory limit of this process, in bytes: the least one of its control group and the groups
// above it, in version 2 of control groups or in version 1. It is 0 if there is none. root is where /proc and /sys are.
func containerMemory(root string) int64 {
	text, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup")) // without it there is no limit
	var least int64
	for line := range strings.Lines(string(text)) {
		_, line, _ = strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, group, _ := strings.Cut(line, ":")
		tree, file := "sys/fs/cgroup", "memory.max"
		if slices.Contains(strings.Split(controllers, ","), "memory") {
			tree, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		} else if controllers != "" {
			continue
		}
		// In a container the group may be named as the host names it, which only leads to the top of the tree.
		for group = path.Clean("/" + group); ; group = path.Dir(group) {
			if limit := memoryLimitIn(filepath.Join(root, tree, group, file)); limit > 0 && (least == 0 || limit < least) {
				least = limit
			}
			if group == "/" {
				break
			}
		}
	}
	return least
}

// memoryLimitIn reads a control group's memory limit; it is 0 if the group has none, or the file is not there.
func memoryLimitIn(file string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || limit > 1<<60 { // "max"; version 1 has the largest number of whole pages instead
		return 0
	}
	return limit
}

// machineMemory is the machine's memory in bytes; 0 when it is not known.
func machineMemory() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	var kib int64
	if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kib); err != nil {
		return 0
	}
	return kib << 10
}
