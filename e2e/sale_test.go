package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/stock"
	"fanfare/store/storetest"
)

// mustLoseAnswers returns the URL of a proxy to Redis that loses every 20th answer with its
// connection, and counts them.
func mustLoseAnswers(t testing.TB, redis *storetest.RedisServer) (url string, lost *atomic.Int64) {
	t.Helper()
	proxy, url := storetest.ProxyTo(t, redis.URL())
	var answers atomic.Int64
	lost = &atomic.Int64{}
	proxy.OnAnswer(func(*storetest.ProxyConn, []byte) storetest.Fate {
		if answers.Add(1)%20 != 0 {
			return storetest.Pass
		}
		lost.Add(1)
		return storetest.Close
	})
	return url, lost
}

// market is a sale and the servers that sell it.
type market struct {
	t       *testing.T
	sale    string
	servers func() []*program

	mu      sync.Mutex
	sold    map[string]int64 // units of reservations that were answered as sold
	refused int
}

// mustMarket makes a sale of units of one sku, "s".
func mustMarket(t *testing.T, sale string, servers func() []*program, units int64, more map[string]any) *market {
	t.Helper()
	body := map[string]any{"items": []any{map[string]any{"sku": "s", "stock": units}}, "starts_at": time.Now().Add(-time.Hour), "ends_at": time.Now().Add(time.Hour)}
	for name, value := range more {
		body[name] = value
	}
	m := &market{t: t, sale: sale, servers: servers, sold: map[string]int64{}}
	var made api.Sale
	if status, err := m.insist(&made, "PUT", "", body); err != nil || status/100 != 2 { // 200: the answer to the first try was lost
		t.Fatalf("make sale %s: %d %v", sale, status, err)
	}
	return m
}

// insist calls servers at random until one gives a final answer, and decodes it into out.
func (m *market) insist(out any, method, path string, body any, header ...string) (int, error) {
	deadline := time.Now().Add(time.Minute)
	for {
		servers := m.servers()
		status, answer, err := servers[rand.IntN(len(servers))].try(method, "/v1/sales/"+m.sale+path, body, header...)
		if err == nil && status != http.StatusServiceUnavailable && status != http.StatusTooManyRequests {
			return status, json.Unmarshal(answer, out)
		}
		if time.Now().After(deadline) {
			return 0, fmt.Errorf("%s %s: %d %s %w", method, path, status, answer, err)
		}
		<-time.After(time.Duration(20+rand.IntN(60)) * time.Millisecond)
	}
}

// verdict is the answer to a buyer: a reservation or a problem.
type verdict struct {
	ID, Code string
	State    api.ReservationState
}

// reserve returns the reservation; "" if the sale is sold out.
func (m *market) reserve(user string, units int64, key string) (string, error) {
	var v verdict
	status, err := m.insist(&v, "POST", "/reservations", map[string]any{"user": user, "lines": []any{map[string]any{"sku": "s", "quantity": units}}}, "Idempotency-Key", key)
	switch {
	case err != nil:
		return "", err
	case status == 201:
		return v.ID, nil
	case v.Code == string(api.CodeSoldOut):
		m.mu.Lock()
		defer m.mu.Unlock()
		m.refused++
		return "", nil
	}
	return "", fmt.Errorf("reserve: %d %+v", status, v)
}

// finish confirms or releases. A hold that has expired by then is allowed.
func (m *market) finish(id, how string, units int64) error {
	var v verdict
	status, err := m.insist(&v, "POST", "/reservations/"+id+"/"+how, nil)
	switch {
	case err != nil:
		return err
	case status == 200 && how == "confirm":
		m.mu.Lock()
		defer m.mu.Unlock()
		m.sold[id] = units
	case status != 200 && (v.Code != string(api.CodeNotHeld) || v.State != api.ReservationExpired):
		return fmt.Errorf("%s: %d %+v", how, status, v)
	}
	return nil
}

// extend lets a hold last longer, if the sale allows it. A hold that has expired by then is allowed.
func (m *market) extend(id string) error {
	var v struct {
		verdict
		ExpiresAt time.Time `json:"expires_at"`
	}
	status, err := m.insist(&v, "POST", "/reservations/"+id+"/extend", map[string]any{"hold_ms": 5000})
	if err == nil && (status != 200 || v.State != api.ReservationHeld || v.ExpiresAt.IsZero()) && v.State != api.ReservationExpired {
		err = fmt.Errorf("extend: %d %+v", status, v)
	}
	return err
}

// whim is a buyer who takes 1 to 3 units and then confirms, perhaps later, releases or forgets.
func (m *market) whim(i int) error {
	units := 1 + rand.Int64N(3)
	id, err := m.reserve(fmt.Sprintf("user-%d", i%200), units, fmt.Sprintf("buy-%d", i))
	if err != nil || id == "" {
		return err
	}
	switch rand.IntN(5) {
	case 0:
		return nil
	case 1:
		return m.finish(id, "release", units)
	case 2:
		if err := m.extend(id); err != nil {
			return err
		}
	}
	return m.finish(id, "confirm", units)
}

// item reads the state of the sku.
func (m *market) item() api.SaleItem {
	m.t.Helper()
	var s api.Sale
	if status, err := m.insist(&s, "GET", "", nil); err != nil || status != 200 || len(s.Items) != 1 {
		m.t.Fatalf("%d %v %+v", status, err, s)
	}
	return s.Items[0]
}

// orders reads every order on record.
func (m *market) orders() []api.Order {
	m.t.Helper()
	var all []api.Order
	for next := ""; ; {
		var page api.OrderList
		if status, err := m.insist(&page, "GET", "/orders?limit=500&cursor="+next, nil); err != nil || status != 200 {
			m.t.Fatalf("%d %v", status, err)
		}
		all = append(all, page.Items...)
		if next = page.Next; next == "" {
			return all
		}
	}
}

// settle waits until nothing is held and every sold unit has its row, and checks the sums.
func (m *market) settle(total, limit int64) api.SaleItem {
	m.t.Helper()
	var item api.SaleItem
	var rows []api.Order
	storetest.Eventually(m.t, time.Minute, "nothing is held and the rows are there", func() bool {
		if item = m.item(); item.Held != 0 {
			return false
		}
		rows = m.orders()
		units := int64(0)
		for _, o := range rows {
			units += o.Lines[0].Quantity
		}
		return units == item.Sold
	})
	if item.Total != total || item.Available+item.Sold != total {
		m.t.Errorf("%d units became %+v", total, item)
	}
	onRecord, byUser := map[string]int64{}, map[string]int64{}
	for _, o := range rows {
		if onRecord[o.Reservation] != 0 {
			m.t.Errorf("two rows of %s", o.Reservation)
		}
		onRecord[o.Reservation] = o.Lines[0].Quantity
		byUser[o.User] += o.Lines[0].Quantity
	}
	for id, units := range m.sold {
		if onRecord[id] != units {
			m.t.Errorf("%d units of %s were sold, %d are on record", units, id, onRecord[id])
		}
	}
	for user, units := range byUser {
		if limit > 0 && units > limit {
			m.t.Errorf("%s has %d units, %d are allowed", user, units, limit)
		}
	}
	return item
}

// 1,000 buyers, 100 units and several server processes: exactly 100 units are sold, everybody else
// gets sold_out, and every sold unit has its row.
func TestSaleToAThousandBuyers(t *testing.T) {
	t.Parallel()
	servers := mustServeMany(t, 3, quick("FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t))...)
	all := func() []*program { return servers }
	for _, partitions := range []int{1, 8} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) { // not parallel: the servers would be idle until all other tests have begun
			m := mustMarket(t, fmt.Sprintf("rush-%d", partitions), all, 100, map[string]any{"partitions": partitions, "per_user_limit": 1})
			err := spread(1000, func(i int) error {
				id, err := m.reserve(fmt.Sprintf("user-%d", i), 1, fmt.Sprintf("buy-%d", i))
				if err != nil || id == "" {
					return err
				}
				return m.finish(id, "confirm", 1)
			})
			if err != nil {
				t.Fatal(err)
			}
			item := m.settle(100, 1)
			if item.Sold != 100 || len(m.sold) != 100 || m.refused != 900 {
				t.Errorf("%+v, %d confirmed, %d refused", item, len(m.sold), m.refused)
			}
		})
	}
}

// Random quantities, confirmations, releases and forgotten holds, while every 20th answer of Redis
// is lost and servers are killed with kill -9. At the end nothing is held, lost or sold twice,
// every sold unit is on record, and the remaining units can be bought to the last one.
func TestSaleThroughFaults(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	redisURL, lost := mustLoseAnswers(t, redis)
	vars := quick("FANFARE_REDIS_URL="+redisURL, "FANFARE_DATABASE_URL="+storetest.MySQL(t))
	f := &fleet{t: t, vars: vars, servers: mustServeMany(t, 3, vars...)}
	const units, limit, buyers = 300, 6, 400
	more := func(partitions int) map[string]any {
		return map[string]any{"partitions": partitions, "per_user_limit": limit, "hold_ms": 3000, "max_hold_ms": 8000}
	}
	markets := []*market{mustMarket(t, "one", f.all, units, more(1)), mustMarket(t, "eight", f.all, units, more(8))}
	done := make(chan error, len(markets))
	for _, m := range markets {
		go func() { done <- spread(buyers, m.whim) }()
	}
	for range 3 {
		<-time.After(1500 * time.Millisecond)
		f.kill()
	}
	for range markets {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range markets {
		left := m.settle(units, limit)
		t.Logf("%s: %d confirmed, %d refused, %d answers lost, left %+v", m.sale, len(m.sold), m.refused, lost.Load(), left)
		m.sellOut(left.Available)
	}
}

// sellOut buys the remaining units one by one, until the sale is sold out. Each is confirmed,
// because its hold may expire before the last one is sold. A unit whose hold has expired is bought
// again.
func (m *market) sellOut(left int64) {
	m.t.Helper()
	for i := range left {
		for try, id := 0, ""; m.sold[id] == 0; try++ {
			var err error
			if id, err = m.reserve(fmt.Sprintf("late-%d", i), 1, fmt.Sprintf("late-%d-%d", i, try)); err == nil && id != "" {
				err = m.finish(id, "confirm", 1)
			}
			if err != nil || id == "" {
				m.t.Errorf("unit %d of %d that are left: %q %v", i+1, left, id, err)
				return
			}
		}
	}
	if id, err := m.reserve("too-late", 1, "too-late"); err != nil || id != "" {
		m.t.Errorf("one more than there was: %q %v", id, err)
	}
}

// 8 partitions, 8 units and 8 users of one home partition: all 8 users get a unit although servers
// are killed in between, and the sums are right.
func TestSaleOfEightPartitionsToOneHome(t *testing.T) {
	t.Parallel()
	vars := quick("FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t))
	f := &fleet{t: t, vars: vars, servers: mustServeMany(t, 2, vars...)}
	var neighbours []string
	for i := 0; len(neighbours) < 160; i++ {
		if user := fmt.Sprintf("user-%d", i); stock.Home(user, 8) == 3 {
			neighbours = append(neighbours, user)
		}
	}
	var markets []*market
	for round := range 20 {
		markets = append(markets, mustMarket(t, fmt.Sprintf("home-%d", round), f.all, 8, map[string]any{"partitions": 8}))
	}
	done := make(chan error, 1)
	go func() {
		done <- spread(160, func(i int) error {
			id, err := markets[i/8].reserve(neighbours[i], 1, "only")
			if err == nil && id == "" {
				err = fmt.Errorf("%s: sold out for the %d. of 8", markets[i/8].sale, i%8+1)
			}
			if err != nil {
				return err
			}
			return markets[i/8].finish(id, "confirm", 1)
		})
	}()
	f.kill()
	f.kill()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for _, m := range markets {
		if item := m.settle(8, 0); item.Sold != 8 {
			t.Errorf("%s: %+v", m.sale, item)
		}
		if id, err := m.reserve("ninth", 1, "ninth"); id != "" || err != nil {
			t.Errorf("%s: a ninth of 8: %q %v", m.sale, id, err)
		}
	}
}
