package stock

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// liveWorld is a sale on a Redis, with a name of its own.
type liveWorld struct {
	*Live
	t    testing.TB
	db   *redisdb.DB
	sale string
}

// patience is how long tests wait for what should take a moment.
const patience = 30 * time.Second

// eachLive runs a test on a real node, the embedded Redis and a Cluster.
func eachLive(t *testing.T, fn func(t *testing.T, w *liveWorld)) {
	t.Helper()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) { fn(t, newLiveWorld(t, db)) })
}

func newLiveWorld(t testing.TB, db *redisdb.DB) *liveWorld {
	return &liveWorld{Live: New(db, Options{}), t: t, db: db, sale: "sale." + newRequest()[:12]}
}

// another is the same sale through a process of its own.
func (w *liveWorld) another(o Options) *liveWorld {
	return &liveWorld{Live: New(w.db, o), t: w.t, db: w.db, sale: w.sale}
}

// faulty is another process, with a fault between it and Redis.
func (w *liveWorld) faulty(o Options, f storetest.Fault) *liveWorld {
	return &liveWorld{Live: New(storetest.Faulty(w.t, w.db, f), o), t: w.t, db: w.db, sale: w.sale}
}

// sweepOn lets a process's sweeper run until the test ends.
func (w *liveWorld) sweepOn() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	w.t.Cleanup(func() { cancel(); <-done })
}

// Sweep is one round of Run, which waits for all that it finds to do.
func (l *Live) Sweep(ctx context.Context) error {
	found, err := l.sweep(ctx, nil)
	for _, f := range found {
		if f.owes {
			err = cmp.Or(err, l.maintain(ctx, f))
		}
		if f.looks {
			_, e := l.look(ctx, f)
			err = cmp.Or(err, e)
		}
	}
	return err
}

// newID is an id that no reservation has.
func newID(index int) string {
	return idOf(&partition{index: index}, newRequest())
}

// offer is what a sale begins with: open for an hour, one sku "s".
type offer struct {
	stock                         map[string]int64
	starts, ends                  time.Duration // from now by Redis' clock
	limit, hold, idle, partitions int64
	maxHold                       int64
}

func (w *liveWorld) request(o offer) *api.SaleRequest {
	w.t.Helper()
	now := w.now()
	if o.ends == 0 {
		o.ends = time.Hour
	}
	starts, ends := api.At(now.Add(o.starts)), api.At(now.Add(o.ends))
	r := &api.SaleRequest{StartsAt: &starts, EndsAt: &ends}
	for _, sku := range []string{"a", "b", "c", "s"} {
		if n, ok := o.stock[sku]; ok {
			r.Items = append(r.Items, api.SaleStock{SKU: sku, Stock: &n})
		}
	}
	if o.limit > 0 {
		r.PerUserLimit = &o.limit
	}
	if o.hold != 0 {
		hold := max(o.hold, 0) // -1 sells at once
		r.HoldMS = &hold
	}
	if o.maxHold > 0 {
		r.MaxHoldMS = &o.maxHold
	}
	if o.idle > 0 {
		r.IdleMS = &o.idle
	}
	if o.partitions > 0 {
		r.Partitions = &o.partitions
	}
	return r
}

func (w *liveWorld) now() time.Time {
	w.t.Helper()
	now, err := w.db.Client().Time(context.Background()).Result()
	storetest.Must(w.t, err)
	return now
}

// mustOpen makes the sale.
func (w *liveWorld) mustOpen(o offer) *api.SaleRequest {
	w.t.Helper()
	r := w.request(o)
	c, err := w.Put(context.Background(), PutSale{Sale: w.sale, Request: r, New: true})
	storetest.Must(w.t, err)
	if !c.Created || c.Sale.Version != 1 {
		w.t.Fatalf("made: %+v", c)
	}
	return r
}

func (w *liveWorld) reserve(user string, lines ...api.Line) (Reserved, error) {
	return w.Reserve(context.Background(), ReserveStock{Sale: w.sale, Request: &api.ReservationRequest{User: user, Lines: lines}})
}

func (w *liveWorld) mustReserve(user string, lines ...api.Line) api.Reservation {
	w.t.Helper()
	r, err := w.reserve(user, lines...)
	storetest.Must(w.t, err)
	return r.Reservation
}

func units(sku string, n int64) api.Line { return api.Line{SKU: sku, Quantity: n} }

func (w *liveWorld) mustRead() *api.Sale {
	w.t.Helper()
	s, err := w.Sale(context.Background(), w.sale)
	storetest.Must(w.t, err)
	return s
}

// want compares a sku's numbers: "available held sold total".
func (w *liveWorld) want(sku, numbers string) {
	w.t.Helper()
	if got := w.numbers(sku); got != numbers {
		w.t.Fatalf("%s is %s, want %s", sku, got, numbers)
	}
}

func (w *liveWorld) numbers(sku string) string {
	w.t.Helper()
	for _, item := range w.mustRead().Items {
		if item.SKU == sku {
			return fmt.Sprint(item.Available, item.Held, item.Sold, item.Total)
		}
	}
	w.t.Fatalf("no sku %s", sku)
	return ""
}

// mustAddUp checks every partition and what is on its way against the totals.
func (w *liveWorld) mustAddUp() []*partitionState {
	w.t.Helper()
	parts, err := w.partitionsOf(context.Background(), w.sale)
	storetest.Must(w.t, err)
	found, err := w.readStates(context.Background(), parts...)
	storetest.Must(w.t, err)
	for _, item := range found[0].settings.Items {
		sum := int64(0)
		for _, k := range found {
			n := k.stock[item.SKU]
			sum += n.sum()
			if n.available < 0 || n.held < 0 || n.sold < 0 || n.oversold < 0 {
				w.t.Fatalf("%s: %+v", item.SKU, n)
			}
		}
		for _, t := range underway(found) {
			if !w.db.Client().SIsMember(context.Background(), parts[t.to].seen, t.id).Val() {
				for _, line := range parseLines(t.lines) {
					if line.SKU == item.SKU {
						sum += line.Quantity
					}
				}
			}
		}
		if sum != item.Total {
			w.t.Fatalf("%s: all partitions have %d, the total is %d", item.SKU, sum, item.Total)
		}
	}
	return found
}

// orderOf is an order on record that Redis does not know.
func orderOf(w *liveWorld, user string, n int64) Order {
	parts, err := w.partitionsOf(context.Background(), w.sale)
	storetest.Must(w.t, err)
	return Order{
		Reservation: newID(Home(user, len(parts))), Sale: w.sale, User: user,
		Lines: []api.Line{units("s", n)}, CreatedAt: w.now().UnixMilli(),
	}
}
