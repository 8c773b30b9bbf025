package console_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"fanfare/api"
)

// N22: the page of an object has the update or end that began last.
func TestN22_LastUpdateOfAnObject(t *testing.T) {
	t.Parallel()
	at := api.At(time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC))
	h := setup(t, map[string]any{"/v1/live/match:7": api.LiveObject{
		Object: "match:7", Activities: map[string]int64{"apns": 99_000, "fcm": 1000}, More: true,
		Last: &api.LiveLast{Event: "01HZX", Action: api.LiveEnd, At: at, Timestamp: 1_767_366_245},
	}})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/console/objects/match:7", nil))
	for _, want := range []string{
		`<h1>Object match:7</h1>`, "<td class=\"n\">99\u202f000</td>", "There may be more", `<span class="state end">end</span>`, "2026-01-02 15:04:05", "1767366245",
		`href="./../events/01HZX"`, "The object has no channel.",
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("the page lacks %s: %s", want, w.Body)
		}
	}
}
