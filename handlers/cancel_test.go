package handlers_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
)

// N11 over HTTP: a cancel is answered with the report, again with the same, and logged once. An event that is over,
// and one that is unknown, are refused.
func TestN11_CancelOverHTTP(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		id := w.post("/v1/events", anEvent).member(t, "id")
		path := "/v1/events/" + id
		report := `{"id":"` + id + `","type":"photo.shared","state":"cancelled","accepted_at":"*","recipients":0,"notifications":0,
			"delivered":0,"failed":0,"expired":0,"cancelled":0,"retrying":0,"suppressed":{"is_actor":0,"opted_out":0,"muted":0,"no_device":0,"live":0}}`
		for range 2 {
			a := w.post(path+"/cancel", "", "Idempotency-Key: once").wants(t, 200, report)
			if a.header.Get("Idempotent-Replayed") != "" {
				t.Error("the key was kept")
			}
		}
		w.get(path).wants(t, 200, report)
		if list := w.get("/v1/events?state=cancelled").body; !strings.Contains(list, id) {
			t.Errorf("the list is %s", list)
		}
		unknown := queue.NewID(0, time.Now())
		w.post("/v1/events/"+unknown+"/cancel", "").wants(t, 404, problem(api.CodeNotFound, "*"))
		w.post("/v1/events/x/cancel", "").wants(t, 404, problem(api.CodeNotFound, "*"))
		w.post("/v1/events/a%20b/cancel", "").wants(t, 422, problem(api.CodeValidation, "*", `"errors":[{"field":"id","rule":"identifier","message":"*"}]`))
		if got := w.changes(); !slices.Equal(got, []string{"events.cancel " + id + " "}) {
			t.Errorf("N4: changes %q", got)
		}
	})
}
