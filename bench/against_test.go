package main

import (
	"slices"
	"testing"
)

// Rates and costs of two programs are compared by the median of the ratios of all rounds.
func TestCompared(t *testing.T) {
	t.Parallel()
	var all []*compared
	for _, round := range [][2][]float64{
		{{1000, 50, 10}, {960, 51, 20}},
		{{2000, 50, 10}, {1980, 52, 20}},
		{{1000, 50, 10}, {900, 52, 20}},
	} {
		rows := func(values []float64) []row {
			return []row{{Work: "rate", Ours: values[0], Unit: "/s"}, {Work: "cost", Ours: values[1], Unit: "µs"}, {Work: "late", Ours: values[2], Unit: "ms"}}
		}
		all = merge(all, rows(round[0]), append(rows(round[1]), row{Work: "new", Ours: 1}))
	}
	want := [][]string{
		{"rate", "1,000/s", "960/s", "0.960", ">= 0.97", "missed"},
		{"cost", "50.0 µs", "52.0 µs", "1.040", "<= 1.03", "missed"},
		{"late", "10.0 ms", "20.0 ms", "2.000", "-", "-"},
	}
	if len(all) != len(want) {
		t.Fatalf("%d rows, not %d", len(all), len(want))
	}
	for i, c := range all {
		if got := c.cells(); !slices.Equal(got, want[i]) {
			t.Errorf("got  %q\nwant %q", got, want[i])
		}
	}
}
