package handlers_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fanfare/api"
)

func TestBadJobs(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const one, many = queueQ + "/jobs", queueQ + "/jobs/batch"
	long, far := strings.Repeat("x", 129), time.Now().AddDate(0, 0, 31).UTC().Format(time.RFC3339)
	with := func(members string) call { return post(one, `{"type":"mail",`+members+`}`) }
	run(t, w, []bad{
		{"a queue with a space", post("/v1/queues/a%20b/jobs", `{"type":"mail"}`), 422, broken("queue", "identifier", identifierRule)},
		{"a queue of 129 bytes", post("/v1/queues/"+long+"/jobs", `{"type":"mail"}`), 422, broken("queue", "identifier", identifierRule)},
		{"no type", post(one, `{}`), 422, broken("type", "required", "is required")},
		{"a type with a space", post(one, `{"type":"a b"}`), 422, broken("type", "identifier", identifierRule)},
		{"a key of 129 bytes", with(`"key":"` + long + `"`), 422, broken("key", "identifier", identifierRule)},
		{"a unique name with a slash", with(`"unique":"a/b"`), 422, broken("unique", "identifier", identifierRule)},
		{"no attempt", with(`"max_attempts":0`), 422, broken("max_attempts", "min", "must be at least 1")},
		{"1,001 attempts", with(`"max_attempts":1001`), 422, broken("max_attempts", "max", "must be at most 1000")},
		{"more than 30 days ahead", with(`"run_at":"` + far + `"`), 422, broken("run_at", "max", "must be at most 30 days ahead")},
		{"a payload of two values", with(`"payload":1 2`), 400, problem(api.CodeInvalidJSON, "the body is not valid JSON at byte 27")},
		{"a payload with a name twice", with(`"payload":{"a":1,"a":2}`), 400, badJSON("payload.a", "appears twice")},
		{"an unknown field", with(`"queue":"q"`), 400, badJSON("queue", "is not a field of this call")},
		{"an empty batch", post(many, `{"jobs":[]}`), 422, broken("jobs", "min", "must have at least 1 item")},
		{"no batch", post(many, `{}`), 422, broken("jobs", "required", "is required")},
		{"1,001 jobs", post(many, `{"jobs":[`+strings.Repeat(`{"type":"a"},`, 1000)+`{"type":"a"}]}`), 422, broken("jobs", "max", "must have at most 1000 items")},
		{"a bad job in a batch", post(many, `{"jobs":[{"type":"a"},{"type":"a","key":" "}]}`), 422, broken("jobs[1].key", "identifier", identifierRule)},
		{"a large payload in a batch", post(many, `{"jobs":[{"type":"a","payload":"`+strings.Repeat("x", api.MaxJobPayload)+`"}]}`), 422, broken("jobs[0].payload", "max", "must be at most 61440 bytes as JSON")},
		{"a batch of one too far ahead", post(many, `{"jobs":[{"type":"a","run_at":"`+far+`"}]}`), 422, broken("jobs[0].run_at", "max", "must be at most 30 days ahead")},
		{"one of a batch too far ahead", post(many, `{"jobs":[{"type":"a"},{"type":"a","run_at":"`+far+`"}]}`), 422, broken("jobs[1].run_at", "max", "must be at most 30 days ahead")},
		{"a job's id with a space", get("/v1/jobs/a%20b"), 422, broken("id", "job_id", strings.Replace(identifierRule, "128", "256", 1))},
		{"a job's id of 257 bytes", call{method: "DELETE", path: "/v1/jobs/" + strings.Repeat("x", 257)}, 422, broken("id", "job_id", strings.Replace(identifierRule, "128", "256", 1))},
		{"a queue with a brace", get("/v1/queues/%7Bq%7D"), 422, broken("queue", "identifier", identifierRule)},
		{"a pause with a body", post(queueQ+"/pause", `{"for":1}`), 400, badJSON("for", "is not a field of this call")},
	})
}

func TestBadClaims(t *testing.T) {
	t.Parallel()
	w := setup(t)
	claim := func(members string) call { return post(queueQ+"/claims", `{"worker":"w",`+members+`}`) }
	types := make([]string, 101)
	for i := range types {
		types[i] = fmt.Sprintf(`"t%d"`, i)
	}
	run(t, w, []bad{
		{"no worker", post(queueQ+"/claims", `{}`), 422, broken("worker", "required", "is required")},
		{"no body", post(queueQ+"/claims", "").with("Content-Type: application/json"), 400, problem(api.CodeInvalidJSON, "the body is empty; this call takes a JSON object")},
		{"a worker with a space", post(queueQ+"/claims", `{"worker":"a b"}`), 422, broken("worker", "identifier", identifierRule)},
		{"no types", claim(`"types":[]`), 422, broken("types", "min", "must have at least 1 item")},
		{"101 types", claim(`"types":[` + strings.Join(types, ",") + `]`), 422, broken("types", "max", "must have at most 100 items")},
		{"a type twice", claim(`"types":["a","a"]`), 422, broken("types", "unique", "must name each value once")},
		{"a type with a space", claim(`"types":["a","b c"]`), 422, broken("types[1]", "identifier", identifierRule)},
		{"no job", claim(`"max":0`), 422, broken("max", "min", "must be at least 1")},
		{"101 jobs", claim(`"max":101`), 422, broken("max", "max", "must be at most 100")},
		{"a lease of nothing", claim(`"lease_ms":0`), 422, broken("lease_ms", "min", "must be at least 1")},
		{"a lease of more than a day", claim(`"lease_ms":86400001`), 422, broken("lease_ms", "max", "must be at most 86400000")},
		{"a wait below zero", claim(`"wait_ms":-1`), 422, broken("wait_ms", "min", "must be at least 0")},
		{"a wait that is too long", claim(`"wait_ms":30001`), 422, broken("wait_ms", "max", "must be at most 30000")},
	})
}

func TestBadResults(t *testing.T) {
	t.Parallel()
	w := setup(t)
	results := func(list string) call { return post(queueQ+"/results", `{"results":[`+list+`]}`) }
	with := func(outcome, members string) call {
		return results(`{"id":"q.x","token":"1","outcome":"complete"},{"id":"q.y","token":"1","outcome":"` + outcome + `",` + members + `}`)
	}
	table := []bad{
		{"no results", post(queueQ+"/results", `{}`), 422, broken("results", "required", "is required")},
		{"an empty list", results(""), 422, broken("results", "min", "must have at least 1 item")},
		{"101 results", results(strings.Repeat(`{"id":"a","token":"1","outcome":"fail"},`, 100) + `{"id":"a","token":"1","outcome":"fail"}`), 422, broken("results", "max", "must have at most 100 items")},
		{"no id", results(`{"token":"1","outcome":"fail"}`), 422, broken("results[0].id", "required", "is required")},
		{"an id with a space", results(`{"id":"a b","token":"1","outcome":"fail"}`), 422, broken("results[0].id", "job_id", strings.Replace(identifierRule, "128", "256", 1))},
		{"no token", results(`{"id":"a","outcome":"fail"}`), 422, broken("results[0].token", "required", "is required")},
		{"a token of 129 bytes", results(`{"id":"a","token":"` + strings.Repeat("1", 129) + `","outcome":"fail"}`), 422, broken("results[0].token", "max", "must be at most 128 bytes")},
		{"no outcome", results(`{"id":"a","token":"1","error":"x"}`), 422, broken("results[0].outcome", "required", "is required")},
		{"another outcome", results(`{"id":"a","token":"1","outcome":"done"}`), 422, broken("results[0].outcome", "oneof", "must be one of complete, fail, release, renew")},
		{"a wait below zero", with("fail", `"retry_after_ms":-1`), 422, broken("results[1].retry_after_ms", "min", "must be at least 0")},
		{"a wait of more than 30 days", with("fail", `"retry_after_ms":2592000001`), 422, broken("results[1].retry_after_ms", "max", "must be at most 2592000000")},
		{"a lease of nothing", with("renew", `"lease_ms":0`), 422, broken("results[1].lease_ms", "min", "must be at least 1")},
		{"a lease of more than a day", with("renew", `"lease_ms":86400001`), 422, broken("results[1].lease_ms", "max", "must be at most 86400000")},
	}
	for member, only := range map[string][]string{`"error":"x"`: {"fail"}, `"retry_after_ms":5`: {"fail", "release"}, `"lease_ms":5`: {"renew"}} {
		for _, outcome := range []string{"complete", "fail", "release", "renew"} {
			name, _, _ := strings.Cut(strings.Trim(member, `"`), `"`)
			if list := strings.Join(only, " or "); !strings.Contains(list, outcome) {
				table = append(table, bad{outcome + " with " + name, with(outcome, member), 422, broken("results[1]."+name, "outcome", "goes only with the outcome "+list)})
				continue
			}
			w.do(with(outcome, member)).wants(t, 200, `{"results":[{"id":"q.x","status":"job_lost"},{"id":"q.y","status":"job_lost"}]}`)
		}
	}
	run(t, w, table)
}

// A key with none of the scopes of a call is refused, and is told the first of them.
func TestScopesOfQueues(t *testing.T) {
	t.Parallel()
	w := setup(t)
	other := "Authorization: Bearer " + w.mustKey(api.ScopeChat)
	for _, c := range []call{get("/v1/jobs/q.x"), get("/v1/queues"), get(queueQ), get(queueQ + "/series"), post(queueQ+"/pause", ""), post(queueQ+"/resume", "")} {
		w.do(c.with(other)).wants(t, 403, problem(api.CodeForbidden, "this API key lacks the scope jobs", `"scope":"jobs"`))
	}
}
