package sales

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/redisdb"
	"fanfare/store/stock"
	"fanfare/store/storetest"
)

// upcoming is a sale that begins in an hour.
func upcoming(stock, partitions int64) *api.SaleRequest {
	r := request(stock, 60_000, partitions)
	starts, ends := api.At(time.Now().Add(time.Hour)), api.At(time.Now().Add(2*time.Hour))
	r.StartsAt, r.EndsAt = &starts, &ends
	return r
}

// mustEnd puts the end of a sale into the past.
func (p *process) mustEnd(sale string, r *api.SaleRequest) {
	p.t.Helper()
	ends := api.At(time.Now().Add(-time.Minute))
	over := *r
	over.EndsAt = &ends
	_, _, err := p.Put(p.t.Context(), sale, &over, stock.Match{Version: api.AnyVersion})
	storetest.Must(p.t, err)
}

// registryPlace stands for the sale's entry in the registry.
const registryPlace = "its place in the registry"

// keysOf lists what Redis has of a sale without a lifetime.
func (p *process) keysOf(sale string) (keys []string) {
	p.t.Helper()
	for _, key := range p.db.Client().Keys(p.t.Context(), "ff:{sale:"+sale+":*").Val() {
		if p.db.Client().TTL(p.t.Context(), key).Val() < 0 {
			keys = append(keys, key)
		}
	}
	if p.db.Client().HExists(p.t.Context(), "ff:{sales}:live", sale).Val() {
		keys = append(keys, registryPlace)
	}
	return keys
}

// wantGone checks that a sale is gone: for callers, and in Redis.
func (p *process) wantGone(sale string) {
	p.t.Helper()
	_, err := p.read(p.t.Context(), sale)
	storetest.WantCode(p.t, err, api.CodeSaleNotFound)
	if keys := p.keysOf(sale); len(keys) > 0 {
		p.t.Errorf("Redis has %v", keys)
	}
}

// S20: a sale is deleted before it begins, and after it has ended. While it sells, while a hold lives
// in any of its partitions, and until its orders are on record, it is not, and goes on.
func TestS20_ASaleIsDeletedUnlessItSellsOrOwes(t *testing.T) {
	t.Parallel()
	storetest.EachSQL(t, func(t *testing.T, sql string) {
		for _, partitions := range []int64{1, 4} {
			t.Run(fmt.Sprint(partitions), func(t *testing.T) {
				t.Parallel()
				s := setup(t)
				s.sqlURL = sql
				p := s.mustStart(Options{})
				refused := func(want api.Code) {
					t.Helper()
					before, err := p.read(t.Context(), s.sale)
					storetest.Must(t, err)
					storetest.WantCode(t, p.Delete(t.Context(), s.sale, stock.Match{}), want)
					after, err := p.read(t.Context(), s.sale)
					storetest.Must(t, err)
					if fmt.Sprint(before.Items, before.Version) != fmt.Sprint(after.Items, after.Version) {
						t.Errorf("%+v became %+v", before, after)
					}
				}
				storetest.Must(t, p.Delete(t.Context(), s.sale, stock.Match{})) // there is none
				p.mustPut(s.sale, upcoming(9, partitions))
				storetest.Must(t, p.Delete(t.Context(), s.sale, stock.Match{Version: 1}))
				p.wantGone(s.sale)

				r := request(9, 600_000, partitions)
				if made := p.mustPut(s.sale, r); made.Version != 1 {
					t.Errorf("the next sale: %+v", made)
				}
				refused(api.CodeSaleOpen)
				var held []*api.Reservation
				for i := range 9 {
					held = append(held, p.mustBuy(s.sale, fmt.Sprint("u", i), 1))
				}
				refused(api.CodeSaleOpen) // sold out
				p.mustEnd(s.sale, r)
				refused(api.CodeOwed)
				for i, h := range held[1:] {
					_, _, err := p.End(t.Context(), stock.EndHold{Sale: s.sale, ID: h.ID, Sell: i%2 == 0})
					storetest.Must(t, err)
				}
				refused(api.CodeOwed) // a hold, and orders
				p.mustConfirm(s.sale, held[0].ID)
				refused(api.CodeOwed) // orders
				p.work(p.Run, p.write, p.Sweep)
				p.awaitRows(s.sale, 5)
				p.awaitNoneWaiting(s.sale)
				mustError(t, p.Delete(t.Context(), s.sale, stock.Match{Version: 1}), api.CodeVersionMismatch)
				storetest.Must(t, p.Delete(t.Context(), s.sale, stock.Match{Version: 2}))
				p.wantGone(s.sale)
				if orders, err := p.Orders(t.Context(), s.sale, api.Order{}, 10); err != nil || len(orders) != 5 {
					t.Errorf("%d orders, %v", len(orders), err)
				}
				storetest.Must(t, p.Delete(t.Context(), s.sale, stock.Match{})) // again
				mustError(t, p.Delete(t.Context(), s.sale, stock.Match{Version: api.AnyVersion}), api.CodeVersionMismatch)
			})
		}
	})
}

// S20: a sale that ended because it was idle can be deleted, also if somebody reserved lately in
// another partition than the first, and not before.
func TestS20_AnIdleSaleIsDeleted(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.mustStart(Options{})
	r := request(9, 0, 8)
	r.IdleMS = new(int64(3000)) // longer than a busy machine takes for what comes before the first reservation
	p.mustPut(s.sale, r)
	p.work(p.Run, p.write)
	p.mustBuy(s.sale, "u1", 1)
	storetest.Eventually(t, patience, "it is idle", func() bool {
		now, err := p.read(t.Context(), s.sale)
		storetest.Must(t, err)
		err = p.Delete(t.Context(), s.sale, stock.Match{})
		if err == nil {
			return true
		}
		if now.State == api.SaleEnded && api.CodeOf(err) != api.CodeOwed {
			t.Fatalf("it has ended: %v", err)
		}
		return false
	})
	p.wantGone(s.sale)
}

// S20: the id of a sale in which somebody ever reserved is not free again, also if nothing was sold
// and Redis was lost before or after the deletion. Where nobody did, it is free, and the next sale has
// nothing of the one before.
func TestS20_AnIDIsFreeUnlessItWasUsed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ reserve, sell, erase, loseBefore, used bool }{
		"Unused":          {},
		"Released":        {reserve: true, used: true},
		"ReleasedErased":  {reserve: true, erase: true, used: true},
		"Sold":            {reserve: true, sell: true, used: true},
		"ReleasedAndLost": {reserve: true, loseBefore: true, used: true},
		"SoldAndLost":     {reserve: true, sell: true, loseBefore: true, used: true},
	} {
		for _, loseAfter := range []bool{false, true} {
			t.Run(fmt.Sprint(name, loseAfter), func(t *testing.T) {
				t.Parallel()
				s := setup(t)
				p := s.mustStart(Options{})
				lose := func() { storetest.Must(t, p.db.Client().FlushAll(t.Context()).Err()) }
				r := request(5, 600_000, 1)
				p.mustPut(s.sale, r)
				if c.reserve {
					held := p.mustBuy(s.sale, "u", 2)
					_, _, err := p.End(t.Context(), stock.EndHold{Sale: s.sale, ID: held.ID, Sell: c.sell})
					storetest.Must(t, err)
				}
				if c.erase {
					_, _, err := p.Erase(t.Context(), &record.Operation{Subject: "u", Since: time.Now().Add(time.Minute).UnixMilli()})
					storetest.Must(t, err)
				}
				if c.sell {
					p.work(p.Run, p.write)
					p.awaitNoneWaiting(s.sale)
				}
				p.mustEnd(s.sale, r)
				if c.loseBefore {
					lose()
				}
				storetest.Must(t, p.Delete(t.Context(), s.sale, stock.Match{}))
				if loseAfter {
					lose()
				}
				other := s.mustStart(Options{})
				made, created, err := other.Put(t.Context(), s.sale, request(7, 600_000, 3), stock.Match{})
				if c.used {
					mustError(t, err, api.CodeIDUsed)
					_, _, err = other.Put(t.Context(), s.sale, r, stock.Match{Version: 1})
					mustError(t, err, api.CodeIDUsed)
					p.wantGone(s.sale)
					return
				}
				storetest.Must(t, err)
				if !created || made.Version != 1 || made.Partitions != 3 {
					t.Errorf("%+v", made)
				}
				for _, each := range []*process{p, other} { // p knew the sale with one partition
					each.wantItem(s.sale, 7, 0, 0)
				}
				p.mustBuy(s.sale, "u", 7)
				other.wantItem(s.sale, 0, 7, 0)
				lose()
				other.wantItem(s.sale, 7, 0, 0)
			})
		}
	}
}

// S20: whatever a sale went through, an id whose reservations Redis may have lost is not free again; a
// sale that never began leaves it free, also if Redis was lost.
func TestS20_ALossOfRedisFreesNoUsedID(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.mustStart(Options{})
	lose := func() { storetest.Must(t, p.db.Client().FlushAll(t.Context()).Err()) }
	p.mustPut(s.sale, upcoming(5, 1))
	lose()
	storetest.Must(t, p.Delete(t.Context(), s.sale, stock.Match{}))
	r := request(5, 600_000, 1)
	p.mustPut(s.sale, r)
	held := p.mustBuy(s.sale, "u", 2)
	_, _, err := p.End(t.Context(), stock.EndHold{Sale: s.sale, ID: held.ID})
	storetest.Must(t, err)
	_, _, err = p.Put(t.Context(), s.sale, upcoming(5, 1), stock.Match{Version: 1}) // as if it had never begun
	storetest.Must(t, err)
	lose()
	storetest.Must(t, p.Delete(t.Context(), s.sale, stock.Match{}))
	_, _, err = p.Put(t.Context(), s.sale, r, stock.Match{})
	mustError(t, err, api.CodeIDUsed)
}

// S20, S17: a deletion that Redis lost in a fail-over stays done. What the promoted master still has
// of the sale goes when it is asked for or swept, and also after another sale has the id.
func TestS20_ALostDeletionStaysDone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ used, swept, made bool }{
		"Asked": {}, "Swept": {swept: true}, "Used": {used: true}, "UsedSwept": {used: true, swept: true}, "Made": {made: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			p := s.mustStart(Options{})
			r := request(5, 600_000, 2, "s", "another")
			p.mustPut(s.sale, r)
			if c.used {
				held := p.mustBuy(s.sale, "u", 2)
				_, _, err := p.End(t.Context(), stock.EndHold{Sale: s.sale, ID: held.ID})
				storetest.Must(t, err)
			}
			p.mustEnd(s.sale, r)
			s.redisURL = storetest.Redis(t).URL()
			promoted := s.mustStart(Options{})
			copyKeys(t, p, promoted)
			storetest.Must(t, p.Delete(t.Context(), s.sale, stock.Match{}))
			if c.made {
				next := request(6, 600_000, 3, "s", "t")
				p.mustPut(s.sale, next)
				promoted.wantItem(s.sale, 6, 0, 0)
				promoted.mustBuy(s.sale, "u", 6)
				next.IdleMS = new(int64(3_600_000))
				_, _, err := promoted.Put(t.Context(), s.sale, next, stock.Match{Version: 1})
				storetest.Must(t, err)
				return
			}
			if c.swept {
				promoted.work(promoted.Sweep)
				storetest.Eventually(t, patience, "it has left Redis", func() bool { return len(promoted.keysOf(s.sale)) == 0 })
			}
			promoted.wantGone(s.sale)
			_, _, err := promoted.Put(t.Context(), s.sale, r, stock.Match{})
			if c.used {
				mustError(t, err, api.CodeIDUsed)
			} else {
				storetest.Must(t, err)
				promoted.wantItem(s.sale, 5, 0, 0)
			}
		})
	}
}

// copyKeys makes another Redis have the sales of the first, as a replica does.
func copyKeys(t testing.TB, from, to *process) {
	t.Helper()
	for _, key := range from.db.Client().Keys(t.Context(), "ff:{sale*").Val() {
		left := max(from.db.Client().PTTL(t.Context(), key).Val(), 0)
		storetest.Must(t, to.db.Client().Restore(t.Context(), key, left, from.db.Client().Dump(t.Context(), key).Val()).Err())
	}
}

// S20: a process dies at each of its contacts with Redis and before and after SQL's while it deletes
// a sale. Afterwards the sale is there as it was, or it is gone everywhere, also if nobody asks for it;
// and if the deletion was answered it is gone. Redis lost nothing, so the id is free in the end.
func TestS20_KilledAtEveryStep(t *testing.T) {
	t.Parallel()
	kept, gone := 0, 0
	for n := range 100 {
		s := setup(t)
		p := s.mustStart(Options{})
		r := request(9, 600_000, 3)
		p.mustPut(s.sale, r)
		p.mustEnd(s.sale, r)
		var armed atomic.Bool
		m := storetest.DieAt(n)
		dying := s.mustStartOn(storetest.Faulty(t, p.db, func(name string, answered bool) error {
			if !armed.Load() || strings.HasPrefix(name, "lock_") { // else the next process would wait for the end of the lease
				return nil
			}
			return m.Fault(name, answered)
		}), Options{})
		armed.Store(true)
		err := dying.Delete(t.Context(), s.sale, stock.Match{})
		if n%4 < 2 {
			_, _ = p.read(t.Context(), s.sale)
		} else {
			p.work(p.Sweep)
		}
		storetest.Eventually(t, patience, fmt.Sprintf("killed at %d: it is there or gone", n), func() bool {
			row, e := p.rec.Sale(t.Context(), s.sale)
			storetest.Must(t, e)
			if row == nil {
				left := p.keysOf(s.sale)
				return len(left) == 0 || n%4 < 2 && slices.Equal(left, []string{registryPlace}) // a sweep takes it out
			}
			closed, e := p.db.Client().HExists(t.Context(), "ff:{sale:"+s.sale+":0}:sale", "closed").Result()
			return e == nil && !closed
		})
		if now, e := p.read(t.Context(), s.sale); e == nil {
			kept++
			if err == nil || now.Items[0].Available != 9 || now.Version != 2 {
				t.Fatalf("killed at %d: %+v, and the answer was %v", n, now, err)
			}
			storetest.Must(t, p.Delete(t.Context(), s.sale, stock.Match{}))
		} else {
			gone++
			storetest.WantCode(t, e, api.CodeSaleNotFound)
		}
		p.mustPut(s.sale, r)
		p.wantItem(s.sale, 9, 0, 0)
		if !m.Dead() {
			break
		}
	}
	if kept < 3 || gone < 2 {
		t.Errorf("%d are there, %d are gone", kept, gone)
	}
}

// S20: without SQL nothing is deleted, and the sale goes on at once.
func TestS20_WithoutSQLTheSaleGoesOn(t *testing.T) {
	t.Parallel()
	s := setup(t)
	var line *storetest.Proxy
	line, s.sqlURL = storetest.ProxyTo(t, storetest.MySQL(t))
	p := s.mustStart(Options{})
	r := request(5, 600_000, 1)
	p.mustPut(s.sale, r)
	p.mustEnd(s.sale, r)
	before, err := p.live.Sale(t.Context(), s.sale)
	storetest.Must(t, err)
	wantThere := func() {
		t.Helper()
		if now, err := p.live.Sale(t.Context(), s.sale); err != nil || fmt.Sprint(now.Items) != fmt.Sprint(before.Items) {
			t.Errorf("%+v, %v", now, err)
		}
	}
	line.Cut()
	storetest.WantCode(t, p.Delete(t.Context(), s.sale, stock.Match{}), api.CodeUnavailable)
	wantThere()
	storetest.WantCode(t, p.delete(t.Context(), s.sale, stock.Match{}), api.CodeUnavailable) // SQL went away after the first look
	wantThere()
	line.Mend()
	storetest.Must(t, p.Delete(t.Context(), s.sale, stock.Match{}))
	p.wantGone(s.sale)
}

// S20: sales are made, sold, ended and deleted by several processes at the same time. No order of a
// confirmation that was answered is lost, no hold is ended by a deletion, and a used id is never free.
func TestS20_DeletionsRaceWithEverything(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int64{1, 3} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			processes := []*process{s.mustStart(Options{}), s.mustStart(Options{}), s.mustStart(Options{})}
			for _, p := range processes {
				p.work(p.Run, p.write, p.Sweep)
			}
			for round := range 15 {
				sale := fmt.Sprint(s.sale, ".", round)
				race(t, sale, request(5, 600_000, partitions), processes)
			}
		})
	}
}

func race(t *testing.T, sale string, r *api.SaleRequest, processes []*process) {
	t.Helper()
	p := processes[0]
	p.mustPut(sale, r)
	var held []*api.Reservation
	for i := range 4 {
		held = append(held, p.mustBuy(sale, fmt.Sprint("u", i), 1))
	}
	p.mustEnd(sale, r)
	var all sync.WaitGroup
	var mu sync.Mutex
	var sold []string
	ended := make(chan struct{})
	for i, h := range held {
		all.Go(func() {
			<-ended
			_, _, err := processes[i%3].End(t.Context(), stock.EndHold{Sale: sale, ID: h.ID, Sell: i%2 == 0})
			if err != nil {
				t.Errorf("a hold was lost: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			if i%2 == 0 {
				sold = append(sold, h.ID)
			}
		})
	}
	for _, each := range processes {
		all.Go(func() {
			deadline := time.Now().Add(patience)
			for {
				err := each.Delete(t.Context(), sale, stock.Match{})
				if err == nil {
					return
				}
				if api.CodeOf(err) != api.CodeOwed || time.Now().After(deadline) {
					t.Errorf("delete: %v", err)
					return
				}
				redisdb.Sleep(t.Context(), time.Millisecond)
			}
		})
		all.Go(func() {
			for range 20 {
				_, _, err := each.Put(t.Context(), sale, r, stock.Match{Absent: true})
				if code := api.CodeOf(err); code != api.CodeVersionMismatch && code != api.CodeIDUsed {
					t.Errorf("put: %v", err)
				}
			}
		})
	}
	close(ended)
	all.Wait()
	p.wantGone(sale)
	orders, err := p.Orders(t.Context(), sale, api.Order{}, 10)
	storetest.Must(t, err)
	var found []string
	for _, o := range orders {
		found = append(found, o.Reservation)
	}
	slices.Sort(found)
	slices.Sort(sold)
	if !slices.Equal(found, sold) {
		t.Errorf("sold %v, on record %v", sold, found)
	}
}

// S20: the streams of a deleted sale end, and others know at once that it is gone.
func TestS20_AStreamOfADeletedSaleEnds(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p, other := s.mustStart(Options{}), s.mustStart(Options{})
	p.mustPut(s.sale, upcoming(5, 1))
	w, err := other.Watch(t.Context(), s.sale)
	storetest.Must(t, err)
	defer w.Stop()
	<-w.Wake()
	storetest.Must(t, p.Delete(t.Context(), s.sale, stock.Match{}))
	storetest.Eventually(t, patience, "the watcher is told", func() bool { return w.Deleted() })
	<-w.Wake()
	p.mustPut(s.sale, request(3, 600_000, 1))
	storetest.Eventually(t, patience, "a new watcher sees the next sale", func() bool {
		next, err := other.Watch(t.Context(), s.sale)
		if err != nil {
			return false
		}
		defer next.Stop()
		now, fresh := next.Next()
		return fresh && now.Available["s"] == 3 && !next.Deleted()
	})
}

// S20: a sale is deleted and made anew between two reads of those that watch it. Their streams end, and do not
// go on with the next sale.
func TestS20_AStreamDoesNotGoOnWithTheNextSale(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.mustStart(Options{})
	p.mustPut(s.sale, request(5, 60_000, 1)) // the next one, as far as reads can tell
	p.mustPut(s.sale+".2", request(5, 60_000, 1))
	w, err := p.Watch(t.Context(), s.sale)
	storetest.Must(t, err)
	defer w.Stop()
	another, err := p.Watch(t.Context(), s.sale+".2")
	storetest.Must(t, err)
	defer another.Stop()
	<-w.Wake()
	p.onMessage(&redis.Message{Channel: stock.ChangesChannel(s.sale), Payload: "2"})
	if w.Deleted() {
		t.Error("ended by a change")
	}
	p.onMessage(&redis.Message{Channel: stock.ChangesChannel(s.sale), Payload: stock.Deleted})
	if !w.Deleted() || another.Deleted() {
		t.Fatalf("it goes on: %v, and the one of another sale: %v", !w.Deleted(), !another.Deleted())
	}
	<-w.Wake()
}

// S11: a read that began before a change, and ends after it, is not remembered: neither its sale, nor
// in place of what was read since.
func TestS11_AReadThatWasOvertakenIsNotRemembered(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*cache){
		"Change":      func(m *cache) { m.drop("x") },
		"Reservation": func(m *cache) { m.dropState("x") },
		"All":         (*cache).dropAll,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newCache(true)
			frozen := m.now()
			m.clock = func() time.Duration { return frozen } // what is remembered is never too old
			overtaken := func(context.Context, string) (*api.Sale, error) {
				change(m)
				return &api.Sale{Version: 1}, nil
			}
			if s, err := m.fetch(t.Context(), "x", overtaken); err != nil || s.Version != 1 {
				t.Fatalf("its own caller gets %+v, %v", s, err)
			}
			fresh := func(context.Context, string) (*api.Sale, error) { return &api.Sale{Version: 2}, nil }
			if s, err := m.sale(t.Context(), "x", fresh); err != nil || s.Version != 2 {
				t.Errorf("the next caller gets %+v, %v", s, err)
			}
			if _, err := m.fetch(t.Context(), "x", overtaken); err != nil {
				t.Error(err)
			}
			none := func(context.Context, string) (*api.Sale, error) { return nil, errors.New("it was not remembered") }
			m.drop("x")
			if _, err := m.sale(t.Context(), "x", none); err == nil {
				t.Error("a read before the last change was remembered")
			}
		})
	}
}

// A process that missed a deletion and the making of another sale finds the new number of partitions.
func TestS20_AProcessThatMissedADeletion(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.mustStart(Options{})
	deaf := s.mustStartOn(storetest.OpenWith(t, redisdb.Options{URL: s.redisURL, Timeout: 2 * time.Second}), Options{NoLocal: true})
	for _, partitions := range []int64{1, 3, 2} {
		p.mustPut(s.sale, upcoming(5, partitions))
		deaf.wantItem(s.sale, 5, 0, 0)
		if parts, _ := deaf.live.LiveSales(t.Context()); parts[s.sale] != int(partitions) {
			t.Errorf("%d partitions, want %d", parts[s.sale], partitions)
		}
		storetest.Must(t, p.Delete(t.Context(), s.sale, stock.Match{}))
	}
}

// S20: a process missed that a sale was deleted and made anew with another number of partitions. It finds the
// reservations of the new one all the same, whatever it is asked first.
func TestS20_AProcessThatMissedTheDeletionFindsReservations(t *testing.T) {
	t.Parallel()
	const users = 8 // in one of several partitions each
	calls := map[string]func(p *process, sale, user, id string) (found bool, err error){
		"Confirm": func(p *process, sale, _, id string) (bool, error) {
			r, _, err := p.confirm(sale, id)
			return err == nil && r.State == api.ReservationSold, err
		},
		"Extend": func(p *process, sale, _, id string) (bool, error) {
			r, _, err := p.Extend(p.t.Context(), stock.ExtendHold{Sale: sale, ID: id, HoldMS: 1000})
			return err == nil && r.ID == id, err
		},
		"Read": func(p *process, sale, _, id string) (bool, error) {
			r, err := p.Reservation(p.t.Context(), sale, id)
			return err == nil && r.ID == id, err
		},
		"ListOfUser": func(p *process, sale, user, id string) (bool, error) {
			list, _, err := p.Reservations(p.t.Context(), sale, user, "", 10)
			return len(list) == 1 && list[0].ID == id, err
		},
		"ListAfter": func(p *process, sale, user, id string) (bool, error) {
			list, _, err := p.Reservations(p.t.Context(), sale, user, id, 10)
			return len(list) == 0, err
		},
		"ListOfAll": func(p *process, sale, _, _ string) (bool, error) {
			list, _, err := p.EveryReservation(p.t.Context(), sale, "", "", 100)
			return len(list) == users, err
		},
		"Erase": func(p *process, sale, user, _ string) (bool, error) {
			var erased stock.Erased
			storetest.Eventually(p.t, patience, "the user is erased", func() bool {
				more, err := p.live.EraseUser(p.t.Context(), sale, user, time.Now().Add(time.Hour).UnixMilli())
				erased.Released += more.Released
				return err == nil
			})
			return erased.Released == 1, nil
		},
	}
	for _, numbers := range [][2]int64{{1, 3}, {3, 1}, {5, 3}} {
		t.Run(fmt.Sprint(numbers[0], "then", numbers[1]), func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			p := s.mustStart(Options{})
			missed := make([]*process, users)
			for i := range missed {
				missed[i] = s.mustStart(Options{})
			}
			for name, call := range calls {
				sale := s.sale + name
				p.mustPut(sale, upcoming(100, numbers[0]))
				for _, one := range missed {
					_, err := one.read(t.Context(), sale)
					storetest.Must(t, err)
				}
				storetest.Must(t, p.Delete(t.Context(), sale, stock.Match{}))
				p.mustPut(sale, request(100, 60_000, numbers[1]))
				ids := make([]string, users)
				for i := range ids {
					ids[i] = p.mustBuy(sale, fmt.Sprint("u", i), 1).ID
				}
				for i, one := range missed {
					if found, err := call(one, sale, fmt.Sprint("u", i), ids[i]); !found {
						t.Errorf("%s: the reservation %s is not found: %v", name, ids[i], err)
					}
				}
			}
		})
	}
}
