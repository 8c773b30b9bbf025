package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// row is one line of a table: what was done, what it took here and in the
// baseline of the same run, and what it should.
type row struct {
	Work     string  `json:"work"`
	Ours     float64 `json:"ours"`
	Unit     string  `json:"unit"`
	Base     float64 `json:"base,omitempty"` // 0: there is nothing to compare with
	Baseline string  `json:"baseline,omitempty"`
	Goal     goal    `json:"-"`
}

// goal is a bound of a row's ratio or, if ofValue, of its own figure. The zero
// goal asks for nothing.
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

// ratio is ours through the baseline's, 0 without one.
func (r *row) ratio() float64 {
	if r.Base == 0 {
		return 0
	}
	return r.Ours / r.Base
}

// verdict says whether the goal is met; it judges what was measured, not what
// is shown of it.
func (r *row) verdict() string {
	got := r.ratio()
	if r.Goal.ofValue {
		got = r.Ours
	}
	switch {
	case r.Goal.relation == "":
		return "-"
	case r.Goal.relation == ">=" && got >= r.Goal.limit, r.Goal.relation == "<=" && got <= r.Goal.limit:
		return "met"
	}
	return "missed"
}

// check refuses what cannot be a measurement: such a row is a fault of the
// benchmark and must not be read as a figure.
func (r *row) check() error {
	for _, v := range []float64{r.Ours, r.Base} {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return fmt.Errorf("%s: %v is no figure", r.Work, v)
		}
	}
	if r.Ours == 0 || (r.Base == 0) != (r.Baseline == "") || r.Base == 0 && r.Goal.relation != "" && !r.Goal.ofValue {
		return fmt.Errorf("%s: nothing was measured", r.Work)
	}
	return nil
}

// cells are the row as text, in the order of head.
func (r *row) cells() []string {
	ours := figure(r.Ours) + unit(r.Unit)
	baseline, got := "-", ours
	if r.Base > 0 {
		baseline, got = r.Baseline+": "+figure(r.Base)+unit(r.Unit), figure(r.ratio())
	}
	if r.Goal.ofValue {
		got = ours
	}
	return []string{r.Work, ours, baseline, got, r.Goal.text(r.Unit), r.verdict()}
}

// head names the cells.
var head = []string{"work", "ours", "baseline", "ratio or value", "goal", "verdict"}

func (g goal) text(of string) string {
	switch {
	case g.relation == "":
		return "-"
	case g.ofValue:
		return g.relation + " " + figure(g.limit) + unit(of)
	}
	return g.relation + " " + strconv.FormatFloat(g.limit, 'f', 1, 64)
}

// unit is how a unit follows its figure: 12/s, but 12 ms.
func unit(name string) string {
	if strings.HasPrefix(name, "/") {
		return name
	}
	return " " + name
}

// figure prints three digits that count, and thousands by commas.
func figure(v float64) string {
	switch {
	case v < 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	text := strconv.FormatFloat(v, 'f', 0, 64)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
