package sales

import (
	"fmt"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/stock"
	"fanfare/store/storetest"
)

// masters are two processes with one record, each on a Redis of its own that takes writes: a
// master that is cut off, and the one that was promoted meanwhile, which has what the first had
// replicated.
type masters struct {
	*fixture
	cut, promoted *process
}

// setupMasters makes a sale of 10 units on the first, before the second is promoted.
func setupMasters(t *testing.T, partitions int64) *masters {
	t.Helper()
	s := setup(t)
	m := &masters{fixture: s, cut: s.mustStart(Options{})}
	m.cut.mustPut(s.sale, request(10, 60_000, partitions))
	s.redisURL = storetest.Redis(t).URL()
	m.promoted = s.mustStart(Options{})
	from, to := m.cut.db.Client(), m.promoted.db.Client()
	for _, key := range from.Keys(t.Context(), "ff:{sale*").Val() {
		storetest.Must(t, to.Restore(t.Context(), key, 0, from.Dump(t.Context(), key).Val()).Err())
	}
	m.promoted.wantItem(s.sale, 10, 0, 0) // compared with the record
	return m
}

// restock adds units by an idempotency key.
func (p *process) restock(sale, key string, delta int64) (Restocked, error) {
	return p.AddStock(p.t.Context(), sale, &api.StockRequest{SKU: "s", Delta: &delta}, stock.Match{}, api.Idempotency{Scope: "test", Key: key})
}

// total is how many units there are of "s", live and on record.
func (p *process) total(sale string) string {
	p.t.Helper()
	now, err := p.read(p.t.Context(), sale)
	storetest.Must(p.t, err)
	row, err := p.rec.Sale(p.t.Context(), sale)
	storetest.Must(p.t, err)
	return fmt.Sprint(now.Items[0].Total, " ", row.Items[0].Total)
}

// S9, S17: two masters change the same sale. Nobody is told of a change that is not on record,
// and a repeat does it: each change of stock is in the total once, whichever master stays.
func TestS17_TwoMastersChangeASale(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int64{1, 3} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			t.Parallel()
			m := setupMasters(t, partitions)
			_, err := m.cut.restock(m.sale, "a", 100) // version 2 of one
			storetest.WantCode(t, err, api.CodeUnknownOutcome)
			_, err = m.promoted.restock(m.sale, "b", 1000) // version 2 of the other
			storetest.Must(t, err)
			if got := m.promoted.total(m.sale); got != "1010 1010" {
				t.Errorf("live and on record: %s", got)
			}
			again, err := m.cut.restock(m.sale, "a", 100)
			storetest.Must(t, err)
			if again.Replayed || again.Item.Total != 1110 {
				t.Errorf("the repeat: %+v", again)
			}
			_, err = m.promoted.restock(m.sale, "c", 10000)
			storetest.WantCode(t, err, api.CodeUnknownOutcome)
			repeat, err := m.promoted.restock(m.sale, "a", 100) // what the other did is known here
			storetest.Must(t, err)
			if !repeat.Replayed {
				t.Errorf("it was done twice: %+v", repeat)
			}
			_, err = m.promoted.restock(m.sale, "c", 10000)
			storetest.Must(t, err)
			if got := m.promoted.total(m.sale); got != "11110 11110" {
				t.Errorf("live and on record: %s", got)
			}
			m.promoted.mustBuy(m.sale, "u", 900)
			m.promoted.wantItem(m.sale, 10210, 900, 0)
		})
	}
}

// S9, S17: what a master was refused is finished by its sweeper: the sale goes on as it is on
// record, and so does a sku that the record has not heard of, without units.
func TestS17_ARefusedChangeIsTakenBack(t *testing.T) {
	t.Parallel()
	m := setupMasters(t, 2)
	m.promoted.mustRestock(m.sale, 1)
	_, err := m.cut.live.Put(t.Context(), stock.PutSale{Sale: m.sale, Request: request(70, 60_000, 2, "s", "t"), Match: stock.Match{Version: 1}})
	storetest.Must(t, err) // and then the process dies
	m.cut.work(m.cut.Sweep)
	storetest.Eventually(t, patience, "the sale is as on record", func() bool {
		now, err := m.cut.read(t.Context(), m.sale)
		return err == nil && len(now.Items) == 2 && now.Items[0].Total == 11 && now.Items[1].Total == 0 && now.Items[1].Available == 0
	})
}

// S17: a sale that two masters made, because the record had not heard of it, is the one that is
// on record.
func TestS17_TwoMastersMakeASale(t *testing.T) {
	t.Parallel()
	s := setup(t)
	cut := s.mustStart(Options{})
	_, err := cut.put(t.Context(), stock.PutSale{Sale: s.sale, Request: request(10, 60_000, 1)})
	storetest.Must(t, err) // and then the process stands still
	s.redisURL = storetest.Redis(t).URL()
	promoted := s.mustStart(Options{})
	promoted.mustPut(s.sale, request(20, 60_000, 1))
	storetest.WantCode(t, cut.finishSettings(t.Context(), s.sale), api.CodeUnavailable)
	cut.mustRestock(s.sale, 1)
	if got := cut.total(s.sale); got != "21 21" {
		t.Errorf("live and on record: %s", got)
	}
}

// S17: orders go on record through a master that was cut off, after the other was opened. They
// are sold there, too, and what both have sold is shown as oversold.
func TestS17_OrdersThroughAMasterThatWasCutOff(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int64{1, 3} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			t.Parallel()
			m := setupMasters(t, partitions)
			m.promoted.work(m.promoted.Sweep)
			m.promoted.mustBuy(m.sale, "v", 6)
			m.cut.work(m.cut.Run, m.cut.write)
			sold := func(user string, n int64, field string, want string) {
				t.Helper()
				m.cut.mustConfirm(m.sale, m.cut.mustBuy(m.sale, user, n).ID)
				m.cut.awaitNoneWaiting(m.sale)
				// As if more than compareEvery had gone by since then.
				settings := m.promoted.db.Client()
				past := time.Now().Add(-31 * time.Second).UnixMilli()
				storetest.Must(t, settings.HSet(t.Context(), "ff:{sale:"+m.sale+":0}:sale", field, past).Err())
				storetest.Eventually(t, patience, "the order is sold", func() bool {
					now, err := m.promoted.read(t.Context(), m.sale)
					stats, e := m.promoted.Stats(t.Context())
					return err == nil && e == nil && fmt.Sprint(now.Items[0].Sold, stats.Oversold[m.sale]["s"]) == want
				})
			}
			sold("u", 3, "opened", "3 0")
			sold("w", 4, "compared", "7 3")
		})
	}
}
