package console

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"fanfare/api"
)

// history is what charts and tables show of some minutes.
type history struct {
	Minutes int
	Items   []api.StatsMinute
	Charts  []chart
	Alarms  []alarms
	// Opened says that a user opened a notification, in one of the minutes.
	Opened bool
	// Superseded says that notifications of live events were, in one of the minutes.
	Superseded bool
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
		h.Opened, h.Superseded = h.Opened || m.Opened > 0, h.Superseded || m.Superseded > 0
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		h.Alarms = append(h.Alarms, alarms{kind, kinds[kind]})
	}
	if len(h.Items) == 0 {
		return h, nil
	}
	a := axis{last: time.Now().Add(-time.Minute).Truncate(time.Minute)}
	for _, m := range h.Items {
		a.at = append(a.at, m.At.Time)
	}
	if newest := h.Items[len(h.Items)-1].At.Time; newest.After(a.last) || len(h.Items) >= minutes { // Redis' clock differs
		a.last = newest
	}
	a.first = a.last.Add(-time.Duration(minutes-1) * time.Minute)
	if h.Items[0].At.Before(a.first) {
		a.first = h.Items[0].At.Time
	}
	of := func(value func(*api.StatsMinute) *float64) func(int) *float64 {
		return func(i int) *float64 { return value(&h.Items[i]) }
	}
	counted := func(value func(*api.StatsMinute) int64) func(int) *float64 {
		return func(i int) *float64 { return count(value(&h.Items[i])) }
	}
	delivered := figures{}
	for i, name := range slices.Sorted(maps.Keys(platforms)) {
		delivered = append(delivered, figure{"delivered by " + name, strconv.Itoa(i%3 + 1), counted(func(m *api.StatsMinute) int64 { return m.Platforms[name].Delivered })})
	}
	if h.Opened {
		delivered = append(delivered, figure{"users who opened one", "4", counted(func(m *api.StatsMinute) int64 { return m.Opened })})
	}
	happened := figures{
		{"events accepted", "1", counted(func(m *api.StatsMinute) int64 { return m.Accepted })},
		{"retried", "2", counted(func(m *api.StatsMinute) int64 { return m.Retried })},
		{"notifications failed", "bad", counted(func(m *api.StatsMinute) int64 { return m.Failed })},
	}
	if h.Superseded {
		happened = append(happened, figure{"superseded", "3", counted(func(m *api.StatsMinute) int64 { return m.Superseded })})
	}
	h.Charts = []chart{
		a.draw("Events and failures", "a minute", whole, happened),
		a.draw("Time from acceptance to answer", "about", about, figures{{"median", "1", of(func(m *api.StatsMinute) *float64 { return m.P50MS })}}),
		a.draw("Time that 99 % of the answers did not exceed", "about", about, figures{{"99 %", "2", of(func(m *api.StatsMinute) *float64 { return m.P99MS })}}),
		a.draw("Jobs that wait", "at the end of the minute", whole, figures{{"depth", "1", of(func(m *api.StatsMinute) *float64 {
			if m.Depth == nil {
				return nil
			}
			return count(*m.Depth)
		})}}),
	}
	if len(delivered) > 0 {
		h.Charts = append([]chart{a.draw("Notifications delivered", "a minute", whole, delivered)}, h.Charts...)
	}
	return h, nil
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
