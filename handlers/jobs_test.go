package handlers_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"fanfare/api"
	"fanfare/store/storetest"
)

const queueQ = "/v1/queues/q"

// enqueue stores a job and returns its id.
func (w *world) enqueue(t testing.TB, body string) string {
	t.Helper()
	a := w.post(queueQ+"/jobs", body)
	if a.status != 202 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	return a.member(t, "id")
}

// claimed are the jobs in the answer of a claim.
func (a answer) claimed(t testing.TB) []api.ClaimedJob {
	t.Helper()
	var got api.ClaimedJobs
	if err := json.Unmarshal([]byte(a.body), &got); err != nil || a.status != 200 || got.Jobs == nil {
		t.Fatalf("%d %s", a.status, a.body)
	}
	return got.Jobs
}

// claim makes a claim with further members, and returns its jobs.
func (w *world) claim(t testing.TB, members string, headers ...string) []api.ClaimedJob {
	t.Helper()
	return w.post(queueQ+"/claims", `{"worker":"w"`+members+`}`, headers...).claimed(t)
}

// claimOne makes a claim that may wait, and returns its only job.
func (w *world) claimOne(t testing.TB, members string) api.ClaimedJob {
	t.Helper()
	list := w.claim(t, `,"wait_ms":20000`+members)
	if len(list) != 1 {
		t.Fatalf("claimed %+v", list)
	}
	return list[0]
}

// result is the JSON of a result with further members.
func result(j api.ClaimedJob, outcome, members string) string {
	return fmt.Sprintf(`{"id":%q,"token":%q,"outcome":%q%s}`, j.ID, j.Token, outcome, members)
}

// report reports one result and wants this status.
func (w *world) report(t testing.TB, j api.ClaimedJob, outcome, members, status string) {
	t.Helper()
	lease := ""
	if outcome == "renew" && status == "ok" {
		lease = `,"lease_ms":"*"`
	}
	w.post(queueQ+"/results", `{"results":[`+result(j, outcome, members)+`]}`).
		wants(t, 200, `{"results":[{"id":"`+j.ID+`","status":"`+status+`"`+lease+`}]}`)
}

// state is the state of a job.
func (w *world) state(t testing.TB, id string) string {
	t.Helper()
	return w.get("/v1/jobs/"+id).member(t, "state")
}

// counts is the queue q with some of its counts; the others are 0.
func counts(not map[string]int) string {
	out := map[string]any{"queue": "q", "paused": false}
	for _, name := range []string{"depth", "blocked", "scheduled", "running", "oldest_age_ms", "done", "retries", "recovered", "dead", "dead_letters"} {
		out[name] = not[name]
	}
	if not["depth"] > 0 {
		out["oldest_age_ms"] = "*"
	}
	out["last_hour"] = map[string]any{"enqueued": "*", "done": not["done"], "retries": not["retries"], "recovered": not["recovered"], "dead": not["dead"]}
	text, _ := json.Marshal(out)
	return string(text)
}

func noJob(id string) string {
	return problem(api.CodeNotFound, "there is no job "+id+", or it is no longer remembered")
}

// A job is enqueued, claimed and completed, and each step can be seen.
func TestJ1_AJobIsDone(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		w.get(queueQ).wants(t, 404, problem(api.CodeNotFound, "there is no such queue"))
		w.post(queueQ+"/claims", `{"worker":"w"}`).wants(t, 200, `{"jobs":[]}`)
		w.get("/v1/queues").wants(t, 200, `{"items":[]}`)

		made := w.post(queueQ+"/jobs", `{"type":"mail","payload": {"a": [1, "\u00e4"]},"key":"k","unique":"u","max_attempts":3}`)
		id := made.wants(t, 202, `{"id":"*"}`).member(t, "id")
		if made.header.Get("Location") != "/v1/jobs/"+id || !strings.HasPrefix(id, "q.") {
			t.Errorf("the job %s at %s", id, made.header.Get("Location"))
		}
		known := `"id":"` + id + `","queue":"q","attempt":1,"max_attempts":3,"type":"mail","key":"k","unique":"u","payload":{"a":[1,"ä"]},"enqueued_at":"*"`
		w.get("/v1/jobs/"+id).wants(t, 200, `{`+known+`,"state":"queued"}`)
		w.get(queueQ).wants(t, 200, counts(map[string]int{"depth": 1}))

		claimed := w.post(queueQ+"/claims", `{"worker":"w-1","lease_ms":60000}`)
		claimed.wants(t, 200, `{"jobs":[{"id":"`+id+`","token":"*","fence":"*","attempt":1,"type":"mail","key":"k","payload":{"a":[1,"ä"]},"lease_ms":60000}]}`)
		j := claimed.claimed(t)[0]
		w.get("/v1/jobs/"+id).wants(t, 200, fmt.Sprintf(`{%s,"state":"running","worker":"w-1","fence":%d,"lease_ms":"*"}`, known, j.Fence))
		w.get(queueQ).wants(t, 200, counts(map[string]int{"running": 1}))
		if again := w.claim(t, `,"max":100`); len(again) != 0 {
			t.Errorf("claimed twice: %+v", again)
		}
		for range 2 {
			w.report(t, j, "complete", "", "ok")
		}
		w.get("/v1/jobs/"+id).wants(t, 200, `{"id":"`+id+`","queue":"q","state":"done"}`)
		w.report(t, j, "renew", "", "job_lost")
		w.get("/v1/queues").wants(t, 200, `{"items":[`+counts(map[string]int{"done": 1})+`]}`)
	})
}

// A payload is any JSON, and comes back as it was. null is the same as none.
func TestJ1_Payloads(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, payload := range []string{`"text"`, `[1,null,"\n"]`, `{"a":{"b":[]}}`, `9007199254740993`, `1.50`, `false`, `{}`, `""`, `null`, ``} {
		member, want := "", payload
		if payload != "" {
			member = `,"payload":` + payload
		}
		if payload == "null" {
			want = ""
		}
		id := w.enqueue(t, `{"type":"mail"`+member+`}`)
		var got api.Job
		storetest.Must(t, json.Unmarshal([]byte(w.get("/v1/jobs/"+id).body), &got))
		if j := w.claimOne(t, ""); string(j.Payload) != want || string(got.Payload) != want {
			t.Errorf("%s comes back as %s, and is shown as %s", payload, j.Payload, got.Payload)
		}
	}
	most := api.MaxJobPayload - len(`""`)
	for _, text := range []string{strings.Repeat("x", most), strings.Repeat(`\u00e4`, most/2)} { // a library may escape what it need not
		w.enqueue(t, `{"type":"mail","payload":   "`+text+`"}`)
		refused := broken("payload", "max", "must be at most 61440 bytes as JSON")
		w.post(queueQ+"/jobs", `{"type":"mail","payload":"`+text+`x"}`).wants(t, 422, refused)
	}
}

// While a job with a unique name has not ended, no second one is stored.
func TestJ1_UniqueJobs(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		const body = `{"type":"mail","unique":"u"}`
		id := w.enqueue(t, body)
		old := func() {
			t.Helper()
			a := w.post(queueQ+"/jobs", body).wants(t, 200, `{"id":"`+id+`","new":false}`)
			if a.header.Get("Location") != "/v1/jobs/"+id {
				t.Errorf("the job is at %s", a.header.Get("Location"))
			}
		}
		old()
		w.post("/v1/queues/other/jobs", body).wants(t, 202, `{"id":"*"}`)
		j := w.claimOne(t, "")
		old()
		w.report(t, j, "complete", "", "ok")
		next := w.enqueue(t, body)
		if next == id {
			t.Error("a new job has the id of an old one")
		}
		w.del("/v1/jobs/"+next).wants(t, 204, "")
		w.enqueue(t, body)
	})
}

// A batch is accepted as a whole, in its order.
func TestJ1_Batches(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		const batch = `{"jobs":[{"type":"a","unique":"u"},{"type":"b","payload":1},{"type":"a","unique":"u"},{"type":"c"}]}`
		const key = "Idempotency-Key: batch"
		w.post(queueQ+"/jobs/batch", `{"jobs":[{"type":"a"},{"type":"b c"}]}`, key).wants(t, 422, broken("jobs[1].type", "identifier", identifierRule))
		w.get(queueQ).wants(t, 404, problem(api.CodeNotFound, "there is no such queue"))
		first := w.post(queueQ+"/jobs/batch", batch, key)
		first.wants(t, 202, `{"items":[{"id":"*"},{"id":"*"},{"id":"*","new":false},{"id":"*"}]}`)
		again := w.post(queueQ+"/jobs/batch", batch, key).wants(t, 202, first.body)
		if first.header.Get("Idempotent-Replayed") != "" || again.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("replayed: %v, %v", first.header, again.header)
		}
		w.post(queueQ+"/jobs/batch", `{"jobs":[{"type":"a"}]}`, key).
			wants(t, 422, problem(api.CodeIdempotencyReused, "this Idempotency-Key was used with another body"))
		var accepted api.JobBatchAccepted
		storetest.Must(t, json.Unmarshal([]byte(first.body), &accepted))
		if accepted.Items[0].ID != accepted.Items[2].ID {
			t.Errorf("the same unique name, and other ids: %s", first.body)
		}
		var got []string
		for _, j := range w.claim(t, `,"max":100`) {
			got = append(got, j.ID)
		}
		if want := []string{accepted.Items[0].ID, accepted.Items[1].ID, accepted.Items[3].ID}; !slices.Equal(got, want) {
			t.Errorf("claimed %v, want %v", got, want)
		}
	})
}

// A repeat of an enqueueing under its Idempotency-Key has the first answer again, and stores nothing.
func TestJ1_RepeatedJobs(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		const key, body = "Idempotency-Key: once", `{"type":"mail","payload":{"a":1,"b":2}}`
		first := w.post(queueQ+"/jobs", body, key).wants(t, 202, `{"id":"*"}`)
		again := w.post(queueQ+"/jobs", `{"payload":{"b":2, "a":1},"type":"mail"}`, key).wants(t, 202, first.body)
		if first.header.Get("Idempotent-Replayed") != "" || again.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("replayed: %v, %v", first.header, again.header)
		}
		w.post(queueQ+"/jobs", `{"type":"mail"}`, key).wants(t, 422, problem(api.CodeIdempotencyReused, "this Idempotency-Key was used with another body"))
		if other := w.post("/v1/queues/other/jobs", `{"type":"mail"}`, key); other.status != 202 || other.header.Get("Idempotent-Replayed") != "" {
			t.Errorf("another queue: %d %s", other.status, other.body)
		}
		if list := w.claim(t, `,"max":100`); len(list) != 1 {
			t.Errorf("stored %+v", list)
		}
		unique := w.enqueue(t, `{"type":"mail","unique":"u"}`)
		for _, replayed := range []string{"", "true"} {
			a := w.post(queueQ+"/jobs", `{"type":"mail","unique":"u"}`, "Idempotency-Key: twice").wants(t, 200, `{"id":"`+unique+`","new":false}`)
			if a.header.Get("Idempotent-Replayed") != replayed {
				t.Errorf("replayed %v, want %q", a.header, replayed)
			}
		}
	})
}

// Workers choose their types, and the oldest job comes first.
func TestJ1_Types(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		w.post(queueQ+"/jobs/batch", `{"jobs":[{"type":"a"},{"type":"b"},{"type":"c"},{"type":"b"},{"type":"a"}]}`)
		types := func(members string) (got string) {
			for _, j := range w.claim(t, members) {
				got += j.Type
			}
			return got
		}
		for _, c := range [][2]string{{`,"types":["d"],"max":9`, ""}, {`,"types":["b","c"],"max":2`, "bc"}, {`,"types":["a"]`, "a"}, {`,"max":9`, "ba"}} {
			if got := types(c[0]); got != c[1] {
				t.Errorf("%s: %q, want %q", c[0], got, c[1])
			}
		}
	})
}

// Two jobs of one key are never held at once, and are held in their order.
func TestJ2_ConflictKeys(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		first, second := w.enqueue(t, `{"type":"a","key":"k"}`), w.enqueue(t, `{"type":"b","key":"k"}`)
		w.enqueue(t, `{"type":"c","key":"l"}`)
		list := w.claim(t, `,"max":9`)
		if len(list) != 2 || list[0].ID != first || list[1].Type != "c" {
			t.Fatalf("claimed %+v", list)
		}
		if got := w.state(t, second); got != "blocked" {
			t.Errorf("the second job of the key is %s", got)
		}
		w.get(queueQ).wants(t, 200, counts(map[string]int{"running": 2, "blocked": 1}))
		w.report(t, list[0], "complete", "", "ok")
		if next := w.claimOne(t, ""); next.ID != second || next.Key != "k" || next.Fence <= list[0].Fence {
			t.Errorf("then %+v, after %+v", next, list[0])
		}
	})
}

// A job that fails is tried again, not before its time, and is a dead letter when its attempts are used up.
func TestJ1_Failures(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		id := w.enqueue(t, `{"type":"mail","payload":[1],"max_attempts":2}`)
		first := w.claimOne(t, "")
		for range 2 {
			w.report(t, first, "fail", `,"error":"no route","retry_after_ms":1500`, "ok")
		}
		w.get("/v1/jobs/"+id).wants(t, 200, `{"id":"`+id+`","queue":"q","state":"scheduled","attempt":2,"failures":1,"max_attempts":2,"type":"mail","payload":[1],
			"enqueued_at":"*","run_at":"*","last_error":"no route"}`)
		w.get(queueQ).wants(t, 200, counts(map[string]int{"scheduled": 1, "retries": 1}))
		second := w.claimOne(t, "")
		if second.ID != id || second.Attempt != 2 || second.Fence <= first.Fence {
			t.Errorf("the second attempt: %+v, after %+v", second, first)
		}
		w.report(t, first, "complete", "", "job_lost")
		for range 2 {
			w.report(t, second, "fail", `,"error":"no host"`, "ok")
		}
		dead := w.get("/v1/jobs/" + id)
		if dead.member(t, "state") != "dead" || dead.member(t, "reason") != "max_attempts" || dead.member(t, "last_error") != "no host" {
			t.Errorf("%d %s", dead.status, dead.body)
		}
		w.get(queueQ).wants(t, 200, counts(map[string]int{"retries": 1, "dead": 1, "dead_letters": 1}))
		w.del("/v1/jobs/"+id).wants(t, 409, problem(api.CodeTooLate, "the job "+id+" has ended"))

		letters := w.get("/v1/dead-letters?kind=job&queue=q")
		if got := deadIDs(letters); len(got) != 1 || !strings.Contains(letters.body, `"payload":[1]`) {
			t.Fatalf("%s", letters.body)
		}
		w.post("/v1/dead-letters/"+deadIDs(letters)[0]+"/retry", "")
		if third := w.claimOne(t, ""); third.ID != id || third.Attempt != 1 || third.Fence <= second.Fence || string(third.Payload) != "[1]" {
			t.Errorf("after a retry: %+v", third)
		}

		w.enqueue(t, `{"type":"late"}`)
		w.report(t, w.claimOne(t, ""), "fail", `,"retry_after_ms":3600000`, "ok")
		if list := w.claim(t, `,"max":9,"types":["late"]`); len(list) != 0 {
			t.Errorf("claimed at once: %+v", list)
		}
	})
}
