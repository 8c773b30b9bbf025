package sales

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/record"
	"fanfare/store/redisdb"
	"fanfare/store/stock"
	"fanfare/store/storetest"
)

// S13: a confirmation's row follows by the relay, exactly once, on every kind of
// Redis; nothing is left to wait.
func TestS13_OrdersFollow(t *testing.T) {
	t.Parallel()
	for name, partitions := range map[string]int64{"One": 1, "Eight": 8} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
				s := &fixture{t: t, sqlURL: storetest.SQLite(t), sale: "sale." + unused()}
				p := s.mustStartOn(db, Options{})
				p.mustPut(s.sale, request(40, 60_000, partitions))
				p.work(p.Run, p.write)
				var all sync.WaitGroup
				for i := range 20 {
					all.Go(func() {
						r, err := p.buy(s.sale, fmt.Sprint("u", i), 2)
						if err == nil {
							for range 2 {
								_, _, err = p.confirm(s.sale, r.ID)
							}
						}
						if err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				for _, o := range p.awaitRows(s.sale, 20) {
					if o.Sale != s.sale || fmt.Sprint(o.Lines) != "[{s 2}]" || time.Since(time.UnixMilli(o.CreatedAt)).Abs() > time.Hour {
						t.Errorf("%+v", o)
					}
				}
				p.awaitNoneWaiting(s.sale)
			})
		})
	}
}

// awaitNoneWaiting waits until the sale's outbox is empty.
func (p *process) awaitNoneWaiting(sale string) {
	p.t.Helper()
	storetest.Eventually(p.t, patience, "no order waits", func() bool {
		settings, err := p.live.Settings(p.t.Context(), sale)
		for i := range settings.Partitions {
			open, e := p.live.WaitingOrders(p.t.Context(), stock.Ref{Sale: sale, Partition: i}, stock.Order{}, 1)
			if e != nil || len(open) > 0 {
				return false
			}
		}
		return err == nil
	})
}

// S13: the process dies between the confirmation and its job: a sweeper enqueues
// it; and when a relay, a sweeper and a repeat all enqueue it, there is one row.
func TestS13_ASweeperFinishesForTheDead(t *testing.T) {
	t.Parallel()
	s := setup(t)
	dead := s.mustStart(Options{}) // its relay never runs
	dead.mustPut(s.sale, request(10, 60_000, 1))
	for i := range 5 {
		dead.mustConfirm(s.sale, dead.mustBuy(s.sale, fmt.Sprint("u", i), 1).ID)
	}
	stats, err := dead.Stats(t.Context())
	storetest.Must(t, err)
	if stats.WaitingOrders != 5 {
		t.Errorf("5 confirms wait, stats say %+v", stats)
	}
	p := s.mustStart(Options{SweepAge: time.Millisecond})
	p.work(p.Sweep, p.write)
	rows := p.awaitRows(s.sale, 5)
	var again []queue.Job
	for i := range rows {
		again = append(again, orderJob(stock.Order(rows[i])))
	}
	_, err = p.jobs.Enqueue(t.Context(), again...)
	storetest.Must(t, err)
	p.awaitNoneWaiting(s.sale)
	storetest.Eventually(t, patience, "the queue is empty", func() bool {
		stats, err := p.jobs.Stats(t.Context())
		return err == nil && stats.Depth+stats.InFlight+stats.Scheduled == 0
	})
	p.awaitRows(s.sale, 5)
}

// S13: SQL is away: the answer is 200 all the same, stats show what waits, and
// the rows follow when it is back.
func TestS13_SQLAway(t *testing.T) {
	t.Parallel()
	s := setup(t)
	var line *storetest.Proxy
	line, s.sqlURL = storetest.ProxyTo(t, storetest.MySQL(t))
	p := s.mustStart(Options{})
	p.mustPut(s.sale, request(10, 60_000, 1))
	p.work(p.Run, p.Sweep, p.write)
	line.Cut()
	for i := range 5 {
		p.mustConfirm(s.sale, p.mustBuy(s.sale, fmt.Sprint("u", i), 1).ID)
	}
	p.wantItem(s.sale, 5, 0, 5)
	stats, err := p.Stats(t.Context())
	storetest.Must(t, err)
	if stats.WaitingOrders != 5 {
		t.Errorf("stats: %+v", stats)
	}
	line.Mend()
	p.awaitRows(s.sale, 5)
	p.awaitNoneWaiting(s.sale)
}

// S13: Redis is emptied: the sale is rebuilt on first use from the record, by one
// process, however many ask; open holds are gone, sold reservations are known.
func TestS13_RebuiltFromTheRecord(t *testing.T) {
	t.Parallel()
	for name, partitions := range map[string]int64{"One": 1, "Four": 4} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			var restored, failed atomic.Int64
			count := Options{OnRestore: func(outcome string) { map[string]*atomic.Int64{"done": &restored, "failed": &failed}[outcome].Add(1) }}
			p, other := s.mustStart(count), s.mustStart(count)
			limit := int64(3)
			r := request(20, 60_000, partitions)
			r.PerUserLimit = &limit
			p.mustPut(s.sale, r)
			stop := p.work(p.Run, p.write)
			p.mustRestock(s.sale, 5)
			var sold []string
			for i := range 6 {
				sold = append(sold, p.mustBuy(s.sale, fmt.Sprint("u", i), 2).ID)
				p.mustConfirm(s.sale, sold[i])
			}
			held := p.mustBuy(s.sale, "holder", 3)
			p.awaitRows(s.sale, 6)
			stop()
			storetest.Must(t, p.db.Client().FlushAll(t.Context()).Err())
			storetest.Must(t, p.jobs.Init(t.Context()))

			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() {
					if _, err := []*process{p, other}[i%2].read(t.Context(), s.sale); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			p.wantItem(s.sale, 13, 0, 12)
			if restored.Load() != 1 || failed.Load() != 0 {
				t.Errorf("it was restored %d times, in vain %d", restored.Load(), failed.Load())
			}
			got, err := other.Reservation(t.Context(), s.sale, sold[0])
			storetest.Must(t, err)
			if got.State != api.ReservationSold || got.User != "u0" {
				t.Errorf("%+v", got)
			}
			p.mustConfirm(s.sale, sold[1]) // the same answer as before
			_, err = p.Reservation(t.Context(), s.sale, held.ID)
			storetest.WantCode(t, err, api.CodeNotFound)
			_, err = other.buy(s.sale, "u0", 2)
			if e := mustError(t, err, api.CodeLimitReached); e.Facts["remaining"] != int64(1) {
				t.Errorf("what a user bought does not count any more: %+v", e.Facts)
			}
			now, err := p.read(t.Context(), s.sale)
			storetest.Must(t, err)
			if now.Version != 2 {
				t.Errorf("version %d", now.Version)
			}
		})
	}
}

// S13: a job that writes its row while the sale is being rebuilt from the rows
// before it: the unit is not sold again.
func TestS13_ARowWrittenDuringTheRebuild(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.mustStart(Options{})
	p.mustPut(s.sale, request(1, 60_000, 1))
	r := p.mustBuy(s.sale, "u", 1)
	p.mustConfirm(s.sale, r.ID)
	late := <-p.relay // claimed by a job, not yet written
	storetest.Must(t, p.db.Client().FlushAll(t.Context()).Err())
	p.wantItem(s.sale, 1, 0, 0) // rebuilt without it
	if result := p.writeOrder(t.Context(), &queue.Claimed{Job: orderJob(late)}); result.Outcome != queue.Done {
		t.Fatalf("%+v", result)
	}
	p.wantItem(s.sale, 0, 0, 1)
	if _, err := p.buy(s.sale, "v", 1); api.CodeOf(err) != api.CodeSoldOut {
		t.Errorf("sold twice: %v", err)
	}
	p.awaitRows(s.sale, 1)
}

// S13: the process that rebuilds dies on the way: another one does it after its
// lease, and nobody is told that the sale is not there.
func TestS13_TheRebuilderDies(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.mustStart(Options{})
	p.mustPut(s.sale, request(3, 60_000, 1))
	settings, err := p.rec.LoadSale(t.Context(), s.sale, stock.NewLoading(""))
	storetest.Must(t, err)
	storetest.Must(t, p.db.Client().FlushAll(t.Context()).Err())
	answer, err := p.locker.TryAcquire(t.Context(), s.sale)
	storetest.Must(t, err)
	if answer.Lease == nil {
		t.Fatalf("%+v", answer)
	}
	storetest.Must(t, p.live.Load(t.Context(), settingsOf(settings))) // and then it dies
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	other := s.mustStart(Options{})
	_, err = other.read(ctx, s.sale)
	storetest.WantCode(t, err, api.CodeUnavailable)
	other.wantItem(s.sale, 3, 0, 0)
}

// S13: without SQL a lost sale is out of reach, not missing and not sold out.
func TestS13_LostWhileSQLIsAway(t *testing.T) {
	t.Parallel()
	s := setup(t)
	var line *storetest.Proxy
	line, s.sqlURL = storetest.ProxyTo(t, storetest.MySQL(t))
	p := s.mustStart(Options{})
	p.mustPut(s.sale, request(3, 60_000, 1))
	storetest.Must(t, p.db.Client().FlushAll(t.Context()).Err())
	line.Cut()
	_, err := p.buy(s.sale, "u", 1)
	storetest.WantCode(t, err, api.CodeUnavailable)
	_, err = p.read(t.Context(), s.sale)
	storetest.WantCode(t, err, api.CodeUnavailable)
	line.Mend()
	storetest.Eventually(t, patience, "the sale is back", func() bool { _, err := p.buy(s.sale, "u", 1); return err == nil })
}

// An order that cannot be read is given up, never tried for ever.
func TestBadOrderJob(t *testing.T) {
	t.Parallel()
	p := setup(t).mustStart(Options{})
	for _, payload := range []string{"", "x", "{}", `{"reservation":7}`} {
		if r := p.writeOrder(t.Context(), &queue.Claimed{Job: queue.Job{Payload: []byte(payload)}}); r.Outcome != queue.Dead {
			t.Errorf("%q: %+v", payload, r)
		}
	}
}

// Writers that come while a transaction is under way share the next, 100 at most.
func TestOrdersOfOneTransaction(t *testing.T) {
	t.Parallel()
	gate, sizes := make(chan struct{}), make(chan int, 1000)
	w := newOrderWriter(func(_ context.Context, orders []record.Order) error {
		<-gate
		sizes <- len(orders)
		return nil
	})
	var all sync.WaitGroup
	for i := range 250 {
		all.Go(func() {
			if _, err := w.Do(t.Context(), record.Order{Reservation: fmt.Sprint(i)}); err != nil {
				t.Error(err)
			}
		})
	}
	close(gate)
	all.Wait()
	total := 0
	for range len(sizes) {
		n := <-sizes
		total += n
		if n > ordersPerWrite {
			t.Errorf("%d in one transaction", n)
		}
	}
	if total != 250 {
		t.Errorf("%d orders written", total)
	}
}
