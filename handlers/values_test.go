package handlers_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"fanfare/api"
)

const valueX, counterX = "/v1/values/x", "/v1/counters/x"

// version is the version in an answer.
func (a answer) version(t testing.TB) (version int64) {
	t.Helper()
	var got struct {
		Version int64 `json:"version"`
	}
	if err := json.Unmarshal([]byte(a.body), &got); err != nil || got.Version == 0 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	return got.Version
}

func otherValue(version int64, value string) string {
	facts := []string{fmt.Sprintf(`"version":%d`, version)}
	if value != "" {
		facts = append([]string{`"value":` + value}, facts...)
	}
	return problem(api.CodeVersionMismatch, "the value is not the one that the condition asks for", facts...)
}

func TestV1_ValuesOverHTTP(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		w.get(valueX).wants(t, 404, problem(api.CodeNotFound, "there is no such value"))
		made := w.put(valueX, `{"value": {"a": [1, "\u00e4"]}}`)
		made.wants(t, 201, `{"version":"*"}`)
		first := made.version(t)
		tag := fmt.Sprintf(`"%d"`, first)
		if made.header.Get("ETag") != tag {
			t.Errorf("the ETag is %s", made.header.Get("ETag"))
		}
		w.get(valueX).wants(t, 200, fmt.Sprintf(`{"value":{"a":[1,"ä"]},"version":%d}`, first))
		if a := w.do(get(valueX).with("If-None-Match: " + tag)); a.status != 304 || a.body != "" {
			t.Errorf("%d %s", a.status, a.body)
		}
		w.do(put(valueX, `{"value":2}`).with("If-None-Match: *")).wants(t, 412, otherValue(first, `{"a":[1,"ä"]}`))
		second := w.do(put(valueX, `{"value":2}`).with("If-Match: " + tag))
		second.wants(t, 200, `{"version":"*"}`)
		refused := w.do(put(valueX, `{"value":3}`).with("If-Match: " + tag))
		refused.wants(t, 412, otherValue(second.version(t), "2"))
		if refused.header.Get("ETag") != second.header.Get("ETag") {
			t.Errorf("a refusal has the ETag %s", refused.header.Get("ETag"))
		}
		w.do(call{method: "DELETE", path: valueX, headers: []string{"If-Match: " + tag}}).wants(t, 412, otherValue(second.version(t), "2"))
		for range 2 {
			w.do(call{method: "DELETE", path: valueX}).wants(t, 204, "")
		}
		w.do(put(valueX, `{"value":3}`).with("If-Match: *")).wants(t, 412, otherValue(0, ""))
		if third := w.put(valueX, `{"value":3,"ttl_seconds":1000}`).version(t); third <= second.version(t) {
			t.Errorf("version %d after a deletion, %d before", third, second.version(t))
		}
	})
}

func TestV1_AWaitOverHTTP(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		first := w.put(valueX, `{"value":1}`).version(t)
		wait := func(ms int) string { return fmt.Sprintf("%s?version=%d&wait_ms=%d", valueX, first, ms) }
		got := make(chan answer)
		go func() {
			a, err := w.try(get(wait(30_000)))
			if err != nil {
				t.Error(err)
			}
			got <- a
		}()
		w.awaitStreams(t, 1)
		second := w.put(valueX, `{"value":2}`).version(t)
		(<-got).wants(t, 200, fmt.Sprintf(`{"value":2,"version":%d}`, second))
		w.get(wait(30_000)).wants(t, 200, fmt.Sprintf(`{"value":2,"version":%d}`, second))
		first = second
		w.get(wait(1)).wants(t, 200, fmt.Sprintf(`{"value":2,"version":%d}`, second))
		w.get("/v1/values/none?version=0&wait_ms=1").wants(t, 404, problem(api.CodeNotFound, "there is no such value"))
		w.get(valueX+"?version=1").wants(t, 200, fmt.Sprintf(`{"value":2,"version":%d}`, second))

		// A wait ends when the process stops.
		go func() {
			a, err := w.try(get(wait(30_000)))
			if err != nil {
				t.Error(err)
			}
			got <- a
		}()
		w.awaitStreams(t, 1)
		w.stopping()
		(<-got).wants(t, 200, fmt.Sprintf(`{"value":2,"version":%d}`, second))
	})
}

// A key that is revoked while its caller waits reads nothing more.
func TestAWaitForAValueAndARevokedKey(t *testing.T) {
	t.Parallel()
	w := setup(t)
	boss, reader := w.mustKey(api.ScopeAdmin), w.mustKey(api.ScopeValuesRead)
	as := func(key string) string { return "Authorization: Bearer " + key }
	first := w.do(put(valueX, `{"value":1}`).with(as(boss))).version(t)
	got := make(chan answer)
	go func() {
		a, err := w.try(get(fmt.Sprintf("%s?version=%d&wait_ms=30000", valueX, first)).with(as(reader)))
		if err != nil {
			t.Error(err)
		}
		got <- a
	}()
	w.awaitStreams(t, 1)
	w.mustRevokeOthers()
	w.do(put(valueX, `{"value":2}`).with(as(boss))).wants(t, 200, `{"version":"*"}`)
	if a := <-got; a.status != 401 || strings.Contains(a.body, "value\":2") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func outside(value int) string {
	return problem(api.CodeBounds, "the counter would leave its bounds", fmt.Sprintf(`"value":%d`, value))
}

func TestV1_CountersOverHTTP(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		w.get(counterX).wants(t, 404, problem(api.CodeNotFound, "there is no such counter"))
		w.post(counterX+"/add", `{"delta":1}`).wants(t, 404, problem(api.CodeNotFound, "there is no such counter"))
		for n, status := range []int{201, 200} {
			body := fmt.Sprintf(`{"value":%d,"min":0,"max":10,"local":"off"}`, n)
			w.put(counterX, body).wants(t, status, body)
		}
		w.post(counterX+"/add", `{"delta":8}`).wants(t, 200, `{"value":9,"applied":8}`)
		w.post(counterX+"/add", `{"delta":2}`).wants(t, 409, outside(9))
		w.post(counterX+"/add", `{"delta":2,"saturate":true}`).wants(t, 200, `{"value":10,"applied":1}`)
		w.post(counterX+"/add", `{"delta":-11}`).wants(t, 409, outside(10))
		key := "Idempotency-Key: k"
		for _, replayed := range []string{"", "true"} {
			a := w.post(counterX+"/add", `{"delta":-3}`, key)
			a.wants(t, 200, `{"value":7,"applied":-3}`)
			if a.header.Get("Idempotent-Replayed") != replayed {
				t.Errorf("replayed: %q", a.header.Get("Idempotent-Replayed"))
			}
		}
		w.post(counterX+"/add", `{"delta":-4}`, key).wants(t, 422, problem(api.CodeIdempotencyReused, "this Idempotency-Key was used with another body"))
		w.get(counterX).wants(t, 200, `{"value":7,"min":0,"max":10,"local":"off"}`)

		soon := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
		w.put(counterX, `{"value":0,"starts_at":"`+soon+`"}`).wants(t, 200, `{"value":0,"starts_at":"*"}`)
		w.post(counterX+"/add", `{"delta":1}`).wants(t, 409, problem(api.CodeNotStarted, "the counter has not started", `"retry_after_ms":"*"`))
		w.put(counterX, `{"value":0,"ends_at":"2001-01-01T00:00:00Z","idle_ms":100000}`).wants(t, 200, `{"value":0,"ends_at":"2001-01-01T00:00:00.000Z","idle_ms":100000}`)
		w.post(counterX+"/add", `{"delta":1}`).wants(t, 410, problem(api.CodeEnded, "the counter has ended"))
		w.get(counterX).wants(t, 200, `{"value":0,"ends_at":"2001-01-01T00:00:00.000Z","idle_ms":100000}`)
		for range 2 {
			w.do(call{method: "DELETE", path: counterX}).wants(t, 204, "")
		}
		w.get(counterX).wants(t, 404, problem(api.CodeNotFound, "there is no such counter"))
	})
}

func TestBadValuesAndCounters(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(counterX, `{"value":1}`)
	long := func(n int) string { return `{"value":"` + strings.Repeat("x", n-2) + `"}` }
	w.put(valueX, long(16<<10)).wants(t, 201, `{"version":"*"}`)
	run(t, w, []bad{
		{"a name with a space", put("/v1/values/a%20b", `{"value":1}`), 422, broken("value", "identifier", identifierRule)},
		{"no value", put(valueX, `{}`), 422, broken("value", "required", "is required")},
		{"null", put(valueX, `{"value":null}`), 422, broken("value", "required", "is required")},
		{"a value that is too long", put(valueX, long(16<<10+1)), 422, broken("value", "max", "must be at most 16384 bytes as JSON")},
		{"no lifetime", put(valueX, `{"value":1,"ttl_seconds":0}`), 422, broken("ttl_seconds", "min", "must be at least 1")},
		{"a lifetime that is too long", put(valueX, `{"value":1,"ttl_seconds":2592001}`), 422, broken("ttl_seconds", "max", "must be at most 2592000")},
		{"no ETag", put(valueX, `{"value":1}`).with("If-Match: 1"), 422, broken("If-Match", "etag", `must be ETags such as "7" or "7", "8", or *`)},
		{"two names of a member", put(valueX, `{"value":{"a":1,"a":2}}`), 400, badJSON("value.a", "appears twice")},
		{"a wait without a version", get(valueX + "?wait_ms=1"), 422, broken("version", "required", "is required with wait_ms")},
		{"a wait that is too long", get(valueX + "?version=1&wait_ms=30001"), 422, broken("wait_ms", "max", "must be at most 30000")},
		{"a version below zero", get(valueX + "?version=-1"), 422, broken("version", "min", "must be at least 0")},

		{"no number", put(counterX, `{}`), 422, broken("value", "required", "is required")},
		{"a fraction", put(counterX, `{"value":1.5}`), 400, badJSON("value", "must be an integer, not the number 1.5")},
		{"a number that is too large", put(counterX, `{"value":9007199254740992}`), 422, broken("value", "max", "must be at most 9007199254740991")},
		{"bounds the wrong way round", put(counterX, `{"value":1,"min":2,"max":1}`), 422, broken("max", "min", "must be at least 2")},
		{"a number below the bound", put(counterX, `{"value":1,"min":2}`), 422, broken("value", "min", "must be at least 2")},
		{"a number above the bound", put(counterX, `{"value":3,"max":2}`), 422, broken("value", "max", "must be at most 2")},
		{"an end before the start", put(counterX, `{"value":3,"starts_at":"2026-01-02T00:00:00Z","ends_at":"2026-01-02T00:00:00Z"}`), 422, broken("ends_at", "after", "must be after starts_at")},
		{"another word", put(counterX, `{"value":3,"local":"on"}`), 422, broken("local", "oneof", "must be one of off")},
		{"no idle time", put(counterX, `{"value":3,"idle_ms":0}`), 422, broken("idle_ms", "min", "must be at least 1")},
		{"an add of nothing that was said", post(counterX+"/add", `{}`), 422, broken("delta", "required", "is required")},
		{"an add that is too large", post(counterX+"/add", `{"delta":-9007199254740992}`), 422, broken("delta", "min", "must be at least -9007199254740991")},
		{"an unknown field", post(counterX+"/add", `{"by":1}`), 400, badJSON("by", "is not a field of this call")},
	})
	w.get(counterX).wants(t, 200, `{"value":1}`)
}
