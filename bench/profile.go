package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fanfare/store/redisdb"
)

// profiler is the file that is added to the program to be profiled, because the program itself has
// no address for it.
const profiler = `package main

import (
	"net/http"
	_ "net/http/pprof"
	"os"
)

var _ = func() bool {
	go func() { _ = http.ListenAndServe(os.Getenv("BENCH_PPROF_ADDR"), nil) }()
	return true
}()
`

// buildFanfare builds the program, on request with a profiler.
func (w *world) buildFanfare() {
	if w.profile == "" || w.against != "" {
		w.build(".", w.program)
		return
	}
	w.pprof = w.freeAddr()
	source, overlay := filepath.Join(w.dir, "profiler.go"), filepath.Join(w.dir, "overlay.json")
	over := got(filepath.Abs("bench_profiler.go"))
	must(os.WriteFile(source, []byte(profiler), 0o600))
	must(os.WriteFile(overlay, got(json.Marshal(map[string]any{"Replace": map[string]string{over: source}})), 0o600))
	w.build(".", w.program, "-overlay", overlay)
}

// profileNames are the names that -profile accepts.
func profileNames() string {
	var names []string
	for _, s := range subjects(sections()) {
		names = append(names, s.profiles...)
	}
	return strings.Join(names, ", ")
}

// profiled is what -profile runs: the subject that has the named side. It has no rows.
func profiled(name string) subject {
	for _, s := range subjects(sections()) {
		if slices.Contains(s.profiles, name) {
			return subject{name: name, measure: s.measure}
		}
	}
	failf("there is no profile of %q, only of %s", name, profileNames())
	return subject{}
}

// showProfile runs the side. For each thing that the side does it shows the commands of Redis and the
// processor time of Redis and fanfare. Then it shows the functions in which fanfare spent its time.
func (s *side) showProfile(w *world) {
	s.round(w.ctx, w.seconds) // warm-up
	must(s.stage.redis.ConfigResetStat(w.ctx).Err())
	var found sample
	parallel(2, func(i int) {
		if i == 0 {
			found = s.round(w.ctx, w.seconds)
			return
		}
		path := fmt.Sprintf("/debug/pprof/profile?seconds=%d", max(1, int(w.seconds.Seconds())))
		must(os.WriteFile(w.dir+"/cpu.pprof", get(w.pprof, path), 0o600))
	})
	fmt.Printf("%s, %.0f times, processor time of each: Redis %.1f µs, fanfare %.1f µs\n\n",
		w.profile, found["count"], found["redis"], found["fanfare"])
	show("command", s.stage.spent(), found["count"])
	s.stage.record("0")
	// Commands that scripts call are recorded too. There are millions of them, and recording them
	// takes time.
	found = s.round(w.ctx, min(w.seconds, time.Second))
	s.stage.record("-1")
	show("script", s.stage.recorded(), found["count"])
	for _, sorted := range []string{"-flat", "-cum"} {
		top := []string{"go", "tool", "pprof", "-top", sorted, "-nodecount=50", w.program, w.dir + "/cpu.pprof"}
		fmt.Printf("\n%s", w.output(nil, top...))
	}
}

// spent is the time of all calls of one kind of command.
type spent struct{ calls, usec float64 }

// show prints the commands for each of n things, the slowest first.
func show(what string, all map[string]spent, n float64) {
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Compare(all[b].usec, all[a].usec) })
	table := [][]string{{what, "calls each", "µs each"}}
	for _, name := range names[:min(25, len(names))] {
		table = append(table, []string{name, fmt.Sprintf("%.3f", all[name].calls/n), fmt.Sprintf("%.2f", all[name].usec/n)})
	}
	align(append(table, nil))
}

// spent are Redis' statistics of commands. The commands that a script calls are listed separately,
// and are also part of the time of its EVALSHA.
func (s *stage) spent() map[string]spent {
	all := map[string]spent{}
	for name, text := range got(s.redis.InfoMap(s.ctx, "commandstats").Result())["Commandstats"] {
		var of spent
		got(fmt.Sscanf(text, "calls=%f,usec=%f", &of.calls, &of.usec))
		all[strings.TrimPrefix(name, "cmdstat_")] = of
	}
	return all
}

// record lets Redis record each command that takes longer than a number of µs: "0" records all, "-1"
// none.
func (s *stage) record(than string) {
	must(s.redis.ConfigSet(s.ctx, "slowlog-max-len", "1000000").Err())
	must(s.redis.ConfigSet(s.ctx, "slowlog-log-slower-than", than).Err())
}

// recorded are the scripts among the commands that Redis recorded, by the names of their files.
func (s *stage) recorded() map[string]spent {
	names, all := map[string]string{}, map[string]spent{}
	for _, file := range append(got(filepath.Glob("store/*/lua/*.lua")), got(filepath.Glob("store/*/*/lua/*.lua"))...) {
		room, name, _ := strings.Cut(filepath.ToSlash(file), "/lua/")
		if script, err := redisdb.NewScript(os.DirFS(room), "lua/"+name); err == nil { // a part of scripts is none itself
			names[script.SHA()] = name
		}
	}
	for _, e := range got(s.redis.SlowLogGet(s.ctx, -1).Result()) {
		if strings.EqualFold(e.Args[0], "evalsha") && len(e.Args) > 1 {
			name := cmp.Or(names[e.Args[1]], e.Args[1])
			all[name] = spent{all[name].calls + 1, all[name].usec + float64(e.Duration.Microseconds())}
		}
	}
	return all
}
