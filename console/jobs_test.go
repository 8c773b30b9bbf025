package console_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"fanfare/api"
)

// The page of a queue draws its last hour, and has the numbers in a table.
func TestN20_TheLastHourOfAQueue(t *testing.T) {
	t.Parallel()
	series := api.JobQueueSeries{Items: make([]api.JobMinute, 60)}
	first := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	for i := range series.Items {
		series.Items[i].At = api.At(first.Add(time.Duration(i) * time.Minute))
	}
	series.Items[0].JobCounts = api.JobCounts{Enqueued: 2000, Done: 1000}
	series.Items[59].JobCounts = api.JobCounts{Enqueued: 1000, Retries: 400, Recovered: 7, Dead: 100}
	queue := api.JobQueue{Queue: "q", Done: 5000, LastHour: api.JobCounts{Enqueued: 3001, Done: 1002, Retries: 400, Recovered: 7, Dead: 100}}
	h := setup(t, map[string]any{"/v1/queues/q": queue, "/v1/queues/q/series": series})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/console/queues/q", nil))
	for _, want := range []string{
		`series-1" d="M0.0 24.0L15.3 134.0`, `L884.7 134.0L900.0 79.0"/>`, `series-2" d="M0.0 79.0L15.3 134.0`, `series-bad" d="M0.0 134.0L15.3 134.0`, `L884.7 134.0L900.0 106.5"/>`,
		"at most 2\u202f000", `text-anchor="start">15:00<`, `text-anchor="end">15:59<`,
		"<dt>Enqueued</dt><dd>3\u202f001</dd>", "<dt>Done</dt><dd>1\u202f002</dd>", `<dt>Failed</dt><dd class="bad">500</dd>`, "<dt>Done</dt><dd>5\u202f000</dd>",
		"2026-01-02 15:59:00</time></th><td class=\"n\">1\u202f000</td><td class=\"n\">0</td><td class=\"n\">400</td><td class=\"n\">7</td><td class=\"n bad\">100</td>",
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("the page lacks %s: %s", want, w.Body)
		}
	}
}
