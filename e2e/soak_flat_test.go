package e2e

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// flatness is what slot 0 held while the traffic stood still, once a storm.
type flatness struct {
	heap, goroutines []float64 // bytes after a collection; a number
	pooled           []float64 // open connections to Redis
}

// connBuffers are what a pooled connection to Redis keeps for its pipelines, at most: a
// pool grows with the crowds after an outage, up to its bound, and shrinks when nobody
// needs it for half an hour.
const connBuffers = 256 << 10

var (
	heapLine       = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)
	goroutinesLine = regexp.MustCompile(`^goroutine profile: total (\d+)\n`)
	blockingLine   = regexp.MustCompile(`(?m)^fanfare_pool_connections\{pool="redis_blocking"\} (\d+)$`)
	requestsLine   = regexp.MustCompile(`(?m)^fanfare_pool_connections\{pool="redis_requests"\} (\d+)$`)
)

// sample looks at slot 0, whose process is never killed.
func (f *flatness) sample(s *soak) {
	s.http.CloseIdleConnections()
	<-time.After(time.Second)
	f.heap = append(f.heap, s.profile("/debug/pprof/heap?gc=1&debug=1", heapLine))
	f.goroutines = append(f.goroutines, s.profile("/debug/pprof/goroutine?debug=1", goroutinesLine))
	f.pooled = append(f.pooled, s.profile("/metrics", blockingLine)+s.profile("/metrics", requestsLine))
	n := len(f.heap) - 1
	s.t.Logf("%s sample %d: heap %.1f MiB, %.0f goroutines, %.0f connections to Redis", clock(time.Now()), n, f.heap[n]/(1<<20), f.goroutines[n], f.pooled[n])
}

// profile reads one figure of a profile, or of the metrics.
func (s *soak) profile(path string, line *regexp.Regexp) float64 {
	there := &program{base: s.slots[0].private}
	status, text, err := there.try("GET", path, nil)
	found := line.FindSubmatch(text)
	if err != nil || found == nil {
		s.failf("%s: %d %v %.200s", path, status, err, text)
		return 0
	}
	v, _ := strconv.ParseFloat(string(found[1]), 64)
	return v
}

// quarters gives the medians of the second and of the last quarter.
func quarters(all []float64) (second, last float64) {
	n := len(all)
	return median(all[n/4 : n/2]), median(all[n-n/4:])
}

func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// flatEnough is by how much the last quarter may be above the second.
const flatEnough = 1.05

// enough tells whether there are samples enough to tell growth from chance.
func (f *flatness) enough() bool { return len(f.heap) >= 12 }

// check compares the last quarter with the second; the first is the warm-up. The heap may
// grow by the buffers of connections that the pools have more.
func (f *flatness) check(s *soak) {
	if !f.enough() {
		return
	}
	pooled, pooledLast := quarters(f.pooled)
	if second, last := quarters(f.heap); last > second*flatEnough+max(0, pooledLast-pooled)*connBuffers {
		s.failf("heap: median %.0f bytes in the second quarter, %.0f in the last; all %.0f, with %.0f connections", second, last, f.heap, f.pooled)
	}
	if second, last := quarters(f.goroutines); last > second*flatEnough {
		s.failf("goroutines: median %.0f in the second quarter, %.0f in the last; all %.0f", second, last, f.goroutines)
	}
}

// section is the soak's part of the file of results.
func (s *soak) section() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## Soak\n\n%s, %d cores, %s; %.0f minutes, seed %d. Everything that was accepted was compared\n"+
		"with what became of it: nothing lost, nothing doubled outside the window, nothing wrong.\n\n| what | number |\n|---|---|\n",
		time.Now().Format(time.DateOnly), runtime.NumCPU(), strings.Replace(runtime.Version(), "go", "Go ", 1), s.length.Minutes(), s.seed)
	for _, name := range slices.Sorted(maps.Keys(s.counts)) {
		fmt.Fprintf(&b, "| %s | %d |\n", name, s.counts[name])
	}
	second, last := quarters(s.flat.heap)
	fmt.Fprintf(&b, "| heap after a collection, median of the second and the last quarter | %.2f MiB, %.2f MiB |\n", second/(1<<20), last/(1<<20))
	second, last = quarters(s.flat.pooled)
	fmt.Fprintf(&b, "| connections to Redis, the same | %.0f, %.0f |\n", second, last)
	second, last = quarters(s.flat.goroutines)
	fmt.Fprintf(&b, "| goroutines, the same | %.0f, %.0f |\n", second, last)
	return b.String()
}

// writeSection puts a section into a file, in the place of the one with its heading, or
// at the end.
func writeSection(path, section string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	heading, _, _ := strings.Cut(section, "\n")
	before, after, found := strings.Cut(string(old), "\n"+heading+"\n")
	if _, next, more := strings.Cut(after, "\n## "); found && more {
		section += "\n## " + next
	}
	return os.WriteFile(path, []byte(strings.TrimRight(before, "\n")+"\n\n"+section), 0o644)
}
