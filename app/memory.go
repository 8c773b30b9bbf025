package app

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
)

// tuneMemory trades memory for speed (GOGC=250: a process before a backlog stays
// under 150 MiB; more gains little) and sets the limit at which the collector works
// harder, unless GOGC and GOMEMLIMIT say otherwise.
func tuneMemory(c *config) {
	if !c.ownGC {
		debug.SetGCPercent(250)
	}
	if limit := memoryLimit(containerMemory(), machineMemory()); !c.ownMemory && limit > 0 {
		debug.SetMemoryLimit(limit)
	}
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
