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
	// Path is the line in the form of SVG; where a figure is not known it is interrupted.
	Path string
}

// chart is a chart of some minutes.
type chart struct {
	Title, Unit string
	Max         string
	Lines       []line
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
	if len(h.Items) < 2 {
		return h, nil
	}
	count := func(n int64) *float64 { f := float64(n); return &f }
	delivered := figures{}
	for _, name := range slices.Sorted(maps.Keys(platforms)) {
		delivered = append(delivered, figure{"delivered by " + name, func(m *api.StatsMinute) *float64 { return count(m.Platforms[name].Delivered) }})
	}
	h.Charts = []chart{
		h.draw("Events and failures", "a minute", figures{
			{"events accepted", func(m *api.StatsMinute) *float64 { return count(m.Accepted) }},
			{"notifications failed", func(m *api.StatsMinute) *float64 { return count(m.Failed) }},
			{"retried", func(m *api.StatsMinute) *float64 { return count(m.Retried) }},
		}),
		h.draw("Time from acceptance to answer", "ms", figures{
			{"median", func(m *api.StatsMinute) *float64 { return m.P50MS }}, {"99 %", func(m *api.StatsMinute) *float64 { return m.P99MS }},
		}),
		h.draw("Jobs that wait", "at the end of the minute", figures{{"depth", func(m *api.StatsMinute) *float64 {
			if m.Depth == nil {
				return nil
			}
			return count(*m.Depth)
		}}}),
	}
	if len(delivered) > 0 {
		h.Charts = append([]chart{h.draw("Notifications delivered", "a minute", delivered)}, h.Charts...)
	}
	return h, nil
}

// figure is a figure of each minute; nil: nobody knows it.
type figure struct {
	name string
	of   func(*api.StatsMinute) *float64
}

type figures []figure

// draw draws figures of the minutes.
func (h *history) draw(title, unit string, all figures) chart {
	most := 1.0
	for _, f := range all {
		for i := range h.Items {
			if value := f.of(&h.Items[i]); value != nil {
				most = max(most, *value)
			}
		}
	}
	c := chart{Title: title, Unit: unit, Max: number(int64(most + 0.5))}
	first, last := h.Items[0].At.Time, h.Items[len(h.Items)-1].At.Time
	for i, f := range all {
		var path strings.Builder
		step, before := "M", time.Time{}
		for j := range h.Items {
			m := &h.Items[j]
			value := f.of(m)
			if value == nil || !before.IsZero() && m.At.Sub(before) > time.Minute {
				step = "M"
			}
			if value == nil {
				continue
			}
			x := float64(plotWidth) * float64(m.At.Sub(first)) / float64(max(1, last.Sub(first)))
			fmt.Fprintf(&path, "%s%.1f %.1f", step, x, plotTop+plotHeight*(1-*value/most))
			step, before = "L", m.At.Time
		}
		c.Lines = append(c.Lines, line{f.name, strconv.Itoa(i%3 + 1), path.String()})
	}
	return c
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
