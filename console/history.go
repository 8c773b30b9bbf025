package console

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"fanfare/api"
)

// line is a series of a chart.
type line struct {
	Name, Class string
	// Path is the line in the form of SVG; where a figure is not known it is interrupted. Dots are the minutes
	// without a neighbour.
	Path, Dots string
}

// chart is a chart of some minutes.
type chart struct {
	Title, Unit string
	Max         string
	Lines       []line
	Ticks       []tick
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

// history is what charts and tables show of some minutes.
type history struct {
	Minutes int
	Items   []api.StatsMinute
	Charts  []chart
	Alarms  []alarms

	first, last time.Time // of the axis: the first and the last of the minutes that are over
}

// alarms counts the alarms of a kind.
type alarms struct {
	Kind  string
	Count int64
}

// lastMinutes reads the last minutes and draws them.
func (v *visit) lastMinutes(minutes int) (*history, error) {
	var series api.StatsSeries
	if err := v.ask(http.MethodGet, "/v1/stats/series?minutes="+strconv.Itoa(minutes), nil, &series); err != nil {
		return nil, err
	}
	h := &history{Minutes: minutes, Items: series.Items}
	kinds, platforms := map[string]int64{}, map[string]bool{}
	for _, m := range h.Items {
		for kind, n := range m.Alarms {
			kinds[kind] += n
		}
		for name := range m.Platforms {
			platforms[name] = true
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		h.Alarms = append(h.Alarms, alarms{kind, kinds[kind]})
	}
	if len(h.Items) == 0 {
		return h, nil
	}
	h.last = time.Now().Add(-time.Minute).Truncate(time.Minute)
	if newest := h.Items[len(h.Items)-1].At.Time; newest.After(h.last) || len(h.Items) >= minutes { // Redis' clock differs
		h.last = newest
	}
	h.first = h.last.Add(-time.Duration(minutes-1) * time.Minute)
	if h.Items[0].At.Before(h.first) {
		h.first = h.Items[0].At.Time
	}
	count := func(n int64) *float64 { f := float64(n); return &f }
	delivered := figures{}
	for i, name := range slices.Sorted(maps.Keys(platforms)) {
		delivered = append(delivered, figure{"delivered by " + name, strconv.Itoa(i%3 + 1), func(m *api.StatsMinute) *float64 { return count(m.Platforms[name].Delivered) }})
	}
	h.Charts = []chart{
		h.draw("Events and failures", "a minute", whole, figures{
			{"events accepted", "1", func(m *api.StatsMinute) *float64 { return count(m.Accepted) }},
			{"retried", "2", func(m *api.StatsMinute) *float64 { return count(m.Retried) }},
			{"notifications failed", "bad", func(m *api.StatsMinute) *float64 { return count(m.Failed) }},
		}),
		h.draw("Time from acceptance to answer", "about", about, figures{{"median", "1", func(m *api.StatsMinute) *float64 { return m.P50MS }}}),
		h.draw("Time that 99 % of the answers did not exceed", "about", about, figures{{"99 %", "2", func(m *api.StatsMinute) *float64 { return m.P99MS }}}),
		h.draw("Jobs that wait", "at the end of the minute", whole, figures{{"depth", "1", func(m *api.StatsMinute) *float64 {
			if m.Depth == nil {
				return nil
			}
			return count(*m.Depth)
		}}}),
	}
	if len(delivered) > 0 {
		h.Charts = append([]chart{h.draw("Notifications delivered", "a minute", whole, delivered)}, h.Charts...)
	}
	return h, nil
}

// whole writes a whole number.
func whole(n float64) string { return number(int64(n + 0.5)) }

// figure is a figure of each minute, in a colour of its own; nil: nobody knows it.
type figure struct {
	name, class string
	of          func(*api.StatsMinute) *float64
}

type figures []figure

// draw draws figures of the minutes, whose largest value is written with text.
func (h *history) draw(title, unit string, text func(float64) string, all figures) chart {
	most := 0.0
	for _, f := range all {
		for i := range h.Items {
			if value := f.of(&h.Items[i]); value != nil {
				most = max(most, *value)
			}
		}
	}
	if most == 0 {
		most = 1
	}
	c := chart{Title: title, Unit: unit, Max: text(most), Ticks: h.ticks()}
	for _, f := range all {
		c.Lines = append(c.Lines, h.line(f, most))
	}
	return c
}

// line draws a figure. A minute without a neighbour is a dot.
func (h *history) line(f figure, most float64) line {
	var path, dots strings.Builder
	for i := range h.Items {
		value := f.of(&h.Items[i])
		if value == nil {
			continue
		}
		joined := func(j int) bool { // this minute and the one before j
			return j > 0 && j < len(h.Items) && h.Items[j].At.Sub(h.Items[j-1].At.Time) <= time.Minute && f.of(&h.Items[j-1]) != nil && f.of(&h.Items[j]) != nil
		}
		x, y := h.x(h.Items[i].At.Time), plotTop+plotHeight*(1-*value/most)
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
func (h *history) x(at time.Time) float64 {
	return plotWidth * float64(at.Sub(h.first)) / float64(max(1, h.last.Sub(h.first)))
}

// ticks are five times of the axis, from its first minute to its last. The first has its date if that is another one.
func (h *history) ticks() []tick {
	const parts = 4
	all := make([]tick, parts+1)
	for i := range all {
		at := h.first.Add(h.last.Sub(h.first) * time.Duration(i) / parts).UTC()
		all[i] = tick{fmt.Sprintf("%.0f", h.x(at)), "middle", at.Format("15:04")}
	}
	all[0].Anchor, all[parts].Anchor = "start", "end"
	if first := h.first.UTC(); first.YearDay() != h.last.UTC().YearDay() {
		all[0].Text = first.Format("2 Jan 15:04")
	}
	return all
}

// spans are the lengths of time that the page shows, in minutes.
var spans = []int{60, 360, api.MaxStatsMinutes}

// history shows the last hours by minute.
func (v *visit) history() error {
	minutes := api.MaxStatsMinutes
	if n, err := strconv.Atoi(v.r.URL.Query().Get("minutes")); err == nil && slices.Contains(spans, n) {
		minutes = n
	}
	h, err := v.lastMinutes(minutes)
	if err != nil {
		return err
	}
	return v.page("history", "History", 0, h)
}
