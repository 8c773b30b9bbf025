package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// row is one line of a table: the work, its figure for fanfare and for the baseline of the same
// run, and the goal.
type row struct {
	Work     string  `json:"work"`
	Ours     float64 `json:"ours"`
	Unit     string  `json:"unit"`
	Base     float64 `json:"base,omitempty"` // 0: there is no baseline
	Baseline string  `json:"baseline,omitempty"`
	Goal     goal    `json:"-"`
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

// ratio is fanfare's figure divided by that of the baseline, or 0 without a baseline.
func (r *row) ratio() float64 {
	if r.Base == 0 {
		return 0
	}
	return r.Ours / r.Base
}

// verdict says whether the goal is met, by the measured value and not by the rounded one.
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

// check returns an error for a value that cannot be a measurement. Such a row is an error of the
// benchmark and must not be shown as a figure.
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

// cells are the cells of the row as text, in the order of head.
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

// head has the names of the cells.
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

// unit is a unit as it follows a figure: 12/s, but 12 ms.
func unit(name string) string {
	if strings.HasPrefix(name, "/") {
		return name
	}
	return " " + name
}

// figure prints three significant digits, and commas between thousands.
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

// count prints a whole number.
func count(n int) string {
	if n < 100 {
		return strconv.Itoa(n)
	}
	return figure(float64(n))
}

// sample has the figures of one round of one side, by name.
type sample map[string]float64

// side is one of the sides that are measured in turns. If it has processes, of which Redis is the
// first, their processor time is measured too.
type side struct {
	name      string
	run       func(ctx context.Context, d time.Duration) sample
	processes []*process
}

// round makes one measurement. In addition to the figures of the side it has the processor time in
// µs for each counted thing, of Redis ("redis") and of all other processes ("fanfare").
func (s *side) round(ctx context.Context, d time.Duration) sample {
	if len(s.processes) == 0 {
		return s.run(ctx, d)
	}
	redis, others := cpu(s.processes[0]), cpu(s.processes[1:]...)
	found := s.run(ctx, d)
	found["redis"] = micros(cpu(s.processes[0])-redis) / found["count"]
	found["fanfare"] = micros(cpu(s.processes[1:]...)-others) / found["count"]
	return found
}

// medians holds the median of each figure of each side, as "side figure".
type medians map[string]float64

// turns lets the sides measure one after the other, round by round, so that other work of the
// machine affects all of them. Before the first round there is a warm-up of a quarter of the time.
func (w *world) turns(sides ...side) medians {
	all := map[string][]float64{}
	for round := range w.rounds + 1 {
		d := w.seconds
		if round == 0 {
			d /= 4
		}
		for _, s := range sides {
			var found sample
			if err := errors.Join(attempt(func() { found = s.round(w.ctx, d) }), w.ctx.Err()); err != nil {
				failf("%s: %w", s.name, err)
			}
			for figure, v := range found {
				if round > 0 {
					all[s.name+" "+figure] = append(all[s.name+" "+figure], v)
				}
			}
		}
	}
	m := medians{}
	for name, values := range all {
		m[name] = median(values)
	}
	return m
}

// median is the median of the rounds. If two are in the middle, it is their mean.
func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
