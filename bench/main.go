// Command bench compares fanfare with bare parts in the same run, and says which goals are met. The
// goals are ratios, because absolute figures say more about the machine than about fanfare.
//
//	go run ./bench                 every subject; writes bench/RESULTS.md
//	go run ./bench accept push     some of them; complete sections are written
//	go run ./bench far far-processes far-latency far-memory cold
//	                               the section Far: answers after 100 and 300 ms
//	go run ./bench -growth         how costs grow; takes long, and is written too
//	go run ./bench -quick          a short run that only shows that everything works
//	go run ./bench -profile one    where the time of one-device events goes
//	go run ./bench -against v1.0.0 push latency
//	                               compare with a revision, in turns
//
// It needs redis-server in the PATH, and MariaDB for contacts. It starts everything that it
// compares as its own processes on loopback addresses: fanfare, the bare server, Redis, asynq. All
// share one session and so one CPU group of the kernel; otherwise the ratios would be wrong.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"
	"time"
)

// options are the options of the command line.
type options struct {
	seconds time.Duration // length of one round
	rounds  int
	quick   bool
	growth  bool
	json    bool
	profile string // the side to profile instead of measuring
	against string // a revision to compare with instead of measuring
	out     string // the file of the results
}

func main() {
	if len(os.Args) > 2 && os.Args[1] == "child" {
		fail(attempt(func() { child(context.Background(), os.Args[2], os.Args[3:]) }))
		return
	}
	debug.SetGCPercent(400) // the load generator shares the processors
	o := readOptions()
	// All signals that end a program by default, so that the child processes are ended as well.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	err := measure(ctx, o, flag.Args())
	stop()
	fail(err)
}

func readOptions() options {
	var o options
	seconds := flag.Float64("seconds", 2, "length of one round")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds of each side, in turns; the medians are shown")
	flag.BoolVar(&o.quick, "quick", false, "one short round of each, to see that everything works; its figures mean nothing")
	flag.BoolVar(&o.growth, "growth", false, "measure how costs grow instead")
	flag.BoolVar(&o.json, "json", false, "print one JSON object per row")
	flag.StringVar(&o.profile, "profile", "", "show instead where the time is spent, for one of "+profileNames())
	flag.StringVar(&o.against, "against", "", "compare the figures of this checkout with those of a revision of git instead")
	flag.StringVar(&o.out, "out", "bench/RESULTS.md", "file of the results")
	flag.Parse()
	o.seconds = time.Duration(*seconds * float64(time.Second))
	if o.quick {
		o.rounds, o.seconds = 1, 300*time.Millisecond
	}
	return o
}

// fail ends the program if something went wrong.
func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// measure runs the named subjects, or all if none is named, shows their results, and writes the
// sections whose subjects have all run.
func measure(ctx context.Context, o options, names []string) error {
	all := subjects()
	if o.growth {
		all = growthSubjects()
	}
	chosen, err := choose(all, names)
	if err != nil {
		return err
	}
	w, err := newWorld(ctx, o)
	if err != nil {
		return err
	}
	defer w.close()
	if o.against != "" {
		return attempt(func() { w.compare(chosen) })
	}
	if o.profile != "" {
		return errors.Join(attempt(w.showProfile), w.complaints(0))
	}
	results := &results{machine: w.machine()}
	for _, s := range chosen {
		fmt.Fprintf(os.Stderr, "bench: %s ...\n", s.name)
		began := time.Now()
		f, err := w.run(s)
		if err != nil {
			return errors.Join(results.end(o, all), fmt.Errorf("%s: %w", s.name, err))
		}
		results.add(s, f)
		fmt.Fprintf(os.Stderr, "bench: %s took %.0f s\n", s.name, time.Since(began).Seconds())
	}
	return results.end(o, all)
}

// end shows the results, and writes them unless it was a quick run.
func (r *results) end(o options, all []subject) error {
	err := attempt(func() { r.show(os.Stdout, o.json) })
	if err != nil || o.quick {
		return err
	}
	return r.write(o.out, all)
}

// choose picks the named subjects.
func choose(all []subject, names []string) ([]subject, error) {
	for _, name := range names {
		if !slices.ContainsFunc(all, func(s subject) bool { return s.name == name }) {
			return nil, fmt.Errorf("there is no subject %q", name)
		}
	}
	if len(names) == 0 {
		return all, nil
	}
	return slices.DeleteFunc(slices.Clone(all), func(s subject) bool { return !slices.Contains(names, s.name) }), nil
}
