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

// profilerEnv is the variable with the address of the profiler, in a fanfare that was built with
// it.
const profilerEnv = "BENCH_PPROF_ADDR"

// profiler is the file that is added to the program to be profiled, because the program itself has
// no such address.
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

// buildFanfare builds the program, on request with a profiler.
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

// profileNames are the names that -profile accepts.
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

// showProfile runs a side. For each thing that the side does it shows the commands of Redis and the
// processor time of Redis and fanfare. Then it shows the functions in which fanfare spent its time.
func (w *world) showProfile() {
	addr, _ := freeAddr()
	w.env = []string{profilerEnv + "=" + addr}
	s := w.profiled()
	s.round(w.ctx, w.seconds) // warm-up
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
	// Commands that scripts call are recorded too. There are millions of them, and recording them
	// takes time.
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

// spent is the time of all calls of one kind of command.
type spent struct {
	name        string
	calls, usec float64
}

// showSpent prints the commands for each of n things, the slowest first.
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

// commands are Redis' statistics of commands. The commands that a script calls are listed
// separately, and are also part of the time of its EVALSHA.
func (s *side) commands(ctx context.Context) (lines []spent) {
	info := got(s.redis().InfoMap(ctx, "commandstats").Result())
	for name, text := range info["Commandstats"] {
		lines = append(lines, spent{strings.TrimPrefix(name, "cmdstat_"), statistic(text, "calls"), statistic(text, "usec")})
	}
	return lines
}

// statistic is a figure in a line of Redis' statistics, or 0 if it is missing.
func statistic(text, name string) (v float64) {
	for pair := range strings.SplitSeq(text, ",") {
		if key, value, _ := strings.Cut(pair, "="); key == name {
			v = got(strconv.ParseFloat(value, 64))
		}
	}
	return v
}

// slow lets Redis record each command that takes longer than a number of µs: "0" records all, "-1"
// none.
func (s *side) slow(ctx context.Context, than string) {
	must(s.redis().ConfigSet(ctx, "slowlog-max-len", "1000000").Err())
	must(s.redis().ConfigSet(ctx, "slowlog-log-slower-than", than).Err())
}

// noted are the scripts among the commands that Redis recorded, by name.
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

// scriptNames returns the names of the scripts of the store by their hashes.
func scriptNames() map[string]string {
	names := map[string]string{}
	for _, file := range append(got(filepath.Glob("store/*/lua/*.lua")), got(filepath.Glob("store/*/*/lua/*.lua"))...) {
		room, name, _ := strings.Cut(filepath.ToSlash(file), "/lua/")
		script, err := redisdb.NewScript(os.DirFS(room), "lua/"+name)
		if err == nil {
			names[script.SHA()] = name
		}
	}
	return names
}
