package app

import (
	"regexp"
	"slices"
	"testing"

	"fanfare/store/storetest"
)

// requirement is a line of go.mod.
type requirement struct{ module, version string }

// mustRequirements returns the requirements of go.mod, beginning with the modules that the code
// imports directly.
func mustRequirements(t testing.TB) (direct []requirement) {
	t.Helper()
	text := storetest.RepositoryFile(t, "go.mod")
	imported := map[string]bool{}
	for _, s := range mustParseModule(t) {
		for _, name := range s.imports() {
			imported[name] = true
		}
	}
	var all []requirement
	for _, match := range regexp.MustCompile(`(?m)^\t(\S+) (v\S+)( // indirect)?$`).FindAllStringSubmatch(text, -1) {
		all = append(all, requirement{match[1], match[2]})
	}
	for _, r := range all {
		for name := range imported {
			if owner(name, all) == r.module && !slices.Contains(direct, r) {
				direct = append(direct, r)
			}
		}
	}
	return direct
}

// owner is the module that an import path belongs to.
func owner(path string, all []requirement) string {
	best := ""
	for _, r := range all {
		if within(path, r.module) && len(r.module) > len(best) {
			best = r.module
		}
	}
	return best
}

// The table of dependencies has the modules that the code imports, in the versions of go.mod.
func TestDependencyTable(t *testing.T) {
	t.Parallel()
	table := storetest.RepositoryFile(t, "docs/dependencies.md")
	rows := map[string]string{}
	for _, match := range regexp.MustCompile("(?m)^\\| `(\\S+)` \\| (v\\S+) \\| \\S.*\\|$").FindAllStringSubmatch(table, -1) {
		rows[match[1]] = match[2]
	}
	direct := mustRequirements(t)
	for _, r := range direct {
		if rows[r.module] != r.version {
			t.Errorf("%s %s: docs/dependencies.md says %q", r.module, r.version, rows[r.module])
		}
		delete(rows, r.module)
	}
	for module := range rows {
		t.Errorf("%s is in docs/dependencies.md and is not imported", module)
	}
	if len(direct) < 5 {
		t.Errorf("only %d direct requirements were found", len(direct))
	}
}
