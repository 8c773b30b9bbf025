package e2e

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// S9 and S17: a master is cut off and still takes writes from one process after its replica was
// promoted for the other process. No caller gets a success for a change of stock that is not on
// record, each change is in the total once, and an order that the first master sold shows on the
// second within 60 s.
func TestSaleOnTwoMasters(t *testing.T) {
	t.Parallel()
	first := storetest.Redis(t)
	second := storetest.Redis(t, "--replicaof", fmt.Sprintf("127.0.0.1 %d", first.Port()))
	record := "FANFARE_DATABASE_URL=" + storetest.MySQL(t)
	cut := mustServeMany(t, 1, quick("FANFARE_REDIS_URL="+first.URL(), record)...)[0]
	const sale = "/v1/sales/masters"
	cut.putSale("masters", -time.Hour, time.Hour, 60_000)
	if n, err := first.Wait(t.Context(), 1, time.Minute); err != nil || n != 1 {
		t.Fatalf("%d replicas, %v", n, err)
	}
	alone := second.Client()
	storetest.Must(t, alone.ReplicaOf(t.Context(), "no", "one").Err())
	promoted := mustServeMany(t, 1, quick("FANFARE_REDIS_URL="+second.URL(), record)...)[0]
	promoted.must(200, nil, "GET", sale, nil)

	add := func(p *program, key string, delta int) int {
		t.Helper()
		status, answer, err := p.try("POST", sale+"/stock", map[string]any{"sku": "s", "delta": delta}, "Idempotency-Key", key)
		if err != nil || status != 200 && status != 503 {
			t.Fatalf("add %d: %d %s %v", delta, status, answer, err)
		}
		return status
	}
	// Each master that has lost the sale to the other brings it in line by itself, at a time of its
	// own, so any later call may meet that: the same key finds out.
	settle := func(p *program, key string, delta int) {
		t.Helper()
		storetest.Eventually(t, 30*time.Second, "the change of stock is on record", func() bool { return add(p, key, delta) == 200 })
	}
	reserve := func(p *program, user string, n int) (id string) {
		t.Helper()
		var made struct{ ID string }
		p.must(201, &made, "POST", sale+"/reservations", map[string]any{"user": user, "lines": []any{map[string]any{"sku": "s", "quantity": n}}})
		return made.ID
	}
	if status := add(cut, "a", 1); status != 503 {
		t.Fatalf("a master that has lost the sale answered %d", status)
	}
	settle(promoted, "b", 2)
	settle(cut, "a", 1)
	settle(promoted, "c", 4)
	settle(promoted, "a", 1)
	settle(promoted, "c", 4)
	settle(cut, "b", 2)
	settle(promoted, "b", 2)
	reserve(promoted, "v", 12)
	cut.must(200, nil, "POST", sale+"/reservations/"+reserve(cut, "u", 9)+"/confirm", nil)
	sold := time.Now()
	storetest.Eventually(t, 90*time.Second, "the order shows on the other master", func() bool {
		var now struct {
			Items []struct{ Total, Held, Sold int }
		}
		status, answer, err := promoted.try("GET", sale, nil)
		if err != nil || status != 200 || json.Unmarshal(answer, &now) != nil || len(now.Items) != 1 {
			return false
		}
		if now.Items[0].Total != 17 {
			t.Fatalf("the total is not what was added: %s", answer)
		}
		return now.Items[0].Held == 12 && now.Items[0].Sold == 9
	})
	if took := time.Since(sold); took > time.Minute {
		t.Errorf("it showed after %v", took)
	}
}
