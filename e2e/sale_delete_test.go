package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// S20: sales are deleted through servers that are killed with kill -9, while every 20th answer of Redis
// is lost. Each sale that was sold keeps its order; in the end all sales are gone, with everything that
// Redis had of them; and the ids of those that nobody bought from are free, and no others.
func TestS20_SalesAreDeletedThroughFaults(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	redisURL, lost := mustLoseAnswers(t, redis)
	vars := quick("FANFARE_REDIS_URL="+redisURL, "FANFARE_DATABASE_URL="+storetest.MySQL(t))
	f := &fleet{t: t, vars: vars, servers: mustServeMany(t, 3, vars...)}
	const sales = 60
	markets := make([]*market, sales)
	for i := range markets {
		markets[i] = mustMarket(t, fmt.Sprint("brief-", i), f.all, 3, map[string]any{"partitions": 1 + i%3})
	}
	over := map[string]any{"items": []any{map[string]any{"sku": "s", "stock": 3}}, "starts_at": time.Now().Add(-2 * time.Hour), "ends_at": time.Now().Add(-time.Hour)}
	done := make(chan error, 1)
	go func() {
		done <- spread(sales, func(i int) error {
			m := markets[i]
			if i%2 == 0 {
				id, err := m.reserve("u", 1, "only")
				if err == nil {
					err = m.finish(id, "confirm", 1)
				}
				if err != nil {
					return err
				}
			}
			body := map[string]any{"partitions": 1 + i%3}
			for name, value := range over {
				body[name] = value
			}
			if status, err := m.insist(&json.RawMessage{}, "PUT", "", body, "If-Match", "*"); err != nil || status != http.StatusOK {
				return fmt.Errorf("end %s: %d %w", m.sale, status, err)
			}
			return m.insistDelete()
		})
	}()
	for range 3 {
		<-time.After(1500 * time.Millisecond)
		f.kill()
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for i, m := range markets {
		var v verdict
		if status, err := m.insist(&v, "GET", "", nil); err != nil || status != http.StatusNotFound {
			t.Errorf("%s: %d %+v %v", m.sale, status, v, err)
		}
		want, orders := http.StatusCreated, 0
		if i%2 == 0 {
			want, orders = http.StatusConflict, 1
			if rows := m.orders(); len(rows) != orders {
				t.Errorf("%s has %d orders", m.sale, len(rows))
			}
		}
		status, err := m.insist(&v, "PUT", "", over)
		if err != nil || status != want && (want == http.StatusConflict || status != http.StatusOK) { // 200: the first answer was lost
			t.Errorf("the id of %s: %d %+v %v, want %d", m.sale, status, v, err, want)
		}
		if err := m.insistDelete(); err != nil {
			t.Error(err)
		}
	}
	storetest.Eventually(t, time.Minute, "Redis has nothing of them", func() bool {
		for _, key := range redis.Client().Keys(t.Context(), "ff:{sale*").Val() {
			if redis.Client().TTL(t.Context(), key).Val() < 0 {
				return false
			}
		}
		return true
	})
	t.Logf("%d answers were lost", lost.Load())
}

// insistDelete deletes a sale, once its order is on record.
func (m *market) insistDelete() error {
	deadline := time.Now().Add(time.Minute)
	for {
		servers := m.servers()
		status, answer, err := servers[rand.IntN(len(servers))].try("DELETE", "/v1/sales/"+m.sale, nil)
		if err == nil && status == http.StatusNoContent {
			return nil
		}
		var v verdict
		if err == nil && status < 500 && (json.Unmarshal(answer, &v) != nil || v.Code != "owed") || time.Now().After(deadline) {
			return fmt.Errorf("delete %s: %d %s %w", m.sale, status, answer, err)
		}
		<-time.After(time.Duration(20+rand.IntN(60)) * time.Millisecond)
	}
}
