package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// want is a row before it is measured: the work, the names of the figures that are compared, and the
// goal. The goal is a bound such as ">= 0.8" of the ratio or, with the unit, of fanfare's figure.
// Without a baseline there is only fanfare's figure.
type want struct {
	work, ours, unit, base, baseline, goal string
}

// row is one line of a table, with the figures of fanfare and of the baseline of the same run.
type row struct {
	want
	figure, against float64
}

// hasRatio reports whether the goal is about the ratio.
func (r *row) hasRatio() bool {
	return r.baseline != "" && (r.unit == "" || !strings.HasSuffix(r.goal, r.unit))
}

// value is what the goal is about.
func (r *row) value() float64 {
	if r.hasRatio() {
		return r.figure / r.against
	}
	return r.figure
}

// verdict says whether a value meets a goal, by the measured value and not by the rounded one.
func verdict(goal string, value float64) string {
	if goal == "" {
		return "-"
	}
	var relation string
	var limit float64
	got(fmt.Sscan(goal, &relation, &limit))
	if relation == ">=" && value >= limit || relation == "<=" && value <= limit {
		return "met"
	}
	return "missed"
}

// check fails for a value that cannot be a measurement. Such a row is an error of the benchmark and
// must not be shown as a figure.
func (r *row) check() {
	for _, v := range []float64{r.figure, r.against} {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			failf("%s: %v is no figure", r.work, v)
		}
	}
	if r.figure == 0 || (r.against == 0) != (r.baseline == "") {
		failf("%s: nothing was measured", r.work)
	}
}

// rowHead has the names of the cells of a row.
var rowHead = []string{"work", "ours", "baseline", "ratio or value", "goal", "verdict"}

// cells are the cells of the row as text, in the order of rowHead.
func (r *row) cells() []string {
	ours, baseline := with(r.unit, r.figure), "-"
	value := ours
	if r.baseline != "" {
		baseline = r.baseline + ": " + with(r.unit, r.against)
	}
	if r.hasRatio() {
		value = figure(r.value())
	}
	return []string{r.work, ours, baseline, value, cmp.Or(r.goal, "-"), verdict(r.goal, r.value())}
}

// with prints a figure with its unit: 12/s, but 12 ms.
func with(unit string, v float64) string {
	if strings.HasPrefix(unit, "/") {
		return figure(v) + unit
	}
	return strings.TrimSpace(figure(v) + " " + unit)
}

// figure prints three significant digits, and commas between thousands.
func figure(v float64) string {
	switch {
	case v < 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	text := fmt.Sprintf("%.0f", v)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// printJSON prints one object for each row.
func printJSON(rows []row) {
	for _, r := range rows {
		must(json.NewEncoder(os.Stdout).Encode(map[string]any{
			"work": r.work, "ours": r.figure, "unit": r.unit, "base": r.against, "baseline": r.baseline,
			"value": r.value(), "verdict": verdict(r.goal, r.value()),
		}))
	}
}

// align prints lines of cells in columns.
func align(lines [][]string) {
	aligned := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, line := range lines {
		fmt.Fprintln(aligned, strings.Join(line, "\t"))
	}
	must(aligned.Flush())
}

// preface is the beginning of the file of results.
const preface = `# Results

Written by ` + "`make bench`, `make bench-growth` and `make soak`" + `; not edited by hand. Each section
says when and on which machine it was measured. The sides were measured in turns, and the
figures are medians. Everything that is compared was started from one shell. The load
generator, the stand-in for APNs, Redis and all processes share the cores, so that absolute
figures say more about the machine than about fanfare: read the ratios.
`

// write writes a section into the file of results, in the place of the former one. Other sections
// stay as they are, with their own dates and machines.
func write(path, heading, machine string, lines [][]string) {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		must(err)
	}
	part := fmt.Sprintf("%s\n\n%s\n\n", heading, machine)
	for i, line := range lines {
		part += "| " + strings.Join(line, " | ") + " |\n"
		if i == 0 {
			part += "|" + strings.Repeat("---|", len(line)) + "\n"
		}
	}
	parts := strings.Split(cmp.Or(string(old), preface), "\n## ") // each ends with the end of a line
	at := slices.IndexFunc(parts, func(p string) bool { return strings.HasPrefix(p, heading+"\n") })
	if at < 0 {
		parts = append(parts, part)
	} else {
		parts[at] = part
	}
	must(os.WriteFile(path, []byte(strings.Join(parts, "\n## ")), 0o644))
}
