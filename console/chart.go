package console

import (
	"fmt"
	"strings"
	"time"
)

// chart is a chart of some minutes.
type chart struct {
	Title, Unit string
	Max         string
	Lines       []line
	Ticks       []tick
}

// line is a series of a chart.
type line struct {
	Name, Class string
	// Path is the line in the form of SVG; where a figure is not known it is interrupted. Dots are the minutes
	// without a neighbour.
	Path, Dots string
}

// tick is a time below a chart.
type tick struct {
	X, Anchor, Text string
}

// The measures of a chart.
const (
	plotWidth  = 900
	plotTop    = 24
	plotHeight = 110
)

// axis is the time below charts.
type axis struct {
	first, last time.Time
	// at are the minutes with figures, the oldest first.
	at []time.Time
}

// figure is a figure of each minute of an axis, in a colour of its own; nil: nobody knows it.
type figure struct {
	name, class string
	of          func(minute int) *float64
}

type figures []figure

// count is a number that is known.
func count(n int64) *float64 {
	f := float64(n)
	return &f
}

// whole writes a whole number.
func whole(n float64) string { return number(int64(n + 0.5)) }

// draw draws figures of the minutes, whose largest value is written with text.
func (a *axis) draw(title, unit string, text func(float64) string, all figures) chart {
	most := 0.0
	for _, f := range all {
		for i := range a.at {
			if value := f.of(i); value != nil {
				most = max(most, *value)
			}
		}
	}
	if most == 0 {
		most = 1
	}
	c := chart{Title: title, Unit: unit, Max: text(most), Ticks: a.ticks()}
	for _, f := range all {
		c.Lines = append(c.Lines, a.line(f, most))
	}
	return c
}

// line draws a figure. A minute without a neighbour is a dot.
func (a *axis) line(f figure, most float64) line {
	var path, dots strings.Builder
	for i := range a.at {
		value := f.of(i)
		if value == nil {
			continue
		}
		joined := func(j int) bool { // this minute and the one before j
			return j > 0 && j < len(a.at) && a.at[j].Sub(a.at[j-1]) <= time.Minute && f.of(j-1) != nil && f.of(j) != nil
		}
		x, y := a.x(a.at[i]), plotTop+plotHeight*(1-*value/most)
		switch {
		case joined(i):
			fmt.Fprintf(&path, "L%.1f %.1f", x, y)
		case joined(i + 1):
			fmt.Fprintf(&path, "M%.1f %.1f", x, y)
		default:
			fmt.Fprintf(&dots, "M%.1f %.1fh0", x, y)
		}
	}
	return line{f.name, f.class, path.String(), dots.String()}
}

// x is where a minute is on the axis.
func (a *axis) x(at time.Time) float64 {
	return plotWidth * float64(at.Sub(a.first)) / float64(max(1, a.last.Sub(a.first)))
}

// ticks are five times of the axis, from its first minute to its last. The first has its date if that is another one.
func (a *axis) ticks() []tick {
	const parts = 4
	all := make([]tick, parts+1)
	for i := range all {
		at := a.first.Add(a.last.Sub(a.first) * time.Duration(i) / parts).UTC()
		all[i] = tick{fmt.Sprintf("%.0f", a.x(at)), "middle", at.Format("15:04")}
	}
	all[0].Anchor, all[parts].Anchor = "start", "end"
	if first := a.first.UTC(); first.YearDay() != a.last.UTC().YearDay() {
		all[0].Text = first.Format("2 Jan 15:04")
	}
	return all
}
