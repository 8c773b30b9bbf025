package main

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// figures are made-up rows, one of each kind, and their cells.
var figures = []struct {
	row
	cells []string
}{
	{row{want{"as fast", "", "/s", "", "the other", atLeast(1)}, 12_345, 12_345},
		[]string{"as fast", "12,345/s", "the other: 12,345/s", "1.00", ">= 1.0", "met"}},
	// 0.9999 is shown as 1.00, but is less than 1.
	{row{want{"nearly", "", "/s", "", "the other", atLeast(1)}, 9_999, 10_000},
		[]string{"nearly", "9,999/s", "the other: 10,000/s", "1.00", ">= 1.0", "missed"}},
	{row{want{"late", "", "ms", "", "the other", atMost(1.2)}, 12.04, 10},
		[]string{"late", "12.0 ms", "the other: 10.0 ms", "1.20", "<= 1.2", "missed"}},
	{row{want{"small", "", "MiB", "", "", valueAtMost(94)}, 93.96, 0},
		[]string{"small", "94.0 MiB", "-", "94.0 MiB", "<= 94.0 MiB", "met"}},
	{row{want{"few", "", "/s", "", "", valueAtLeast(150_000)}, 149_999, 0},
		[]string{"few", "149,999/s", "-", "149,999/s", ">= 150,000/s", "missed"}},
	{row{want{"soon", "", "ms", "", "the other", valueAtMost(.3)}, .31, 1_260},
		[]string{"soon", "0.31 ms", "the other: 1,260 ms", "0.31 ms", "<= 0.30 ms", "missed"}},
	{row{want{"for interest", "", "/s", "", "the other", goal{}}, 3, 1},
		[]string{"for interest", "3.00/s", "the other: 1.00/s", "3.00", "-", "-"}},
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	for _, c := range figures {
		if err := attempt(c.check); err != nil {
			t.Errorf("%s is refused: %v", c.work, err)
		}
		if got := c.row.cells(); !slices.Equal(got, c.cells) {
			t.Errorf("got  %q\nwant %q", got, c.cells)
		}
	}
}

// A missing measurement must not be shown as a figure.
func TestRowsWithoutAFigureAreRefused(t *testing.T) {
	t.Parallel()
	compared := want{"compared", "ours", "/s", "base", "the other", atLeast(1)}
	for _, c := range []struct {
		want
		found medians
	}{
		{compared, medians{"base": 1}},
		{compared, medians{"ours": 1}},
		{want{"a ratio without a baseline", "ours", "/s", "", "", atLeast(1)}, medians{"ours": 1}},
		{compared, medians{"ours": math.NaN(), "base": 1}},
		{compared, medians{"ours": 1, "base": math.Inf(1)}},
		{compared, medians{"ours": -1, "base": 1}},
	} {
		s := subject{rows: []want{c.want}, once: func(*world) medians { return c.found }}
		_, err := (&world{ctx: t.Context()}).run(s)
		if err == nil || !strings.HasPrefix(err.Error(), c.work) {
			t.Errorf("%s of %v: %v", c.work, c.found, err)
		}
	}
}

// A section is replaced in its place, and the others stay. Half a section is not written.
func TestResultsFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "RESULTS.md")
	one, other := subject{name: "a", section: "One"}, subject{name: "b", section: "One"}
	grown := subject{name: "c", section: "Two", head: []string{"n", "/s"}}
	write := func(machine string, r ...found) string {
		results(r).write(path, []subject{one, other, grown}, machine)
		text, _ := os.ReadFile(path)
		return string(text)
	}
	first, small := []row{figures[0].row}, []row{figures[3].row}
	if got := write("noon", found{one, first, nil}); got != "" {
		t.Errorf("half a section was written: %q", got)
	}
	write("noon", found{one, first, nil}, found{other, first, nil})
	write("one o'clock", found{grown, nil, [][]string{{"1", "2"}}}, found{one, first, nil})
	got := write("two o'clock", found{one, small, nil}, found{other, small, nil})
	const line = "| small | 94.0 MiB | - | 94.0 MiB | <= 94.0 MiB | met |\n"
	want := preface + `
## One

two o'clock

| work | ours | baseline | ratio or value | goal | verdict |
|---|---|---|---|---|---|
` + line + line + `
## Two

one o'clock

| n | /s |
|---|---|
| 1 | 2 |
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The file in the repository begins with the preface of this program.
func TestResultsFileIsOurs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("RESULTS.md")
	if err != nil || !strings.HasPrefix(string(text), preface) {
		t.Errorf("RESULTS.md was edited by hand, or is not there: %v", err)
	}
}

// Rates and costs of two programs are compared by the median of the ratios of all rounds.
func TestCompared(t *testing.T) {
	t.Parallel()
	rows := func(rate, cost, late float64) []row {
		return []row{{want{work: "rate", unit: "/s"}, rate, 0}, {want{work: "cost", unit: "µs"}, cost, 0}, {want{work: "late", unit: "ms"}, late, 0}}
	}
	got := compared([][2][]row{
		{rows(1000, 50, 10), rows(960, 51, 20)}, {rows(2000, 50, 10), rows(1980, 52, 20)}, {rows(1000, 50, 10), rows(900, 52, 20)},
	})
	if want := [][]string{
		{"rate", "1,000/s", "960/s", "0.960", ">= 0.97", "missed"},
		{"cost", "50.0 µs", "52.0 µs", "1.040", "<= 1.03", "missed"},
		{"late", "10.0 ms", "20.0 ms", "2.000", "-", "-"},
	}; !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for want, values := range map[float64][]float64{7: {7}, 5: {9, 1, 5}, 2.5: {4, 1, 3, 2}} {
		if got := median(values); got != want {
			t.Errorf("median is %v, not %v", got, want)
		}
	}
}
