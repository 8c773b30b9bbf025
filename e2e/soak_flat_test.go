package e2e

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// flatness has the memory of slot 0 while the traffic was stopped, measured once for each storm.
type flatness struct {
	// heap is the heap in bytes after a collection, without buffers. buffers are the buffers of
	// connections to Redis and APNs, which keep their largest size, up to a limit.
	heap, buffers, goroutines []float64
	profiles                  []map[string]float64 // profiles of the heap: bytes in use by stack
}

var (
	heapLine       = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)
	goroutinesLine = regexp.MustCompile(`^goroutine profile: total (\d+)\n`)
	heldLine       = regexp.MustCompile(`(?m)^(\d+): (\d+) \[`)
	functionName   = regexp.MustCompile(`(?:fanfare/|github\.com/|net/http)[^+\s]+`)
)

// sample measures slot 0, whose process is never killed.
func (f *flatness) sample(s *soak) {
	s.http.CloseIdleConnections()
	<-time.After(time.Second)
	heap, buffers, held := s.profile("/debug/pprof/heap?gc=1&debug=1"), 0.0, map[string]float64{}
	for stack := range strings.SplitSeq(heap, "\n\n") {
		bytes := heldBy(stack)
		if strings.Contains(stack, "pool.NewConnWithBufferSize") || strings.Contains(stack, "h2.(*gather).Write") {
			buffers += bytes
		}
		held[strings.Join(functionName.FindAllString(stack, -1), " < ")] += bytes
	}
	f.profiles = append(f.profiles, held)
	f.heap = append(f.heap, figureOf(heap, heapLine)-buffers)
	f.buffers = append(f.buffers, buffers)
	f.goroutines = append(f.goroutines, figureOf(s.profile("/debug/pprof/goroutine?debug=1"), goroutinesLine))
	n := len(f.heap) - 1
	s.t.Logf("%s sample %d: heap %.1f MiB and %.1f of buffers, %.0f goroutines", clock(time.Now()), n, f.heap[n]/(1<<20), f.buffers[n]/(1<<20), f.goroutines[n])
}

// profileRate is how many bytes a process allocates between two samples of its profile. It is so
// small that every buffer is sampled.
const profileRate = 8 << 10

// heldBy estimates the bytes that a stack holds. The text of a profile has only samples: of objects
// smaller than profileRate not every one is sampled.
func heldBy(stack string) float64 {
	found := heldLine.FindStringSubmatch(stack)
	if found == nil {
		return 0
	}
	objects, _ := strconv.ParseFloat(found[1], 64)
	bytes, _ := strconv.ParseFloat(found[2], 64)
	if objects == 0 {
		return 0
	}
	return bytes / (1 - math.Exp(-bytes/objects/profileRate))
}

// profile reads a profile of slot 0.
func (s *soak) profile(path string) string {
	there := &program{base: s.slots[0].private}
	status, text, err := there.try("GET", path, nil)
	if err != nil || status != 200 {
		s.failf("%s: %d %v", path, status, err)
	}
	return string(text)
}

// figureOf is the number in the first line with a prefix; 0 if there is none.
func figureOf(text string, line *regexp.Regexp) float64 {
	found := line.FindStringSubmatch(text)
	if found == nil {
		return 0
	}
	v, _ := strconv.ParseFloat(found[1], 64)
	return v
}

// quarters returns the medians of the second and of the last quarter.
func quarters(all []float64) (second, last float64) {
	n := len(all)
	return median(all[n/4 : n/2]), median(all[n-n/4:])
}

func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// flatEnough is by how much the last quarter may exceed the second.
const flatEnough = 1.05

// enough reports whether there are enough samples to distinguish growth from chance.
func (f *flatness) enough() bool { return len(f.heap) >= 12 }

// check compares the last quarter with the second; the first is the warm-up.
func (f *flatness) check(s *soak) {
	if !f.enough() {
		return
	}
	for name, all := range map[string][]float64{"heap": f.heap, "goroutines": f.goroutines} {
		if second, last := quarters(all); second == 0 || last > second*flatEnough {
			s.failf("%s: median %.0f in the second quarter, %.0f in the last; all %.0f", name, second, last, all)
			f.logGrown(s)
		}
	}
}

// logGrown logs the stacks whose mean bytes grew most from the second quarter to the last.
func (f *flatness) logGrown(s *soak) {
	grown, n := map[string]float64{}, len(f.profiles)
	for i := range n / 4 {
		for stack, bytes := range f.profiles[n-1-i] {
			grown[stack] += bytes / float64(n/4)
		}
		for stack, bytes := range f.profiles[n/4+i] {
			grown[stack] -= bytes / float64(n/4)
		}
	}
	stacks := slices.SortedFunc(maps.Keys(grown), func(a, b string) int { return cmp.Compare(grown[b], grown[a]) })
	for _, stack := range stacks[:min(len(stacks), 12)] {
		s.t.Logf("grew by %.0f bytes: %s", grown[stack], stack)
	}
}

// section is the section of the soak in the file of results.
func (s *soak) section() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n%s, %d cores, %s; %.0f minutes, seed %d. Everything that was accepted was compared\n"+
		"with what became of it: nothing lost, nothing doubled outside the window, nothing wrong.\n\n| what | number |\n|---|---|\n",
		s.name, time.Now().Format(time.DateOnly), runtime.NumCPU(), strings.Replace(runtime.Version(), "go", "Go ", 1), s.length.Minutes(), s.seed)
	for _, name := range slices.Sorted(maps.Keys(s.counts)) {
		fmt.Fprintf(&b, "| %s | %d |\n", name, s.counts[name])
	}
	second, last := quarters(s.flat.heap)
	fmt.Fprintf(&b, "| heap after a collection, median of the second and of the last quarter | %.2f MiB, %.2f MiB |\n", second/(1<<20), last/(1<<20))
	second, last = quarters(s.flat.buffers)
	fmt.Fprintf(&b, "| beside it, buffers of connections to Redis, which have a bound | %.2f MiB, %.2f MiB |\n", second/(1<<20), last/(1<<20))
	second, last = quarters(s.flat.goroutines)
	fmt.Fprintf(&b, "| goroutines | %.0f, %.0f |\n", second, last)
	return b.String()
}

// writeSection replaces the section with the same heading in a file, or adds it at the end.
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
