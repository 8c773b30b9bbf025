package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// comparedRounds is the least number of rounds in which both programs are measured.
const comparedRounds = 5

// A rate may fall, and a cost may rise, by this share of its former value. Smaller changes are
// noise.
const leastRate, mostCost = .97, 1.03

// compared has the figures of one row, one for each round.
type compared struct {
	row           row // of the last round
	before, after []float64
}

// compare runs subjects with the program of a revision and with the program of the checkout in
// turns, and sets everything up anew for each round. For each row it prints the median of the
// ratios of all rounds. The parts that run in the benchmark itself (rows of the stores, and every
// baseline) are the checkout's on both sides, and show how much noise there is.
func (w *world) compare(chosen []subject) {
	programs := [2]string{w.buildRevision(), w.program}
	if name := w.profile; name != "" {
		chosen = []subject{{name: name, sides: func(w *world) []side {
			s := w.profiled()
			s.name = "it"
			return []side{s}
		}, rows: []want{
			{name, "it rate", "/s", "", "", goal{}},
			{name + ", processor time of Redis", "it redis", "µs", "", "", goal{}},
			{name + ", processor time of fanfare", "it fanfare", "µs", "", "", goal{}},
		}}}
	}
	rounds := w.rounds
	if !w.quick {
		rounds = max(rounds, comparedRounds)
	}
	w.rounds = 1
	var all []*compared
	for n := range rounds {
		fmt.Fprintf(os.Stderr, "bench: round %d of %d\n", n+1, rounds)
		for _, s := range chosen {
			var round [2]found
			for i := range programs {
				i := (i + n) % 2 // the programs take turns to be measured first
				w.program = programs[i]
				var err error
				if round[i], err = w.run(s); err != nil {
					failf("%s of %s: %w", s.name, [2]string{w.against, "the checkout"}[i], err)
				}
			}
			all = merge(all, round[0].rows, round[1].rows)
		}
	}
	w.showCompared(all)
}

// merge adds a round. Rows are matched by their work.
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

// cells are the cells of a row: the medians of both programs and of the ratios.
func (c *compared) cells() []string {
	ratios := make([]float64, len(c.after))
	for i := range ratios {
		ratios[i] = c.after[i] / c.before[i]
	}
	r := row{Ours: median(ratios), Goal: c.goal()}
	text := func(values []float64) string { return figure(median(slices.Clone(values))) + unit(c.row.Unit) }
	return []string{c.row.Work, text(c.before), text(c.after), fmt.Sprintf("%.3f", r.Ours), r.Goal.relation + figureOf(r.Goal), r.verdict()}
}

// goal is the bound of the ratio. Times from end to end have no bound, because on a busy machine
// they differ by more.
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

func (w *world) showCompared(all []*compared) {
	lines := [][]string{{"work", w.against, "checkout", "median of ratios", "goal", "verdict"}}
	for _, c := range all {
		lines = append(lines, c.cells())
	}
	align(os.Stdout, lines)
}

// buildRevision builds the program of the revision to compare with, in a temporary work tree.
func (w *world) buildRevision() string {
	tree, to := filepath.Join(w.dir, "tree"), filepath.Join(w.dir, "before")
	git := func(ctx context.Context, args ...string) {
		if text, err := exec.CommandContext(ctx, "git", append([]string{"worktree"}, args...)...).CombinedOutput(); err != nil {
			failf("git worktree %s: %w\n%s", strings.Join(args, " "), err, text)
		}
	}
	git(w.ctx, "add", "--quiet", "--detach", tree, w.against)
	ctx, stop := context.WithTimeout(context.WithoutCancel(w.ctx), time.Minute)
	defer stop()
	defer git(ctx, "remove", "--force", tree)
	w.build(tree, to)
	return to
}
