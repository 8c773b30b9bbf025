// Package docs holds documents and no code. Its tests keep documents and code
// together: the codes of the promises in spec/, the tests that prove them, and
// what both refer to.
package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode"

	"fanfare/store/storetest"
)

var (
	// promiseLine is where a promise begins, such as "- C3. Reading changes nothing."
	promiseLine = regexp.MustCompile(`(?m)^- ([A-Z][1-9]\d*)\. \S`)
	// rowOfCodes is a row of the table of codes, with the letters of a file's codes.
	rowOfCodes = regexp.MustCompile(`(?m)^\| \[([\w-]+\.md)\]\([\w-]+\.md\) \| ([A-Z](?:, [A-Z])*) \|`)
	// codeInText is a promise's code in a comment.
	codeInText = regexp.MustCompile(`\b[A-Z][1-9]\d?\b`)
	// codeOfTest is the code that a test's name begins with.
	codeOfTest = regexp.MustCompile(`^Test([A-Z][1-9]\d*)(?:_|[A-Z]|$)`)
	// codeOfSubtest is the code that a subtest's name begins with.
	codeOfSubtest = regexp.MustCompile(`^([A-Z][1-9]\d*) \S`)
	// document is the name of a Markdown file in a comment.
	document = regexp.MustCompile(`[\w./-]+\.md\b`)
	// outside is a reference to what is not in the repository.
	outside = regexp.MustCompile(`(?i)\bissue #?\d+`)

	fence   = regexp.MustCompile("(?ms)^```.*?^```$")
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.+)$`)
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	// placeInText is the name of a file or a folder in a document's text, such as
	// `store/queue` or `api/errors.go`.
	placeInText = regexp.MustCompile("`(\\w[\\w.-]*(?:/[\\w.-]+)+/?)`")
	// nameThenFile and fileThenName are what a document says is in a file: "`name` (`a/b.go`)",
	// "`name` in `a/b.go`" and "`a/b.go`: `name`".
	nameThenFile = regexp.MustCompile("`(\\w+)`\\s+(?:in\\s+|\\()`(\\w[\\w.-]*(?:/[\\w.-]+)+\\.(?:go|lua))`")
	fileThenName = regexp.MustCompile("`(\\w[\\w.-]*(?:/[\\w.-]+)+\\.(?:go|lua))`: `(\\w+)`")
)

// mustFiles lists the files whose names end in one of the given ways, from the
// root of the module, without hidden folders.
func mustFiles(t testing.TB, endings ...string) []string {
	t.Helper()
	var out []string
	err := fs.WalkDir(os.DirFS(storetest.Root(t)), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case !entry.IsDir() && slices.ContainsFunc(endings, func(e string) bool { return strings.HasSuffix(name, e) }):
			out = append(out, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// mustPromises maps every code to the file that has its promise.
func mustPromises(t testing.TB) map[string]string {
	t.Helper()
	promises := map[string]string{}
	for _, name := range mustFiles(t, ".md") {
		if path.Dir(name) != "docs/spec" {
			continue
		}
		for _, match := range promiseLine.FindAllStringSubmatch(storetest.RepositoryFile(t, name), -1) {
			if other := promises[match[1]]; other != "" {
				t.Errorf("%s promises %s, and so does %s", name, match[1], other)
			}
			promises[match[1]] = name
		}
	}
	if len(promises) < 90 {
		t.Fatalf("only %d promises were found: this test looks in the wrong place", len(promises))
	}
	return promises
}

// mention is a word of the code about documents, and where it stands.
type mention struct{ at, text string }

// code is what the sources of this module say about promises and documents.
type code struct {
	tests    []string  // names of test functions
	codes    []mention // codes in comments and in names of tests and subtests
	comments []mention
}

// sources holds what all tests read from the sources once: that takes seconds.
var sources struct {
	sync.Mutex
	read *code
}

// mustRead returns what every Go and Lua file says.
func mustRead(t testing.TB) *code {
	t.Helper()
	sources.Lock()
	defer sources.Unlock()
	if sources.read == nil {
		sources.read = mustReadAll(t)
	}
	return sources.read
}

func mustReadAll(t testing.TB) *code {
	t.Helper()
	c := &code{}
	for _, name := range mustFiles(t, ".go") {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, filepath.Join(storetest.Root(t), name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range file.Comments {
			c.comment(name, group.Text())
		}
		if strings.HasSuffix(name, "_test.go") {
			c.names(name, file)
		}
	}
	for _, name := range mustFiles(t, ".lua") {
		for line := range strings.Lines(storetest.RepositoryFile(t, name)) {
			if _, text, is := strings.Cut(line, "--"); is {
				c.comment(name, text)
			}
		}
	}
	return c
}

// comment keeps a comment and the codes in it.
func (c *code) comment(at, text string) {
	c.comments = append(c.comments, mention{at, text})
	for _, found := range codeInText.FindAllString(text, -1) {
		c.codes = append(c.codes, mention{at, found})
	}
}

// names keeps the tests of a file and the codes in their names.
func (c *code) names(at string, file *ast.File) {
	for _, d := range file.Decls {
		if f, is := d.(*ast.FuncDecl); is && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
			c.tests = append(c.tests, f.Name.Name)
			c.named(at, codeOfTest.FindStringSubmatch(f.Name.Name))
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, is := n.(*ast.CallExpr)
		if !is || len(call.Args) == 0 {
			return true
		}
		run, is := call.Fun.(*ast.SelectorExpr)
		title, literal := call.Args[0].(*ast.BasicLit)
		if is && literal && run.Sel.Name == "Run" {
			text, _ := strconv.Unquote(title.Value)
			c.named(at, codeOfSubtest.FindStringSubmatch(text))
		}
		return true
	})
}

func (c *code) named(at string, match []string) {
	if match != nil {
		c.codes = append(c.codes, mention{at, match[1]})
	}
}

// Every code in a comment or in the name of a test is that of a promise.
func TestCodesResolve(t *testing.T) {
	t.Parallel()
	promises, found := mustPromises(t), mustRead(t).codes
	for _, m := range found {
		if promises[m.text] == "" {
			t.Errorf("%s names %s, which no file of docs/spec promises", m.at, m.text)
		}
	}
	if len(found) < 200 {
		t.Errorf("only %d codes were found", len(found))
	}
}

// Every promise has a test of its own, named after it.
func TestEveryPromiseHasATest(t *testing.T) {
	t.Parallel()
	proved := map[string]bool{}
	for _, name := range mustRead(t).tests {
		if match := codeOfTest.FindStringSubmatch(name); match != nil {
			proved[match[1]] = true
		}
	}
	for promise, file := range mustPromises(t) {
		if !proved[promise] {
			t.Errorf("%s promises %s, and there is no Test%s_...", file, promise, promise)
		}
	}
}

// The table of codes names the letters of each file's codes, and no others.
func TestTheTableOfCodesIsComplete(t *testing.T) {
	t.Parallel()
	letters := map[string][]string{} // by file
	for promise, file := range mustPromises(t) {
		letters[file] = append(letters[file], promise[:1])
	}
	for _, row := range rowOfCodes.FindAllStringSubmatch(storetest.RepositoryFile(t, "docs/spec/README.md"), -1) {
		file, named := "docs/spec/"+row[1], slices.Sorted(slices.Values(strings.Split(row[2], ", ")))
		if has := slices.Compact(slices.Sorted(slices.Values(letters[file]))); !slices.Equal(named, has) {
			t.Errorf("docs/spec/README.md says that %s has codes with %v, it has some with %v", file, named, has)
		}
		delete(letters, file)
	}
	for file := range letters {
		t.Errorf("docs/spec/README.md does not say that %s has codes", file)
	}
}

// What comments and settings refer to is in the repository.
func TestCommentsReferToWhatIsHere(t *testing.T) {
	t.Parallel()
	comments := slices.Clone(mustRead(t).comments)
	for _, name := range mustFiles(t, ".yml", ".yaml", ".sql", "Makefile", "Dockerfile") {
		comments = append(comments, mention{name, storetest.RepositoryFile(t, name)})
	}
	for _, m := range comments {
		for _, name := range document.FindAllString(m.text, -1) {
			if _, err := os.Stat(filepath.Join(storetest.Root(t), name)); err != nil {
				t.Errorf("%s refers to %s, which is not there", m.at, name)
			}
		}
		if name := outside.FindString(m.text); name != "" {
			t.Errorf("%s refers to %q, which a reader cannot look up", m.at, name)
		}
	}
}

// Every link of one document to another leads somewhere.
func TestLinksResolve(t *testing.T) {
	t.Parallel()
	links := 0
	for _, name := range mustFiles(t, ".md") {
		text := fence.ReplaceAllString(storetest.RepositoryFile(t, name), "")
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(match[1], ":") {
				continue // to the outside
			}
			links++
			if problem := follow(t, name, match[1]); problem != "" {
				t.Errorf("%s links to %s: %s", name, match[1], problem)
			}
		}
	}
	if links < 10 {
		t.Errorf("only %d links were found", links)
	}
}

// Every file and folder that ARCHITECTURE.md leads a reader to is there.
func TestArchitectureNamesWhatIsThere(t *testing.T) {
	t.Parallel()
	found := placeInText.FindAllStringSubmatch(storetest.RepositoryFile(t, "ARCHITECTURE.md"), -1)
	for _, match := range found {
		if _, err := os.Stat(filepath.Join(storetest.Root(t), match[1])); err != nil {
			t.Errorf("ARCHITECTURE.md names %s, which is not there", match[1])
		}
	}
	if len(found) < 60 {
		t.Errorf("only %d names were found", len(found))
	}
}

// What ARCHITECTURE.md says is in a file is declared there.
func TestArchitectureNamesAreInTheirFiles(t *testing.T) {
	t.Parallel()
	text, pairs := storetest.RepositoryFile(t, "ARCHITECTURE.md"), [][2]string{}
	for _, match := range nameThenFile.FindAllStringSubmatch(text, -1) {
		pairs = append(pairs, [2]string{match[1], match[2]})
	}
	for _, match := range fileThenName.FindAllStringSubmatch(text, -1) {
		pairs = append(pairs, [2]string{match[2], match[1]})
	}
	for _, pair := range pairs {
		// a function, a method, a type, a variable, a field, or a function of Lua
		declared := regexp.MustCompile(`(?m)^(?:func (?:\([^)]*\) )?|local function |type |var |const |\t)` + pair[0] + `\b`)
		if !declared.MatchString(storetest.RepositoryFile(t, pair[1])) {
			t.Errorf("ARCHITECTURE.md says that %s is in %s, which does not declare it", pair[0], pair[1])
		}
	}
	if len(pairs) < 40 {
		t.Errorf("only %d names were found", len(pairs))
	}
}

// follow says what is wrong with a link of a document, "" for nothing.
func follow(t testing.TB, from, to string) string {
	t.Helper()
	file, anchor, _ := strings.Cut(to, "#")
	target := from
	if file != "" {
		target = path.Join(path.Dir(from), file)
	}
	if _, err := os.Stat(filepath.Join(storetest.Root(t), target)); err != nil {
		return "there is no such file"
	}
	if anchor != "" && !slices.Contains(anchors(storetest.RepositoryFile(t, target)), anchor) {
		return "there is no such heading"
	}
	return ""
}

// anchors are the names by which a document's headings can be linked to: lower
// case, without punctuation, with hyphens for spaces, numbered when repeated.
func anchors(text string) []string {
	var out []string
	seen := map[string]int{}
	for _, match := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(match[1]))
		if n := seen[name]; n > 0 {
			out = append(out, name+"-"+strconv.Itoa(n))
		} else {
			out = append(out, name)
		}
		seen[name]++
	}
	return out
}

// What the tests above look for is what they find.
func TestAnchorsAndLinks(t *testing.T) {
	t.Parallel()
	got := anchors("# One\n```sh\n# no heading\n```\n## What APNs' answers mean\n## One\n")
	if want := []string{"one", "what-apns-answers-mean", "one-1"}; !slices.Equal(got, want) {
		t.Errorf("anchors %q, want %q", got, want)
	}
	for to, broken := range map[string]bool{
		"push.md": false, "../spec/chat.md": false, "http.md#errors": false,
		"pull.md": true, "http.md#terrors": true, "#nowhere": true,
	} {
		if problem := follow(t, "docs/spec/README.md", to); (problem != "") != broken {
			t.Errorf("link to %s: %q", to, problem)
		}
	}
}
