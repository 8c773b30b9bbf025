package e2e

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

	"fanfare/store/storetest"
)

// step is one command of the README's tour, and its answer in the README.
type step struct {
	line          int
	command, want string
}

// mustTour reads the console blocks of the README. Lines that begin with "$ " are commands, and the
// lines after them are their answers.
func mustTour(t testing.TB) []step {
	t.Helper()
	text := storetest.RepositoryFile(t, "README.md")
	var steps []step
	inside := false
	scanner := bufio.NewScanner(strings.NewReader(text))
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

// Values that differ from run to run: ids, times, latencies, ports.
var varying = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`\b([0-9a-v]{32}|[0-9a-v]{28})\b`), "<id>"},
	{regexp.MustCompile(`\bkey [0-9a-z]+ \(`), "key <id> ("},
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

// The README's tour works to its end for a new user, who then takes the first steps of a backend on the same server.
func TestTour(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	database := "FANFARE_DATABASE_URL=sqlite:" + filepath.Join(dir, "fanfare.db")
	p := mustTakeTour(t, dir, database)
	mustTakeFirstSteps(t, p, mustCreateKey(t, dir, "push,chat,sales,tokens", database))
}

// mustTakeTour runs the README's tour on a server with these settings, and returns the server.
func mustTakeTour(t *testing.T, dir string, vars ...string) *program {
	t.Helper()
	steps, root := mustTour(t), storetest.Root(t)
	if len(steps) < 10 {
		t.Fatalf("the tour has only %d commands", len(steps))
	}
	// A reader runs the server in this folder. The server of the test has its own folder, with the
	// database that `go run . keys create` must find.
	p := mustServe(t, dir, vars...)
	before := mustNames(t, root)
	shell := exec.Command("bash")
	shell.Dir = root
	shell.Env = environment(append(goSettings(), "FANFARE_DATABASE_URL="+p.setting("FANFARE_DATABASE_URL")))
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
	if said := p.stderr.String(); !strings.Contains(said, `"topic":"com.example.app","token":"c0ffee00","title":"New photo","body":"alice shared Summer"`) {
		t.Errorf("the log sender showed something else:\n%s", said)
	}
	if after := mustNames(t, root); !slices.Equal(before, after) {
		t.Errorf("the tour leaves files behind: %q, before %q", after, before)
	}
	return p
}

// goSettings are the variables that `go run` needs: the folders of Go, and the settings with which the program is
// already compiled. Without one of them, nearly all of it is compiled once more.
func goSettings() []string {
	var out []string
	for _, setting := range os.Environ() {
		if strings.HasPrefix(setting, "CGO_ENABLED=") || strings.HasPrefix(setting, "GO") && !strings.HasPrefix(setting, "GORACE=") {
			out = append(out, setting)
		}
	}
	if withRace() {
		out = append(out, "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -race"))
	}
	return out
}

// mustNames lists a folder.
func mustNames(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// patient gives a command of the tour more time, because the machine of a test may be busy.
func patient(command, base string) string {
	if strings.Contains(command, "/readyz") {
		command = "for i in $(seq 50); do curl -sf " + base + "/readyz >/dev/null && break; sleep 0.2; done; " + command
	}
	return strings.ReplaceAll(command, "sleep 1;", "sleep 3;")
}
