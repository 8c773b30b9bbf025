package console_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/console"
)

// setup makes a console of an open server whose routes answer with fixed texts, by path and query.
func setup(t *testing.T, answers map[string]any) http.Handler {
	t.Helper()
	routes := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.RequestURI()]
		if !ok {
			t.Errorf("the page asks for %s", r.URL.RequestURI())
		}
		_ = json.NewEncoder(w).Encode(answer)
	})
	return console.New(console.Options{
		Routes: routes, As: func(ctx context.Context, _ string) context.Context { return ctx }, HasKeys: func() bool { return false },
	})
}

// A chart has a line for each figure, which is interrupted where nobody knows the figure and where minutes
// are missing, and a table has the numbers. Alarms are added up by kind.
func TestHistory(t *testing.T) {
	t.Parallel()
	at := func(minute int) api.Time { return api.At(time.Date(2026, 1, 2, 3, minute, 0, 0, time.UTC)) }
	ms := func(f float64) *float64 { return &f }
	h := setup(t, map[string]any{"/v1/stats/series?minutes=360": api.StatsSeries{Items: []api.StatsMinute{
		{At: at(0), Accepted: 0, P50MS: ms(5), Alarms: map[string]int64{"storm": 2}},
		{At: at(1), Accepted: 1200, Alarms: map[string]int64{"storm": 1, "no_app": 1}},
		{At: at(2), Accepted: 600, P50MS: ms(10), Platforms: map[string]api.PlatformMinute{"fcm": {Delivered: 7, Failed: 1}}},
		{At: at(4), Accepted: 0, P50MS: ms(10)},
	}}})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/console/history?minutes=360", nil))
	for _, want := range []string{
		`d="M0.0 134.0L225.0 24.0L450.0 79.0M900.0 134.0"`, // accepted
		`d="M0.0 79.0M450.0 24.0M900.0 24.0"`,              // the median
		"at most 1\u202f200", "delivered by fcm", "fcm 7, 1", "2026-01-02 03:04:00",
		`<th scope="row">storm</th><td class="n">3</td>`, `<th scope="row">no_app</th><td class="n">1</td>`,
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("the page lacks %s: %s", want, w.Body)
		}
	}
}
