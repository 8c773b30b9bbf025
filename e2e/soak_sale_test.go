package e2e

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"fanfare/api"
)

// soakSale is a sale and the answers to its buyers. Every reservation that is requested only once,
// without repeats, has its own user.
type soakSale struct {
	*market
	holds bool // otherwise a reservation is sold at once

	mu       sync.Mutex
	total    int64
	asked    map[string]bool    // reservations that may have been sold
	released map[string]bool    // reservations that were answered as released
	once     map[string]outcome // by user: the outcome of one call
}

// salesTraffic makes one sale after the other. Buyers use the latest few.
type salesTraffic struct {
	s     *soak
	mu    sync.Mutex
	sales []*soakSale
}

const (
	soakLimit   = 6
	soakHold    = 4 * time.Second
	latestSales = 3
)

func (s *soak) prepareSales() *salesTraffic {
	t := &salesTraffic{s: s}
	r := rand.New(rand.NewPCG(s.seed, hashOf("sales")))
	for i := range latestSales {
		t.open(r, -i-1)
	}
	// Each sale takes memory as long as it is open. There are so few that memory stays flat.
	s.work("sales", 0, max(20*time.Second, s.length/30), t.open)
	for n := range 3 {
		s.work("buy", n, 700*time.Millisecond, func(r *rand.Rand, i int) { t.pick(r).buy(s, r, fmt.Sprintf("%d-%d", n, i)) })
	}
	s.work("restock", 0, 3*time.Second, func(r *rand.Rand, i int) { t.pick(r).restock(s, r, i) })
	s.work("look", 0, time.Second, func(r *rand.Rand, _ int) { t.pick(r).look(s, r) })
	return t
}

// open makes the next sale.
func (t *salesTraffic) open(r *rand.Rand, i int) {
	sale := &soakSale{
		market: &market{t: t.s.t, sale: fmt.Sprint("sale-", i), servers: t.s.all, sold: map[string]int64{}},
		holds:  r.IntN(4) > 0, total: 20 + r.Int64N(40), asked: map[string]bool{}, released: map[string]bool{}, once: map[string]outcome{},
	}
	body := map[string]any{
		"items": []any{map[string]any{"sku": "s", "stock": sale.total}}, "starts_at": time.Now().Add(-time.Hour), "ends_at": time.Now().Add(24 * time.Hour),
		"partitions": 1 + 3*r.IntN(2), "per_user_limit": soakLimit, "hold_ms": 0,
	}
	if sale.holds {
		body["hold_ms"] = soakHold.Milliseconds()
	}
	if t.s.want(r, nil, []int{200, 201}, "PUT", "/v1/sales/"+sale.sale, body) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.sales = append(t.sales, sale)
		t.s.count("sales", 1)
	}
}

// pick takes one of the latest sales.
func (t *salesTraffic) pick(r *rand.Rand) *soakSale {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sales[len(t.sales)-1-r.IntN(min(latestSales, len(t.sales)))]
}

func (m *soakSale) path(more string) string { return "/v1/sales/" + m.sale + more }

// buy reserves, and then confirms, releases or forgets.
func (m *soakSale) buy(s *soak, r *rand.Rand, key string) {
	user, call, impatient := fmt.Sprint("buyer-", r.IntN(40)), s.insist, r.IntN(10) == 0
	if impatient {
		user, call = "once-"+key, s.once
	}
	units := 1 + r.Int64N(3)
	body := map[string]any{"user": user, "lines": []any{map[string]any{"sku": "s", "quantity": units}}}
	var got api.Reservation
	reply := call(r, &got, "POST", m.path("/reservations"), body, "Idempotency-Key", key)
	if impatient {
		m.mu.Lock()
		m.once[user] = reply.outcome
		m.mu.Unlock()
	}
	switch {
	case reply.outcome != answered || reply.code == string(api.CodeSoldOut) || reply.code == string(api.CodeLimitReached):
		return
	case reply.status != 201:
		s.failf("reserve in %s: %d %s", m.sale, reply.status, reply.text)
		return
	}
	s.count("reservations accepted", 1)
	var again api.Reservation
	if r.IntN(10) == 0 && s.want(r, &again, []int{201}, "POST", m.path("/reservations"), body, "Idempotency-Key", key) && again.ID != got.ID {
		s.failf("%s: %s reserved %s and, asked again, %s", m.sale, key, got.ID, again.ID)
	}
	if !m.holds {
		m.sell(s, got.ID, units)
		return
	}
	switch r.IntN(5) {
	case 0: // its hold expires
	case 1:
		m.finish(s, r, &got, "release", units)
	default:
		m.finish(s, r, &got, "confirm", units)
	}
}

// sell records a reservation that was answered as sold.
func (m *soakSale) sell(s *soak, id string, units int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked[id], m.sold[id] = true, units
	s.count("units sold", int(units))
}

// finish confirms or releases a reservation, unless its hold has ended by then.
func (m *soakSale) finish(s *soak, r *rand.Rand, held *api.Reservation, how string, units int64) {
	id := held.ID
	if how == "confirm" {
		m.mu.Lock()
		m.asked[id] = true
		m.mu.Unlock()
	}
	switch got := s.insist(r, nil, "POST", m.path("/reservations/"+id+"/"+how), nil); {
	case got.outcome != answered:
	case got.status == 200 && how == "confirm":
		m.sell(s, id, units)
	case got.status == 200:
		m.mu.Lock()
		m.released[id] = true
		m.mu.Unlock()
	case got.code != string(api.CodeNotHeld) || got.state != string(api.ReservationExpired) || time.Now().Before(held.ExpiresAt.Time):
		s.failf("%s %s of %s, held until %s: %d %s", how, id, m.sale, clock(held.ExpiresAt.Time), got.status, got.text)
	}
}

// restock adds to the stock, or takes away.
func (m *soakSale) restock(s *soak, r *rand.Rand, i int) {
	delta := r.Int64N(11) - 3
	got := s.insist(r, nil, "POST", m.path("/stock"), map[string]any{"sku": "s", "delta": delta}, "Idempotency-Key", fmt.Sprint("restock-", i))
	switch {
	case got.outcome != answered || got.code == string(api.CodeBounds):
	case got.status == 200:
		m.mu.Lock()
		defer m.mu.Unlock()
		m.total += delta
		s.count("restocks", 1)
	default:
		s.failf("restock %s: %d %s", m.sale, got.status, got.text)
	}
}

// look reads the sale and checks that its numbers add up.
func (m *soakSale) look(s *soak, r *rand.Rand) {
	var got api.Sale
	if !s.want(r, &got, []int{200}, "GET", m.path(""), nil) || got.Consistent != nil && !*got.Consistent {
		return
	}
	if i := got.Items[0]; i.Available+i.Held+i.Sold != i.Total || min(i.Available, i.Held, i.Sold) < 0 {
		s.failf("%s: %+v", m.sale, i)
	}
}

// check compares every sale with its orders, and buys the remaining units: nothing is lost, and
// nothing is sold twice.
func (t *salesTraffic) check() {
	for _, m := range t.sales {
		left := m.settle(m.total, soakLimit)
		m.checkOrders(t.s, m.orders())
		m.sellOut(left.Available)
	}
}

// checkOrders checks that every order belongs to a reservation that was sold or may have been.
func (m *soakSale) checkOrders(s *soak, rows []api.Order) {
	byUser := map[string]int{}
	for _, o := range rows {
		byUser[o.User]++
		_, single := m.once[o.User]
		switch {
		case m.released[o.Reservation]:
			s.failf("%s: %s was released, and has an order", m.sale, o.Reservation)
		case !m.asked[o.Reservation] && !single:
			s.failf("%s: %s has an order, and nobody confirmed it", m.sale, o.Reservation)
		}
	}
	for user, came := range m.once {
		var got api.ReservationList
		s.mustBe(200, &got, "GET", m.path("/reservations?user="+user), nil)
		if most := map[outcome]int{answered: 1, unknown: 1}[came]; len(got.Items) > most || byUser[user] > len(got.Items) {
			s.failf("%s: a call of outcome %d of %s made %d reservations and %d orders", m.sale, came, user, len(got.Items), byUser[user])
		}
	}
}
