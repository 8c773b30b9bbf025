package app

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"fanfare/store/storetest"
)

// source is one parsed Go file of this module.
type source struct {
	path string // slash-separated, relative to the module
	pkg  string // the directory, "." for main
	file *ast.File
	set  *token.FileSet
}

// testOnly reports whether a package is only for tests and benchmarks, such as the stand-in beside each
// sender.
func testOnly(pkg string) bool {
	return slices.Contains([]string{
		"store/storetest", "store/queue/queuetest", "delivery/address/addresstest", "delivery/apns/apnstest", "delivery/exchange/exchangetest", "delivery/fcm/fcmtest", "delivery/webpush/webpushtest",
	}, pkg)
}

// test reports whether the file is compiled for tests only.
func (s source) test() bool { return strings.HasSuffix(s.path, "_test.go") || testOnly(s.pkg) }

// imports lists the imports of the file.
func (s source) imports() []string {
	var out []string
	for _, spec := range s.file.Imports {
		name, _ := strconv.Unquote(spec.Path.Value)
		out = append(out, name)
	}
	return out
}

// at formats a position in the file.
func (s source) at(p token.Pos) string { return s.set.Position(p).String() }

// parsed holds the files of the module, which are parsed once for all tests: that takes seconds.
var parsed struct {
	once sync.Once
	all  []source
	err  error
}

// mustParseModule returns every Go file of the module.
func mustParseModule(t testing.TB) []source {
	t.Helper()
	root := storetest.Root(t)
	parsed.once.Do(func() { parsed.all, parsed.err = parseModule(root) })
	if parsed.err != nil {
		t.Fatalf("parse module: %v", parsed.err)
	}
	if len(parsed.all) < 10 {
		t.Fatalf("only %d files were found: this test looks in the wrong place", len(parsed.all))
	}
	return parsed.all
}

func parseModule(root string) (out []source, err error) {
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != root && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if os.IsNotExist(err) {
			return nil
		}
		slashed := filepath.ToSlash(strings.TrimPrefix(name, root+string(filepath.Separator)))
		out = append(out, source{slashed, path.Dir(slashed), file, set})
		return err
	})
	return out, err
}

// within reports whether a package is in a directory or below it.
func within(pkg, dir string) bool { return pkg == dir || strings.HasPrefix(pkg, dir+"/") }

// floor is the level of a package. Imports go from higher floors to lower ones.
func floor(pkg string) int {
	switch {
	case pkg == ".":
		return 4
	case pkg == "app" || within(pkg, "bench") || within(pkg, "openapi/gen"):
		return 3
	case within(pkg, "handlers"), within(pkg, "delivery"), pkg == "console":
		return 2
	case within(pkg, "store"):
		return 1
	}
	return 0 // api, migrations, openapi, docs/site, docs/asset
}

// storeFloor orders the packages inside the store: nouns import engines, and engines import openers.
func storeFloor(pkg string) int {
	switch pkg {
	case "store/batch", "store/pack", "store/events/render":
		return -1
	case "store/redisdb":
		return 0
	case "store/queue/shard", "store/wake":
		return 1
	case "store/lock", "store/queue", "store/record":
		return 2
	case "store/sales", "store/sessions": // on store/stock, on store/usertokens
		return 4
	case "store/storetest":
		return 9
	}
	return 3
}

// deliveryFloor orders the packages inside delivery. Each sender, and delivery itself, imports the
// shared packages and none of the others. Targeting imports delivery.
func deliveryFloor(pkg string) int {
	switch pkg {
	case "delivery/transport", "delivery/h2", "delivery/address":
		return 0
	case "delivery/exchange":
		return 1
	case "delivery/targeting":
		return 3
	}
	return 2
}

// allowed reports whether a production file of one package may import another.
func allowed(from, to string) bool {
	switch {
	case to == "e2e" || to == ".":
		return false
	case testOnly(to):
		return within(from, "bench")
	case to == "openapi":
		return from == "app" || from == "openapi/gen" // the documents are handed to handlers, which they are made from
	case to == "docs/site":
		return from == "app"
	case to == "docs/asset": // it serves files that are part of the program
		return from == "openapi" || from == "docs/site"
	case from == to:
		return true
	case to == "store/queue/shard": // only the queue uses its engine
		return from == "store/queue"
	case from == "store/stock" && to == "store/record": // live stock does not use SQL
		return false
	case from == "handlers/web":
		return within(to, "api") // it uses no noun and no store
	case from == "console": // it calls the routes
		return to == "api"
	case from == "openapi", from == "docs/site", from == "docs/asset":
		return false
	case within(from, "store") && within(to, "store"):
		return storeFloor(from) > storeFloor(to) || from == "store/chat/live" && to == "store/chat"
	case within(from, "delivery") && within(to, "delivery"):
		return deliveryFloor(from) > deliveryFloor(to)
	case floor(from) == floor(to):
		return from == "handlers" && to == "handlers/web"
	}
	return floor(from) > floor(to)
}

// Arrows: main -> app -> handlers, console, delivery -> store -> api.
func TestArrowsGoDownOnly(t *testing.T) {
	t.Parallel()
	for _, s := range mustParseModule(t) {
		if s.test() {
			continue
		}
		for _, name := range s.imports() {
			if to, ours := strings.CutPrefix(name, "fanfare/"); ours && !allowed(s.pkg, to) {
				t.Errorf("%s imports %s: arrows go main -> app -> handlers, delivery -> store -> api", s.path, name)
			}
		}
	}
}

func TestAllowedKnowsTheForbiddenArrows(t *testing.T) {
	t.Parallel()
	for _, forbidden := range [][2]string{
		{"handlers", "delivery"}, {"delivery", "handlers"}, {"store/queue", "delivery"}, {"api", "store/record"},
		{"store/redisdb", "store/queue"}, {"store/queue", "store/events"}, {"store/queue/shard", "store/queue"}, {"store/events", "store/queue/shard"}, {"store/lock", "store/queue/shard"}, {"store/devices", "store/storetest"}, {"handlers", "delivery/apns/apnstest"}, {"app", "e2e"}, {"handlers", "app"},
		{"delivery", "delivery/targeting"}, {"delivery/targeting", "handlers"}, {"delivery", "delivery/apns"}, {"delivery/apns", "delivery"}, {"delivery/transport", "delivery/apns"}, {"delivery/h2", "delivery/transport"},
		{"delivery/apns", "delivery/apns/apnstest"}, {"handlers", "delivery/transport"}, {"delivery/logsender", "delivery/apns"},
		{"delivery/fcm", "delivery/apns"}, {"delivery/fcm", "delivery/fcm/fcmtest"}, {"delivery/exchange", "delivery/fcm"}, {"delivery/webpush", "delivery/fcm"}, {"delivery/webpush", "delivery/webpush/webpushtest"},
		{"console", "handlers"}, {"console", "handlers/web"}, {"console", "store/sessions"}, {"handlers", "console"}, {"delivery", "console"},
		{"handlers", "openapi"}, {"openapi", "handlers"}, {"openapi", "api"}, {"openapi", "docs/site"}, {"docs/site", "openapi"}, {"docs/site", "api"}, {"handlers", "docs/site"}, {"docs/asset", "api"}, {"console", "docs/asset"}, {"handlers/web", "openapi"}, {"handlers/web", "handlers"}, {"handlers/web", "store/events"},
		{"store/stock", "store/sales"}, {"store/stock", "store/record"},
		{"store/chat", "store/chat/live"}, {"store/chat/live", "store/events"}, {"store/events/render", "store/queue"},
	} {
		if allowed(forbidden[0], forbidden[1]) {
			t.Errorf("%s -> %s is allowed", forbidden[0], forbidden[1])
		}
	}
}

// maxChain is the largest number of packages in a chain of imports, from main down.
const maxChain = 9

// chain is the longest chain of imports of production files from a package down, beginning with the
// package.
func chain(pkg string, imports map[string][]string, known map[string][]string) []string {
	if way, ok := known[pkg]; ok {
		return way
	}
	known[pkg] = []string{pkg} // Go has no import cycles; this ends the recursion if the map has one
	var longest []string
	for _, to := range imports[pkg] {
		if way := chain(to, imports, known); len(way) > len(longest) {
			longest = way
		}
	}
	known[pkg] = append([]string{pkg}, longest...)
	return known[pkg]
}

// The longest chain of imports from main down is short.
func TestImportChainIsShort(t *testing.T) {
	t.Parallel()
	way := chain(".", packageImports(mustParseModule(t), func(s source) bool { return !s.test() }), map[string][]string{})
	if len(way) > maxChain || len(way) < 5 {
		t.Errorf("%d packages stand on each other, not 5 to %d: %s", len(way), maxChain, strings.Join(way, " -> "))
	}
}

// packageImports lists for every package the other packages that its wanted files import.
func packageImports(files []source, wanted func(source) bool) map[string][]string {
	out := map[string][]string{}
	for _, s := range files {
		if !wanted(s) {
			continue
		}
		for _, name := range s.imports() {
			if to, ours := strings.CutPrefix(name, "fanfare/"); ours && to != s.pkg && !slices.Contains(out[s.pkg], to) {
				out[s.pkg] = append(out[s.pkg], to)
			}
		}
	}
	return out
}

// Packages have no import cycles, even through their tests. Go does not check that: the test of one
// package may import another package that imports the first. Tests inside the store are excepted,
// because they compare its engines with each other.
func TestPackagesHaveNoImportCycle(t *testing.T) {
	t.Parallel()
	imports := packageImports(mustParseModule(t), func(s source) bool { return !s.test() || !within(s.pkg, "store") })
	seen := map[string]bool{}
	var visit func(pkg string, way []string)
	visit = func(pkg string, way []string) {
		if i := slices.Index(way, pkg); i >= 0 {
			t.Errorf("an import cycle: %s", strings.Join(append(way[i:], pkg), " -> "))
		}
		if seen[pkg] {
			return
		}
		seen[pkg] = true
		for _, to := range imports[pkg] {
			visit(to, append(slices.Clone(way), pkg))
		}
	}
	visit(".", nil)
	for pkg := range imports {
		visit(pkg, nil)
	}
}

// A library that only one package, or the packages of one folder, should know is imported by no other. Tests are
// excepted.
func TestLibrariesStayInTheirPackage(t *testing.T) {
	t.Parallel()
	rules := []struct {
		module string
		may    func(s source) bool
	}{
		{"github.com/redis/go-redis", func(s source) bool { return within(s.pkg, "store") }},
		{"github.com/alicebob/miniredis", func(s source) bool { return s.pkg == "store/redisdb" }},
		{"github.com/go-chi/", func(s source) bool { return within(s.pkg, "handlers") }},
		{"github.com/jmoiron/sqlx", func(s source) bool { return within(s.pkg, "store") }},
		{"github.com/sideshow/apns2", func(s source) bool { return s.pkg == "delivery/apns" }},
		{"golang.org/x/net/http2", func(s source) bool { return s.pkg == "delivery/h2" }},
		{"github.com/yuin/goldmark", func(s source) bool { return s.pkg == "docs/site" }},
		{"github.com/caarlos0/env", func(s source) bool { return s.pkg == "app" }},
	}
	for _, s := range mustParseModule(t) {
		for _, name := range s.imports() {
			for _, rule := range rules {
				if strings.HasPrefix(name, rule.module) && !s.test() && !within(s.pkg, "bench") && !rule.may(s) {
					t.Errorf("%s imports %s", s.path, name)
				}
			}
		}
	}
}

// Only main has context.Background, there is no init, no Lua in Go strings, and
// the name of every key and channel is made in its package's keys.go.
func TestHouseRules(t *testing.T) {
	t.Parallel()
	for _, s := range mustParseModule(t) {
		if s.test() {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Name.Name == "init" && n.Recv == nil && !generated(s) {
					t.Errorf("%s: an init function", s.at(n.Pos()))
				}
			case *ast.SelectorExpr:
				if root, ok := n.X.(*ast.Ident); ok && root.Name == "context" && s.file.Name.Name != "main" &&
					(n.Sel.Name == "Background" || n.Sel.Name == "TODO") {
					t.Errorf("%s: context.%s", s.at(n.Pos()), n.Sel.Name)
				}
			case *ast.BasicLit:
				if n.Kind == token.STRING && lua(n.Value) {
					t.Errorf("%s: Lua in a Go string", s.at(n.Pos()))
				}
				if n.Kind == token.STRING && strings.HasPrefix(n.Value, `"ff:`) && path.Base(s.path) != "keys.go" {
					t.Errorf("%s: the name of a key outside of keys.go", s.at(n.Pos()))
				}
			}
			return true
		})
	}
}

// generated reports whether a file says that a tool wrote it.
func generated(s source) bool { return ast.IsGenerated(s.file) }

// lua reports whether a string literal is a Redis script.
func lua(literal string) bool {
	for _, sign := range []string{"redis." + "call(", "redis." + "pcall(", "KEYS" + "[1]", "ARGV" + "[1]"} {
		if strings.Contains(literal, sign) {
			return true
		}
	}
	return false
}

// Every Lua file is in a folder lua and begins with its header.
func TestLuaFilesHaveAHeader(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir(filepath.Join(storetest.Root(t), "store"), func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".lua") {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if path.Base(path.Dir(filepath.ToSlash(name))) != "lua" {
			t.Errorf("%s is not in a folder lua", name)
		}
		if !strings.HasPrefix(string(text), "--") {
			t.Errorf("%s has no header", name)
		}
		return nil
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
}
