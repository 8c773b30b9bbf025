package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// runbookKey is the API key of the servers on which the lines of the runbook are tested.
const runbookKey = "ff_runbook_0123456789abcdefghijklmnopqrstuvwxyz"

// chapter is a section of docs/runbook.md: the symptoms, and the shell lines.
type chapter struct {
	title string
	seen  []sight
	lines string
}

// sight is a symptom and the place where it shows.
type sight struct{ at, what string }

var (
	sightLine  = regexp.MustCompile("(?m)^\\| (`/readyz`|metric|log) \\| `([^`]+)` \\|$")
	shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")
	// goesOn matches a shell line that continues on the next line.
	goesOn = regexp.MustCompile(`[\\|]\s*$`)
	// comparison is a metric, with or without labels, and its expected value.
	comparison = regexp.MustCompile(`^(\w+)(\{[^}]*\})? (==|<|>) ([0-9.]+)$`)
)

// mustChapters reads the runbook: the lines before all sections, and the sections.
func mustChapters(t testing.TB) (before string, all []chapter) {
	t.Helper()
	_, text, found := strings.Cut(storetest.RepositoryFile(t, "docs/runbook.md"), "\n## When something is wrong\n")
	if !found {
		t.Fatal("docs/runbook.md has no faults")
	}
	text, _, _ = strings.Cut(text, "\n## ")
	parts := strings.Split(text, "\n### ")
	for _, part := range parts[1:] {
		title, text, _ := strings.Cut(part, "\n")
		c := chapter{title: title}
		for _, match := range sightLine.FindAllStringSubmatch(text, -1) {
			c.seen = append(c.seen, sight{match[1], match[2]})
		}
		for _, block := range shellBlock.FindAllStringSubmatch(text, -1) {
			c.lines += block[1]
		}
		all = append(all, c)
	}
	return shellBlock.FindStringSubmatch(parts[0])[1], all
}

// Each fault of the runbook has the symptoms that the runbook names, and the lines of its section
// work during the fault.
func TestRunbook(t *testing.T) {
	t.Parallel()
	before, chapters := mustChapters(t)
	if len(chapters) != len(faults) {
		t.Errorf("%d sections, %d faults", len(chapters), len(faults))
	}
	for _, c := range chapters {
		t.Run(strings.ReplaceAll(c.title, " ", ""), func(t *testing.T) {
			t.Parallel()
			fault := faults[c.title]
			if fault == nil || len(c.seen) == 0 || c.lines == "" {
				t.Fatal("it has no fault, shows nothing or has no lines")
			}
			p := fault(&scene{T: t, redis: "redis://127.0.0.1:1", apns: "https://127.0.0.1:1"})
			for _, s := range c.seen {
				if !slices.Contains(cannotBeMade[c.title], s.what) {
					p.mustShow(s)
				}
			}
			p.mustRunLines(before + c.lines)
		})
	}
}

// mustBlocks reads the shell blocks of a section, or of a whole document.
func mustBlocks(t testing.TB, name, section string) (lines string) {
	t.Helper()
	text := storetest.RepositoryFile(t, name)
	if section != "" {
		_, text, _ = strings.Cut(text, "\n## "+section+"\n")
		text, _, _ = strings.Cut(text, "\n## ")
	}
	for _, block := range shellBlock.FindAllStringSubmatch(text, -1) {
		lines += block[1]
	}
	if lines == "" {
		t.Fatalf("%s has no lines", name)
	}
	return lines
}

// The lines about users' own access work, and so do the lines about keys. With the last one all
// tokens that fanfare made end within 10 s.
func TestLinesAboutTokens(t *testing.T) {
	t.Parallel()
	s := &scene{T: t}
	s.serve()
	s.mustRunLines(strings.ReplaceAll(mustBlocks(t, "docs/user-access.md", ""), "http://127.0.0.1:8080", s.server.base))
	issue := func() string {
		var made struct{ Token string }
		s.server.must(201, &made, "POST", "/v1/users/ann/tokens", map[string]any{"scopes": []string{"chat"}})
		return made.Token
	}
	call := func(token string) int {
		status, _, err := s.server.try("GET", "/v1/users/ann/chats", nil, "Authorization", "Bearer "+token)
		storetest.Must(t, err)
		return status
	}
	before := issue()
	if status := call(before); status != 200 {
		t.Fatalf("%d", status)
	}
	s.mustRunLines(mustBlocks(t, "docs/operations.md", "Keys"))
	storetest.Eventually(t, 30*time.Second, "the token of the key before to end", func() bool { return call(before) == 401 })
	if status := call(issue()); status != 200 {
		t.Errorf("a token of the new key: %d", status)
	}
}

// mustShow waits until a symptom shows.
func (s *scene) mustShow(one sight) {
	s.Helper()
	last := ""
	deadline := time.Now().Add(60 * time.Second)
	for time.Now().Before(deadline) {
		var shows bool
		if shows, last = s.shows(one); shows {
			return
		}
		select {
		case <-s.Context().Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	s.Fatalf("%s does not show %s:\n%s", one.at, one.what, last)
}

// shows reports whether a symptom is there, and returns the text in which it was looked for.
func (s *scene) shows(one sight) (bool, string) {
	switch one.at {
	case "log":
		text := s.server.stderr.String()
		return strings.Contains(text, `"msg":"`+one.what+`"`) || strings.Contains(text, `"msg":"`+one.what+` `), tail(text, 3000)
	case "metric":
		_, text, err := s.server.try("GET", "/metrics", nil)
		if err != nil {
			return false, err.Error()
		}
		return holds(one.what, string(text)), string(text)
	default:
		_, text, err := s.server.try("GET", "/readyz", nil)
		if err != nil {
			return false, err.Error()
		}
		return strings.Contains(string(text), one.what), string(text)
	}
}

// holds reports whether a comparison is true for a metric or, if it has fewer labels, for one of its
// series.
func holds(what, text string) bool {
	m := comparison.FindStringSubmatch(what)
	if m == nil {
		return false
	}
	limit, _ := strconv.ParseFloat(m[4], 64)
	series := regexp.MustCompile(`(?m)^` + m[1] + `(\{[^}]*\})? (\S+)$`)
	for _, one := range series.FindAllStringSubmatch(text, -1) {
		value, err := strconv.ParseFloat(one[2], 64)
		if err != nil || !hasLabels(one[1], m[2]) {
			continue
		}
		switch {
		case m[3] == "==" && value == limit, m[3] == "<" && value < limit, m[3] == ">" && value > limit:
			return true
		}
	}
	return false
}

// hasLabels reports whether a series has all the expected labels.
func hasLabels(labels, wanted string) bool {
	for label := range strings.SplitSeq(strings.Trim(wanted, "{}"), ",") {
		if label != "" && !strings.Contains(labels, label) {
			return false
		}
	}
	return true
}

// again makes shell lines that try a line three times, because the machine of a test may be so busy
// that a server answers 503 at times.
func again(line string) string {
	return "for try in 1 2 3; do\n{\n" + line + "\n} && break\n[ $try != 3 ] || exit 1\nsleep 2\ndone\n"
}

// mustRunLines runs shell lines with the addresses of the test, as an operator would. None may
// fail.
func (s *scene) mustRunLines(lines string) {
	s.Helper()
	bin := s.TempDir()
	storetest.Must(s, os.Symlink(mustBuild(s), filepath.Join(bin, "fanfare")))
	shell := exec.CommandContext(s.Context(), "bash", "-euo", "pipefail")
	shell.Dir = s.server.dir
	shell.Env = append(environment([]string{
		"FANFARE_URL=" + s.server.base, "REDIS=" + s.redis, "APNS=" + s.apns, "FANFARE_KEY=" + runbookKey, fmt.Sprintf("PID=%d", s.server.cmd.Process.Pid),
		"FANFARE_DATABASE_URL=" + s.server.setting("FANFARE_DATABASE_URL"),
	}), "PATH="+bin+":"+os.Getenv("PATH"))
	script, whole := "set -x\n", ""
	for line := range strings.Lines(lines) {
		if text := strings.TrimSpace(line); text == "" || text[0] == '#' {
			continue
		}
		if whole += line; !goesOn.MatchString(line) {
			script, whole = script+again(whole), ""
		}
	}
	shell.Stdin = strings.NewReader(script)
	if out, err := shell.CombinedOutput(); err != nil {
		s.Errorf("%v:\n%s", err, tail(string(out), 6000))
	}
}

// E2: the lines about erasing a user work, and end when the user is erased.
func TestE2_LinesAboutErasingAUser(t *testing.T) {
	t.Parallel()
	s := &scene{T: t}
	s.serve()
	s.server.must(204, nil, "PUT", "/v1/users/the-user/topics/news", nil)
	s.mustRunLines(mustBlocks(t, "docs/operations.md", "Erasing a user"))
	status, answer, err := s.server.try("GET", "/v1/users/the-user/topics", nil)
	if err != nil || status != 200 || strings.Contains(string(answer), "news") {
		t.Errorf("%d %s, %v", status, answer, err)
	}
}
