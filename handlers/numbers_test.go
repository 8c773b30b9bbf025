package handlers_test

import (
	"strings"
	"testing"
	"time"

	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// Answers to an Idempotency-Key are kept for 24 h. The test has the number of the contract. For
// answers in SQL the test is in store/record.
func TestIdempotencyKeysLiveADay(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Redis(t).URL())
	w := setupOn(t, db)
	w.workChats()
	w.workSales()
	w.mustChat("team", "ann", "bob")
	w.put("/v1/sales/s", saleBody(`[{"sku":"a","stock":9}]`, `"hold_ms":60000`))
	for _, c := range []call{
		post("/v1/events", anEvent),
		post("/v1/chats/team/messages", `{"sender":"ann","text":"x"}`),
		post(queueQ+"/jobs", `{"type":"mail"}`),
		post(queueQ+"/jobs/batch", `{"jobs":[{"type":"mail"}]}`),
		post("/v1/sales/s/reservations", `{"user":"u","lines":[{"sku":"a","quantity":1}]}`),
		post("/v1/sales/s/stock", `{"sku":"a","delta":1}`),
	} {
		before := lifetimes(t, db)
		if a := w.do(c.with("Idempotency-Key: day")); a.status/100 != 2 {
			t.Errorf("%s: %d %s", c.path, a.status, a.body)
		}
		longest := time.Duration(0)
		for key, left := range lifetimes(t, db) {
			if _, old := before[key]; !old {
				longest = max(longest, left)
			}
		}
		if longest <= 24*time.Hour-10*time.Minute || longest > 24*time.Hour {
			t.Errorf("%s: the answer is kept for %v, want 24h", c.path, longest)
		}
	}
	before := lifetimes(t, db)
	w.post("/v1/users/bob/messages/ack", `{"acks":{"team":1}}`, "Idempotency-Key: day").wants(t, 200, `{"acked":{"team":1}}`)
	if after := lifetimes(t, db); len(after) != len(before) {
		t.Errorf("an ack leaves a record: %v", after)
	}
}

// lifetimes are the lifetimes of the records of answers.
func lifetimes(t testing.TB, db *redisdb.DB) map[string]time.Duration {
	t.Helper()
	keys, err := db.Client().Keys(t.Context(), "*").Result()
	storetest.Must(t, err)
	all := map[string]time.Duration{}
	for _, key := range keys {
		if strings.Contains(key, ":idem:") || strings.Contains(key, "once:") {
			all[key] = db.Client().PTTL(t.Context(), key).Val()
		}
	}
	return all
}
