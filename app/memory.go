package app

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"time"
)

const (
	// roomyHeap is the heap that every process may fill before the collector runs, in
	// bytes: one that holds little spends little on it, and one before a backlog of a
	// million stays under 94 MiB in all.
	roomyHeap = 36 << 20
	// leastPercent is GOGC for what lives beyond that, mostPercent for what hardly lives.
	leastPercent, mostPercent = 100, 400
	// tuneEvery is how often GOGC is fitted to what lives.
	tuneEvery = 250 * time.Millisecond
)

// tuneMemory sets how hard the collector works, until ctx ends, and the limit at which it
// works harder, unless GOGC and GOMEMLIMIT say otherwise.
func tuneMemory(ctx context.Context, c *config) {
	if !c.ownGC {
		go tuneCollector(ctx)
	}
	if limit := memoryLimit(containerMemory(), machineMemory()); !c.ownMemory && limit > 0 {
		debug.SetMemoryLimit(limit)
	}
}

func tuneCollector(ctx context.Context) {
	live, percent := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}, 0
	often := time.NewTicker(tuneEvery)
	defer often.Stop()
	for ctx.Err() == nil {
		metrics.Read(live)
		if now := gcPercent(live[0].Value.Uint64()); now > percent*21/20 || now < percent*19/20 { // each change stops the world
			percent = now
			debug.SetGCPercent(percent)
		}
		select {
		case <-often.C:
		case <-ctx.Done():
		}
	}
}

// gcPercent is GOGC for a heap of which so many bytes live.
func gcPercent(live uint64) int {
	if live >= roomyHeap {
		return leastPercent
	}
	return int(min(max(leastPercent, 100*(roomyHeap-live)/max(live, 1)), mostPercent))
}

// memoryLimit is 90 % of the container's memory, or else half of the machine's,
// which others share; 0 when neither is known.
func memoryLimit(container, machine int64) int64 {
	if container > 0 && (machine == 0 || container < machine) {
		return container / 10 * 9
	}
	return machine / 2
}

// containerMemory is the memory limit of this process's control group, in
// bytes; 0 when there is none.
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
