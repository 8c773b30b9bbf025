package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fanfare/store/storetest"
)

var (
	// seenLine is a line of a table that says where a fault shows, and how.
	seenLine = regexp.MustCompile("(?m)^\\| (`/readyz`|metric|log) \\| `([^`]+)` \\|$")
	// metricName is a metric of ours, in whatever text.
	metricName = regexp.MustCompile(`fanfare_[a-z0-9_]*[a-z0-9]`)
	// logCall is a method of slog.Logger that writes a line.
	logCall = regexp.MustCompile(`^(Debug|Info|Warn|Error)(Context)?$`)
	// loggerName is what a logger is called here.
	loggerName = regexp.MustCompile(`^(log|logger|Logger|With|newLogger)$`)
)

// words are what the sources have as text.
type words struct {
	all  map[string]bool // every literal
	keys map[string]bool // that name what a line of the log has
	said []string        // the messages of warnings and errors
}

// mustWords reads all production code but what only developers run.
func mustWords(t testing.TB) words {
	t.Helper()
	w := words{all: map[string]bool{}, keys: map[string]bool{}}
	for _, name := range mustFiles(t, ".go") {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "bench/") || strings.HasPrefix(name, "openapi/gen/") || strings.Contains(name, "test/") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(storetest.Root(t), name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
					w.all[text] = true
				}
			case *ast.CallExpr:
				w.call(n)
			}
			return true
		})
	}
	return w
}

// call keeps what a call of a logger says.
func (w *words) call(n *ast.CallExpr) {
	method, is := n.Fun.(*ast.SelectorExpr)
	if !is {
		return
	}
	on := nameOf(method.X)
	if key := literal(n.Args); on == "slog" && len(n.Args) == 2 && key != "" {
		w.keys[key] = true
	}
	found := logCall.FindStringSubmatch(method.Sel.Name)
	if found == nil || !loggerName.MatchString(on) {
		return
	}
	args := n.Args
	if found[2] != "" {
		args = args[1:]
	}
	if text := literal(args); text != "" && (found[1] == "Warn" || found[1] == "Error") {
		w.said = append(w.said, text)
	}
	for i := 1; i < len(args); i += 2 {
		if key := literal(args[i:]); key != "" {
			w.keys[key] = true
		}
	}
}

// nameOf is the last name of what a method is called on.
func nameOf(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	case *ast.CallExpr:
		return nameOf(x.Fun)
	}
	return ""
}

// literal is the first of some arguments, if it is a text.
func literal(args []ast.Expr) string {
	if len(args) == 0 {
		return ""
	}
	lit, is := args[0].(*ast.BasicLit)
	if !is || lit.Kind != token.STRING {
		return ""
	}
	text, _ := strconv.Unquote(lit.Value)
	return text
}

// has reports whether the code can say a text: a literal is it, or it begins with one
// that is followed by a name.
func (w *words) has(text string) bool {
	if w.all[text] {
		return true
	}
	for literal := range w.all {
		if rest, is := strings.CutPrefix(text, literal); is && len(literal) >= 7 && strings.HasSuffix(literal, " ") && (w.all[rest] || rest == "APNs") {
			return true
		}
	}
	return false
}

// mustSections cuts a document at its headings of the third level.
func mustSections(t testing.TB, name string) map[string]string {
	t.Helper()
	sections := map[string]string{}
	for _, part := range strings.Split("\n"+storetest.RepositoryFile(t, name), "\n### ")[1:] {
		title, text, _ := strings.Cut(part, "\n")
		text, _, _ = strings.Cut(text, "\n## ")
		sections[title] = text
	}
	return sections
}

// What operators are told that the log says, it can say.
func TestOperationsNamesWhatTheLogSays(t *testing.T) {
	t.Parallel()
	w, lines := mustWords(t), 0
	for _, match := range seenLine.FindAllStringSubmatch(storetest.RepositoryFile(t, "docs/runbook.md"), -1) {
		if match[1] != "log" {
			continue
		}
		lines++
		if !w.has(match[2]) {
			t.Errorf("docs/runbook.md shows a line of the log that nothing writes: %s", match[2])
		}
	}
	if lines < 10 {
		t.Errorf("only %d lines of the log were found", lines)
	}
}

// Every key that a line of the log may have is in the table, and so is every warning
// and error, with what it means.
func TestLogIsDocumented(t *testing.T) {
	t.Parallel()
	w := mustWords(t)
	text := storetest.RepositoryFile(t, "docs/monitoring/log.md")
	documented := func(what string) bool { return strings.Contains(text, "`"+what+"`") }
	for key := range w.keys {
		if !documented(key) {
			t.Errorf("docs/monitoring/log.md lacks the key %s", key)
		}
	}
	for _, said := range w.said {
		if !documented(said) {
			t.Errorf("docs/monitoring/log.md lacks the line %q", said)
		}
	}
	for _, match := range regexp.MustCompile("(?m)^\\| (?:warn|error) \\| `([^`]+)` \\|").FindAllStringSubmatch(text, -1) {
		if !slices.Contains(w.said, match[1]) && !w.has(match[1]) {
			t.Errorf("docs/monitoring/log.md shows a line that nothing writes: %s", match[1])
		}
	}
	if len(w.said) < 30 || len(w.keys) < 20 {
		t.Errorf("only %d lines and %d keys were found", len(w.said), len(w.keys))
	}
}

// Every metric that a document names is one of the table.
func TestDocumentsNameMetricsThatExist(t *testing.T) {
	t.Parallel()
	table := storetest.RepositoryFile(t, "docs/monitoring/README.md")
	for _, name := range mustFiles(t, ".md", "docs/monitoring/alerts.yml", "docs/monitoring/alerts_test.yml", "docs/monitoring/alerts_days_test.yml", "docs/monitoring/dashboard.json") {
		if name == "docs/monitoring/README.md" || strings.HasPrefix(name, "bench/") {
			continue
		}
		for _, metric := range metricName.FindAllString(storetest.RepositoryFile(t, name), -1) {
			for _, part := range []string{"_bucket", "_sum", "_count"} {
				if whole := strings.TrimSuffix(metric, part); strings.Contains(table, "| `"+whole+"` | histogram |") {
					metric = whole
				}
			}
			if !strings.Contains(table, "| `"+metric+"` |") && !strings.Contains(table, "| `"+metric+"_") {
				t.Errorf("%s names %s, which is not in the table of metrics", name, metric)
			}
		}
	}
}

// Every alert leads to its section of the runbook, which names it; every section names one.
func TestAlertsHaveSections(t *testing.T) {
	t.Parallel()
	rules := storetest.RepositoryFile(t, "docs/monitoring/alerts.yml")
	alerts := regexp.MustCompile(`(?m)^ +- alert: (\w+)$`).FindAllStringSubmatch(rules, -1)
	for _, block := range strings.Split(rules, "- alert: ")[1:] {
		name, text, _ := strings.Cut(block, "\n")
		link := regexp.MustCompile(`runbook: docs/runbook\.md#(\S+)`).FindStringSubmatch(text)
		if link == nil || !slices.Contains(anchors(storetest.RepositoryFile(t, "docs/runbook.md")), strings.Trim(link[1], `"`)) {
			t.Errorf("alert %s has no section: %v", name, link)
		}
	}
	for title, text := range mustSections(t, "docs/runbook.md") {
		named := 0
		for _, alert := range alerts {
			if strings.Contains(text, "`"+alert[1]+"`") {
				named++
			}
		}
		if named == 0 {
			t.Errorf("the section %q names no alert", title)
		}
	}
	for _, alert := range alerts {
		if !strings.Contains(storetest.RepositoryFile(t, "docs/runbook.md"), "`"+alert[1]+"`") {
			t.Errorf("docs/runbook.md does not name the alert %s", alert[1])
		}
	}
	if len(alerts) < 15 {
		t.Errorf("only %d alerts were found", len(alerts))
	}
}
