package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// farAway is the latency to a server that is far away. It is most of the time of a call, so that
// clients that hang up at random do so while Redis is asked.
const farAway = 2 * time.Millisecond

// hangUp makes requests and ends each after a moment, until ctx ends.
func (p *program) hangUp(ctx context.Context, method string, next func() (path, body string)) {
	for ctx.Err() == nil {
		path, body := next()
		short, cancel := context.WithTimeout(ctx, time.Duration(rand.Int64N(int64(6*farAway))))
		req, err := http.NewRequestWithContext(short, method, p.base+path, strings.NewReader(body))
		if err != nil {
			p.t.Error(err)
			cancel()
			return
		}
		req.Header.Set("Content-Type", "application/json")
		if resp, err := client.Do(req); err == nil {
			if s := resp.StatusCode; s/100 != 2 && s != http.StatusConflict && s != http.StatusServiceUnavailable {
				p.t.Errorf("%s %s: %s", method, path, resp.Status)
			}
			_ = resp.Body.Close()
		}
		cancel()
	}
}

// saleJSON is a sale with a number of units and partitions.
func saleJSON(t testing.TB, units, partitions int) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"items": []any{map[string]any{"sku": "s", "stock": units}}, "partitions": partitions,
		"starts_at": time.Now().Add(-time.Hour), "ends_at": time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const readBack = "a sale is brought in line with the record"

// S9 and S17: clients that hang up during their calls do not affect others. The reservations, PUTs
// and restocks of others succeed, each new sale is made, and no sale is restored from the record.
func TestSaleBesideClientsThatHangUp(t *testing.T) {
	t.Parallel()
	proxy, url := storetest.ProxyTo(t, storetest.Redis(t).URL())
	proxy.Delay(farAway)
	p := mustServe(t, t.TempDir(), quick("FANFARE_REDIS_URL="+url, "FANFARE_DATABASE_URL="+storetest.MySQL(t), "FANFARE_LOG_LEVEL=info")...)
	all := func() []*program { return []*program{p} }
	for partitions := range 2 {
		m := &market{t: t, sale: fmt.Sprint("rush-", partitions), servers: all}
		m.mustDo(201, "PUT", "", saleJSON(t, 100_000, 1+3*partitions))
	}
	ctx, stop := context.WithCancel(t.Context())
	var impatient sync.WaitGroup
	var n atomic.Int64
	for i := range 2 {
		impatient.Go(func() {
			p.hangUp(ctx, "POST", func() (string, string) {
				return fmt.Sprintf("/v1/sales/rush-%d/reservations", i%2), fmt.Sprintf(`{"user":"hang-%d","lines":[{"sku":"s","quantity":1}]}`, n.Add(1))
			})
		})
		impatient.Go(func() {
			p.hangUp(ctx, "PUT", func() (string, string) { return fmt.Sprint("/v1/sales/hang-", n.Add(1)%50), saleJSON(t, 5, 1+i%2) })
		})
	}
	var patient sync.WaitGroup
	for i := range 4 {
		patient.Go(func() {
			m := &market{t: t, sale: fmt.Sprint("rush-", i%2), servers: all}
			for k := range 25 {
				m.mustDo(201, "POST", "/reservations", fmt.Sprintf(`{"user":"buyer-%d-%d","lines":[{"sku":"s","quantity":1}]}`, i, k))
			}
		})
		patient.Go(func() {
			for k := range 6 {
				m := &market{t: t, sale: fmt.Sprintf("new-%d-%d", i, k), servers: all}
				m.mustDo(201, "PUT", "", saleJSON(t, 5, 1+k%2))
				m.mustDo(200, "POST", "/stock", `{"sku":"s","delta":1}`)
				m.mustDo(201, "POST", "/reservations", `{"user":"u","lines":[{"sku":"s","quantity":6}]}`)
			}
		})
	}
	patient.Wait()
	stop()
	impatient.Wait()
	if reads := strings.Count(p.stderr.String(), readBack); reads != 0 {
		t.Errorf("sales were read back %d times", reads)
	}
}

// mustDo makes a call that must succeed with a status. Any goroutine may use it. A PUT whose first
// answer timed out on a busy machine answers that the sale exists.
func (m *market) mustDo(want int, method, path, body string) {
	var v verdict
	status, err := m.insist(&v, method, path, json.RawMessage(body), "Idempotency-Key", m.sale+path+body)
	if err != nil || status != want && (method != "PUT" || status != 200) {
		m.t.Errorf("%s %s%s: %d, want %d: %+v %v", method, m.sale, path, status, want, v, err)
	}
}

// S13: the power fails while sales are made. The server and Redis are killed, and Redis keeps its
// data or loses all of it. Afterwards each id is usable: either the sale exists, or it can be made.
func TestSalesMadeThroughAPowerLoss(t *testing.T) {
	t.Parallel()
	for _, keep := range []string{"yes", "no"} {
		t.Run("appendonly "+keep, func(t *testing.T) {
			t.Parallel()
			redis := storetest.Redis(t, "--appendonly", keep, "--appendfsync", "always")
			proxy, url := storetest.ProxyTo(t, redis.URL())
			proxy.Delay(farAway)
			vars := quick("FANFARE_REDIS_URL="+url, "FANFARE_DATABASE_URL="+storetest.SQLite(t))
			dir := t.TempDir()
			p := mustServe(t, dir, vars...)
			for round := range 3 {
				unlock := func() {}
				if round > 0 { // SQL has stopped as well
					unlock = storetest.LockSQLite(t, p.setting("FANFARE_DATABASE_URL"))
				}
				body := saleJSON(t, 5, 1+round%2)
				before := redis.Client().HLen(t.Context(), "ff:{sales}:live").Val()
				var putting sync.WaitGroup
				for i := range 16 {
					putting.Go(func() { _, _, _ = p.try("PUT", fmt.Sprintf("/v1/sales/s-%d-%d", round, i), json.RawMessage(body)) })
				}
				storetest.Eventually(t, 20*time.Second, "half of them are on their way", func() bool {
					n, err := redis.Client().HLen(t.Context(), "ff:{sales}:live").Result()
					return err == nil && n >= before+8
				})
				p.kill()
				redis.Kill()
				unlock()
				putting.Wait()
				redis.Restart()
				p = mustServe(t, dir, vars...)
				p.each(16, func(i int) error { return p.usable(fmt.Sprintf("s-%d-%d", round, i), body) })
			}
		})
	}
}

// usable reads a sale, makes it if there is none, and buys all of it.
func (p *program) usable(sale, body string) error {
	m := &market{t: p.t.(*testing.T), sale: sale, servers: func() []*program { return []*program{p} }}
	var v verdict
	status, err := m.insist(&v, "GET", "", nil)
	if err == nil && status == 404 {
		m.mustDo(201, "PUT", "", body)
	} else if err != nil || status != 200 {
		return fmt.Errorf("sale %s: %d %+v %w", sale, status, v, err)
	}
	m.mustDo(201, "POST", "/reservations", `{"user":"u","lines":[{"sku":"s","quantity":5}]}`)
	return nil
}
