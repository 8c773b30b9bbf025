package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// A server with embedded Redis says what a stop loses and what it keeps, and that is right.
func TestEmbeddedStop(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := mustServe(t, dir)
	note := "Redis is embedded, in this one process: a stop loses queued work and dead letters, reports of events, chats, " +
		"open holds of sales and Idempotency-Keys of events, chats and sales; the database keeps event types, devices, preferences, contacts, uploads, sales, orders, API keys, and the keys and revocations of user tokens"
	if _, body, err := p.try("GET", "/readyz", nil); err != nil || !strings.Contains(string(body), note) {
		t.Errorf("readyz: %s %v", body, err)
	} else if strings.Contains(string(body), dir) {
		t.Errorf("readyz tells callers without a key where the database is: %s", body)
	}
	storetest.Eventually(t, 30*time.Second, "the note at start", func() bool { return strings.Contains(p.stderr.String(), note) })

	p.must(201, nil, "PUT", "/v1/event-types/hello", map[string]any{"title": "Hello"})
	p.must(201, nil, "PUT", "/v1/users/bob/devices/"+deviceToken(1), map[string]string{"platform": "apns", "topic": "com.example.app", "environment": "sandbox"})
	p.must(204, nil, "PUT", "/v1/users/bob/opt-outs/other", nil)
	p.must(204, nil, "PUT", "/v1/users/bob/mutes/album", map[string]any{})
	p.must(201, nil, "PUT", "/v1/users/carol/contacts/bob", map[string]any{"relationship": "friend"})
	p.must(202, nil, "POST", "/v1/uploads", map[string]any{"id": "photo", "owner": "bob", "visibility": "public"})
	p.must(201, nil, "POST", "/v1/chats", map[string]any{"id": "team", "creator": "alice", "members": []string{"bob"}, "message": "hello"})
	p.must(201, nil, "PUT", "/v1/sales/spring", map[string]any{"items": []any{map[string]any{"sku": "a", "stock": 5}}, "starts_at": "2026-01-01T00:00:00Z", "ends_at": "2099-01-01T00:00:00Z"})
	reserve := func() string {
		var made struct{ ID string }
		p.must(201, &made, "POST", "/v1/sales/spring/reservations", map[string]any{"user": "alice", "lines": []any{map[string]any{"sku": "a", "quantity": 1}}})
		return made.ID
	}
	sold := reserve()
	p.must(200, nil, "POST", "/v1/sales/spring/reservations/"+sold+"/confirm", nil)
	reserve() // and hold it
	orders := func() (list struct {
		Items []struct{ Reservation string }
	}) {
		p.must(200, &list, "GET", "/v1/sales/spring/orders", nil)
		return list
	}
	storetest.Eventually(t, 30*time.Second, "the order on record", func() bool { return len(orders().Items) == 1 })
	var event struct{ ID string }
	p.must(202, &event, "POST", "/v1/events", map[string]any{"type": "hello", "audience": map[string]any{"users": []string{"bob"}}}, "Idempotency-Key", "once")
	p.must(200, nil, "GET", "/v1/events/"+event.ID, nil)
	if code, _ := p.terminate(); code != 0 {
		t.Fatalf("exit code %d", code)
	}

	p = mustServe(t, dir)
	p.must(404, nil, "GET", "/v1/events/"+event.ID, nil)
	p.must(404, nil, "GET", "/v1/chats/team", nil)
	var again struct{ ID string }
	p.must(202, &again, "POST", "/v1/events", map[string]any{"type": "hello", "audience": map[string]any{"users": []string{"bob"}}}, "Idempotency-Key", "once")
	if again.ID == event.ID {
		t.Error("the key of the event was kept")
	}
	var settings struct {
		OptOuts []string `json:"opt_outs"`
		Mutes   []any
		Devices []any
	}
	p.must(200, &settings, "GET", "/v1/users/bob/notification-settings", nil)
	if len(settings.OptOuts) != 1 || len(settings.Mutes) != 1 || len(settings.Devices) != 1 {
		t.Errorf("settings: %+v", settings)
	}
	p.must(200, nil, "GET", "/v1/event-types/hello", nil)
	var recent struct{ Items []any }
	storetest.Eventually(t, 30*time.Second, "contacts and uploads", func() bool {
		p.must(200, &recent, "GET", "/v1/users/carol/recent-contacts", nil)
		return len(recent.Items) == 1
	})
	var sale struct {
		Items []struct{ Total, Available, Held, Sold int }
	}
	p.must(200, &sale, "GET", "/v1/sales/spring", nil)
	if got := fmt.Sprint(sale.Items); got != "[{5 4 0 1}]" {
		t.Errorf("total, available, held and sold: %s", got)
	}
	if list := orders(); len(list.Items) != 1 || list.Items[0].Reservation != sold {
		t.Errorf("orders: %+v", list)
	}
}
