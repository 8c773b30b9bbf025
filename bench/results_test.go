package main

import (
	"context"
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
	{row{want{"as fast", "", "/s", "", "the other", ">= 1"}, 12_345, 12_345},
		[]string{"as fast", "12,345/s", "the other: 12,345/s", "1.00", ">= 1", "met"}},
	// 0.9999 is shown as 1.00, but is less than 1.
	{row{want{"nearly", "", "/s", "", "the other", ">= 1"}, 9_999, 10_000},
		[]string{"nearly", "9,999/s", "the other: 10,000/s", "1.00", ">= 1", "missed"}},
	{row{want{"late", "", "ms", "", "the other", "<= 1.2"}, 12.04, 10},
		[]string{"late", "12.0 ms", "the other: 10.0 ms", "1.20", "<= 1.2", "missed"}},
	{row{want{"small", "", "MiB", "", "", "<= 94 MiB"}, 93.96, 0},
		[]string{"small", "94.0 MiB", "-", "94.0 MiB", "<= 94 MiB", "met"}},
	{row{want{"few", "", "/s", "", "", ">= 150000/s"}, 149_999, 0},
		[]string{"few", "149,999/s", "-", "149,999/s", ">= 150000/s", "missed"}},
	{row{want{"soon", "", "ms", "", "the other", "<= 0.3 ms"}, .31, 1_260},
		[]string{"soon", "0.31 ms", "the other: 1,260 ms", "0.31 ms", "<= 0.3 ms", "missed"}},
	{row{want{"entries", "", "", "", "", "<= 1.05"}, 1.06, 0},
		[]string{"entries", "1.06", "-", "1.06", "<= 1.05", "missed"}},
	{row{want{"for interest", "", "/s", "", "the other", ""}, 3, 1},
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

// Every goal can be read: a mistake in the table must not end a benchmark after many minutes.
func TestGoalsAreReadable(t *testing.T) {
	t.Parallel()
	for _, s := range subjects(sections()) {
		for _, r := range s.rows {
			if err := attempt(func() { verdict(r.goal, 1) }); err != nil {
				t.Errorf("%s: %q: %v", r.work, r.goal, err)
			}
		}
	}
}

// A missing measurement must not be shown as a figure.
func TestRowsWithoutAFigureAreRefused(t *testing.T) {
	t.Parallel()
	compared := want{"compared", "ours", "/s", "base", "the other", ">= 1"}
	for _, found := range []sample{
		{"base": 1}, {"ours": 1}, {"ours": math.NaN(), "base": 1}, {"ours": 1, "base": math.Inf(1)}, {"ours": -1, "base": 1},
	} {
		err := attempt(func() {
			testWorld(t).run(subject{name: "s", rows: []want{compared}, measure: func(*world) sample { return found }})
		})
		if err == nil || !strings.HasPrefix(err.Error(), "s: compared") {
			t.Errorf("%v: %v", found, err)
		}
	}
}

func testWorld(t *testing.T) *world {
	w := &world{dir: t.TempDir()}
	w.ctx, w.fail = context.WithCancelCause(t.Context())
	return w
}

// A section is replaced in its place, and the others stay.
func TestResultsFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "RESULTS.md")
	write(path, "One", "noon", [][]string{rowHead, figures[0].cells})
	write(path, "Two", "one o'clock", [][]string{{"n", "/s"}, {"1", "2"}})
	write(path, "One", "two o'clock", [][]string{rowHead, figures[3].cells})
	text, _ := os.ReadFile(path)
	want := preface + `
## One

two o'clock

| work | ours | baseline | ratio or value | goal | verdict |
|---|---|---|---|---|---|
| small | 94.0 MiB | - | 94.0 MiB | <= 94 MiB | met |

## Two

one o'clock

| n | /s |
|---|---|
| 1 | 2 |
`
	if got := string(text); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A section is written only when all its subjects have run.
func TestChoose(t *testing.T) {
	t.Parallel()
	all := func() []section {
		return []section{{subjects: []subject{{name: "a"}, {name: "b"}}}, {subjects: []subject{{name: "c"}}}}
	}
	if chosen := choose(all(), nil); len(chosen) != 2 || !chosen[0].whole || !chosen[1].whole {
		t.Errorf("all are %v", chosen)
	}
	if chosen := choose(all(), []string{"b"}); len(chosen) != 1 || chosen[0].whole || chosen[0].subjects[0].name != "b" {
		t.Errorf("b is %v", chosen)
	}
	if err := attempt(func() { choose(all(), []string{"d"}) }); err == nil {
		t.Error("d was found")
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
