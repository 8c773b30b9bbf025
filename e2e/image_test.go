package e2e

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"fanfare/store/storetest"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// mustCopyImage copies the files that a build of the image gets by the rules of .dockerignore. It returns their folder.
func mustCopyImage(t testing.TB) (to string) {
	t.Helper()
	root, to := storetest.Root(t), t.TempDir()
	rules, err := ignorefile.ReadAll(strings.NewReader(storetest.RepositoryFile(t, ".dockerignore")))
	storetest.Must(t, err)
	ignored, err := patternmatcher.New(rules)
	storetest.Must(t, err)
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		short, _ := filepath.Rel(root, name) // both are absolute
		left, err := ignored.MatchesOrParentMatches(short)
		switch {
		case err != nil || name == root:
			return err
		case entry.IsDir() && left && strings.HasPrefix(entry.Name(), "."): // large, and no rule takes a part of it back
			return fs.SkipDir
		case left || !entry.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		copied := filepath.Join(to, short)
		if err := os.MkdirAll(filepath.Dir(copied), 0o700); err != nil {
			return err
		}
		return os.WriteFile(copied, text, 0o600)
	})
	storetest.Must(t, err)
	return to
}

// The image has the documents: what is built from its files serves every page and picture. Tests, measurements and
// what a run leaves behind stay out of it.
func TestTheImageHasTheDocuments(t *testing.T) {
	t.Parallel()
	storetest.SkipShort(t, "the whole program")
	files := mustCopyImage(t)
	for name, want := range map[string]bool{
		"main.go": true, "README.md": true, "docs/jobs.md": true, "docs/console.png": true, "bench/RESULTS.md": true, "docs/site/static/layout.html": true,
		"main_test.go": false, "docs/site/site_test.go": false, "bench/bare.go": false, ".git": false, ".ci": false, "compose.yaml": false,
	} {
		if _, err := os.Stat(filepath.Join(files, name)); (err == nil) != want {
			t.Errorf("%s: in the image %t, want %t", name, err == nil, want)
		}
	}
	p := mustServeShipped(t, "FANFARE_DATABASE_URL="+storetest.SQLite(t))
	get := func(path string) string {
		status, body, header := p.try("GET", path, nil)
		if status != http.StatusOK {
			t.Errorf("%s: %d %v %.200s", path, status, header, body)
		}
		return string(body)
	}
	if home := get("/docs/"); !strings.Contains(home, "Five-minute tour") {
		t.Errorf("the first page is %.500s", home)
	}
	lines := regexp.MustCompile(`\]\((docs/[^)]+\.md)\)`).FindAllStringSubmatch(get("/llms.txt"), -1)
	for _, line := range lines {
		get("/" + line[1])
	}
	if len(lines) < 30 {
		t.Errorf("only %d documents were found", len(lines))
	}
	for _, path := range []string{"/docs/jobs", "/docs/console.png", "/docs/search.json", "/docs/monitoring/dashboard.json", "/docs/api/"} {
		get(path)
	}
}
