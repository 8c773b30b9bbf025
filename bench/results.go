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

// table is a separate table that shows how a cost grows.
type table struct {
	Title string
	Head  []string
	Lines [][]string
}

// results collects the results of the subjects, by section.
type results struct {
	machine  string // date, cores, versions, rounds
	ran      []string
	sections []section
}

// section is a section of the file of results, which is replaced as a whole.
type section struct {
	heading string
	rows    []row
	tables  []table
}

// add puts the results of a subject into its section.
func (r *results) add(s subject, f found) {
	r.ran = append(r.ran, s.name)
	if i := slices.IndexFunc(r.sections, func(have section) bool { return have.heading == s.section }); i >= 0 {
		r.sections[i].rows = append(r.sections[i].rows, f.rows...)
		r.sections[i].tables = append(r.sections[i].tables, f.tables...)
		return
	}
	r.sections = append(r.sections, section{s.section, f.rows, f.tables})
}

// show prints everything for a terminal, or only the rows as JSON.
func (r *results) show(out io.Writer, asJSON bool) {
	for _, s := range r.sections {
		if asJSON {
			s.encode(out)
			continue
		}
		fmt.Fprintf(out, "\n%s\n\n", s.heading)
		for _, t := range s.all() {
			align(out, append([][]string{t.Head}, t.Lines...))
		}
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

// encode prints one JSON object per row.
func (s *section) encode(out io.Writer) {
	for _, r := range s.rows {
		must(json.NewEncoder(out).Encode(struct {
			row
			Ratio   float64 `json:"ratio,omitempty"`
			Verdict string  `json:"verdict"`
		}{r, r.ratio(), r.verdict()}))
	}
}

// all are the section's tables, beginning with the table of its rows.
func (s *section) all() []table {
	if len(s.rows) == 0 {
		return s.tables
	}
	first := table{Head: head}
	for _, r := range s.rows {
		first.Lines = append(first.Lines, r.cells())
	}
	return append([]table{first}, s.tables...)
}

// markdown is the section's text in the file.
func (s *section) markdown(machine string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n%s\n", s.heading, machine)
	for _, t := range s.all() {
		if t.Title != "" {
			fmt.Fprintf(&b, "\n%s\n", t.Title)
		}
		b.WriteString("\n| " + strings.Join(t.Head, " | ") + " |\n|" + strings.Repeat("---|", len(t.Head)) + "\n")
		for _, line := range t.Lines {
			b.WriteString("| " + strings.Join(line, " | ") + " |\n")
		}
	}
	return b.String()
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
// unchanged.
func (r *results) write(path string, all []subject) error {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text := string(old)
	if text == "" {
		text = preface
	}
	for _, s := range r.sections {
		if r.whole(s.heading, all) {
			text = replaceSection(text, s.heading, s.markdown(r.machine))
		}
	}
	if text == string(old) || text == preface {
		return nil
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// whole tells whether every subject of a section ran.
func (r *results) whole(heading string, all []subject) bool {
	return !slices.ContainsFunc(all, func(s subject) bool { return s.section == heading && !slices.Contains(r.ran, s.name) })
}

// replaceSection replaces the section with the same heading, or adds the section at the end.
func replaceSection(text, heading, section string) string {
	parts := strings.Split(text, "\n## ")
	for i, part := range parts[1:] {
		if title, _, _ := strings.Cut(part, "\n"); title == heading {
			parts[i+1] = strings.TrimPrefix(section, "## ")
			return joinSections(parts)
		}
	}
	return joinSections(append(parts, strings.TrimPrefix(section, "## ")))
}

// joinSections joins sections with one empty line between them.
func joinSections(parts []string) string {
	for i := range parts {
		parts[i] = strings.TrimRight(parts[i], "\n") + "\n"
	}
	return strings.Join(parts, "\n## ")
}
