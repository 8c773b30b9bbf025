package handlers_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"fanfare/api"
	"fanfare/store/storetest"
)

// A job that is released is there for others, and no attempt counts.
func TestJ1_Releases(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		id := w.enqueue(t, `{"type":"mail","max_attempts":1}`)
		for n := range 3 {
			j := w.claimOne(t, "")
			if j.ID != id || j.Attempt != 1 {
				t.Errorf("claim %d: %+v", n, j)
			}
			w.report(t, j, "release", "", "ok")
		}
		if got := w.state(t, id); got != "queued" {
			t.Errorf("it is %s", got)
		}
		w.report(t, w.claimOne(t, ""), "release", `,"retry_after_ms":3600000`, "ok")
		w.get("/v1/jobs/"+id).wants(t, 200, `{"id":"`+id+`","queue":"q","state":"scheduled","attempt":1,"max_attempts":1,"type":"mail","enqueued_at":"*","run_at":"*"}`)
	})
}

// A lease that ends gives the job to the next worker and counts. Until then its holder may renew it, and may still
// report a result after it.
func TestJ2_Leases(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		id := w.enqueue(t, `{"type":"mail"}`)
		over := w.claimOne(t, `,"lease_ms":1`)
		next := w.claimOne(t, `,"lease_ms":1`)
		if over.Attempt != 1 || next.ID != id || next.Attempt != 2 || next.Fence <= over.Fence || next.Token == over.Token {
			t.Fatalf("%+v, and then %+v", over, next)
		}
		for _, outcome := range []string{"complete", "fail", "release", "renew"} {
			w.report(t, over, outcome, "", "job_lost")
		}
		answered := `{"results":[{"id":"` + id + `","status":"ok","lease_ms":%d}]}`
		w.post(queueQ+"/results", `{"results":[`+result(next, "renew", `,"lease_ms":7200000`)+`]}`).wants(t, 200, fmt.Sprintf(answered, 7_200_000))
		w.get("/v1/jobs/"+id).wants(t, 200, `{"id":"`+id+`","queue":"q","state":"running","attempt":2,"lost_leases":1,"max_attempts":8,"type":"mail","enqueued_at":"*",
			"worker":"w","fence":"*","lease_ms":"*"}`)
		w.get(queueQ).wants(t, 200, counts(map[string]int{"running": 1, "recovered": 1}))
		w.report(t, next, "complete", "", "ok")

		w.enqueue(t, `{"type":"mail"}`)
		last := w.claimOne(t, `,"lease_ms":1`)
		storetest.Eventually(t, soon, "its lease is over", func() bool {
			return strings.Contains(w.get("/v1/jobs/"+last.ID).body, `"lease_ms":0`)
		})
		w.report(t, last, "renew", "", "ok")
		w.report(t, last, "complete", "", "ok")
	})
}

// One call reports many results, and each has its own answer.
func TestJ1_ManyResults(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		w.post(queueQ+"/jobs/batch", `{"jobs":[{"type":"a"},{"type":"b"},{"type":"c"}]}`)
		list := w.claim(t, `,"max":3`)
		unknown := api.ClaimedJob{ID: "q.unknown", Token: "1"}
		results := []string{result(list[0], "complete", ""), result(unknown, "complete", ""), result(list[1], "renew", `,"lease_ms":1000`), result(list[2], "release", "")}
		w.post(queueQ+"/results", `{"results":[`+strings.Join(results, ",")+`]}`, "Idempotency-Key: x").wants(t, 200, fmt.Sprintf(
			`{"results":[{"id":%q,"status":"ok"},{"id":"q.unknown","status":"job_lost"},{"id":%q,"status":"ok","lease_ms":1000},{"id":%q,"status":"ok"}]}`,
			list[0].ID, list[1].ID, list[2].ID))
		w.report(t, api.ClaimedJob{ID: list[1].ID, Token: "not mine"}, "complete", "", "job_lost")
		w.post("/v1/queues/other/results", `{"results":[`+result(list[1], "complete", "")+`]}`).
			wants(t, 200, `{"results":[{"id":"`+list[1].ID+`","status":"job_lost"}]}`)

		long := make([]string, 100)
		for i := range long {
			long[i] = result(unknown, "fail", `,"error":"`+strings.Repeat("e", 4096)+`"`)
		}
		if a := w.post(queueQ+"/results", `{"results":[`+strings.Join(long, ",")+`]}`); a.status != 200 || strings.Count(a.body, "job_lost") != 100 {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

// The begin of a long error is kept, and the results beside it are on record.
func TestJ1_ALongErrorIsCut(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.enqueue(t, `{"type":"mail","max_attempts":1}`)
	w.enqueue(t, `{"type":"mail"}`)
	list := w.claim(t, `,"max":2`)
	text := strings.Repeat("ä", 50_000)
	w.post(queueQ+"/results", `{"results":[`+result(list[0], "fail", `,"error":"`+text+`"`)+","+result(list[1], "complete", "")+`]}`).
		wants(t, 200, fmt.Sprintf(`{"results":[{"id":%q,"status":"ok"},{"id":%q,"status":"ok"}]}`, list[0].ID, list[1].ID))
	if a := w.get("/v1/jobs/" + list[0].ID); a.member(t, "last_error") != text[:1000] {
		t.Errorf("%d %s", a.status, a.body)
	}
	if state := w.state(t, list[1].ID); state != "done" {
		t.Errorf("the other job is %s", state)
	}
}

// A job that is cancelled is not claimed any more. The worker that holds it is told.
func TestJ1_Cancels(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		id := w.enqueue(t, `{"type":"mail"}`)
		for range 2 {
			w.del("/v1/jobs/"+id).wants(t, 204, "")
		}
		w.get("/v1/jobs/"+id).wants(t, 200, `{"id":"`+id+`","queue":"q","state":"cancelled"}`)
		if list := w.claim(t, ""); len(list) != 0 {
			t.Errorf("claimed %+v", list)
		}
		for _, outcome := range []string{"release", "fail", "complete"} {
			w.enqueue(t, `{"type":"mail"}`)
			j := w.claimOne(t, "")
			for range 2 {
				w.del("/v1/jobs/"+j.ID).wants(t, 204, "")
			}
			w.get("/v1/jobs/"+j.ID).wants(t, 200, `{"id":"`+j.ID+`","queue":"q","state":"running","attempt":1,"max_attempts":8,"type":"mail","enqueued_at":"*",
				"worker":"w","fence":"*","lease_ms":"*","cancelled":true}`)
			w.report(t, j, "renew", "", "cancelled")
			if outcome == "complete" {
				w.report(t, j, outcome, "", "ok")
				w.del("/v1/jobs/"+j.ID).wants(t, 409, problem(api.CodeTooLate, "the job "+j.ID+" has ended"))
				continue
			}
			w.report(t, j, outcome, "", "cancelled")
			w.get("/v1/jobs/"+j.ID).wants(t, 200, `{"id":"`+j.ID+`","queue":"q","state":"cancelled"}`)
		}
		for _, unknown := range []string{"q.unknown", "unknown", "q." + strings.Repeat("0", 26), strings.Repeat("x", 256)} {
			w.del("/v1/jobs/"+unknown).wants(t, 404, noJob(unknown))
			w.get("/v1/jobs/"+unknown).wants(t, 404, noJob(unknown))
		}
	})
}

// No job of a queue that is paused is claimed. What it has is kept, and comes when it is resumed.
func TestJ6_APausedQueue(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		w.post(queueQ+"/resume", "").wants(t, 404, problem(api.CodeNotFound, "there is no such queue"))
		paused := func(not map[string]int) string {
			return strings.Replace(counts(not), `"paused":false`, `"paused":true`, 1)
		}
		for range 2 {
			w.post(queueQ+"/pause", "", "Idempotency-Key: p").wants(t, 200, paused(nil))
		}
		id := w.enqueue(t, `{"type":"mail"}`)
		if list := w.claim(t, `,"wait_ms":50`); len(list) != 0 {
			t.Errorf("claimed %+v", list)
		}
		w.get(queueQ).wants(t, 200, paused(map[string]int{"depth": 1}))
		got := w.claimLater(t, `{"worker":"w","wait_ms":30000}`)
		w.awaitStreams(t, 1)
		if a := w.post(queueQ+"/resume", ""); a.status != 200 || strings.Contains(a.body, `"paused":true`) {
			t.Errorf("%d %s", a.status, a.body)
		}
		if list := (<-got).claimed(t); len(list) != 1 || list[0].ID != id {
			t.Errorf("claimed %+v", list)
		}
		if got, want := w.changes(), []string{"queues.pause q ", "queues.pause q ", "queues.resume q "}; !slices.Equal(got, want) {
			t.Errorf("changes %q, want %q", got, want)
		}
	})
}

// A claim has payloads of at most 1 MiB together, and claims no more than it has.
func TestJ1_LargeClaims(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		job := `{"type":"mail","payload":"` + strings.Repeat("x", api.MaxJobPayload-2) + `"}`
		w.post(queueQ+"/jobs/batch", `{"jobs":[`+strings.Repeat(job+",", 19)+job+`]}`).wants(t, 202, `{"items":[`+strings.Repeat(`{"id":"*"},`, 19)+`{"id":"*"}]}`)
		fit := api.MaxClaimBytes / api.MaxJobPayload
		if list := w.claim(t, `,"max":100`); len(list) > fit || len(list) < fit-1 {
			t.Errorf("claimed %d, and %d fit", len(list), fit)
		}
		if list := w.claim(t, `,"max":100`); len(list) < 20-fit {
			t.Errorf("then claimed %d", len(list))
		}
	})
}
