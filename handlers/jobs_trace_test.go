package handlers_test

import (
	"testing"
)

// A job goes on with the trace of the call that enqueued it, also with a conflict key, after a failure and out of a batch. A
// dead letter that is tried again, and a job of a call without a well-formed traceparent, have none.
func TestT4_AJobHasItsTrace(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		with := "Traceparent: " + parent
		wants := func(members, want string) {
			t.Helper()
			j := w.claimOne(t, members)
			if j.Traceparent != want || string(j.Payload) != `{"n":1}` {
				t.Errorf("claimed with the traceparent %q and the payload %s, want %q", j.Traceparent, j.Payload, want)
			}
			w.report(t, j, "fail", `,"retry_after_ms":0`, "ok")
			if again := w.claimOne(t, members); again.Traceparent != want || again.ID != j.ID {
				t.Errorf("claimed again with the traceparent %q, want %q", again.Traceparent, want)
			} else {
				w.report(t, again, "fail", "", "ok")
			}
		}
		post := func(path, job string, headers ...string) {
			t.Helper()
			if a := w.post(queueQ+path, job, headers...); a.status != 202 {
				t.Fatalf("%d %s", a.status, a.body)
			}
		}
		post("/jobs", `{"type":"plain","payload":{"n":1},"max_attempts":2}`, with)
		post("/jobs", `{"type":"keyed","key":"k","unique":"u","payload":{"n":1},"max_attempts":2}`, with)
		post("/jobs/batch", `{"jobs":[{"type":"batch","payload":{"n":1},"max_attempts":2}]}`, with)
		post("/jobs", `{"type":"none","payload":{"n":1},"max_attempts":2}`)
		post("/jobs", `{"type":"bad","payload":{"n":1},"max_attempts":2}`, with+"-more")
		post("/jobs", `{"type":"later","payload":{"n":1},"max_attempts":2}`, "Traceparent: cc"+parent[2:]+"-what-the-future-adds")
		wants(`,"types":["plain"]`, parent)
		w.post("/v1/dead-letters/"+deadIDs(w.get("/v1/dead-letters?kind=job&queue=q"))[0]+"/retry", "")
		wants(`,"types":["plain"]`, "")
		wants(`,"types":["keyed"]`, parent)
		wants(`,"types":["batch"]`, parent)
		wants(`,"types":["none"]`, "")
		wants(`,"types":["bad"]`, "")
		wants(`,"types":["later"]`, "")
	})
}
