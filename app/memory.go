package app

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
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
	container, machine := containerMemory(), machineMemory()
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

// containerMemory is the memory limit of this process's control group, in bytes; 0 if there is
// none.
func containerMemory() int64 {
	text, err := os.ReadFile("/sys/fs/cgroup/memory.max")
	if err != nil {
		return 0
	}
	var limit int64
	if _, err := fmt.Sscan(strings.TrimSpace(string(text)), &limit); err != nil {
		return 0 // "max"
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
