// Command bench measures fanfare against bare parts in the same run, and says
// which goals are met: ratios, since absolute figures say more about the
// machine than about us.
//
//	go run ./bench                 every subject; writes bench/RESULTS.md
//	go run ./bench accept push     some of them; sections that are whole are written
//	go run ./bench far far-processes far-latency far-memory cold
//	                               the section Far: answers after 100 and 300 ms
//	go run ./bench -growth         how cost grows, which takes long; written too
//	go run ./bench -quick          a short run that only shows that all works
//	go run ./bench -profile one    where the time of one-device events goes
//	go run ./bench -against v1.0.0 push latency
//	                               before and after, in turns
//
// It needs redis-server in the PATH, and MariaDB for contacts. Everything it
// compares is a process that it started itself, on loopback addresses: fanfare,
// the bare server, Redis, asynq. All share one session and so one CPU group of
// the kernel, which keeps ratios true.
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

// options is what the command line says.
type options struct {
	seconds time.Duration // length of one round
	rounds  int
	quick   bool
	growth  bool
	json    bool
	profile string // what to profile instead
	against string // a revision to compare with instead
	out     string // file of the results
}

func main() {
	if len(os.Args) > 2 && os.Args[1] == "child" {
		fail(attempt(func() { child(context.Background(), os.Args[2], os.Args[3:]) }))
		return
	}
	debug.SetGCPercent(400) // the load generator shares the processors
	o := readOptions()
	// All that end a program which says nothing of them: its children must not outlive it.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	err := measure(ctx, o, flag.Args())
	stop()
	fail(err)
}

func readOptions() options {
	var o options
	seconds := flag.Float64("seconds", 2, "length of one round")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds of each side, which take turns; medians count")
	flag.BoolVar(&o.quick, "quick", false, "one short round of each: shows that all works, its figures mean nothing")
	flag.BoolVar(&o.growth, "growth", false, "measure how cost grows instead")
	flag.BoolVar(&o.json, "json", false, "print one JSON object per row")
	flag.StringVar(&o.profile, "profile", "", "show instead where the time goes of "+profileNames())
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

// measure runs the named subjects, all if none is named, shows what they found,
// and writes the sections that are whole.
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

// end shows what was found, and writes it unless it was found quickly.
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
