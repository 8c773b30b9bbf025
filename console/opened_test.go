package console_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"fanfare/api"
)

// O2: the page of an event shows who opened and who dismissed it beside what was delivered, if its type counts that.
func TestO2_OpenedBesideDelivered(t *testing.T) {
	t.Parallel()
	page := func(opened, dismissed *int64) string {
		h := setup(t, map[string]any{"/v1/events/01HZX": api.EventReport{ID: "01HZX", Type: "photo.shared", State: api.EventDone, Recipients: new(int64(9)),
			PlatformCounts: api.PlatformCounts{Notifications: 9, Delivered: 8}, Opened: opened, Dismissed: dismissed}})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/console/events/01HZX", nil))
		return w.Body.String()
	}
	const delivered = `<div><dt>Delivered</dt><dd>8</dd></div>`
	if with := page(new(int64(5)), new(int64(0))); !strings.Contains(with, delivered+`<div><dt>Opened</dt><dd>5</dd></div><div><dt>Dismissed</dt><dd>0</dd></div>`) {
		t.Errorf("the page is %s", with)
	}
	if without := page(nil, nil); !strings.Contains(without, delivered) || strings.Contains(without, "Opened") || strings.Contains(without, "Dismissed") {
		t.Errorf("the page is %s", without)
	}
}
