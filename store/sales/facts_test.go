package sales

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/facts"
	"fanfare/store/queue"
	"fanfare/store/record"
	"fanfare/store/redisdb"
	"fanfare/store/stock"
	"fanfare/store/storetest"
)

// tellingProcess is a process that tells facts about its sales.
type tellingProcess struct {
	*process
	facts *facts.Store
}

// mustTell starts a process with a relay of facts, which tells all types.
func (s *fixture) mustTell(db *redisdb.DB, o Options) *tellingProcess {
	s.t.Helper()
	events := queue.New(db, queue.Options{Name: "events-" + s.sale, Shards: 4, Lanes: true})
	storetest.Must(s.t, events.Init(s.t.Context()))
	on := func(string) bool { return true }
	p := &tellingProcess{facts: facts.New(facts.Options{DB: db, Events: events, On: on})}
	o.Facts = stock.Facts{
		Tells: on,
		Left:  func(o stock.FactOutbox) { p.facts.Left(facts.OutboxOfSlot(o.Name, o.Key)) },
		Move: func(ctx context.Context, o stock.FactOutbox) error {
			return p.facts.Move(ctx, facts.OutboxOfSlot(o.Name, o.Key))
		},
	}
	p.process = s.mustStartOn(db, o)
	return p
}

// all reads all facts, by type and key.
func (p *tellingProcess) all() map[string]map[string][]api.Fact {
	p.t.Helper()
	found := map[string]map[string][]api.Fact{}
	for after := ""; ; {
		list, err := p.facts.Read(p.t.Context(), nil, after, nil, 1000)
		storetest.Must(p.t, err)
		for _, f := range list.Items {
			if found[f.Type] == nil {
				found[f.Type] = map[string][]api.Fact{}
			}
			found[f.Type][f.Key] = append(found[f.Type][f.Key], f)
		}
		if list.Gap != 0 {
			p.t.Fatalf("a gap of %d", list.Gap)
		}
		if list.Next == after {
			return found
		}
		after = list.Next
	}
}

// H1: thousands of buyers, some of whom do not pay, in two processes, beside processes that die wherever they are: of each order
// on record and of each hold that is over the feed tells once, with what the order says, and that little is left.
func TestH1_FactsOfASale(t *testing.T) {
	t.Parallel()
	buyers := storetest.Sized(3000, 600)
	for name, partitions := range map[string]int64{"One": 1, "Four": 4} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.EachRedisOwn(t, func(t *testing.T, db *redisdb.DB) {
				s := &fixture{t: t, sqlURL: storetest.SQLite(t), sale: "sale." + unused()}
				sellers := []*tellingProcess{s.mustTell(db, Options{SweepAge: 50 * time.Millisecond}), s.mustTell(db, Options{SweepAge: 50 * time.Millisecond})}
				r := request(int64(buyers), 1500, partitions)
				r.Items[0].LowAt = new(int64(buyers / 2))
				sellers[0].mustPut(s.sale, r)
				for _, p := range sellers {
					p.work(p.Run, p.Sweep, p.write, p.facts.Run)
				}
				ctx, stop := context.WithCancel(t.Context())
				var mortals sync.WaitGroup
				mortals.Go(func() {
					for n := 0; ctx.Err() == nil; n++ {
						s.dieAtWork(ctx, storetest.Faulty(t, db, storetest.DieAt(n%37).Fault))
					}
				})
				var mu sync.Mutex
				held := map[string]string{} // reservation -> user
				sold := map[string]bool{}
				storetest.AtOnce(t, 32, func(_ context.Context, i int) error {
					for n := i; n < buyers; n += 32 {
						user := fmt.Sprint("u", n)
						got, err := sellers[n%2].buy(s.sale, user, 1)
						if err != nil {
							return err
						}
						paid := false
						if n%3 > 0 {
							_, _, err := sellers[n/2%2].confirm(s.sale, got.ID)
							if paid = err == nil; err != nil && api.CodeOf(err) != api.CodeNotHeld {
								return err
							}
						}
						mu.Lock()
						held[got.ID], sold[got.ID] = user, paid
						mu.Unlock()
					}
					return nil
				})
				orders := 0
				for _, paid := range sold {
					if paid {
						orders++
					}
				}
				told := map[string]map[string][]api.Fact{}
				storetest.Eventually(t, 4*patience, "all is told", func() bool {
					told = sellers[0].all()
					return len(told[api.FactOrderCreated]) >= orders && len(told[api.FactHoldExpired]) >= buyers-orders
				})
				stop()
				mortals.Wait()
				sellers[0].awaitRows(s.sale, orders)
				sellers[0].awaitNothingLeft(s.sale, partitions)
				told = sellers[0].all()
				for id, user := range held {
					typ := api.FactHoldExpired
					if sold[id] {
						typ = api.FactOrderCreated
					}
					facts := told[typ][id]
					if len(facts) != 1 {
						t.Errorf("%s of %s was told %d times", typ, id, len(facts))
						continue
					}
					want := fmt.Sprintf(`{"sale":%q,"reservation":%q,"user":%q,"lines":[{"sku":"s","quantity":1}]`, s.sale, id, user)
					if got := string(facts[0].Data); !strings.HasPrefix(got, want) {
						t.Errorf("told: %s, want %s", got, want)
					}
				}
				if len(told[api.FactOrderCreated])+len(told[api.FactHoldExpired]) != buyers {
					t.Errorf("%d orders and %d holds were told of %d", len(told[api.FactOrderCreated]), len(told[api.FactHoldExpired]), buyers)
				}
				below := told[api.FactStockBelow][s.sale]
				if len(below) == 0 || !slices.IsSortedFunc(below, func(a, b api.Fact) int { return a.At.Compare(b.At.Time) }) {
					t.Errorf("below: %v", below)
				}
				for _, f := range below {
					var data struct {
						Available int64
						LowAt     int64 `json:"low_at"`
					}
					storetest.Must(t, json.Unmarshal(f.Data, &data))
					if data.LowAt != int64(buyers/2) || data.Available > data.LowAt {
						t.Errorf("told: %s", f.Data)
					}
				}
			})
		})
	}
}

// dieAtWork is a process that works until it dies, or some steps later.
func (s *fixture) dieAtWork(ctx context.Context, db *redisdb.DB) {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	events := queue.New(db, queue.Options{Name: "events-" + s.sale, Shards: 4, Lanes: true})
	relay := facts.New(facts.Options{DB: db, Events: events, On: func(string) bool { return true }})
	live := stock.New(db, stock.Options{Facts: stock.Facts{Tells: func(string) bool { return true }, Left: func(o stock.FactOutbox) { relay.Left(facts.OutboxOfSlot(o.Name, o.Key)) }}})
	var all sync.WaitGroup
	all.Go(func() { _ = relay.Run(ctx) })
	all.Go(func() { _ = live.Run(ctx) })
	all.Wait()
}

// awaitNothingLeft waits until the outboxes of a sale are empty.
func (p *tellingProcess) awaitNothingLeft(sale string, partitions int64) {
	p.t.Helper()
	storetest.Eventually(p.t, patience, "all facts are moved", func() bool {
		left := int64(0)
		for n := range partitions {
			left += p.db.Client().XLen(p.t.Context(), fmt.Sprintf("ff:{sale:%s:%d}:facts:out", sale, n)).Val()
		}
		return left == 0
	})
}

// H1: a process that dies between a step and the move of its fact leaves that to the sweepers, which have it moved within a
// second.
func TestH1_FactsOfTheDead(t *testing.T) {
	t.Parallel()
	s := setup(t)
	dead := s.mustTell(storetest.Open(t, s.redisURL), Options{}) // its relay never runs
	dead.mustPut(s.sale, request(20, 60_000, 3))
	var orders []stock.Order
	for i := range 12 {
		dead.mustConfirm(s.sale, dead.mustBuy(s.sale, fmt.Sprint("u", i), 1).ID)
	}
	for n := range 3 {
		page, err := dead.live.WaitingOrders(t.Context(), stock.Ref{Sale: s.sale, Partition: n}, stock.Order{}, 20)
		storetest.Must(t, err)
		orders = append(orders, page...)
	}
	p := s.mustTell(storetest.Open(t, s.redisURL), Options{})
	p.work(p.Sweep, p.facts.Run)
	storetest.InTime(t, time.Second, "the order is told", func(n int) time.Duration {
		began := time.Now()
		_, err := dead.live.OrdersRecorded(t.Context(), s.sale, orders[n])
		storetest.Must(t, err)
		p.awaitTold(api.FactOrderCreated, orders[n].Reservation)
		return time.Since(began)
	})
}

// awaitTold waits until the feed tells of a key, and returns when it began to.
func (p *tellingProcess) awaitTold(typ, key string) time.Time {
	p.t.Helper()
	var told []api.Fact
	storetest.Eventually(p.t, patience, typ+" of "+key, func() bool { told = p.all()[typ][key]; return len(told) > 0 })
	ms, err := strconv.ParseInt(strings.Split(told[0].ID, "-")[1], 10, 64)
	storetest.Must(p.t, err)
	return time.UnixMilli(ms)
}

// H1: though its seller has died, the feed tells of a sale within two seconds that a hold is over, and within three that little is
// left: it may take a second to return the units, two to see a sum of several partitions, and one more to move the fact.
func TestH1_FactsOfASaleComeInTime(t *testing.T) {
	t.Parallel()
	s := setup(t)
	dead := s.mustTell(storetest.Open(t, s.redisURL), Options{}) // it runs no loops
	p := s.mustTell(storetest.Open(t, s.redisURL), Options{})
	p.work(p.Run, p.Sweep, p.write, p.facts.Run)
	for _, partitions := range []int64{1, 4} {
		ending, lasting := fmt.Sprint(s.sale, ".ending", partitions), fmt.Sprint(s.sale, ".lasting", partitions)
		dead.mustPut(ending, request(100, 700, partitions))
		storetest.InTime(t, 2*time.Second, fmt.Sprintf("the end of a hold is told, with %d partitions", partitions), func(n int) time.Duration {
			held := dead.mustBuy(ending, fmt.Sprint("u", n), 1)
			return p.awaitTold(api.FactHoldExpired, held.ID).Sub(held.ExpiresAt.Time)
		})
		storetest.InTime(t, 3*time.Second, fmt.Sprintf("a sku that is low is told, with %d partitions", partitions), func(n int) time.Duration {
			sale, r := fmt.Sprint(lasting, ".", n), request(10, 600_000, partitions)
			r.Items[0].LowAt = new(int64(5))
			dead.mustPut(sale, r)
			began := time.Now()
			dead.mustBuy(sale, "u", 6)
			return p.awaitTold(api.FactStockBelow, sale).Sub(began)
		})
	}
}

// S20, H1: a sale that is deleted leaves the facts of its last steps.
func TestADeletedSaleHasToldItsFacts(t *testing.T) {
	t.Parallel()
	storetest.EachRedisOwn(t, func(t *testing.T, db *redisdb.DB) {
		for _, partitions := range []int64{1, 3} {
			s := &fixture{t: t, sqlURL: storetest.SQLite(t), sale: "sale." + unused()}
			p := s.mustTell(db, Options{})
			r := request(10, 1, partitions)
			p.mustPut(s.sale, r)
			for i := range 8 {
				p.mustBuy(s.sale, fmt.Sprint("u", i), 1)
			}
			r.EndsAt = new(api.At(time.Now().Add(-time.Minute)))
			_, _, err := p.Put(t.Context(), s.sale, r, stock.Match{Version: api.AnyVersion})
			storetest.Must(t, err)
			storetest.Eventually(t, patience, "all holds are over", func() bool {
				err := p.Delete(t.Context(), s.sale, stock.Match{})
				return err == nil
			})
			if n := len(p.all()[api.FactHoldExpired]); n != 8 {
				t.Errorf("%d of 8 holds were told", n)
			}
			keys, err := db.Client().Exists(t.Context(), "ff:{sale:"+s.sale+":0}:facts:out").Result()
			if err != nil || keys != 0 {
				t.Errorf("its outbox is there: %v", err)
			}
		}
	})
}

// E7: an erasure is not done while an order of the user waits for SQL: the fact that tells of it then is erased, too.
func TestE7_AnErasureAwaitsOrders(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.mustTell(storetest.Open(t, s.redisURL), Options{})
	p.mustPut(s.sale, request(10, 60_000, 1))
	p.mustConfirm(s.sale, p.mustBuy(s.sale, "ann", 1).ID)
	erase := func() bool {
		_, busy, err := p.Erase(t.Context(), &record.Operation{Subject: "ann", Since: time.Now().Add(time.Minute).UnixMilli()})
		storetest.Must(t, err)
		return busy
	}
	if !erase() {
		t.Error("it did not wait for the order")
	}
	p.work(p.Sweep, p.write, p.facts.Run)
	storetest.Eventually(t, patience, "the order is on record", func() bool { return !erase() })
	storetest.Eventually(t, patience, "it is told", func() bool { return len(p.all()[api.FactOrderCreated]) == 1 })
}
