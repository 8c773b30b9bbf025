package stock

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

// S9: SQL is written before the answer; while it is away the answer is
// unknown_outcome, the change is there, and the outbox completes it.
func TestS9_TheRecordFollowsTheScript(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	var line *cable
	line, s.sqlURL = mustCable(t)
	p := s.mustStaff(Options{})
	p.mustPut(s.sale, request(5, 60_000, 1))
	onRecord := func() record.Sale {
		r, err := p.rec.Sale(t.Context(), s.sale)
		if err != nil || r == nil {
			return record.Sale{}
		}
		return *r
	}
	if r := onRecord(); r.Version != 1 || fmt.Sprint(r.Items) != "[{s 5}]" {
		t.Fatalf("after the answer the record says %+v", r)
	}
	line.set(true)
	one := int64(1)
	_, err := p.AddStock(t.Context(), s.sale, &api.StockRequest{SKU: "s", Delta: &one}, Match{}, api.Idempotency{Scope: "x", Key: "k"})
	wantCode(t, err, api.CodeUnknownOutcome)
	_, _, err = p.Put(t.Context(), s.sale, request(9, 60_000, 1), Match{Version: 2})
	wantCode(t, err, api.CodeUnknownOutcome)
	p.wantItem(s.sale, 9, 0, 0)
	line.set(false)
	// The same key finds out, and so does a sweep, whoever makes it.
	change, err := p.AddStock(t.Context(), s.sale, &api.StockRequest{SKU: "s", Delta: &one}, Match{}, api.Idempotency{Scope: "x", Key: "k"})
	mustLive(t, err)
	if !change.Replayed {
		t.Error("the key was used, and nobody says so")
	}
	other := s.mustStaff(Options{})
	other.work(other.Sweep)
	storetest.Eventually(t, livePatience, "the record has version 3", func() bool {
		r := onRecord()
		return r.Version == 3 && fmt.Sprint(r.Items) == "[{s 9}]"
	})
	if _, open, err := p.live.UnrecordedSettings(t.Context(), s.sale); open || err != nil {
		storetest.Eventually(t, livePatience, "the outbox is empty", func() bool {
			_, open, err := p.live.UnrecordedSettings(t.Context(), s.sale)
			return err == nil && !open
		})
	}
}

// S9: each change is one step of the version, however many come at once, and of
// those that ask for the same version one wins; the losers learn what is there.
func TestS9_OneWinnerPerVersion(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	a, b := s.mustStaff(Options{}), s.mustStaff(Options{NoLocal: true})
	a.mustPut(s.sale, request(0, 60_000, 1))
	var wins atomic.Int64
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			p := []*process{a, b}[i%2]
			for version := int64(1); version <= 10; {
				one := int64(1)
				_, err := p.AddStock(t.Context(), s.sale, &api.StockRequest{SKU: "s", Delta: &one}, Match{Version: version}, api.Idempotency{})
				if err == nil {
					wins.Add(1)
					version++
					continue
				}
				e := wantMismatch(t, err)
				if e == nil {
					return
				}
				version = e.Facts["version"].(int64)
			}
		})
	}
	all.Wait()
	if wins.Load() != 10 {
		t.Errorf("%d changes from version 1 to 11", wins.Load())
	}
	a.wantItem(s.sale, 10, 0, 0)
}

func wantMismatch(t testing.TB, err error) *api.Error {
	e, ok := err.(*api.Error)
	if !ok || e.Code != api.CodeVersionMismatch || e.Facts["sale"].(*api.Sale).Version != e.Facts["version"] {
		t.Errorf("%v", err)
		return nil
	}
	return e
}

// S13: SQL takes no writes when sales are made, and Redis restarts before or after
// it does again: sales that Redis kept are put on record from there and go on, also
// when nobody asks for them; the ids of those that it lost can be used for new ones.
func TestS13_SalesThatSQLNeverHeardOf(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ kept, mendFirst, nobodyAsks bool }{
		"Kept":            {kept: true},
		"KeptMendedFirst": {kept: true, mendFirst: true},
		"KeptNobodyAsks":  {kept: true, nobodyAsks: true},
		"Lost":            {},
		"LostMendedFirst": {mendFirst: true},
		"LostNobodyAsks":  {nobodyAsks: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keep := map[bool]string{true: "yes", false: "no"}[c.kept]
			server := storetest.Redis(t, "--appendonly", keep, "--appendfsync", "always")
			s := newShop(t)
			s.redisURL = server.URL()
			p := s.mustStaff(Options{})
			unlock := storetest.LockSQLite(t, s.sqlURL)
			requests := map[string]*api.SaleRequest{s.sale + ".one": request(5, 60_000, 1), s.sale + ".many": request(5, 60_000, 3)}
			for sale, r := range requests {
				_, _, err := p.Put(t.Context(), sale, r, Match{})
				wantCode(t, err, api.CodeUnknownOutcome)
			}
			server.Kill()
			if c.mendFirst {
				unlock()
			}
			server.Restart()
			unlock()
			if c.nobodyAsks {
				p.work(p.Sweep)
			}
			for sale, r := range requests {
				if c.kept && c.nobodyAsks {
					p.awaitOnRecord(sale)
				}
				p.awaitAnswer(sale, c.kept)
				if !c.kept {
					p.mustPut(sale, r)
				}
				p.awaitOnRecord(sale)
				p.mustBuy(sale, "u", 5)
				p.wantItem(sale, 0, 5, 0)
			}
		})
	}
}

// awaitAnswer waits until Redis is back, and checks that a sale is there or not.
func (p *process) awaitAnswer(sale string, there bool) {
	p.t.Helper()
	var err error
	storetest.Eventually(p.t, livePatience, "Redis is back", func() bool {
		_, err = p.Sale(p.t.Context(), sale)
		return err == nil || api.CodeOf(err) == api.CodeSaleNotFound
	})
	if there != (err == nil) {
		p.t.Fatalf("sale %s is there: %v, want %v", sale, err, there)
	}
}

func (p *process) awaitOnRecord(sale string) {
	p.t.Helper()
	storetest.Eventually(p.t, livePatience, "the sale is on record", func() bool {
		on, err := p.rec.Sale(p.t.Context(), sale)
		return err == nil && on != nil
	})
}

// S13: a Cluster lost the first partition of a sale that was never on record, and
// others not: a new sale of the same name has its own total and no unit more.
func TestS13_PartitionsThatOutlivedTheirSale(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		r := w.mustOpen(offer{stock: map[string]int64{"s": 30}, partitions: 3})
		w.mustReserve("u", units("s", 2))
		places, _ := w.placesOf(t.Context(), w.sale)
		w.emptied(places[:1])
		w = w.another(LiveOptions{})
		_, err := w.Put(t.Context(), PutSale{Sale: w.sale, Request: r, New: true})
		wantLive(t, err, api.CodeUnknownOutcome)
		on, err := w.Settings(t.Context(), w.sale)
		mustLive(t, err)
		if _, err := w.reserve(usersOf(1, 3, 1)[0], units("s", 1)); err != error(ErrLoading) {
			t.Errorf("before it was loaded: %v", err)
		}
		mustLive(t, w.rebuild(on, nil))
		w.mustAddUp()
		if sale := w.mustRead(); sale.Version != 1 || sale.Items[0].Total != 30 {
			t.Errorf("%+v", sale)
		}
	})
}
