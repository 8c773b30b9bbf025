package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// comparedRounds is the least number of rounds in which both programs are measured.
const comparedRounds = 5

// A rate may fall, and a cost may rise, by this share of its former value. Smaller changes are
// noise.
const leastRate, mostCost = ">= 0.97", "<= 1.03"

// compare runs subjects with the program of a revision and with the program of the checkout in
// turns, and sets everything up anew for each round. For each row it prints the median of the
// ratios of all rounds. The parts that run in the benchmark itself (rows of the stores, and every
// baseline) are the checkout's on both sides, and show how much noise there is.
func (w *world) compare(chosen []subject) {
	programs := [2]string{w.buildRevision(), w.program}
	if name := w.profile; name != "" {
		s := profiled(name)
		s.rows = []want{
			{name, name + " rate", "/s", "", "", ""},
			{name + ", processor time of Redis", name + " redis", "µs", "", "", ""},
			{name + ", processor time of fanfare", name + " fanfare", "µs", "", "", ""},
		}
		chosen = []subject{s}
	}
	rounds := make([][2][]row, w.rounds)
	if !w.quick {
		rounds = make([][2][]row, max(w.rounds, comparedRounds))
	}
	w.rounds = 1
	done := 0
	err := attempt(func() {
		for n := range rounds {
			fmt.Fprintf(os.Stderr, "bench: round %d of %d\n", n+1, len(rounds))
			for _, s := range chosen {
				for i := range programs {
					i := (i + n) % 2 // the programs take turns to be measured first
					w.program = programs[i]
					rows, _ := w.run(s)
					rounds[n][i] = append(rounds[n][i], rows...)
				}
			}
			done++
		}
	})
	if done == 0 {
		must(err)
	}
	head := []string{"work", w.against, "checkout", "median of ratios", "goal", "verdict"}
	align(append([][]string{head}, compared(rounds[:done])...))
	must(err) // after the rounds that were complete, which took long
}

// compared are the cells of each row: the medians of both programs and of the ratios. Each round has
// the rows before and after.
func compared(rounds [][2][]row) (lines [][]string) {
	for i, r := range rounds[0][0] {
		var before, after, ratios []float64
		for _, round := range rounds {
			before, after = append(before, round[0][i].figure), append(after, round[1][i].figure)
			ratios = append(ratios, round[1][i].figure/round[0][i].figure)
		}
		goal := mostCost
		switch {
		case strings.HasPrefix(r.unit, "/"):
			goal = leastRate
		case r.unit == "ms": // from end to end, and on a busy machine these times differ by more
			goal = ""
		}
		lines = append(lines, []string{r.work, with(r.unit, median(before)), with(r.unit, median(after)),
			fmt.Sprintf("%.3f", median(ratios)), cmp.Or(goal, "-"), verdict(goal, median(ratios))})
	}
	return lines
}

// buildRevision builds the program of the revision to compare with, from an archive of its files.
func (w *world) buildRevision() string {
	tree, to := w.TempDir(), filepath.Join(w.dir, "before")
	w.output(nil, "git", "archive", "--output="+tree+".tar", w.against)
	w.output(nil, "tar", "-xf", tree+".tar", "-C", tree)
	w.build(tree, to)
	w.former, w.config = to, string(got(os.ReadFile(filepath.Join(tree, "app", "config.go"))))
	return to
}

// pushRole is the setting of a process that only sends. Revisions before the role push had two roles for that.
func (w *world) pushRole() string {
	if w.program == w.former && !strings.Contains(w.config, `= "push"`) {
		return "FANFARE_ROLES=targeting,delivery"
	}
	return "FANFARE_ROLES=push"
}

// known leaves out the variables that the program does not know, because they were made after its revision.
func (w *world) known(env []string) []string {
	if w.program != w.former {
		return env
	}
	return slices.DeleteFunc(env, func(setting string) bool {
		name, _, _ := strings.Cut(setting, "=")
		return strings.HasPrefix(name, "FANFARE_") && !strings.Contains(w.config, `"`+name)
	})
}
