package site

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fanfare/openapi"
	"fanfare/store/storetest"

	"golang.org/x/net/html"
)

// world is the site of this repository, and the pages that were read.
type world struct {
	handler http.Handler
	read    map[string]*html.Node
}

func setup(t *testing.T) *world {
	t.Helper()
	return &world{New(os.DirFS(storetest.Root(t)), openapi.UI, http.NotFound), map[string]*html.Node{}}
}

// get asks for a path and follows redirects inside the site.
func (w *world) get(t *testing.T, at string) (string, *httptest.ResponseRecorder) {
	t.Helper()
	for range 3 {
		r, request := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, at, nil)
		request.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
		w.handler.ServeHTTP(r, request)
		to := r.Header().Get("Location")
		if to == "" {
			return at, r
		}
		at = resolve(t, at, to)
	}
	t.Fatalf("%s leads in circles", at)
	return "", nil
}

// page reads a page of the site.
func (w *world) page(t *testing.T, at string) *html.Node {
	t.Helper()
	if w.read[at] == nil {
		_, r := w.get(t, at)
		if r.Code != http.StatusOK || !strings.HasPrefix(r.Header().Get("Content-Type"), "text/html") {
			t.Fatalf("%s: %d %v", at, r.Code, r.Header())
		}
		var err error
		w.read[at], err = html.Parse(r.Body)
		storetest.Must(t, err)
	}
	return w.read[at]
}

// resolve finds where a link of a page leads.
func resolve(t *testing.T, from, to string) string {
	t.Helper()
	base, err := url.Parse(from)
	storetest.Must(t, err)
	u, err := base.Parse(to)
	storetest.Must(t, err)
	return u.String()
}

// each calls f for every element of a page.
func each(page *html.Node, f func(n *html.Node)) {
	for n := range page.Descendants() {
		if n.Type == html.ElementNode {
			f(n)
		}
	}
}

// attribute is the value of an attribute, "" for none.
func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// textOf is the text of an element, without that of elements that skip accepts.
func textOf(n *html.Node, skip func(*html.Node) bool) string {
	if n.Type == html.TextNode {
		return n.Data
	}
	var out strings.Builder
	for child := range n.ChildNodes() {
		if !skip(child) {
			out.WriteString(textOf(child, skip))
		}
	}
	return out.String()
}

// count counts the elements of a name.
func count(page *html.Node, name string) (n int) {
	each(page, func(e *html.Node) {
		if e.Data == name {
			n++
		}
	})
	return n
}

// ids are the anchors of a page.
func ids(page *html.Node) (all []string) {
	each(page, func(n *html.Node) {
		if id := attribute(n, "id"); id != "" {
			all = append(all, id)
		}
	})
	return all
}

// documents are all documents of the menu.
func documents() (all []document) {
	for _, g := range menu() {
		all = append(all, g.docs...)
	}
	return all
}

// Every Markdown file of the repository is in the menu, once.
func TestTheMenuHasEveryDocument(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, d := range documents() {
		if seen[d.file] || d.about == "" {
			t.Errorf("%s is there twice, or nothing is said about it", d.file)
		}
		seen[d.file] = true
	}
	err := fs.WalkDir(os.DirFS(storetest.Root(t)), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		if strings.HasSuffix(name, ".md") && !seen[name] {
			t.Errorf("%s is not in the menu", name)
		}
		return err
	})
	storetest.Must(t, err)
}

// Every link, picture, script and anchor of every page leads somewhere, and what a page loads is on this server.
func TestLinksAndAnchors(t *testing.T) {
	t.Parallel()
	w := setup(t)
	links, seen, todo := 0, map[string]bool{"/docs/": true}, []string{"/docs/"}
	for len(todo) > 0 {
		at := todo[0]
		todo = todo[1:]
		each(w.page(t, at), func(n *html.Node) {
			for _, name := range []string{"href", "src"} {
				to := attribute(n, name)
				if to == "" {
					continue
				}
				if strings.Contains(to, ":") {
					if n.Data != "a" {
						t.Errorf("%s loads %s", at, to)
					}
					continue
				}
				links++
				whole := resolve(t, at, to)
				target, anchor, hasAnchor := strings.Cut(whole, "#")
				final, r := w.get(t, target)
				if r.Code != http.StatusOK {
					t.Errorf("%s links to %s: %d", at, to, r.Code)
					continue
				}
				if final != target {
					t.Errorf("%s links to %s, which is %s now", at, to, final)
				}
				ours := n.Data == "a" && strings.HasPrefix(r.Header().Get("Content-Type"), "text/html") && target != "/docs/api/" && target != "/docs/webpush/"
				if hasAnchor && (!ours || !slices.Contains(ids(w.page(t, target)), anchor)) {
					t.Errorf("%s links to %s: there is no such anchor", at, to)
				}
				if ours && !seen[target] {
					seen[target] = true
					todo = append(todo, target)
				}
			}
		})
	}
	for _, d := range documents() {
		if !seen["/docs/"+place(d.file)] {
			t.Errorf("no link leads to the page of %s", d.file)
		}
	}
	if links < 1000 {
		t.Errorf("only %d links were found", links)
	}
}

// Links between the Markdown that the site serves lead to Markdown, as long as the site has the file.
func TestLinksBetweenSources(t *testing.T) {
	t.Parallel()
	w := setup(t)
	links, broken := 0, map[string]bool{}
	for _, d := range documents() {
		at := "/docs/" + short(d.file)
		_, r := w.get(t, at)
		if r.Code != http.StatusOK || r.Header().Get("Content-Type") != "text/markdown; charset=utf-8" {
			t.Fatalf("%s: %d %v", at, r.Code, r.Header())
		}
		for _, match := range markdownLink.FindAllStringSubmatch(fenced.ReplaceAllString(r.Body.String(), ""), -1) {
			to, _, _ := strings.Cut(match[1], "#")
			if to == "" || strings.Contains(to, ":") {
				continue
			}
			links++
			final, r := w.get(t, resolve(t, at, to))
			if r.Code != http.StatusOK {
				broken[path.Join(path.Dir(d.file), to)] = true
			} else if strings.HasPrefix(r.Header().Get("Content-Type"), "text/html") {
				t.Errorf("%s links to the page %s", at, final)
			}
		}
	}
	for name := range broken {
		if strings.HasSuffix(name, ".md") {
			t.Errorf("links to %s are broken", name)
		}
		if _, err := os.Stat(path.Join(storetest.Root(t), name)); err != nil {
			t.Errorf("links lead to %s, which is not even in the repository", name)
		}
	}
	if links < 100 {
		t.Errorf("only %d links were found", links)
	}
}

var (
	// markup is Markdown that was left as it was.
	markup = regexp.MustCompile("```|\\]\\(|\\*\\*|^\\||\\| ?-{3}|<!--|raw HTML omitted")
	// tableRule is the line below the head of a table.
	tableRule = regexp.MustCompile(`(?m)^ *\|(?: ?:?-+:? ?\|)+$`)
	codeFence = regexp.MustCompile("(?m)^ *```")
)

// Every document becomes a page with all its tables and code blocks, and no Markdown is left in it.
func TestEveryPageIsRendered(t *testing.T) {
	t.Parallel()
	w := setup(t)
	tables := 0
	for _, d := range documents() {
		source, page := storetest.RepositoryFile(t, d.file), w.page(t, "/docs/"+place(d.file))
		rules := len(tableRule.FindAllString(source, -1))
		if tables += rules; count(page, "table") != rules {
			t.Errorf("%s has %d tables, its page %d", d.file, rules, count(page, "table"))
		}
		blocks := 0
		each(page, func(n *html.Node) {
			if attribute(n, "class") == "code" {
				blocks++
			}
		})
		if fences := len(codeFence.FindAllString(source, -1)); blocks != fences/2 {
			t.Errorf("%s has %d code blocks, its page %d", d.file, fences/2, blocks)
		}
		if count(page, "h1") != 1 || count(page, "style") != 0 {
			t.Errorf("%s has %d titles", d.file, count(page, "h1"))
		}
		each(page, func(n *html.Node) {
			if attribute(n, "style") != "" || attribute(n, "onclick") != "" {
				t.Errorf("%s: the policy of the page forbids what <%s> has", d.file, n.Data)
			}
		})
		text := textOf(page, func(n *html.Node) bool { return n.Data == "pre" || n.Data == "code" || n.Data == "head" })
		if left := markup.FindString(text); left != "" {
			t.Errorf("the page of %s has %q", d.file, left)
		}
	}
	if tables < 40 {
		t.Errorf("only %d tables were found", tables)
	}
}

// Code in several languages becomes tabs, and code after which other things are shown does not.
func TestTabs(t *testing.T) {
	t.Parallel()
	block := func(language, text string) string { return "```" + language + "\n" + text + "\n```\n" }
	draw := func(source string) string {
		body, _, err := convert(newMarkdown(), []byte(source), func(link string) (string, string, bool) { return link, "", true })
		storetest.Must(t, err)
		return string(body)
	}
	both := draw(block("sh", "curl -s x") + "\n" + block("python", "a < b") + "\n" + block("go", "c") + "\ntext\n\n" + block("ts", "d"))
	for _, want := range []string{
		`<input type="radio" name="tabs-1" id="tabs-1-0" value="curl" checked><label for="tabs-1-0">curl</label>`,
		`<input type="radio" name="tabs-1" id="tabs-1-1" value="Python"><label for="tabs-1-1">Python</label>`,
		`value="Go"`, `<pre><code data-language="python">a &lt; b`,
	} {
		if !strings.Contains(both, want) {
			t.Errorf("lacks %s:\n%s", want, both)
		}
	}
	if strings.Count(both, `class="tabs"`) != 1 || strings.Contains(both, `value="TypeScript"`) {
		t.Errorf("the block after the text is a tab, too:\n%s", both)
	}
	for _, apart := range []string{block("sh", "a") + block("json", "b"), block("sh", "a") + block("sh", "b"), block("", "a") + block("go", "b")} {
		if got := draw(apart); strings.Contains(got, "tabs") {
			t.Errorf("these are no tabs:\n%s", got)
		}
	}
}

// Anchors are those of GitHub.
func TestAnchors(t *testing.T) {
	t.Parallel()
	body, sections, err := convert(newMarkdown(), []byte("# One\n\n## What `APNs'` [answers](x.md) mean: *all* of_it\n\n## One\n\nWords\nof `it`.\n"), func(string) (string, string, bool) { return "", "x.md", false })
	storetest.Must(t, err)
	var got []string
	for _, s := range sections {
		got = append(got, s.Anchor)
	}
	if want := []string{"one", "what-apns-answers-mean-all-of_it", "one-1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if text := sections[2].text; !slices.Equal(text, []string{"Words of it."}) {
		t.Errorf("the text is %q", text)
	}
	if !strings.Contains(string(body), `<span class="file" title="x.md in the repository">answers</span>`) {
		t.Errorf("a file that is not on the site: %s", body)
	}
}

// What was at /docs/ before leads to where it is now, also behind a proxy that serves fanfare below a path of its own:
// the redirects are relative.
func TestRedirects(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for from, want := range map[string]string{
		"/docs/index.html": "api/", "/docs/index.html?a=b": "api/?a=b", "/docs/swagger-ui.css": "api/swagger-ui.css",
		"/docs/favicon-32x32.png": "api/favicon-32x32.png", "/docs/swagger-ui-bundle.js": "api/swagger-ui-bundle.js", "/docs/oauth2-redirect.html": "api/oauth2-redirect.html",
		"/docs/jobs/": "../jobs", "/docs/spec": "spec/", "/docs/spec/http/": "../../spec/http", "/docs/jobs.html": "jobs", "/docs/.html": "./", "/docs/api": "api/", "/docs/webpush": "webpush/",
	} {
		r := httptest.NewRecorder()
		w.handler.ServeHTTP(r, httptest.NewRequest(http.MethodGet, from, nil))
		if got := r.Header().Get("Location"); r.Code != http.StatusMovedPermanently || got != want {
			t.Errorf("%s: %d %q, want %q", from, r.Code, got, want)
		}
		if at, r := w.get(t, from); r.Code != http.StatusOK {
			t.Errorf("%s leads to %s: %d", from, at, r.Code)
		}
	}
}

// A path that does not exist is answered with a page of the site whose links lead back.
func TestNoSuchPage(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, at := range []string{"/docs/nothing", "/docs/spec/nothing.js", "/docs/a/b/c/", "/docs/api/nothing", "/docs/webpush/nothing", "/docs/site.go", "/docs/site/", "/docs/session/session.go", "/docs/static/layout.html"} {
		_, r := w.get(t, at)
		if r.Code != http.StatusNotFound || !strings.Contains(r.Header().Get("Content-Security-Policy"), "default-src 'none'") {
			t.Fatalf("%s: %d %v", at, r.Code, r.Header())
		}
		page, err := html.Parse(r.Body)
		storetest.Must(t, err)
		links := 0
		each(page, func(n *html.Node) {
			if to := attribute(n, "href"); to != "" && !strings.HasPrefix(to, "#") {
				links++
				if _, r := w.get(t, resolve(t, at, to)); r.Code != http.StatusOK {
					t.Errorf("%s links to %s: %d", at, to, r.Code)
				}
			}
		})
		if links < len(documents()) {
			t.Errorf("%s has only %d links", at, links)
		}
		other := httptest.NewRecorder()
		w.handler.ServeHTTP(other, httptest.NewRequest(http.MethodGet, at, nil))
		if other.Code != http.StatusNotFound || other.Body.String() != "404 page not found\n" {
			t.Errorf("%s: a client that is no browser is told %d %s", at, other.Code, other.Body)
		}
	}
}

// llms.txt has every document with a line about it, and its links lead to Markdown.
func TestLLMs(t *testing.T) {
	t.Parallel()
	w := setup(t)
	_, r := w.get(t, "/llms.txt")
	text := r.Body.String()
	if !strings.HasPrefix(text, "# fanfare\n\n> ") || r.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Fatalf("%v\n%s", r.Header(), text)
	}
	lines := regexp.MustCompile(`(?m)^- \[[^\]]+\]\(([^)]+)\): \S.{10,}$`).FindAllStringSubmatch(text, -1)
	if len(lines) != len(documents())+1 || strings.Count(text, "\n- ") != len(lines) {
		t.Errorf("%d lines, %d documents:\n%s", len(lines), len(documents()), text)
	}
	for _, line := range lines {
		if line[1] == "openapi.json" {
			continue // served by another handler
		}
		if _, r := w.get(t, "/"+line[1]); r.Code != http.StatusOK || !strings.HasPrefix(r.Header().Get("Content-Type"), "text/markdown") {
			t.Errorf("%s: %d %v", line[1], r.Code, r.Header())
		}
	}
}

// A program without the documents says so.
func TestNoDocuments(t *testing.T) {
	t.Parallel()
	r := httptest.NewRecorder()
	New(nil, openapi.UI, http.NotFound).ServeHTTP(r, httptest.NewRequest(http.MethodGet, "/docs/", nil))
	if r.Code != http.StatusInternalServerError || !strings.Contains(r.Body.String(), "README.md") {
		t.Errorf("%d %s", r.Code, r.Body)
	}
}

// BenchmarkBuild measures what the first request waits for.
func BenchmarkBuild(b *testing.B) {
	files := os.DirFS(storetest.Root(b))
	for b.Loop() {
		if _, err := build(files, http.NotFound); err != nil {
			b.Fatal(err)
		}
	}
}
