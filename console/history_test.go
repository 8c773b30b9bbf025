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
		if p, ok := answer.(api.Problem); ok {
			w.WriteHeader(p.Status)
		}
		_ = json.NewEncoder(w).Encode(answer)
	})
	return console.New(console.Options{
		Routes: routes, As: func(ctx context.Context, _ string) context.Context { return ctx }, HasKeys: func() bool { return false },
	})
}

// A chart has a line for each figure, which is interrupted where nobody knows the figure and where minutes
// are missing; a minute without a neighbour is a dot. The axis is as long as the heading says. A table has the
// numbers. Alarms are added up by kind.
func TestHistory(t *testing.T) {
	t.Parallel()
	ms := func(f float64) *float64 { return &f }
	var body string
	var last time.Time
	for minute := (time.Time{}); !minute.Equal(time.Now().Truncate(time.Minute)); { // again if a minute ended meanwhile
		minute = time.Now().Truncate(time.Minute)
		last = minute.Add(-time.Minute)
		at := func(back int) api.Time { return api.At(last.Add(-time.Duration(back) * time.Minute)) }
		h := setup(t, map[string]any{"/v1/stats/series?minutes=360": api.StatsSeries{Items: []api.StatsMinute{
			{At: at(300), Accepted: 0, P50MS: ms(5), Alarms: map[string]int64{"storm": 2}},
			{At: at(299), Accepted: 1200, Alarms: map[string]int64{"storm": 1, "no_app": 1}},
			{At: at(298), Accepted: 600, Failed: 1, P50MS: ms(10), P99MS: ms(288_925.41), Platforms: map[string]api.PlatformMinute{"fcm": {Delivered: 7, Failed: 1}}},
			{At: at(0), Accepted: 0, Opened: 29, Superseded: 31, P50MS: ms(10), Platforms: map[string]api.PlatformMinute{"apns": {Superseded: 31}}},
		}}})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/console/history?minutes=360", nil))
		body = w.Body.String()
	}
	first := last.Add(-359 * time.Minute).UTC()
	begin := first.Format("15:04")
	if first.YearDay() != last.UTC().YearDay() {
		begin = first.Format("2 Jan 15:04")
	}
	for _, want := range []string{
		`d="M147.9 134.0L150.4 24.0L152.9 79.0"/><path class="line dot series-1" d="M900.0 134.0h0"/>`, // accepted
		`d=""/><path class="line dot series-1" d="M147.9 79.0h0M152.9 24.0h0M900.0 24.0h0"/>`,          // the median
		`class="line series-bad"`,
		`<text x="0" y="154" text-anchor="start">` + begin + `</text>`, `<text x="900" y="154" text-anchor="end">` + last.UTC().Format("15:04") + `</text>`,
		"at most 1\u202f200", "at most 4.8 min", `<td class="n">4.8 min</td>`, "delivered by fcm", "fcm 7, 1", `<td class="n">31</td>`, `<td class="n">29</td>`, `<span class="key key-4"></span> users who opened one`, `<span class="key key-3"></span> superseded`, last.UTC().Format("2006-01-02 15:04:05"),
		`<th scope="row">storm</th><td class="n">3</td>`, `<th scope="row">no_app</th><td class="n">1</td>`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %s: %s", want, body)
		}
	}
}
