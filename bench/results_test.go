package main

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// made are rows with made-up figures, one of each kind.
func made() []row {
	return []row{
		{"as fast", 12_345, "/s", 12_345, "the other", atLeast(1)},
		{"nearly", 9_999, "/s", 10_000, "the other", atLeast(1)},
		{"late", 12.04, "ms", 10, "the other", atMost(1.2)},
		{"small", 93.96, "MiB", 0, "", valueAtMost(94)},
		{"few", 149_999, "/s", 0, "", valueAtLeast(150_000)},
		{"soon", .31, "ms", 1_260, "the other", valueAtMost(.3)},
		{"for interest", 3, "/s", 1, "the other", goal{}},
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	want := [][]string{
		{"as fast", "12,345/s", "the other: 12,345/s", "1.00", ">= 1.0", "met"},
		// 0.9999 is shown as 1.00, but is less than 1.
		{"nearly", "9,999/s", "the other: 10,000/s", "1.00", ">= 1.0", "missed"},
		{"late", "12.0 ms", "the other: 10.0 ms", "1.20", "<= 1.2", "missed"},
		{"small", "94.0 MiB", "-", "94.0 MiB", "<= 94.0 MiB", "met"},
		{"few", "149,999/s", "-", "149,999/s", ">= 150,000/s", "missed"},
		{"soon", "0.31 ms", "the other: 1,260 ms", "0.31 ms", "<= 0.30 ms", "missed"},
		{"for interest", "3.00/s", "the other: 1.00/s", "3.00", "-", "-"},
	}
	for i, r := range made() {
		if err := r.check(); err != nil {
			t.Errorf("%s is refused: %v", r.Work, err)
		}
		if got := r.cells(); !slices.Equal(got, want[i]) {
			t.Errorf("got  %q\nwant %q", got, want[i])
		}
	}
}

// A missing measurement must not be shown as a figure.
func TestRowsWithoutAFigureAreRefused(t *testing.T) {
	t.Parallel()
	for _, r := range []row{
		{"nothing", 0, "/s", 1, "the other", atLeast(1)},
		{"no baseline", 1, "/s", 0, "the other", atLeast(1)},
		{"a ratio without a baseline", 1, "/s", 0, "", atLeast(1)},
		{"not a number", math.NaN(), "/s", 1, "the other", atLeast(1)},
		{"endless", 1, "/s", math.Inf(1), "the other", atLeast(1)},
	} {
		f := found{rows: append(made(), r)}
		if err := f.check(); err == nil || !strings.HasPrefix(err.Error(), r.Work) {
			t.Errorf("%s: %v", r.Work, err)
		}
	}
}

// A section is replaced in its place, and the others stay.
func TestResultsFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "RESULTS.md")
	all := []subject{{name: "a", section: "One"}, {name: "b", section: "One"}, {name: "c", section: "Two"}}
	write := func(machine string, f found, ran ...int) string {
		r := &results{machine: machine}
		for _, i := range ran {
			r.add(all[i], f)
		}
		if err := r.write(path, all); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return string(text)
	}
	rows := func(i int) found { return found{rows: made()[i : i+1]} }
	if got := write("noon", rows(0), 0); got != "" {
		t.Errorf("half a section was written: %q", got)
	}
	grown := found{tables: []table{{Title: "How it grows.", Head: []string{"n", "/s"}, Lines: [][]string{{"1", "2"}}}}}
	write("noon", rows(0), 0, 1)
	write("one o'clock", grown, 2)
	got := write("two o'clock", rows(3), 0, 1)
	const line = "| small | 94.0 MiB | - | 94.0 MiB | <= 94.0 MiB | met |\n"
	want := preface + `
## One

two o'clock

| work | ours | baseline | ratio or value | goal | verdict |
|---|---|---|---|---|---|
` + line + line + `
## Two

one o'clock

How it grows.

| n | /s |
|---|---|
| 1 | 2 |
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{7}, 7}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 3, 2}, 2.5}} {
		if got := median(c.values); got != c.want {
			t.Errorf("median is %v, not %v", got, c.want)
		}
	}
}

// The file in the repository begins with the preface of this program.
func TestResultsFileIsOurs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("RESULTS.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), preface) {
		t.Errorf("RESULTS.md was edited by hand; it begins with:\n%s", text[:min(len(text), len(preface))])
	}
}
