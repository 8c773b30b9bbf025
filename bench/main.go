// Command bench measures fanfare against bare parts in the same run, and
// prints ratios: absolute figures say more about the machine than about us.
//
//	go run ./bench                 all benchmarks
//	go run ./bench accept push     some of them
//	go run ./bench -seconds 10     longer rounds
//	go run ./bench -json           one JSON object per result, for machines
//
// It needs redis-server in the PATH. Everything it compares is a process that
// it started itself, on loopback addresses: fanfare, the bare server, Redis.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// result is one line of the table.
type result struct {
	Benchmark string  `json:"benchmark"`
	What      string  `json:"what"`
	Ours      float64 `json:"ours"`
	Bare      float64 `json:"bare,omitempty"`
	Unit      string  `json:"unit"`
	// Ratio is Ours / Bare; 0 when there is nothing to compare with.
	Ratio    float64 `json:"ratio,omitempty"`
	Baseline string  `json:"baseline,omitempty"`
}

// against makes a result with its ratio.
func against(benchmark, what, unit string, ours, bare float64, baseline string) result {
	r := result{Benchmark: benchmark, What: what, Unit: unit, Ours: ours, Bare: bare, Baseline: baseline}
	if bare > 0 {
		r.Ratio = ours / bare
	}
	return r
}

// options is what the command line says.
type options struct {
	seconds time.Duration // length of one round
	rounds  int
	json    bool
}

// benchmark is one measurement that can be asked for by name.
type benchmark struct {
	name string
	run  func(context.Context, *world) ([]result, error)
}

func benchmarks() []benchmark {
	return []benchmark{{"accept", benchAccept}, {"push", benchPush}, {"latency", benchLatency}, {"sale", benchSale}}
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "bare" {
		fail(serveBare(os.Args[2])) // the child process that accept compares with
	}
	var o options
	seconds := flag.Float64("seconds", 4, "length of one round")
	flag.IntVar(&o.rounds, "rounds", 3, "rounds of each side; the median counts")
	flag.BoolVar(&o.json, "json", false, "print one JSON object per result")
	flag.Parse()
	o.seconds = time.Duration(*seconds * float64(time.Second))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := measure(ctx, o, flag.Args(), os.Stdout); err != nil {
		stop()
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}

// measure runs the named benchmarks, all if none is named.
func measure(ctx context.Context, o options, names []string, out io.Writer) error {
	for _, name := range names {
		if !slices.ContainsFunc(benchmarks(), func(b benchmark) bool { return b.name == name }) {
			return fmt.Errorf("there is no benchmark %q", name)
		}
	}
	w, err := newWorld(o)
	if err != nil {
		return err
	}
	defer w.close()
	var results []result
	for _, b := range benchmarks() {
		if len(names) > 0 && !slices.Contains(names, b.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "bench: %s ...\n", b.name)
		found, err := b.run(ctx, w)
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		results = append(results, found...)
	}
	return show(out, o, results)
}

// show prints the results for people or for machines.
func show(out io.Writer, o options, results []result) error {
	if o.json {
		encoder := json.NewEncoder(out)
		for _, r := range results {
			if err := encoder.Encode(r); err != nil {
				return err
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "benchmark\twhat\tfanfare\tbare\tunit\tratio\t  baseline")
	for _, r := range results {
		bare, ratio := "", ""
		if r.Bare > 0 {
			bare, ratio = number(r.Bare), fmt.Sprintf("%.2f", r.Ratio)
		}
		fmt.Fprintln(table, strings.Join([]string{r.Benchmark, r.What, number(r.Ours), bare, r.Unit, ratio, "  " + r.Baseline}, "\t"))
	}
	return table.Flush()
}

func number(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// median of some rounds.
func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
