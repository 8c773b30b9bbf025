package handlers_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/console"
	"fanfare/store/apikeys"
	"fanfare/store/storetest"
)

const hour = `,"lease_ms":3600000`

// failed makes a job of a type that has failed once and is dead if it may not fail again.
func (w *world) failed(t *testing.T, kind, members, err string) string {
	t.Helper()
	id := w.enqueue(t, fmt.Sprintf(`{"type":%q%s}`, kind, members))
	text, _ := json.Marshal(err)
	w.report(t, w.claimOne(t, fmt.Sprintf(`,"types":[%q]`, kind)+hour), "fail", `,"error":`+string(text), "ok")
	return id
}

// hostileJobs makes a job that runs and one that is dead, both with hostile texts wherever somebody can set any text.
func (w *world) hostileJobs(t *testing.T) (running, dead string) {
	t.Helper()
	payload, err := json.Marshal(map[string]any{hostile[0]: hostile})
	storetest.Must(t, err)
	dead = w.failed(t, "mail", `,"max_attempts":1,"payload":`+string(payload), strings.Join(hostile, " "))
	running = w.failed(t, "mail", `,"key":"k","unique":"u","payload":`+string(payload), strings.Join(hostile, " "))
	w.claimOne(t, hour) // after its backoff
	return running, dead
}

// The page of jobs has the numbers of all queues, and a queue's page has all that is known of it.
func TestN20_Queues(t *testing.T) {
	t.Parallel()
	w := setupConsole(t)
	w.page("/console/jobs").shows(t, 200, "There is no queue", `aria-current="page">Jobs</a>`)
	dead := w.failed(t, "bad", `,"max_attempts":1`, "no host")
	w.failed(t, "bad", "", "no host")
	w.claimOne(t, hour) // after its backoff
	for range 2 {
		w.enqueue(t, `{"type":"done"}`)
		w.report(t, w.claimOne(t, `,"types":["done"]`), "complete", "", "ok")
	}
	for range 4 {
		w.enqueue(t, `{"type":"mail","key":"k"}`)
	}
	for range 5 {
		w.enqueue(t, `{"type":"later","run_at":"`+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+`"}`)
	}
	for range 6 {
		w.enqueue(t, `{"type":"mail"}`)
	}
	w.post("/v1/queues/other/pause", "")
	reader := w.login(w.mustKey(api.ScopeOpsRead))
	row := regexp.MustCompile(`<tr><th scope="row" class="wide"><a href="\./queues/q">q</a></th><td><span class="state running">running</span></td>` +
		`<td class="n">7</td><td class="n">[\d\x{202f}]+ (?:ms|s|min)</td><td class="n">1</td><td class="n">3</td><td class="n">5</td>` +
		`<td class="n">19</td><td class="n">2</td><td class="n bad">2</td><td class="n">1</td>` +
		`<td class="n"><a href="(\./dead-letters\?kind=job&amp;queue=q)" aria-label="1 dead letters of q">1</a></td></tr>`)
	list := w.page("/console/jobs", reader).shows(t, 200, `<span class="state paused">paused</span>`, `href="./queues/other"`)
	found := row.FindStringSubmatch(list.body)
	if found == nil {
		t.Fatalf("no row of the queue: %s", list.body)
	}
	list.hides(t, "Action", "/pause", "/resume", "find-job")
	w.page("/console/"+strings.TrimPrefix(strings.ReplaceAll(found[1], "&amp;", "&"), "./"), reader).shows(t, 200, `<tr id="`+dead+`">`, "no host")

	one := w.page("/console/queues/q", reader).shows(t, 200, `data-refresh="3"`, "dead-letters?kind=job&queue=q")
	for name, want := range map[string]int{"Depth": 7, "Running": 1, "Blocked by their key": 3, "Scheduled": 5, "Done": 2, "Retries": 1, "Leases ended": 0, "Dead": 1} {
		one.shows(t, 200, fmt.Sprintf("<dt>%s</dt><dd>%d</dd>", name, want))
	}
	one.shows(t, 200, "<dt>Enqueued</dt><dd>19</dd>", `<dt>Failed</dt><dd class="bad">2</dd>`, `<svg class="chart"`, `</span> failed`)
	one.shows(t, 200, `<dt>Dead letters</dt><dd class="bad">1</dd>`).hides(t, "/pause", "find-job")
	w.page("/console/queues/other", reader).shows(t, 200, `<span class="state paused">`, "<dt>Dead letters</dt><dd>0</dd>")
	w.page("/console/queues/none", reader).shows(t, 404, "there is no such queue")
	w.page("/console/queues/a%20b", reader).shows(t, 422, "queue")
	w.page("/console/queues/q", w.login(w.mustKey(api.ScopeOpsRead, api.ScopeJobsWork))).shows(t, 200, "find-job").hides(t, "/pause")
}

// A queue is paused and resumed after a question, by keys that may, and the log says who did it.
func TestN20_PauseAQueue(t *testing.T) {
	t.Parallel()
	w := setupConsole(t)
	w.enqueue(t, `{"type":"mail"}`)
	reader := w.login(w.mustKey(api.ScopeOpsRead))
	paused := func() bool {
		return strings.Contains(w.page(queueQ, w.bearer(api.ScopeJobs)).body, `"paused":true`)
	}
	for _, scopes := range [][]api.Scope{{api.ScopeOps}, {api.ScopeOpsRead, api.ScopeJobs}} {
		key := w.mustKey(scopes...)
		cookie, already := w.login(key), len(w.changes())
		for _, change := range []string{"pause", "resume"} {
			to := "queues/q/" + change
			w.page("/console/jobs", cookie).shows(t, 200, `href="./`+to+`"`)
			w.page("/console/queues/q", cookie).shows(t, 200, `href="./../`+to+`"`)
			title := strings.ToUpper(change[:1]) + change[1:] + " this queue?"
			w.page("/console/"+to, cookie).shows(t, 200, title, "1 of its jobs can be claimed", `method="post" action="./../../`+to+`"`)
			w.page("/console/"+to, reader).shows(t, 200, title).hides(t, `action="./../../`+to)
			w.form("/console/"+to, nil, reader).shows(t, 403, "lacks the scope jobs")
			if paused() != (change == "resume") {
				t.Errorf("asking to %s, or a key that may not, changed the queue", change)
			}
			if a := w.form("/console/"+to, nil, cookie); a.status != 303 || a.header.Get("Location") != "../q?done="+change+"d" {
				t.Errorf("%d to %q", a.status, a.header.Get("Location"))
			}
			if paused() != (change == "pause") {
				t.Errorf("%s had no effect", change)
			}
		}
		w.page("/console/queues/q?done=paused", cookie).shows(t, 200, "The queue is paused")
		w.page("/console/queues/q?done=resumed", cookie).shows(t, 200, "The queue runs")
		id := apikeys.IDOf(key)
		if got, want := w.changes()[already:], []string{"queues.pause q " + id, "queues.resume q " + id}; !slices.Equal(got, want) {
			t.Errorf("changes %q, want %q", got, want)
		}
	}
	w.page("/console/queues/none/pause", reader).shows(t, 404)
	w.form("/console/queues/none/resume", nil, w.login(w.mustKey(api.ScopeOps))).shows(t, 404)
}

// The page of a job has everything that the route answers, in each state.
func TestN20_Job(t *testing.T) {
	t.Parallel()
	w := setupConsole(t)
	later := time.Now().Add(time.Hour).Truncate(time.Second).UTC()
	running, dead := w.hostileJobs(t)
	blocked := w.enqueue(t, `{"type":"mail","key":"k"}`)
	scheduled := w.enqueue(t, `{"type":"later","run_at":"`+later.Format(time.RFC3339)+`"}`)
	done := w.enqueue(t, `{"type":"done"}`)
	w.report(t, w.claimOne(t, `,"types":["done"]`), "complete", "", "ok")
	lost := w.enqueue(t, `{"type":"lost"}`)
	w.claimOne(t, `,"types":["lost"],"lease_ms":1`)
	w.claimOne(t, `,"types":["lost"],"lease_ms":1`)
	storetest.Eventually(t, soon, "the lease is over", func() bool { return strings.Contains(w.get("/v1/jobs/"+lost).body, `"lease_ms":0`) })
	var job api.Job
	storetest.Must(t, json.Unmarshal([]byte(w.get("/v1/jobs/"+running).body), &job))

	cookie := w.login(w.mustKey(api.ScopeOpsRead, api.ScopeJobsWork))
	page := func(id string, texts ...string) answer {
		return w.page("/console/jobs/"+id, cookie).shows(t, 200, append(texts, id, `href="./../queues/q"`)...)
	}
	fact := func(name, value string) string { return "<dt>" + name + "</dt><dd>" + value + "</dd>" }
	page(running, `class="state running"`, fact("Type", "mail"), fact("Attempt", "2"), fact("Failures", "1 of 8"), fact("Worker", "w"), fact("Key", "k"),
		fact("Unique name", "u"), fact("Fence", fmt.Sprint(job.Fence)), "<dt>Last error</dt><dd>"+hostile[0], job.EnqueuedAt.UTC().Format("2006-01-02 15:04:05"),
		"{\n  \"<script>", "\n    \"{{.}}\",\n", `data-refresh="3"`).hides(t, "<dt>Due", "Leases that ended", hostile[0], "<img", "/cancel")
	if body := page(running).body; !regexp.MustCompile(`<dt>Lease left</dt><dd>(?:59|60) min</dd>`).MatchString(body) {
		t.Errorf("no lease of an hour: %s", body)
	}
	page(lost, fact("Lease left", "none: the lease is over"), fact("Leases that ended", "1"), fact("Attempt", "2"), fact("Failures", "0 of 8")).hides(t, "Payload")
	page(scheduled, `class="state scheduled"`, "<dt>Due</dt>", later.Format("2006-01-02 15:04:05")).hides(t, "Worker", "Lease left", "Fence", "<dt>Key")
	page(blocked, `class="state blocked"`, fact("Key", "k"), fact("Failures", "0 of 8"))
	page(done, `class="state done"`, "Nothing else is kept").hides(t, "Payload", "<dt>Type", "data-refresh", "dead-letters?")
	letter := "dead-letters?kind=job&queue=q&reason=max_attempts&type=mail"
	page(dead, `class="state dead"`, fact("Dead because of", "max_attempts"), fact("Failures", "1 of 1"), "<dt>Last error</dt><dd>"+hostile[0], "{\n  \"<script>",
		`href="./../`+letter+"#"+dead+`"`).hides(t, "data-refresh", hostile[0], "<img", "Nothing else")
	w.page("/console/"+letter, cookie).shows(t, 200, `<tr id="`+dead+`">`)

	w.page("/console/jobs/q.unknown", cookie).shows(t, 404, "there is no job q.unknown")
	w.page("/console/jobs/a%20b", cookie).shows(t, 422, "id")
	for _, from := range []string{"find-job", "find-event"} {
		if a := w.page("/console/"+from+"?id=+"+running, cookie); a.status != 303 || a.header.Get("Location") != "./jobs/"+running {
			t.Errorf("%s: %d to %q", from, a.status, a.header.Get("Location"))
		}
		w.page("/console/"+from+"?id=+", cookie).shows(t, 422, "type the id of")
	}
	w.page("/console/jobs", cookie).shows(t, 200, `action="./find-job"`)
	w.page("/console/jobs/"+running, w.login(w.mustKey(api.ScopeOps))).shows(t, 403, "lacks the scope jobs").hides(t, "mail")
}

// A job is cancelled after a question, by keys with jobs. One that has ended has no button.
func TestN20_CancelAJob(t *testing.T) {
	t.Parallel()
	w := setupConsole(t)
	held := w.enqueue(t, `{"type":"mail"}`)
	w.claimOne(t, hour)
	queued, over := w.enqueue(t, `{"type":"mail"}`), w.failed(t, "bad", `,"max_attempts":1`, "no host")
	key := w.mustKey(api.ScopeOpsRead, api.ScopeJobs)
	cookie, worker := w.login(key), w.login(w.mustKey(api.ScopeOpsRead, api.ScopeJobsWork))
	state := func(id string) string { return w.page("/v1/jobs/"+id, "Authorization: Bearer "+key).member(t, "state") }
	for id, after := range map[string]string{held: "running", queued: "cancelled"} {
		path, before := "/console/jobs/"+id, state(id)
		w.page(path, cookie).shows(t, 200, `href="./../jobs/`+id+`/cancel"`)
		ask := w.page(path+"/cancel", cookie).shows(t, 200, "Cancel this job?", id, "mail", `method="post" action="./../../jobs/`+id+`/cancel"`)
		if strings.Contains(ask.body, "The worker w holds it") != (id == held) {
			t.Errorf("the question for %s: %s", before, ask.body)
		}
		w.page(path+"/cancel", worker).shows(t, 200, "Cancel this job?").hides(t, `action="./../../jobs/`)
		w.form(path+"/cancel", nil, worker).shows(t, 403, "lacks the scope jobs")
		if got := state(id); got != before {
			t.Errorf("asking made %s of %s", got, before)
		}
		for range 2 { // as when the form is sent twice
			if a := w.form(path+"/cancel", nil, cookie); a.status != 303 || a.header.Get("Location") != "../"+id+"?done=ended" {
				t.Errorf("%d to %q", a.status, a.header.Get("Location"))
			}
		}
		w.page(path+"?done=ended", cookie).shows(t, 200, "The job is cancelled. A worker", `class="state `+after+`"`).hides(t, "/cancel\"")
	}
	w.page("/console/jobs/"+held, cookie).shows(t, 200, "Its worker is told")
	w.page("/console/jobs/"+over, cookie).shows(t, 200, "max_attempts").hides(t, "/cancel\"")
	w.page("/console/jobs/"+over+"/cancel", cookie).shows(t, 200, "A job that has ended stays as it is").hides(t, `action="./../../jobs/`)
	w.form("/console/jobs/"+over+"/cancel", nil, cookie).shows(t, 409)
	w.form("/console/jobs/q.unknown/cancel", nil, cookie).shows(t, 404)
}

// A console that only shows has no buttons for queues and jobs.
func TestN20_ReadOnly(t *testing.T) {
	t.Parallel()
	w := setupConsole(t, func(o *console.Options) { o.Mode = console.Read })
	id := w.enqueue(t, `{"type":"mail"}`)
	for _, path := range []string{"jobs", "queues/q", "queues/q/pause", "jobs/" + id, "jobs/" + id + "/cancel"} {
		w.page("/console/"+path).shows(t, 200, "only shows").hides(t, `method="post"`, `class="button"`)
	}
	w.form("/console/queues/q/pause", url.Values{}).shows(t, 403, "FANFARE_CONSOLE=read")
}
