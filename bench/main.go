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
// It needs redis-server in the PATH, MariaDB for contacts, and PostgreSQL for jobs. It starts everything that it
// compares as its own processes on loopback addresses: fanfare, the bare server, Redis, asynq, River. All
// share one session and so one CPU group of the kernel; otherwise the ratios would be wrong. The processes of
// PostgreSQL make sessions of their own, which is to its advantage.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"
	"testing"
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
	// These signals end a program by default. They are caught so that the child processes end as well. SIGPIPE is
	// ignored: a program that catches it gets it for every socket whose peer has gone, and not only for its output.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	signal.Ignore(syscall.SIGPIPE)
	err := attempt(func() {
		if len(os.Args) > 2 && os.Args[1] == "child" {
			child(ctx, os.Args[2], os.Args[3:])
			return
		}
		debug.SetGCPercent(400) // the load generator shares the processors
		o, names := readOptions(os.Args[1:])
		all := sections()
		if o.growth {
			all = growthSections()
		}
		chosen := choose(all, names)
		w := newWorld(ctx, o)
		defer w.close()
		w.buildFanfare()
		switch {
		case o.against != "":
			w.compare(subjects(chosen))
		case o.profile != "":
			w.run(profiled(o.profile))
		default:
			w.measure(chosen)
		}
	})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// readOptions reads the command line.
func readOptions(args []string) (o options, names []string) {
	testing.Init() // helpers of tests ask whether the mode is short
	must(flag.CommandLine.Parse(nil))
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	seconds := flags.Float64("seconds", 2, "length of one round")
	flags.IntVar(&o.rounds, "rounds", 5, "rounds of each side, in turns; the medians are shown")
	flags.BoolVar(&o.quick, "quick", false, "one short round of each, to see that everything works; its figures mean nothing")
	flags.BoolVar(&o.growth, "growth", false, "measure how costs grow instead")
	flags.BoolVar(&o.json, "json", false, "print one JSON object per row")
	flags.StringVar(&o.profile, "profile", "", "show instead where the time is spent, for one of "+profileNames())
	flags.StringVar(&o.against, "against", "", "compare the figures of this checkout with those of a revision of git instead")
	flags.StringVar(&o.out, "out", "bench/RESULTS.md", "file of the results")
	must(flags.Parse(args))
	o.seconds = time.Duration(*seconds * float64(time.Second))
	if o.quick {
		o.rounds, o.seconds = 1, 300*time.Millisecond
	}
	return o, flags.Args()
}

// choose picks the named subjects, or all if none is named.
func choose(all []section, names []string) (chosen []section) {
	for _, name := range names {
		if !slices.ContainsFunc(subjects(all), func(s subject) bool { return s.name == name }) {
			failf("there is no subject %q", name)
		}
	}
	for _, s := range all {
		number := len(s.subjects)
		s.subjects = slices.DeleteFunc(s.subjects, func(of subject) bool {
			return len(names) > 0 && !slices.Contains(names, of.name)
		})
		s.whole = len(s.subjects) == number
		if len(s.subjects) > 0 {
			chosen = append(chosen, s)
		}
	}
	return chosen
}

// measure runs subjects, shows their results, and writes the sections whose subjects have all run.
func (w *world) measure(sections []section) {
	rounds := w.rounds
	for _, of := range sections {
		w.rounds = min(rounds, cmp.Or(of.rounds, rounds))
		lines := [][]string{of.head}
		err := attempt(func() {
			for _, s := range of.subjects {
				fmt.Fprintf(os.Stderr, "bench: %s ...\n", s.name)
				began := time.Now()
				rows, more := w.run(s)
				lines = append(lines, more...)
				if w.json {
					printJSON(rows)
				}
				fmt.Fprintf(os.Stderr, "bench: %s took %.0f s\n", s.name, time.Since(began).Seconds())
			}
		})
		if !w.json {
			fmt.Printf("\n%s\n\n", of.heading)
			align(lines)
		}
		must(err)
		if of.whole && !w.quick {
			write(w.out, of.heading, w.machine(), lines)
		}
	}
}
