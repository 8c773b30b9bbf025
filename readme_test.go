package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// step is one command of the README's tour and what it shows as its answer.
type step struct {
	line          int
	command, want string
}

// mustTour reads the console blocks of the README: lines beginning with "$ "
// are commands, those after them their answers.
func mustTour(t testing.TB) []step {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var steps []step
	inside := false
	scanner := bufio.NewScanner(strings.NewReader(string(text)))
	scanner.Buffer(nil, 1<<20)
	for number := 1; scanner.Scan(); number++ {
		line := scanner.Text()
		switch command, isCommand := strings.CutPrefix(line, "$ "); {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console"
		case inside && isCommand:
			steps = append(steps, step{line: number, command: command})
		case inside:
			steps[len(steps)-1].want += line + "\n"
		}
	}
	return steps
}

// What differs from run to run: ids, times, latencies, ports.
var varying = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`\b([0-9a-v]{32}|[0-9a-v]{28})\b`), "<id>"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`), "<time>"},
	{regexp.MustCompile(`"epoch":"[a-z2-7]{26}"`), `"epoch":"<epoch>"`},
	{regexp.MustCompile(`"latency_ms":[0-9.]+`), `"latency_ms":<ms>`},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "<addr>"},
}

func steady(s string) string {
	for _, v := range varying {
		s = v.pattern.ReplaceAllString(s, v.instead)
	}
	return strings.TrimSpace(strings.ReplaceAll(s, "\r", ""))
}

// Issue 2: the README's tour, tried as a new user would, reaches its end.
func TestTour(t *testing.T) {
	t.Parallel()
	steps, dir := mustTour(t), t.TempDir()
	if len(steps) < 10 {
		t.Fatalf("the tour has only %d commands", len(steps))
	}
	p := mustServe(t, dir)
	shell := exec.Command("bash")
	shell.Dir = dir
	// The tour says `fanfare`, which stands for the binary under test.
	shell.Env = environment([]string{"PATH=" + filepath.Dir(mustBuild(t)) + ":" + os.Getenv("PATH")})
	var script strings.Builder
	for i, s := range steps {
		fmt.Fprintf(&script, "echo '=== %d'\n%s\necho\n", i, patient(strings.ReplaceAll(s.command, "http://127.0.0.1:8080", p.base), p.base))
	}
	shell.Stdin = strings.NewReader(script.String())
	out, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("the tour ended with %v:\n%s", err, out)
	}
	answers := strings.Split(string(out), "=== ")[1:]
	for i, s := range steps {
		_, answer, _ := strings.Cut(answers[i], "\n")
		if steady(answer) != steady(s.want) {
			t.Errorf("README.md:%d\n$ %s\nanswers:\n%s\nthe README shows:\n%s", s.line, s.command, answer, s.want)
		}
	}
	if said := p.stderr.String(); !strings.Contains(said, "c0ffee00") {
		t.Errorf("the log sender showed nothing:\n%s", said)
	}
}

// patient gives a command of the tour more time than a person's machine needs:
// the machine of a test may be busy.
func patient(command, base string) string {
	if strings.Contains(command, "/readyz") {
		command = "for i in $(seq 50); do curl -sf " + base + "/readyz >/dev/null && break; sleep 0.2; done; " + command
	}
	return strings.ReplaceAll(command, "sleep 1;", "sleep 3;")
}

// requirement is a line of go.mod.
type requirement struct{ module, version string }

// mustRequirements gives what go.mod requires, with the modules that the code
// imports by itself first.
func mustRequirements(t testing.TB) (direct []requirement) {
	t.Helper()
	text, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	imported := map[string]bool{}
	for _, s := range mustParseModule(t) {
		for _, name := range s.imports() {
			imported[name] = true
		}
	}
	var all []requirement
	for _, match := range regexp.MustCompile(`(?m)^\t(\S+) (v\S+)( // indirect)?$`).FindAllStringSubmatch(string(text), -1) {
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

// Issue 2: the README's dependency table is what the code imports, in go.mod's
// versions.
func TestDependencyTable(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "## Dependencies")
	rows := map[string]string{}
	for _, match := range regexp.MustCompile("(?m)^\\| `(\\S+)` \\| (v\\S+) \\| \\S.*\\|$").FindAllStringSubmatch(table, -1) {
		rows[match[1]] = match[2]
	}
	direct := mustRequirements(t)
	for _, r := range direct {
		if rows[r.module] != r.version {
			t.Errorf("%s %s: the README says %q", r.module, r.version, rows[r.module])
		}
		delete(rows, r.module)
	}
	for module := range rows {
		t.Errorf("%s is in the README and is not imported", module)
	}
	if len(direct) < 5 {
		t.Errorf("only %d direct requirements were found", len(direct))
	}
}
