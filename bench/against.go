package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// comparedRounds is how often both programs take turns at least.
const comparedRounds = 5

// Of what it was before, a rate may lose and a cost may gain so much: less is noise.
const leastRate, mostCost = .97, 1.03

// compared are the figures of one row, one of each round.
type compared struct {
	row           row // of the last round
	before, after []float64
}

// compare runs subjects with the program of a revision and with that of the checkout in
// turns, each round with everything new, and prints for each row the median of the
// ratios of all rounds. What the benchmark plays itself (the stores' own rows, and every
// baseline) is the checkout's on both sides, and shows how much noise there is.
func (w *world) compare(ctx context.Context, chosen []subject, out io.Writer) error {
	old, err := w.buildRevision(ctx)
	if err != nil {
		return err
	}
	if w.options.profile != "" {
		chosen = []subject{{name: w.options.profile, run: benchWorkload}}
	}
	rounds, programs := w.rounds, [2]string{old, w.program}
	if !w.quick {
		rounds = max(rounds, comparedRounds)
	}
	w.rounds = 1
	var all []*compared
	for n := range rounds {
		fmt.Fprintf(os.Stderr, "bench: round %d of %d\n", n+1, rounds)
		for _, s := range chosen {
			var got [2]found
			for i := range programs {
				i := (i + n) % 2 // the two programs take turns at being first
				w.program = programs[i]
				if got[i], err = w.run(ctx, s); err != nil {
					return fmt.Errorf("%s of %s: %w", s.name, [2]string{w.against, "the checkout"}[i], err)
				}
			}
			all = merge(all, got[0].rows, got[1].rows)
		}
	}
	return showCompared(out, w.against, all)
}

// merge adds a round; rows are known by their work.
func merge(all []*compared, before, after []row) []*compared {
	for _, r := range after {
		at := slices.IndexFunc(before, func(b row) bool { return b.Work == r.Work && b.Baseline == r.Baseline })
		if at < 0 {
			continue
		}
		i := slices.IndexFunc(all, func(c *compared) bool { return c.row.Work == r.Work && c.row.Baseline == r.Baseline })
		if i < 0 {
			i, all = len(all), append(all, &compared{})
		}
		c := all[i]
		c.row, c.before, c.after = r, append(c.before, before[at].Ours), append(c.after, r.Ours)
	}
	return all
}

// cells are what is shown of a row: the medians of both, and that of the ratios.
func (c *compared) cells() []string {
	ratios := make([]float64, len(c.after))
	for i := range ratios {
		ratios[i] = c.after[i] / c.before[i]
	}
	r := row{Ours: median(ratios), Goal: c.goal()}
	text := func(values []float64) string { return figure(median(slices.Clone(values))) + unit(c.row.Unit) }
	return []string{c.row.Work, text(c.before), text(c.after), fmt.Sprintf("%.3f", r.Ours), r.Goal.relation + figureOf(r.Goal), r.verdict()}
}

// goal is what the ratio must be: of times from end to end nothing is asked, since a
// busy machine's differ by more.
func (c *compared) goal() goal {
	switch {
	case strings.HasPrefix(c.row.Unit, "/"):
		return valueAtLeast(leastRate)
	case c.row.Unit == "ms":
		return goal{}
	}
	return valueAtMost(mostCost)
}

func figureOf(g goal) string {
	if g.relation == "" {
		return "-"
	}
	return fmt.Sprintf(" %.2f", g.limit)
}

func showCompared(out io.Writer, before string, all []*compared) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	lines := [][]string{{"work", before, "checkout", "median of ratios", "goal", "verdict"}}
	for _, c := range all {
		lines = append(lines, c.cells())
	}
	for _, line := range lines {
		fmt.Fprintln(t, strings.Join(line, "\t"))
	}
	return t.Flush()
}

// buildRevision builds the program of the revision to compare with, from a work tree of
// its own that goes when it is built.
func (w *world) buildRevision(ctx context.Context) (string, error) {
	tree, to := filepath.Join(w.dir, "tree"), filepath.Join(w.dir, "before")
	git := func(args ...string) error {
		if text, err := exec.CommandContext(ctx, "git", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, text)
		}
		return nil
	}
	if err := git("worktree", "add", "--quiet", "--detach", tree, w.against); err != nil {
		return "", err
	}
	err := w.build(tree, to)
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer stop()
	if e := git("worktree", "remove", "--force", tree); err == nil {
		err = e
	}
	return to, err
}

// benchWorkload is a round of what -profile names, without the profile.
func benchWorkload(ctx context.Context, w *world) (found, error) {
	load, err := w.workload(ctx, w.options.profile)
	if err != nil {
		return found{}, err
	}
	defer load.close()
	if _, err := load.run(ctx); err != nil { // warms up
		return found{}, err
	}
	usage, err := measureCPU(load.redis, load.server)
	if err != nil {
		return found{}, err
	}
	began := time.Now()
	n, err := load.run(ctx)
	if err != nil {
		return found{}, err
	}
	took := time.Since(began)
	used, err := usage()
	if err != nil {
		return found{}, err
	}
	name := w.options.profile
	return found{rows: []row{
		{Work: name, Ours: n / took.Seconds(), Unit: "/s"},
		{Work: name + ", processor time of Redis", Ours: micros(used[0]) / n, Unit: "µs"},
		{Work: name + ", processor time of fanfare", Ours: micros(used[1]) / n, Unit: "µs"},
	}}, nil
}
