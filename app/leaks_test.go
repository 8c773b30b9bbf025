package app

import (
	"go/ast"
	"slices"
	"testing"
)

// Every package that starts goroutines or timers has tests that look, at their end, for
// those that still run (goleak, in leak_test.go).
func TestPackagesWithGoroutinesLookForLeaks(t *testing.T) {
	t.Parallel()
	starts, looks := map[string]string{}, map[string]bool{}
	for _, s := range mustParseModule(t) {
		if s.room == "." || within(s.room, "bench") { // programs
			continue
		}
		if s.test() {
			looks[s.room] = looks[s.room] || slices.Contains(s.imports(), "go.uber.org/goleak")
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if startsGoroutine(n) {
				starts[s.room] = s.at(n.Pos())
			}
			return true
		})
	}
	if len(starts) < 10 {
		t.Fatalf("only %d packages start goroutines", len(starts))
	}
	for room, where := range starts {
		if !looks[room] {
			t.Errorf("%s starts a goroutine; no test of its package looks for leaks", where)
		}
	}
}

func startsGoroutine(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		return true
	case *ast.CallExpr:
		f, ok := n.Fun.(*ast.SelectorExpr)
		return ok && (f.Sel.Name == "Go" || f.Sel.Name == "AfterFunc")
	}
	return false
}
