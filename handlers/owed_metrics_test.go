package handlers_test

import (
	"regexp"
	"strings"
	"testing"

	"fanfare/store/storetest"
)

// The backlogs of contacts and sales are in /metrics, as they are in the stats.
func TestOwedMetrics(t *testing.T) {
	t.Parallel()
	w := setup(t) // no process works on the jobs
	text := w.scrape(t, "fanfare_contacts_pending")
	for _, want := range []string{"fanfare_contacts_pending 0", "fanfare_contacts_lag_seconds 0", "fanfare_sale_waiting_orders 0", "fanfare_sale_orders_lag_seconds 0", "fanfare_sale_oversold_units 0", "fanfare_sale_open_sales 0", "fanfare_sale_unread_sales 0",
		"fanfare_ready 1"} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %s", want)
		}
	}

	w = setup(t)
	w.post("/v1/uploads", `{"id":"photo-1","owner":"bob","visibility":"public"}`)
	w.put("/v1/sales/s", saleBody(`[{"sku":"a","stock":3}]`, `"hold_ms":0`))
	w.post("/v1/sales/s/reservations", `{"user":"u","lines":[{"sku":"a","quantity":1}]}`)
	stats := w.get("/v1/stats").body
	text = w.scrape(t, "fanfare_contacts_pending")
	for name, want := range map[string]string{"fanfare_contacts_pending": `"pending":(\d+)`, "fanfare_sale_waiting_orders": `"waiting_orders":(\d+)`} {
		n := regexp.MustCompile(want).FindStringSubmatch(stats)
		if n == nil || n[1] == "0" || !strings.Contains(text, "\n"+name+" "+n[1]+"\n") {
			t.Errorf("%s is not that of %s", name, stats)
		}
	}
	if !strings.Contains(text, "\nfanfare_sale_open_sales 1\n") {
		t.Error("the sale is not open")
	}
	if !regexp.MustCompile(`fanfare_contacts_lag_seconds 0\.\d|fanfare_contacts_lag_seconds [1-9]`).MatchString(text) {
		t.Error("no lag of contacts")
	}
	t.Run("WithoutSQL", func(t *testing.T) {
		alone := setup(t)
		storetest.Must(t, alone.record.Close())
		text := alone.scrape(t, "fanfare_sale_waiting_orders")
		if strings.Contains(text, "fanfare_contacts_") || !strings.Contains(text, "fanfare_sale_waiting_orders 0") {
			t.Error("figures of contacts though nobody could read them")
		}
		if stats := alone.get("/v1/stats"); stats.status != 200 || strings.Contains(stats.body, `"contacts"`) || !strings.Contains(stats.body, `"waiting_orders":0`) {
			t.Errorf("stats: %d %s", stats.status, stats.body)
		}
	})
}
