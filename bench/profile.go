package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
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
func (w *world) buildFanfare() error {
	if w.options.profile == "" || w.against != "" {
		return w.build(".", w.program)
	}
	root, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	source := w.binary("profiler.go")
	over, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, "bench_profiler.go"): source}})
	if err != nil {
		return err
	}
	if err := errors.Join(os.WriteFile(source, []byte(profiler), 0o600), os.WriteFile(w.binary("overlay.json"), over, 0o600)); err != nil {
		return err
	}
	return w.build(".", w.program, "-overlay", w.binary("overlay.json"))
}

// profile runs a workload and shows, for each of the things it does, the
// commands of Redis and the processor time of both, then the functions that
// fanfare's went to.
func (w *world) profile(ctx context.Context, out io.Writer) error {
	door, err := freeAddr()
	if err != nil {
		return err
	}
	load, err := w.workload(ctx, w.options.profile, profilerEnv+"="+door)
	if err != nil {
		return err
	}
	defer load.close()
	if _, err := load.run(ctx); err != nil { // warms up
		return errors.Join(err, w.complaints(time.Second))
	}
	client := redis.NewClient(&redis.Options{Addr: load.redis.addr, ReadTimeout: time.Minute})
	defer client.Close()
	if err := w.showRound(ctx, out, client, load, door); err != nil {
		return errors.Join(err, w.complaints(time.Second))
	}
	w.seconds = min(w.seconds, time.Second) // what a script calls is noted too: millions
	if err := load.showScripts(ctx, out, client); err != nil {
		return err
	}
	return w.showProfile(ctx, out)
}

// showRound takes the profile of a round and prints what Redis says of it.
func (w *world) showRound(ctx context.Context, out io.Writer, client *redis.Client, load *workload, door string) error {
	if err := client.ConfigResetStat(ctx).Err(); err != nil {
		return err
	}
	usage, err := measureCPU(load.redis, load.server)
	if err != nil {
		return err
	}
	profiled := make(chan error, 1)
	go func() { profiled <- w.fetchProfile(door) }()
	n, err := load.run(ctx)
	used, e := usage()
	if err = errors.Join(err, e, <-profiled); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s, %.0f times, processor time of each: Redis %.1f µs, fanfare %.1f µs\n\n", w.options.profile, n, micros(used[0])/n, micros(used[1])/n)
	lines, err := commands(ctx, client)
	if err != nil {
		return err
	}
	return showSpent(out, "command", lines, n)
}

// showScripts runs the workload once more while Redis notes every command, which
// has a price of its own, and prints what it noted.
func (load *workload) showScripts(ctx context.Context, out io.Writer, client *redis.Client) error {
	if err := slow(ctx, client, true); err != nil {
		return err
	}
	n, err := load.run(ctx)
	if err = errors.Join(err, slow(ctx, client, false)); err != nil {
		return err
	}
	lines, err := noted(ctx, client)
	if err != nil {
		return err
	}
	return showSpent(out, "script", lines, n)
}

// fetchProfile takes a profile for one round.
func (w *world) fetchProfile(door string) error {
	resp, err := http.Get(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", door, max(1, int(w.seconds.Seconds()))))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return errors.Join(err, fmt.Errorf("profile: %s", resp.Status))
	}
	return os.WriteFile(w.binary("cpu.pprof"), text, 0o600)
}

// spent is what one kind of command took, by all its calls.
type spent struct {
	name        string
	calls, usec float64
}

// showSpent prints commands for each of n things, the dearest first.
func showSpent(out io.Writer, what string, lines []spent, n float64) error {
	slices.SortFunc(lines, func(a, b spent) int { return cmp.Compare(b.usec, a.usec) })
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, what+"\tcalls each\tµs each")
	for _, l := range lines[:min(25, len(lines))] {
		fmt.Fprintf(t, "%s\t%.3f\t%.2f\n", l.name, l.calls/n, l.usec/n)
	}
	fmt.Fprintln(t)
	return t.Flush()
}

// commands are Redis' own figures. What a script calls is listed by itself too,
// and in the time of its EVALSHA.
func commands(ctx context.Context, client *redis.Client) ([]spent, error) {
	info, err := client.InfoMap(ctx, "commandstats").Result()
	var lines []spent
	for name, text := range info["Commandstats"] {
		l := spent{name: strings.TrimPrefix(name, "cmdstat_")}
		for pair := range strings.SplitSeq(text, ",") {
			switch key, value, _ := strings.Cut(pair, "="); key {
			case "calls":
				l.calls, _ = strconv.ParseFloat(value, 64)
			case "usec":
				l.usec, _ = strconv.ParseFloat(value, 64)
			}
		}
		lines = append(lines, l)
	}
	return lines, err
}

// slow has Redis note each command that it runs from now on, or stops that.
func slow(ctx context.Context, client *redis.Client, on bool) error {
	than := "-1"
	if on {
		than = "0"
	}
	return errors.Join(
		client.ConfigSet(ctx, "slowlog-max-len", "1000000").Err(),
		client.ConfigSet(ctx, "slowlog-log-slower-than", than).Err())
}

// noted are the scripts among the commands that Redis noted, by name.
func noted(ctx context.Context, client *redis.Client) ([]spent, error) {
	names, err := scriptNames()
	if err != nil {
		return nil, err
	}
	entries, err := client.SlowLogGet(ctx, -1).Result()
	sums := map[string]spent{}
	for _, e := range entries {
		if strings.ToLower(e.Args[0]) != "evalsha" || len(e.Args) < 2 {
			continue
		}
		name := cmp.Or(names[e.Args[1]], e.Args[1])
		l := sums[name]
		sums[name] = spent{name, l.calls + 1, l.usec + micros(e.Duration)}
	}
	return slices.Collect(maps.Values(sums)), err
}

// scriptNames gives the name of each script of the store by its hash.
func scriptNames() (map[string]string, error) {
	files, err := filepath.Glob("store/*/lua/*.lua")
	names := map[string]string{}
	for _, file := range files {
		room, name, _ := strings.Cut(filepath.ToSlash(file), "/lua/")
		// What is included may be another room's.
		script, err := redisdb.NewScript(os.DirFS(room), "lua/"+name, os.DirFS("store/queue"))
		if err == nil {
			names[script.SHA()] = name
		}
	}
	return names, err
}

// showProfile prints the functions that took most, by themselves and with what
// they call.
func (w *world) showProfile(ctx context.Context, out io.Writer) error {
	for _, sorted := range []string{"-flat", "-cum"} {
		cmd := exec.CommandContext(ctx, "go", "tool", "pprof", "-top", sorted, "-nodecount=50", w.program, w.binary("cpu.pprof"))
		cmd.Stdout, cmd.Stderr = out, io.Discard
		fmt.Fprintln(out)
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("read profile: %w", err)
		}
	}
	return nil
}
