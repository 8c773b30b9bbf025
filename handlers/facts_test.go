package handlers_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// factList is the answer of GET /v1/facts.
type factList struct {
	Items []api.Fact
	Next  string
	Gap   int64
}

func (w *world) facts200(t *testing.T, query string) (list factList) {
	t.Helper()
	a := w.get("/v1/facts" + query)
	if a.status != 200 {
		t.Fatalf("GET /v1/facts%s: %d %s", query, a.status, a.body)
	}
	storetest.Must(t, json.Unmarshal([]byte(a.body), &list))
	return list
}

// H1: types are turned on as a whole, the answer says from when on, and an unknown type is refused with its name.
func TestH1_TypesAreTurnedOn(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const path = "/v1/facts/types"
	w.get(path).wants(t, 200, `{"types":[]}`)
	before := time.Now()
	a := w.put(path, `{"types":["notification.failed","event.done"]}`)
	var set api.FactTypesSet
	storetest.Must(t, json.Unmarshal([]byte(a.body), &set))
	if ahead := set.Since.Sub(before); a.status != 200 || fmt.Sprint(set.Types) != "[event.done notification.failed]" || ahead < 4*time.Second || ahead > time.Minute {
		t.Errorf("the types are %+v, %v ahead", set, ahead)
	}
	w.get(path).wants(t, 200, a.body)
	w.put(path, `{"types":["event.done","notification.failed"]}`).wants(t, 200, a.body)
	for body, field := range map[string]string{`{"types":["event.gone"]}`: "types[0]", `{}`: "types", `{"types":["event.done","event.done"]}`: "types"} {
		if a := w.put(path, body); a.status != 422 || !strings.Contains(a.body, `"field":"`+field) {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	w.put(path, `{"types":["a","event.done","b"]}`).wants(t, 422,
		`{"type":"*","title":"*","status":422,"detail":"*","code":"validation_failed","retryable":false,"request_id":"*","errors":[`+
			`{"field":"types[0]","rule":"oneof","message":"*"},{"field":"types[2]","rule":"oneof","message":"*"}]}`)
	w.put(path, `{"types":[]}`).wants(t, 200, `{"types":[]}`)
}

// H2: facts are read from a position, which a bad one names.
func TestH2_FactsOverHTTP(t *testing.T) {
	t.Parallel()
	w := setup(t)
	first := w.facts200(t, "?after=now&types=event.done,notification.failed")
	if len(first.Items) != 0 || first.Next == "" || first.Gap != 0 {
		t.Errorf("there are %+v", first)
	}
	began := time.Now()
	if again := w.facts200(t, "?wait_ms=50&after="+first.Next); again.Next != first.Next || time.Since(began) < 50*time.Millisecond {
		t.Errorf("after a wait of %v there are %+v", time.Since(began), again)
	}
	for query, field := range map[string]string{
		"?after=x": "after", "?types=a": "types[0]", "?types=event.done,": "types[1]", "?limit=0": "limit", "?limit=1001": "limit", "?wait_ms=30001": "wait_ms",
	} {
		if a := w.get("/v1/facts" + query); a.status != 422 || !strings.Contains(a.body, `"field":"`+field) {
			t.Errorf("%s: %d %s", query, a.status, a.body)
		}
	}
}
