package stock

import (
	"context"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"fanfare/api"
	"fanfare/store/storetest"
)

// reference is what a sale should be: a few maps, and no thought of partitions.
type reference struct {
	total map[string]int64
	limit int64
	holds map[string]*refReservation // by id, all that were ever made
}

type refReservation struct {
	user  string
	lines map[string]int64
	state api.ReservationState
	due   bool // its time is over, and nobody has returned it yet
}

// units adds up what is in a state, of a sku or, with a user, of any.
func (m *reference) units(sku, user string, states ...api.ReservationState) (n int64) {
	for _, r := range m.holds {
		if !slices.Contains(states, r.state) || user != "" && r.user != user {
			continue
		}
		for s, q := range r.lines {
			if sku == "" || s == sku {
				n += q
			}
		}
	}
	return n
}

func (m *reference) available(sku string) int64 {
	return m.total[sku] - m.units(sku, "", api.ReservationHeld, api.ReservationSold)
}

// returnDue gives back all holds that are due.
func (m *reference) returnDue() {
	for _, r := range m.holds {
		if r.due {
			r.state, r.due = api.ReservationExpired, false
		}
	}
}

// refuses is the code that a reservation gets, "" if it is granted. What is due
// is returned before a refusal.
func (m *reference) refuses(user string, lines map[string]int64) api.Code {
	code := m.refusal(user, lines)
	if code != "" {
		m.returnDue()
		code = m.refusal(user, lines)
	}
	return code
}

func (m *reference) refusal(user string, lines map[string]int64) api.Code {
	sum := int64(0)
	for _, n := range lines {
		sum += n
	}
	if m.limit > 0 && m.units("", user, api.ReservationHeld, api.ReservationSold)+sum > m.limit {
		return api.CodeLimitReached
	}
	for sku, n := range lines {
		if n > m.available(sku) {
			return api.CodeSoldOut
		}
	}
	return ""
}

// machine drives a sale and its reference together.
type machine struct {
	*rapid.T
	w       *liveWorld
	m       *reference
	request *api.SaleRequest
	ids     []string
	version int64
}

// TestModel compares random histories of every call with the reference: after
// each step available + held + sold = total, and every number is the same.
func TestModel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, url  string
		partitions int64
		rounds     int // embedded Lua is slow
	}{
		{"Redis", "", 1, 60}, {"RedisPartitions", "", 3, 30},
		{"Embedded", "embedded", 1, 12}, {"EmbeddedPartitions", "embedded", 3, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.url == "" {
				c.url = storetest.Redis(t).URL()
			}
			db := storetest.Open(t, c.url)
			storetest.CheckModel(t, c.rounds, func(rt *rapid.T) { newMachine(rt, newLiveWorld(t, db), c.partitions).run() })
		})
	}
}

func newMachine(rt *rapid.T, w *liveWorld, partitions int64) *machine {
	o := offer{stock: map[string]int64{"a": rapid.Int64Range(0, 12).Draw(rt, "a"), "b": rapid.Int64Range(0, 6).Draw(rt, "b")}, partitions: partitions, maxHold: 3_600_000}
	o.limit = rapid.SampledFrom([]int64{0, 4, 9}).Draw(rt, "limit")
	x := &machine{T: rt, w: w, m: &reference{total: maps.Clone(o.stock), limit: o.limit, holds: map[string]*refReservation{}}, version: 1}
	x.request = w.mustOpen(o)
	return x
}

func (x *machine) run() {
	x.Repeat(map[string]func(*rapid.T){
		"reserve": x.reserve, "crowd": x.crowd, "again": x.reserveAgain, "confirm": x.confirm, "release": x.release, "extend": x.extend, "overdue": x.overdue, "sweep": x.sweep,
		"restock": x.restock, "put": x.put, "": x.compare,
	})
}

// draw makes up a reservation.
func (x *machine) draw(rt *rapid.T) *buyer {
	b := &buyer{user: rapid.SampledFrom([]string{"u", "v", "w", "x"}).Draw(rt, "user")}
	for _, sku := range rapid.SampledFrom([][]string{{"a"}, {"b"}, {"a", "b"}, {"b", "a"}}).Draw(rt, "skus") {
		b.lines = append(b.lines, units(sku, rapid.Int64Range(1, 5).Draw(rt, "units")))
	}
	return b
}

// reserved compares what a buyer was told with the reference, and notes it there.
func (x *machine) reserved(rt *rapid.T, b *buyer) {
	lines := map[string]int64{}
	for _, line := range b.lines {
		lines[line.SKU] = line.Quantity
	}
	if want := x.m.refuses(b.user, lines); api.CodeOf(b.err) != want {
		rt.Fatalf("%s wants %v: %v, want %q", b.user, lines, b.err, want)
	}
	if b.err == nil {
		id := b.got.Reservation.ID
		x.ids = append(x.ids, id)
		x.m.holds[id] = &refReservation{user: b.user, lines: lines, state: api.ReservationHeld}
	}
}

func (x *machine) reserve(rt *rapid.T) {
	b := x.draw(rt)
	b.got, b.err = x.w.reserve(b.user, b.lines...)
	defer x.level()
	x.reserved(rt, b)
}

// crowd reserves for several, whom one script answers: as if they came one after the
// other.
func (x *machine) crowd(rt *rapid.T) {
	due := 0
	for _, r := range x.m.holds {
		if r.due {
			due++
		}
	}
	if len(x.parts()) > 1 || due >= dueAtOnce {
		rt.Skip("they would not have one order")
	}
	g := x.w.gatherAt("stock_reserve")
	g.hold("h")
	crowd := make([]*buyer, rapid.IntRange(2, 6).Draw(rt, "buyers"))
	for i := range crowd {
		crowd[i] = x.draw(rt)
		g.buy(context.Background(), crowd[i])
	}
	g.Release(2)
	for _, b := range crowd {
		x.reserved(rt, b)
	}
}

// reserveAgain replays a key: it must have no effect.
func (x *machine) reserveAgain(rt *rapid.T) {
	once := key(rapid.SampledFrom([]string{"1", "2"}).Draw(rt, "key"), "b")
	lines := map[string]int64{"a": 1}
	got, err := x.w.reserveOnce(once, "k", units("a", 1))
	defer x.level()
	if err == nil && got.Replayed {
		if x.m.holds[got.Reservation.ID] == nil {
			rt.Fatalf("a replay of nothing: %+v", got)
		}
		return
	}
	if want := x.m.refuses("k", lines); api.CodeOf(err) != want {
		rt.Fatalf("%v, want %q", err, want)
	}
	if err == nil {
		x.ids = append(x.ids, got.Reservation.ID)
		x.m.holds[got.Reservation.ID] = &refReservation{user: "k", lines: lines, state: api.ReservationHeld}
	}
}

func (x *machine) pick(rt *rapid.T) (string, *refReservation) {
	if len(x.ids) == 0 {
		rt.Skip("nothing is reserved")
	}
	id := rapid.SampledFrom(x.ids).Draw(rt, "id")
	return id, x.m.holds[id]
}

func (x *machine) confirm(rt *rapid.T) {
	x.end(rt, true, api.ReservationSold)
}

func (x *machine) release(rt *rapid.T) {
	x.end(rt, false, api.ReservationReleased)
}

func (x *machine) end(rt *rapid.T, sell bool, state api.ReservationState) {
	id, r := x.pick(rt)
	e, err := x.w.End(context.Background(), EndHold{Sale: x.w.sale, ID: id, Sell: sell})
	if r.due {
		r.state, r.due = api.ReservationExpired, false
	}
	if r.state == api.ReservationHeld {
		r.state = state
	}
	if (err == nil) != (r.state == state) || e.Reservation.State != r.state {
		rt.Fatalf("%s: %+v %v, it is %s", state, e, err, r.state)
	}
}

// extend moves the end of a hold, which changes no number.
func (x *machine) extend(rt *rapid.T) {
	id, r := x.pick(rt)
	e, err := x.w.Extend(context.Background(), ExtendHold{Sale: x.w.sale, ID: id, HoldMS: 1_200_000})
	if r.due {
		r.state, r.due = api.ReservationExpired, false
	}
	if (err == nil) != (r.state == api.ReservationHeld) || e.Reservation.State != r.state {
		rt.Fatalf("extended: %+v %v, it is %s", e, err, r.state)
	}
}

func (x *machine) overdue(rt *rapid.T) {
	id, r := x.pick(rt)
	if r.state != api.ReservationHeld {
		rt.Skip("it is not held")
	}
	x.w.overdue(id)
	r.due = true
}

func (x *machine) sweep(rt *rapid.T) {
	if _, err := x.w.sweepAll(context.Background(), x.parts()); err != nil {
		rt.Fatal(err)
	}
	x.m.returnDue()
}

// shrinks reports whether totals may become these; what is due is returned first
// when something is taken away.
func (x *machine) shrinks(totals map[string]int64) bool {
	fits := func() bool {
		for sku, n := range totals {
			if n < x.m.total[sku]-x.m.available(sku) {
				return false
			}
		}
		return true
	}
	if fits() {
		return true
	}
	x.m.returnDue()
	return fits()
}

func (x *machine) restock(rt *rapid.T) {
	sku := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "sku")
	delta := rapid.Int64Range(-6, 6).Draw(rt, "delta")
	x.sweep(rt)
	item, c, err := x.w.Restock(context.Background(), AddStock{Sale: x.w.sale, Request: restock(sku, delta)})
	ok := x.shrinks(map[string]int64{sku: x.m.total[sku] + delta})
	if !ok || err != nil {
		if api.CodeOf(err) != api.CodeBounds || ok {
			rt.Fatalf("restock %s %d: %v, fits %v", sku, delta, err, ok)
		}
		return
	}
	x.m.total[sku] += delta
	if delta != 0 {
		x.version++
	}
	if item.Total != x.m.total[sku] || item.Available+item.Held+item.Sold != item.Total || c.Sale.Version != x.version {
		rt.Fatalf("restock %s %d: %+v, version %d, want %d", sku, delta, item, c.Sale.Version, x.version)
	}
}

// level returns what is due in a sale of several partitions: how much of it a
// reservation returns depends on where units are.
func (x *machine) level() {
	if len(x.parts()) > 1 {
		x.sweep(x.T)
	}
}

func (x *machine) parts() []*partition {
	parts, err := x.w.partitionsOf(context.Background(), x.w.sale)
	if err != nil {
		x.Fatal(err)
	}
	return parts
}

func (x *machine) put(rt *rapid.T) {
	totals := map[string]int64{"a": rapid.Int64Range(0, 14).Draw(rt, "a"), "b": rapid.Int64Range(0, 8).Draw(rt, "b")}
	limit := rapid.SampledFrom([]int64{0, 4, 9}).Draw(rt, "limit")
	r := *x.request
	r.Items = []api.SaleStock{{SKU: "a", Stock: new(totals["a"])}, {SKU: "b", Stock: new(totals["b"])}}
	if r.PerUserLimit = nil; limit > 0 {
		r.PerUserLimit = &limit
	}
	x.sweep(rt)
	c, err := x.w.Put(context.Background(), PutSale{Sale: x.w.sale, Request: &r, Match: Match{Version: x.version}})
	ok := x.shrinks(totals)
	if !ok || err != nil {
		if api.CodeOf(err) != api.CodeBounds || ok {
			rt.Fatalf("put %v: %v, fits %v", totals, err, ok)
		}
		return
	}
	if !maps.Equal(x.m.total, totals) || x.m.limit != limit {
		x.version++
	}
	x.m.total, x.m.limit, x.request = totals, limit, &r
	if c.Sale.Version != x.version {
		rt.Fatalf("version %d, want %d", c.Sale.Version, x.version)
	}
}

// compare looks at everything after each step.
func (x *machine) compare(rt *rapid.T) {
	s, err := x.w.Sale(context.Background(), x.w.sale)
	if err != nil {
		rt.Fatal(err)
	}
	for _, i := range s.Items {
		want := api.SaleItem{
			SKU: i.SKU, Total: x.m.total[i.SKU], Available: x.m.available(i.SKU),
			Held: x.m.units(i.SKU, "", api.ReservationHeld), Sold: x.m.units(i.SKU, "", api.ReservationSold),
		}
		if i != want {
			rt.Fatalf("it is %+v, want %+v", i, want)
		}
	}
	if s.Consistent != nil && !*s.Consistent {
		rt.Fatal("it is said to move")
	}
	for _, p := range x.parts() {
		x.compareReservations(rt, p)
	}
	x.w.mustAddUp()
}

func (x *machine) compareReservations(rt *rapid.T, p *partition) {
	var ids []string
	for id := range x.m.holds {
		if at, _ := PartitionOf(id); at == p.index {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return
	}
	found, now, err := x.w.read(context.Background(), p, ids...)
	if err != nil {
		rt.Fatal(err)
	}
	for i, id := range ids {
		want := x.m.holds[id].state
		if x.m.holds[id].due {
			want = api.ReservationExpired
		}
		if got := found[i].api(now); got.State != want {
			rt.Fatalf("reservation %s is %s, want %s", id, got.State, want)
		}
	}
}
