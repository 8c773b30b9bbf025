package app

import (
	"go/ast"
	"regexp"
	"slices"
	"testing"
)

// costly are the names of the client library whose types make every package that sees one of them slow to compile, see
// redisdb.Conn.
var costly = regexp.MustCompile(`^(Client|(New)?(Universal|Cluster|Failover|FailoverCluster|Sentinel)Client|NewClient|\w*Options|PubSub|Conn|Tx|(New)?Ring|ChannelOption|WithChannel\w*|ParseURL|Parse\w+URL)$`)

// mostInlined is for how many lines a function counts as so short that the compiler may inline it.
const mostInlined = 5

// costlyIn finds the first costly name in a part of a file.
func costlyIn(part ast.Node) (found *ast.SelectorExpr) {
	ast.Inspect(part, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && found == nil {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "redis" && costly.MatchString(s.Sel.Name) {
				found = s
			}
		}
		return found == nil
	})
	return found
}

// seen are the parts of a file of redisdb that other packages see.
func (s source) seen() (parts []ast.Node) {
	for _, d := range s.file.Decls {
		f, is := d.(*ast.FuncDecl)
		if !is {
			parts = append(parts, d)
			continue
		}
		if f.Recv != nil || f.Name.IsExported() {
			parts = append(parts, f.Type)
		}
		lines := s.set.Position(f.End()).Line - s.set.Position(f.Pos()).Line + 1
		kept := f.Doc != nil && slices.ContainsFunc(f.Doc.List, func(c *ast.Comment) bool { return c.Text == "//go:noinline" })
		if lines <= mostInlined && !kept {
			parts = append(parts, f.Body)
		}
	}
	return parts
}

// Only store/redisdb and what tests and measures use the client library's costly types, and redisdb shows them to no
// other package.
func TestFewPackagesSeeTheCostlyTypesOfTheClientLibrary(t *testing.T) {
	t.Parallel()
	for _, s := range mustParseModule(t) {
		if s.test() || within(s.pkg, "bench") || !slices.Contains(s.imports(), "github.com/redis/go-redis/v9") {
			continue
		}
		parts := []ast.Node{s.file}
		if within(s.pkg, "store/redisdb") {
			parts = s.seen()
		}
		for _, part := range parts {
			if name := costlyIn(part); name != nil {
				t.Errorf("%s shows redis.%s to other packages, which makes each of them a second slower to compile, see redisdb.Conn", s.at(name.Pos()), name.Sel.Name)
			}
		}
	}
}
