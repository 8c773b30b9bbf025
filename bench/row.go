package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// want is a row before it is measured: the work, the names of the figures that are compared, and the
// goal. Without a baseline there is only fanfare's figure.
type want struct {
	work, ours, unit, base, baseline string
	goal                             goal
}

// row is one line of a table, with the figures of fanfare and of the baseline of the same run.
type row struct {
	want
	figure, against float64
}

// goal is a bound of a row's ratio or, with ofValue, of its figure. The zero value has no bound.
type goal struct {
	relation string // ">=" or "<="
	limit    float64
	ofValue  bool
}

// atLeast and atMost bound the ratio; valueAtLeast and valueAtMost the figure.
func atLeast(limit float64) goal      { return goal{">=", limit, false} }
func atMost(limit float64) goal       { return goal{"<=", limit, false} }
func valueAtLeast(limit float64) goal { return goal{">=", limit, true} }
func valueAtMost(limit float64) goal  { return goal{"<=", limit, true} }

// verdict says whether a value meets the goal, by the measured value and not by the rounded one.
func (g goal) verdict(got float64) string {
	switch {
	case g.relation == "":
		return "-"
	case g.relation == ">=" && got >= g.limit, g.relation == "<=" && got <= g.limit:
		return "met"
	}
	return "missed"
}

// text is the goal with as many decimals as its kind has.
func (g goal) text(unit string, decimals int) string {
	switch {
	case g.relation == "":
		return "-"
	case g.ofValue:
		return g.relation + " " + with(unit, g.limit)
	}
	return g.relation + " " + strconv.FormatFloat(g.limit, 'f', decimals, 64)
}

// ratio is fanfare's figure divided by that of the baseline, or 0 without a baseline.
func (r *row) ratio() float64 {
	if r.baseline == "" {
		return 0
	}
	return r.figure / r.against
}

func (r *row) verdict() string {
	if r.goal.ofValue {
		return r.goal.verdict(r.figure)
	}
	return r.goal.verdict(r.ratio())
}

// check fails for a value that cannot be a measurement. Such a row is an error of the benchmark and
// must not be shown as a figure.
func (r *row) check() {
	for _, v := range []float64{r.figure, r.against} {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			failf("%s: %v is no figure", r.work, v)
		}
	}
	bare := r.baseline == ""
	if r.figure == 0 || (r.against == 0) != bare || bare && r.goal.relation != "" && !r.goal.ofValue {
		failf("%s: nothing was measured", r.work)
	}
}

// head has the names of the cells of a row.
var head = []string{"work", "ours", "baseline", "ratio or value", "goal", "verdict"}

// cells are the cells of the row as text, in the order of head.
func (r *row) cells() []string {
	ours := with(r.unit, r.figure)
	baseline, got := "-", ours
	if r.baseline != "" {
		baseline, got = r.baseline+": "+with(r.unit, r.against), figure(r.ratio())
	}
	if r.goal.ofValue {
		got = ours
	}
	return []string{r.work, ours, baseline, got, r.goal.text(r.unit, 1), r.verdict()}
}

// with prints a figure with its unit: 12/s, but 12 ms.
func with(unit string, v float64) string {
	if strings.HasPrefix(unit, "/") {
		return figure(v) + unit
	}
	return figure(v) + " " + unit
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
