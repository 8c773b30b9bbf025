package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// guideLease is the lease of the guide's workers in these tests. A worker that gets no processor for two thirds of it
// loses its job.
const guideLease = 3 * time.Second

// guideWorker is the program of docs/jobs.md in one language, and how a test changes it: a shorter lease, and work that
// notes in a file when it begins and ends and takes as many steps of 10 ms as its payload says.
type guideWorker struct {
	block   string   // the name of the language in the document
	replace []string // texts and what stands for them
	file    string
	build   func(t *testing.T, dir, file string) (program string, args []string)
}

var guideWorkers = map[string]guideWorker{
	"Python": {"python", []string{
		"LEASE, stop = 30,", "LEASE, stop = 3,",
		`    print(job["id"], job["fence"], job["type"], json.dumps(job.get("payload")), flush=True)`, `    todo = job["payload"]
    def note(what):
        with open(os.environ["NOTES"], "ab", buffering=0) as notes:
            notes.write(f'{what} {job["id"]} {job["fence"]} {todo["key"]}\n'.encode())
    note("begin")
    for _ in range(todo["steps"]):
        time.sleep(0.01)
        if not held():
            raise Exception("the lease is over")
    if todo.get("fails"):
        raise Exception("no such customer")
    note("end")`,
	}, "worker.py", findPython},
	"TypeScript": {"ts", []string{
		"lease = 30_000,", "lease = 3_000,",
		`import { hostname } from "node:os";`, `import { appendFileSync } from "node:fs";
import { hostname } from "node:os";`,
		`  console.log(job.id, job.fence, job.type, JSON.stringify(job.payload));`, `  const todo = job.payload as any;
  const note = (what: string) => appendFileSync(process.env.NOTES!, [what, job.id, job.fence, todo.key].join(" ") + "\n");
  note("begin");
  for (let n = 0; n < todo.steps; n++) {
    await sleep(10);
    if (!held()) throw new Error("the lease is over");
  }
  if (todo.fails) throw new Error("no such customer");
  note("end");`,
	}, "worker.mts", findNode},
	"Go": {"go", []string{
		"const lease = 30 * time.Second", "const lease = 3 * time.Second",
		"\tfmt.Println(j.ID, j.Fence, j.Type, string(j.Payload))\n\treturn ctx.Err()\n", `	var todo struct {
		Key   string
		Steps int
		Fails bool
	}
	if err := json.Unmarshal(j.Payload, &todo); err != nil {
		return err
	}
	note := func(what string) error {
		notes, err := os.OpenFile(os.Getenv("NOTES"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer notes.Close()
		_, err = fmt.Fprintf(notes, "%s %s %d %s\n", what, j.ID, j.Fence, todo.Key)
		return err
	}
	if err := note("begin"); err != nil {
		return err
	}
	for range todo.Steps {
		time.Sleep(10 * time.Millisecond)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if todo.Fails {
		return fmt.Errorf("no such customer")
	}
	return note("end")
`,
	}, "worker.go", buildGo},
}

// findPython finds the interpreter itself: a program called python3 may be a script that looks for it.
func findPython(t *testing.T, _, file string) (string, []string) {
	t.Helper()
	name, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal("python3 is missing; make test installs it")
	}
	out, err := exec.Command(name, "-c", "import sys; print(sys.executable)").Output()
	storetest.Must(t, err)
	return strings.TrimSpace(string(out)), []string{file}
}

var (
	typeOfTS = regexp.MustCompile(`(?m)^type \w+ = .*;\n`)
	// usedInTS is a type after a parameter, a cast, and the mark of what is never undefined.
	usedInTS = regexp.MustCompile(`: (?:Job|object|string|number|\(\) => boolean)([,)])| as any|(NOTES)!`)
)

// findNode finds Node. For one that does not take types out of programs itself they are taken out here, which is enough
// for the guide's program: whatever else of TypeScript it had would be an error of syntax.
func findNode(t *testing.T, dir, file string) (string, []string) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("node is missing; make test installs it")
	}
	out, err := exec.Command(node, "-p", "process.features.typescript ?? false").Output()
	storetest.Must(t, err)
	if strings.TrimSpace(string(out)) != "false" {
		return node, []string{file}
	}
	text, err := os.ReadFile(filepath.Join(dir, file))
	storetest.Must(t, err)
	plain := usedInTS.ReplaceAllString(typeOfTS.ReplaceAllString(string(text), ""), "$1$2")
	storetest.Must(t, os.WriteFile(filepath.Join(dir, "worker.mjs"), []byte(plain), 0o600))
	return node, []string{"worker.mjs"}
}

// buildGo compiles the worker, with the race detector if this test has it. A kill of `go run` would not reach what that
// runs.
func buildGo(t *testing.T, dir, file string) (string, []string) {
	t.Helper()
	build := exec.Command("go", "build", "-o", "worker", file)
	build.Dir, build.Env = dir, environment(goSettings())
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return filepath.Join(dir, "worker"), nil
}

// guide is one of the guide's workers, a server for it, and what the workers noted.
type guide struct {
	t       *testing.T
	server  *program
	dir     string
	program string
	args    []string
	key     string // of the workers
}

func mustReadGuide(t *testing.T, w guideWorker) *guide {
	t.Helper()
	g := &guide{t: t, dir: t.TempDir()}
	g.program, g.args = w.mustBuild(t, "docs/jobs.md", g.dir)
	vars := quick("FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+storetest.SQLite(t))
	admin := mustCreateKey(t, g.dir, "admin", vars...)
	g.key = mustCreateKey(t, g.dir, "jobs:work", vars...)
	g.server = mustServeMany(t, 1, vars...)[0]
	g.server.key = admin
	return g
}

// mustBuild makes the program of a document in a folder, and gives what starts it.
func (w guideWorker) mustBuild(t *testing.T, document, dir string) (program string, args []string) {
	t.Helper()
	found := regexp.MustCompile("(?s)\n```" + w.block + "\n(.*?)```").FindStringSubmatch(storetest.RepositoryFile(t, document))
	if found == nil {
		t.Fatalf("%s has no program in %s", document, w.block)
	}
	text := found[1]
	for i := 0; i < len(w.replace); i += 2 {
		if strings.Count(text, w.replace[i]) != 1 {
			t.Fatalf("the program in %s has %q %d times", w.block, w.replace[i], strings.Count(text, w.replace[i]))
		}
		text = strings.Replace(text, w.replace[i], w.replace[i+1], 1)
	}
	storetest.Must(t, os.WriteFile(filepath.Join(dir, w.file), []byte(text), 0o600))
	return w.build(t, dir, w.file)
}

// start starts a worker.
func (g *guide) start() *program {
	g.t.Helper()
	return launchPath(g.t, g.program, g.dir, append(slices.Clone(g.args), "emails"),
		"FANFARE_URL="+g.server.base, "FANFARE_KEY="+g.key, "NOTES="+filepath.Join(g.dir, "notes"))
}

// note says that a worker began or ended the work of a job.
type note struct {
	what, id, key string
	fence         int64
}

// notes are all that was noted so far, in order.
func (g *guide) notes() (all []note) {
	g.t.Helper()
	text, _ := os.ReadFile(filepath.Join(g.dir, "notes")) // there may be none yet
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 4 {
			g.t.Fatalf("noted %q", line)
		}
		fence, err := strconv.ParseInt(f[2], 10, 64)
		storetest.Must(g.t, err)
		all = append(all, note{f[0], f[1], f[3], fence})
	}
	return all
}

// count counts the notes of a job, or of all jobs for "".
func (g *guide) count(what, id string) (n int) {
	g.t.Helper()
	for _, note := range g.notes() {
		if note.what == what && (id == "" || note.id == id) {
			n++
		}
	}
	return n
}

// await waits until something was noted of a job.
func (g *guide) await(what, id string) {
	g.t.Helper()
	storetest.Eventually(g.t, time.Minute, what+" of "+id, func() bool { return g.count(what, id) > 0 })
}

// mustStop ends a worker with SIGTERM.
func (g *guide) mustStop(w *program) {
	g.t.Helper()
	if code, _ := w.terminate(); code != 0 {
		g.t.Errorf("a worker ended with %d after SIGTERM", code)
	}
}

// checkNotes checks that no job was worked on beside another one of its key, and that fences rise.
func (g *guide) checkNotes() {
	g.t.Helper()
	last := map[string]int64{}
	for _, n := range g.notes() {
		if n.what == "begin" && n.fence <= last[n.key] || n.what == "end" && n.fence != last[n.key] {
			g.t.Errorf("%s of %s with the fence %d after %d of the same key", n.what, n.id, n.fence, last[n.key])
		}
		last[n.key] = max(last[n.key], n.fence)
	}
}

// The workers of docs/jobs.md do all jobs though some are killed, tell why a job failed, renew, let go of a job when
// they were frozen past its lease, and end after their job on SIGTERM.
func TestJ2_TheWorkersOfTheGuide(t *testing.T) {
	t.Parallel()
	for language, w := range guideWorkers {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			g := mustReadGuide(t, w)
			for _, w := range g.killSome() {
				g.mustStop(w)
			}
			g.freezeOne(g.stopOne())
			g.checkNotes()
		})
	}
}

// killSome lets workers do a hundred jobs, of which one fails, and kills some of them. It returns those that are left.
func (g *guide) killSome() (left []*program) {
	g.t.Helper()
	const n = 100
	var jobs []any
	for i := range n {
		key := fmt.Sprint("k", i%10)
		jobs = append(jobs, map[string]any{"type": "t", "key": key, "max_attempts": 100, "payload": map[string]any{"key": key, "steps": 5 + rand.IntN(10)}})
	}
	jobs[n/2] = map[string]any{"type": "bad", "max_attempts": 1, "payload": map[string]any{"key": "none", "steps": 1, "fails": true}}
	g.server.must(202, nil, "POST", "/v1/queues/emails/jobs/batch", map[string]any{"jobs": jobs})
	for range 3 {
		left = append(left, g.start())
	}
	for _, done := range []int{10, 25, 40, 55, 70} {
		storetest.Eventually(g.t, time.Minute, "some more are done", func() bool { return g.count("end", "") >= done })
		victim := rand.IntN(len(left))
		left[victim].kill()
		left[victim] = g.start()
	}
	var q api.JobQueue
	storetest.Eventually(g.t, time.Minute, "all are done", func() bool {
		q = g.server.queueOf("emails")
		return q.Done+q.Dead == n
	})
	dead := g.server.deadOf("emails")
	if q.Done != n-1 || len(dead) != 1 || dead[0].Type != "bad" || !strings.Contains(dead[0].LastError, "no such customer") {
		g.t.Errorf("the queue is %+v, its dead letters %+v", q, dead)
	}
	g.t.Logf("%d jobs were worked on %d times", n, g.count("begin", ""))
	return left
}

// stopOne stops a worker during a job that takes longer than the lease. It returns a job that nobody works on.
func (g *guide) stopOne() (next string) {
	g.t.Helper()
	long := g.server.enqueue("emails", map[string]any{"type": "t", "payload": map[string]any{"key": "long", "steps": 4 * guideLease.Milliseconds() / 30}})
	w := g.start()
	g.await("begin", long)
	next = g.server.enqueue("emails", map[string]any{"type": "t", "payload": map[string]any{"key": "next", "steps": 200}})
	g.mustStop(w)
	g.server.mustBeJob(long, api.JobDone)
	g.server.mustBeJob(next, api.JobQueued)
	if g.count("begin", long) != 1 || g.count("end", long) != 1 {
		g.t.Errorf("the job that takes longer than the lease: %+v", g.notes())
	}
	return next
}

// freezeOne freezes a worker that works on a job, until another one has done it.
func (g *guide) freezeOne(id string) {
	g.t.Helper()
	frozen := g.start()
	g.await("begin", id)
	frozen.signal(syscall.SIGSTOP)
	other := g.start()
	g.await("end", id)
	frozen.signal(syscall.SIGCONT)
	g.mustStop(frozen)
	g.mustStop(other)
	g.server.mustBeJob(id, api.JobDone)
	if g.count("begin", id) != 2 || g.count("end", id) != 1 {
		g.t.Errorf("of the job whose worker was frozen was noted %+v", g.notes())
	}
}

// What the guide shows first works as it stands.
func TestTheFirstStepsOfTheJobsGuide(t *testing.T) {
	t.Parallel()
	p := mustServe(t, t.TempDir())
	const url = "http://127.0.0.1:8080"
	text := storetest.RepositoryFile(t, "docs/jobs.md")
	_, text, _ = strings.Cut(text, "## Two minutes")
	_, text, _ = strings.Cut(text, "```sh\n")
	script, text, found := strings.Cut(text, "```")
	if !found || !strings.Contains(script, url) {
		t.Fatal("docs/jobs.md has no first steps")
	}
	shell := exec.Command("sh")
	shell.Env, shell.Stdin = environment(nil), strings.NewReader(strings.ReplaceAll(script, url, p.base))
	out, err := shell.CombinedOutput()
	storetest.Must(t, err)
	_, shown, _ := strings.Cut(text, "```json\n")
	shown, _, _ = strings.Cut(shown, "\n")
	same := regexp.MustCompile(`emails\.[0-9a-v]{26}|\d{16}`)
	if said := same.ReplaceAllString(string(out), "<>"); !strings.Contains(said, same.ReplaceAllString(shown, "<>")) || !strings.Contains(said, `"status":"ok"`) {
		t.Errorf("the first steps answered:\n%s\nthe guide shows:\n%s", out, shown)
	}
	if q := p.queueOf("emails"); q.Done != 1 {
		t.Errorf("the queue is %+v", q)
	}
}
