package console_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"fanfare/api"
)

// N23: the list has how far each webhook has come. Of one about which nobody can say that now it says so, and one that is deleted
// meanwhile is left out.
func TestN23_HowFarWebhooksHaveCome(t *testing.T) {
	t.Parallel()
	at := api.At(time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC))
	hook := func(id string) api.Webhook {
		return api.Webhook{ID: id, URL: "https://" + id + ".example.com/", Types: []string{"event.done"}, State: api.WebhookOn, SecretAt: at, CreatedAt: at, UpdatedAt: at}
	}
	h := setup(t, map[string]any{
		"/v1/webhooks?limit=20": api.WebhookList{Items: []api.Webhook{hook("late"), hook("away"), hook("busy"), hook("deleted")}, Next: "further"},
		"/v1/webhooks/busy":     api.WebhookStatus{Webhook: hook("busy"), LagMS: 185_000, LagAtMost: true},
		"/v1/webhooks/late":     api.WebhookStatus{Webhook: hook("late"), LagMS: 185_000, FailingSince: &at, LastAnswer: &api.WebhookAnswer{Status: 503, TookMS: 12, At: &at}},
		"/v1/webhooks/away":     api.Problem{Status: 503, Code: api.CodeUnavailable, Retryable: true},
		"/v1/webhooks/deleted":  api.Problem{Status: 404, Code: api.CodeNotFound},
	})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/console/webhooks", nil))
	body := w.Body.String()
	for _, want := range []string{
		`<td class="n bad">3 min</td><td class="wide">503 after 12 ms, <time datetime="2026-01-02T15:04:05Z">2026-01-02 15:04:05</time></td><td class="bad"><time`,
		`https://away.example.com/</td><td>event.done</td><td class="n">not known</td>`, `<td class="n">at most 3 min</td>`, `href="./webhooks?cursor=further"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %s: %s", want, body)
		}
	}
	if w.Code != 200 || strings.Contains(body, "deleted.example.com") {
		t.Errorf("%d %s", w.Code, body)
	}
}
