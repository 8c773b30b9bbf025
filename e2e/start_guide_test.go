package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// mustGuideBlocks returns the code blocks of a guide in a language, from a heading on.
func mustGuideBlocks(t testing.TB, name, from, language string) (blocks []string) {
	t.Helper()
	_, text, found := strings.Cut(storetest.RepositoryFile(t, name), "\n## "+from+"\n")
	for _, match := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, match[1])
	}
	if !found || len(blocks) == 0 {
		t.Fatalf("%s has no code in %s", name, language)
	}
	return blocks
}

// untyped takes out what the guide's TypeScript has of types, because Node runs types only from version 22.18 on.
var untyped = strings.NewReplacer("?: object", "", "?: string", "", ": string", "", ": Promise<any>", "")

// startLanguages make a program of the guide's blocks and return the command that runs it.
var startLanguages = map[string]struct {
	block   string
	command func(t *testing.T, dir string, blocks []string) *exec.Cmd
}{
	"curl": {"sh", func(t *testing.T, dir string, blocks []string) *exec.Cmd {
		return mustScript(t, dir, "start.sh", "set -eu\n"+strings.Join(blocks, "\n"), "sh")
	}},
	"TypeScript": {"ts", func(t *testing.T, dir string, blocks []string) *exec.Cmd {
		return mustScript(t, dir, "start.mjs", untyped.Replace(strings.Join(blocks, "\n")), "node")
	}},
	"Python": {"python", func(t *testing.T, dir string, blocks []string) *exec.Cmd {
		return mustScript(t, dir, "start.py", strings.Join(blocks, "\n"), "python3")
	}},
	"Go": {"go", func(t *testing.T, dir string, blocks []string) *exec.Cmd {
		storetest.Must(t, os.WriteFile(filepath.Join(dir, "start.go"), []byte(blocks[0]+"\nfunc main() {\n"+strings.Join(blocks[1:], "\n")+"}\n"), 0o600))
		build := exec.Command("go", "build", "-o", "start", "start.go")
		build.Dir, build.Env = dir, environment(goSettings())
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
		return exec.Command(filepath.Join(dir, "start"))
	}},
}

// mustScript writes a program and returns the command that runs it.
func mustScript(t *testing.T, dir, name, text, interpreter string) *exec.Cmd {
	t.Helper()
	storetest.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	path, err := exec.LookPath(interpreter)
	if err != nil {
		t.Fatalf("%s is missing; make test installs it", interpreter)
	}
	return exec.Command(path, name)
}

// The lines of curl in the guides for apps work with a user token. They are what the lines in the apps' languages do.
func TestTheFirstStepsOfApps(t *testing.T) {
	t.Parallel()
	for app, token := range map[string]string{"ios": `"platform":"apns"`, "android": `"platform":"fcm"`} {
		t.Run(app, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			vars := quick("FANFARE_DATABASE_URL=sqlite:" + filepath.Join(dir, "fanfare.db"))
			p := mustServe(t, dir, vars...)
			p.must(201, nil, "POST", "/v1/chats", map[string]any{"id": "order-1042", "creator": "alice", "members": []string{"bob"}, "message": "It is on its way"})
			p.must(201, nil, "PUT", "/v1/sales/sneakers", map[string]any{
				"items":     []any{map[string]any{"sku": "sneaker:42", "stock": 3}},
				"starts_at": "2026-01-01T00:00:00Z", "ends_at": "2099-01-01T00:00:00Z",
			})
			key := mustCreateKey(t, dir, "tokens", vars...)
			blocks := mustGuideBlocks(t, "docs/start/"+app+".md", "The app at fanfare", "sh")
			script := "set -eu\n" + blocks[0] + "until call GET /v1/users/bob/chats; do sleep 0.2; done\n" + strings.Join(blocks[1:], "\n") // the key is new to the server
			program := mustScript(t, dir, "app.sh", script, "sh")
			program.Dir, program.Env = dir, environment([]string{"FANFARE_URL=" + p.base, "FANFARE_KEY=" + key})
			out, err := program.CombinedOutput()
			if err != nil {
				t.Fatalf("%v:\n%s", err, out)
			}
			for _, want := range []string{token, `"text":"It is on its way"`, `"acked":{"order-1042":1}`, `{"id":2,"sent_at"`, `"user":"bob","lines":[{"sku":"sneaker:42","quantity":1}],"state":"held"`} {
				if !strings.Contains(string(out), want) {
					t.Errorf("lacks %s:\n%s", want, out)
				}
			}
		})
	}
}

// mustTakeFirstSteps takes the first steps of a backend on a server, in one language after the other.
func mustTakeFirstSteps(t *testing.T, p *program, key string) {
	t.Helper()
	storetest.Eventually(t, 30*time.Second, "the new key to open the server", func() bool {
		status, _, err := p.try("GET", "/v1/event-types", nil, "Authorization", "Bearer "+key)
		return err == nil && status == 200
	})
	for language, l := range startLanguages {
		dir := t.TempDir()
		program := l.command(t, dir, mustGuideBlocks(t, "docs/start/backend.md", "One function", l.block))
		program.Dir, program.Env = dir, environment([]string{"FANFARE_URL=" + p.base, "FANFARE_KEY=" + key})
		if out, err := program.CombinedOutput(); err != nil {
			t.Errorf("%s: %v:\n%s", language, err, out)
		}
	}
}

// The first steps of a backend work in every language, with a key and on a server that has none.
func TestTheFirstStepsOfABackend(t *testing.T) {
	t.Parallel()
	for language, l := range startLanguages {
		for _, keys := range []string{"WithoutKeys", "WithAKey"} {
			t.Run(language+keys, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				vars, key := quick("FANFARE_DATABASE_URL=sqlite:"+filepath.Join(dir, "fanfare.db")), ""
				if keys == "WithAKey" {
					key = mustCreateKey(t, dir, "push,chat,sales,tokens", vars...)
				}
				p := mustServe(t, dir, vars...)
				program := l.command(t, dir, mustGuideBlocks(t, "docs/start/backend.md", "One function", l.block))
				program.Dir, program.Env = dir, environment([]string{"FANFARE_URL=" + p.base, "FANFARE_KEY=" + key})
				out, err := program.CombinedOutput()
				if err != nil {
					t.Fatalf("%v:\n%s", err, out)
				}
				wants := []string{"delivered: 1", "alice: Where is my order?", "available: 1 sold: 2"}
				if language == "curl" {
					wants = []string{`"delivered":1,`, `"text":"Where is my order?"`, `"acked":{"order-1042":1}`, `"state":"sold"`, `"available":1,"held":0,"sold":2`}
				}
				for _, want := range wants {
					if !strings.Contains(string(out), want) {
						t.Errorf("lacks %s:\n%s", want, out)
					}
				}
			})
		}
	}
}
