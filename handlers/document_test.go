package handlers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"fanfare/store/storetest"

	"fanfare/openapi"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
)

// document checks answers against openapi.json.
type document struct {
	doc    *openapi3.T
	router routers.Router
}

func mustDocument(t *testing.T) *document {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(openapi.JSON())
	storetest.Must(t, err)
	router, err := legacy.NewRouter(doc)
	storetest.Must(t, err)
	return &document{doc, router}
}

// wants fails unless the document allows the answer to the call.
func (d *document) wants(t *testing.T, c call, a answer) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), c.method, c.path, strings.NewReader(c.body))
	storetest.Must(t, err)
	r.Header.Set("Content-Type", "application/json")
	route, params, err := d.router.FindRoute(r)
	storetest.Must(t, err)
	in := &openapi3filter.RequestValidationInput{
		Request: r, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true},
	}
	if a.status < 300 {
		if err := openapi3filter.ValidateRequest(context.Background(), in); err != nil {
			t.Errorf("%s %s was answered %d, but the document refuses it: %v", c.method, c.path, a.status, err)
		}
	}
	out := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: a.status, Header: a.header,
		Body: io.NopCloser(strings.NewReader(a.body)), Options: in.Options,
	}
	if err := openapi3filter.ValidateResponse(context.Background(), out); err != nil {
		t.Errorf("%s %s answers what the document does not allow: %v", c.method, c.path, err)
	}
}

// example builds a call of an operation from the document's own examples.
func example(path, method string, op *openapi3.Operation) (c call, complete bool) {
	c, complete = call{method: method, path: path}, true
	for _, p := range op.Parameters {
		if !p.Value.Required {
			continue
		}
		name, ok := p.Value.Example.(string)
		complete = complete && ok
		if p.Value.In == openapi3.ParameterInQuery {
			c.path += "?" + p.Value.Name + "=" + url.QueryEscape(name) // at most one is required
			continue
		}
		c.path = strings.ReplaceAll(c.path, "{"+p.Value.Name+"}", url.PathEscape(name))
	}
	if op.RequestBody != nil {
		var body bytes.Buffer
		_ = json.NewEncoder(&body).Encode(op.RequestBody.Value.Content["application/json"].Example)
		c.body = body.String()
	}
	return c, complete
}

// endless reports whether the answer is a stream.
func endless(op *openapi3.Operation) bool {
	fine := op.Responses.Status(200)
	return fine != nil && fine.Value.Content["text/event-stream"] != nil
}

// TestExamples makes every call with the values of its examples, in an order in which each call
// finds the things that it needs.
func TestExamples(t *testing.T) {
	t.Parallel()
	w, d := setup(t), mustDocument(t)
	admin, _ := w.admin()
	w.post("/v1/queues/emails/jobs", `{"type":"a"}`, admin) // a queue that can be resumed
	for _, method := range []string{"PUT", "POST", "GET", "DELETE"} {
		for path, item := range d.doc.Paths.Map() {
			op := item.GetOperation(method)
			if op == nil {
				continue
			}
			c, complete := example(path, method, op)
			if !complete || endless(op) || slices.Contains([]string{"postTicket", "deleteSale", "probeApps", "renewLock", "finishLock", "failLock", "releaseLock"}, op.OperationID) {
				continue // the call needs an id or a token that the server made, or an app, or never ends, or the example's sale sells
			}
			a := w.do(c.with(admin))
			if a.status >= 300 {
				t.Errorf("%s %s with its example is refused: %d %s", method, path, a.status, a.body)
			}
			d.wants(t, c, a)
		}
	}
}

// TestAnswersMatchTheDocument compares answers that examples cannot reach: those with ids that the
// server made, and refusals.
func TestAnswersMatchTheDocument(t *testing.T) {
	t.Parallel()
	w, d := setup(t), mustDocument(t)
	id := w.post("/v1/events", anEvent).member(t, "id")
	mustDie(t, w.jobs, 2)
	dead := deadIDs(w.get("/v1/dead-letters"))
	if len(dead) != 2 {
		t.Fatalf("dead letters: %v", dead)
	}
	w.post(queueQ+"/jobs/batch", `{"jobs":[{"type":"a","payload":[1],"key":"k"},{"type":"b","key":"k"},{"type":"c","max_attempts":1}]}`)
	held := w.claim(t, `,"max":2`)
	hold := `{"token":"` + w.acquire(t, "").Token + `"}`
	other := `{"token":"` + w.post("/v1/locks/y/acquire", "").hold(t).Token + `"}`
	for _, c := range []call{
		put(valueX, `{"value":[1]}`), put(valueX, `{"value":{"a":1}}`).with("If-None-Match: *"), put(valueX, `{"value":"text"}`), get(valueX), get(valueX + "?wait_ms=5"),
		get("/v1/values/none"), {method: "DELETE", path: valueX, headers: []string{`If-Match: "1"`}}, {method: "DELETE", path: valueX},
		put(counterX, `{"value":1,"max":1}`), put(counterX, `{"value":1,"max":1}`), post(counterX+"/add", `{"delta":1}`), post(counterX+"/add", `{"delta":-1}`), get(counterX), get("/v1/counters/none"),
		put(counterX, `{"value":1,"ends_at":"2001-01-01T00:00:00Z"}`), post(counterX+"/add", `{"delta":1}`), put(counterX, `{"value":1,"starts_at":"2101-01-01T00:00:00Z"}`), post(counterX+"/add", `{"delta":1}`),
		post(queueQ+"/jobs", `{"type":"a","unique":"u","payload":"text"}`), post(queueQ+"/jobs", `{"type":"a","unique":"u"}`), post(queueQ+"/jobs", `{"type":"a b"}`),
		post(queueQ+"/jobs/batch", `{"jobs":[{"type":"a","unique":"u"},{"type":"d","run_at":"2001-01-01T00:00:00Z"}]}`), post(queueQ+"/jobs/batch", `{"jobs":[]}`),
		get("/v1/jobs/" + held[0].ID), {method: "DELETE", path: "/v1/jobs/" + held[0].ID}, get("/v1/jobs/" + held[0].ID), get("/v1/jobs/unknown"),
		post(queueQ+"/results", `{"results":[`+result(held[0], "renew", "")+","+result(held[1], "renew", "")+","+result(held[1], "fail", `,"error":"x"`)+`]}`),
		post(queueQ+"/results", `{"results":[`+result(held[1], "complete", "")+`]}`), post(queueQ+"/results", `{"results":[`+result(held[1], "complete", `,"error":"x"`)+`]}`),
		get("/v1/jobs/" + held[1].ID), {method: "DELETE", path: "/v1/jobs/" + held[1].ID}, get("/v1/queues"), get(queueQ), get("/v1/queues/unknown"), get(queueQ + "/series"), get("/v1/queues/unknown/series"),
		post(queueQ+"/claims", `{"worker":"w","max":9}`), post(queueQ+"/claims", `{"worker":"w","wait_ms":5}`), post(queueQ+"/claims", `{}`),
		post(queueQ+"/pause", ""), post(queueQ+"/resume", ""), post("/v1/queues/unknown/resume", ""),
		post("/v1/locks/y/done", other), post("/v1/locks/y/acquire", ""), get("/v1/locks/y"),
		post(lockX+"/acquire", ""), post(lockX+"/acquire", `{"max_attempts":9}`), post(lockX+"/renew", hold), get(lockX), post(lockX+"/fail", hold), post(lockX+"/release", hold),
		post(lockX+"/done", hold), get(lockX), get("/v1/events/" + id), post("/v1/events/"+id+"/cancel", ""), get("/v1/events/unknown"), post("/v1/events/unknown/cancel", ""), get("/v1/events"), get("/v1/events?state=gone"), get("/v1/event-types/unknown"),
		get("/v1/dead-letters"), get("/v1/dead-letters?limit=1"), get("/v1/dead-letters?limit=0"),
		post("/v1/dead-letters/retry", `{"all":true,"before":"2026-01-01T00:00:00Z","expect":0}`), post("/v1/dead-letters/delete", `{}`),
		post("/v1/dead-letters/retry", `{"all":true,"before":"`+time.Now().UTC().Format(time.RFC3339Nano)+`","expect":0}`),
		post("/v1/dead-letters/"+dead[0]+"/retry", ""), post("/v1/dead-letters/unknown/retry", ""),
		{method: "DELETE", path: "/v1/dead-letters/" + dead[1]}, {method: "DELETE", path: "/v1/dead-letters/unknown"},
		post("/v1/events", `{`), post("/v1/events", `{}`), post("/v1/events", anEvent).with("Content-Type: text/plain"),
		post("/v1/events", `{"type":"`+strings.Repeat("x", 2<<20)+`"}`),
		put("/v1/users/bob/devices/abc", `{}`), get("/v1/users/a%20b/devices"),
	} {
		d.wants(t, c, w.do(c))
	}
	t.Run("with keys", func(t *testing.T) {
		w.mustKey("contacts")
		d.wants(t, get("/v1/stats"), w.get("/v1/stats"))
	})
}
