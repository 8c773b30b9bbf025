package app

import (
	"go/ast"
	"slices"
	"testing"
)

// Every package that starts goroutines or timers checks at the end of its tests that none is still
// running (goleak, in leak_test.go).
func TestPackagesWithGoroutinesLookForLeaks(t *testing.T) {
	t.Parallel()
	starts, looks := map[string]string{}, map[string]bool{}
	for _, s := range mustParseModule(t) {
		if s.pkg == "." || within(s.pkg, "bench") { // programs
			continue
		}
		if s.test() {
			looks[s.pkg] = looks[s.pkg] || slices.Contains(s.imports(), "go.uber.org/goleak")
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if startsGoroutine(n) {
				starts[s.pkg] = s.at(n.Pos())
			}
			return true
		})
	}
	if len(starts) < 10 {
		t.Fatalf("only %d packages start goroutines", len(starts))
	}
	for pkg, where := range starts {
		if !looks[pkg] && !within(pkg, "clients") { // those are modules of their own, with the standard library alone
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
