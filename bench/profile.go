package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// profilerEnv names the address of the profiler in a fanfare that was built for
// it.
const profilerEnv = "BENCH_PPROF_ADDR"

// profiler is the file that is laid over the program to be profiled: the
// program itself has no such door.
const profiler = `package main

import (
	"net/http"
	_ "net/http/pprof"
	"os"
)

var _ = func() bool {
	go func() { _ = http.ListenAndServe(os.Getenv("` + profilerEnv + `"), nil) }()
	return true
}()
`

// buildFanfare builds the program, with a profiler if that is asked for.
func (w *world) buildFanfare() {
	if w.profile == "" || w.against != "" {
		w.build(".", w.program)
		return
	}
	source, overlay := filepath.Join(w.dir, "profiler.go"), filepath.Join(w.dir, "overlay.json")
	over := got(filepath.Abs("bench_profiler.go"))
	must(os.WriteFile(source, []byte(profiler), 0o600))
	must(os.WriteFile(overlay, got(json.Marshal(map[string]any{"Replace": map[string]string{over: source}})), 0o600))
	w.build(".", w.program, "-overlay", overlay)
}

// profileNames are what -profile knows.
func profileNames() string {
	var names []string
	for _, s := range subjects() {
		names = append(names, slices.Sorted(maps.Keys(s.profiles))...)
	}
	return strings.Join(names, ", ")
}

// profiled starts the side that -profile names.
func (w *world) profiled() side {
	for _, s := range subjects() {
		if name, ok := s.profiles[w.profile]; ok {
			sides := s.sides(w)
			return sides[slices.IndexFunc(sides, func(s side) bool { return s.name == name })]
		}
	}
	failf("there is no profile of %q, only of %s", w.profile, profileNames())
	return side{}
}

// showProfile runs a side and shows, for each of the things it does, the commands of Redis
// and the processor time of both, then the functions that fanfare's went to.
func (w *world) showProfile() {
	addr, _ := freeAddr()
	w.env = []string{profilerEnv + "=" + addr}
	s := w.profiled()
	s.round(w.ctx, w.seconds) // warms up
	must(s.redis().ConfigResetStat(w.ctx).Err())
	var found sample
	parallel(2, func(i int) {
		if i == 0 {
			found = s.round(w.ctx, w.seconds)
			return
		}
		path := fmt.Sprintf("/debug/pprof/profile?seconds=%d", max(1, int(w.seconds.Seconds())))
		must(os.WriteFile(w.dir+"/cpu.pprof", get(addr, path), 0o600))
	})
	fmt.Printf("%s, %.0f times, processor time of each: Redis %.1f µs, fanfare %.1f µs\n\n",
		w.profile, found["count"], found["redis"], found["fanfare"])
	showSpent("command", s.commands(w.ctx), found["count"])
	s.slow(w.ctx, "0")
	// What a script calls is noted too, which are millions and have a price of their own.
	found = s.round(w.ctx, min(w.seconds, time.Second))
	s.slow(w.ctx, "-1")
	showSpent("script", s.noted(w.ctx), found["count"])
	for _, sorted := range []string{"-flat", "-cum"} {
		cmd := exec.CommandContext(w.ctx, "go", "tool", "pprof", "-top", sorted, "-nodecount=50", w.program, w.dir+"/cpu.pprof")
		cmd.Stdout, cmd.Stderr = os.Stdout, io.Discard
		fmt.Println()
		must(cmd.Run())
	}
}

// spent is what one kind of command took, by all its calls.
type spent struct {
	name        string
	calls, usec float64
}

// showSpent prints commands for each of n things, the dearest first.
func showSpent(what string, lines []spent, n float64) {
	slices.SortFunc(lines, func(a, b spent) int { return cmp.Compare(b.usec, a.usec) })
	table := [][]string{{what, "calls each", "µs each"}}
	for _, l := range lines[:min(25, len(lines))] {
		table = append(table, []string{l.name, fmt.Sprintf("%.3f", l.calls/n), fmt.Sprintf("%.2f", l.usec/n)})
	}
	align(os.Stdout, append(table, nil))
}

// redis is the client of the side's Redis.
func (s *side) redis() *redis.Client { return s.processes[0].db }

// commands are Redis' own figures. What a script calls is listed by itself too,
// and in the time of its EVALSHA.
func (s *side) commands(ctx context.Context) (lines []spent) {
	info := got(s.redis().InfoMap(ctx, "commandstats").Result())
	for name, text := range info["Commandstats"] {
		lines = append(lines, spent{strings.TrimPrefix(name, "cmdstat_"), statistic(text, "calls"), statistic(text, "usec")})
	}
	return lines
}

// statistic is a figure of a line of Redis' figures, 0 without one.
func statistic(text, name string) (v float64) {
	for pair := range strings.SplitSeq(text, ",") {
		if key, value, _ := strings.Cut(pair, "="); key == name {
			v = got(strconv.ParseFloat(value, 64))
		}
	}
	return v
}

// slow has Redis note each command that takes longer than so many µs from now on: "0"
// notes all, "-1" none.
func (s *side) slow(ctx context.Context, than string) {
	must(s.redis().ConfigSet(ctx, "slowlog-max-len", "1000000").Err())
	must(s.redis().ConfigSet(ctx, "slowlog-log-slower-than", than).Err())
}

// noted are the scripts among the commands that Redis noted, by name.
func (s *side) noted(ctx context.Context) []spent {
	names, sums := scriptNames(), map[string]spent{}
	for _, e := range got(s.redis().SlowLogGet(ctx, -1).Result()) {
		if strings.ToLower(e.Args[0]) != "evalsha" || len(e.Args) < 2 {
			continue
		}
		name := cmp.Or(names[e.Args[1]], e.Args[1])
		l := sums[name]
		sums[name] = spent{name, l.calls + 1, l.usec + micros(e.Duration)}
	}
	return slices.Collect(maps.Values(sums))
}

// scriptNames gives the name of each script of the store by its hash.
func scriptNames() map[string]string {
	names := map[string]string{}
	for _, file := range got(filepath.Glob("store/*/lua/*.lua")) {
		room, name, _ := strings.Cut(filepath.ToSlash(file), "/lua/")
		// What is included may be another room's.
		script, err := redisdb.NewScript(os.DirFS(room), "lua/"+name, os.DirFS("store/queue"))
		if err == nil {
			names[script.SHA()] = name
		}
	}
	return names
}
