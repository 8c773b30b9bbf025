package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// found is what was measured of a subject: its rows, or the lines of a table that shows how a cost
// grows.
type found struct {
	subject
	measured []row
	lines    [][]string
}

// results are the results of subjects in the order of their sections.
type results []found

// sections are the headings.
func (r results) sections() (headings []string) {
	for _, f := range r {
		headings = append(headings, f.section)
	}
	return slices.Compact(headings)
}

// table is the table of a section, with its head.
func (r results) table(section string) (lines [][]string) {
	for _, f := range r {
		if f.section != section {
			continue
		}
		if lines == nil {
			lines = [][]string{head}
			if f.head != nil {
				lines[0] = f.head
			}
		}
		for _, row := range f.measured {
			lines = append(lines, row.cells())
		}
		lines = append(lines, f.lines...)
	}
	return lines
}

// show prints everything for a terminal, or only the rows as JSON.
func (r results) show(out io.Writer, asJSON bool) {
	if asJSON {
		for _, f := range r {
			for _, row := range f.measured {
				must(json.NewEncoder(out).Encode(struct {
					Work     string  `json:"work"`
					Ours     float64 `json:"ours"`
					Unit     string  `json:"unit"`
					Base     float64 `json:"base,omitempty"`
					Baseline string  `json:"baseline,omitempty"`
					Ratio    float64 `json:"ratio,omitempty"`
					Verdict  string  `json:"verdict"`
				}{row.work, row.figure, row.unit, row.against, row.baseline, row.ratio(), row.verdict()}))
			}
		}
		return
	}
	for _, section := range r.sections() {
		fmt.Fprintf(out, "\n%s\n\n", section)
		align(out, r.table(section))
	}
}

// align prints lines of cells in columns.
func align(out io.Writer, lines [][]string) {
	aligned := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, line := range lines {
		fmt.Fprintln(aligned, strings.Join(line, "\t"))
	}
	must(aligned.Flush())
}

// preface is the beginning of the file of results.
const preface = `# Results

Written by ` + "`make bench`, `make bench-growth` and `make soak`" + `; not edited by hand. Each section
says when and on which machine it was measured. The sides were measured in turns, and the
figures are medians. Everything that is compared was started from one shell. The load
generator, the stand-in for APNs, Redis and all processes share the cores, so that absolute
figures say more about the machine than about fanfare: read the ratios.
`

// write replaces in the file each section whose subjects have all run. Other sections stay
// as they are, with their own dates and machines.
func (r results) write(path string, all []subject, machine string) {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		must(err)
	}
	text := string(old)
	if text == "" {
		text = preface
	}
	parts := strings.Split(text, "\n## ") // each ends with the end of a line
	for _, section := range r.sections() {
		in := func(s subject) bool { return s.section == section }
		ran := func(f found) bool { return in(f.subject) }
		if count(all, in) > count(r, ran) {
			continue
		}
		part := fmt.Sprintf("%s\n\n%s\n\n", section, machine)
		for i, line := range r.table(section) {
			part += "| " + strings.Join(line, " | ") + " |\n"
			if i == 0 {
				part += "|" + strings.Repeat("---|", len(line)) + "\n"
			}
		}
		at := slices.IndexFunc(parts, func(p string) bool { return strings.HasPrefix(p, section+"\n") })
		if at < 0 {
			parts = append(parts, part)
		} else {
			parts[at] = part
		}
	}
	if len(parts) > 1 {
		must(os.WriteFile(path, []byte(strings.Join(parts, "\n## ")), 0o644))
	}
}

// count counts the items of a list for which a condition is true.
func count[T any](list []T, is func(T) bool) (n int) {
	for _, item := range list {
		if is(item) {
			n++
		}
	}
	return n
}
