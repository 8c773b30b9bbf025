package sales

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/stock"
	"fanfare/store/storetest"
)

// S9: SQL is written before the answer; while it is away the answer is
// unknown_outcome, the change is there, and the outbox completes it.
func TestS9_TheRecordFollowsTheScript(t *testing.T) {
	t.Parallel()
	s := setup(t)
	var line *storetest.Proxy
	line, s.sqlURL = storetest.ProxyTo(t, storetest.MySQL(t))
	p := s.mustStart(Options{})
	p.mustPut(s.sale, request(5, 60_000, 1))
	onRecord := func() record.Sale {
		r, err := p.rec.Sale(t.Context(), s.sale)
		if err != nil || r == nil {
			return record.Sale{}
		}
		return *r
	}
	if r := onRecord(); r.Version != 1 || fmt.Sprint(r.Items) != "[{s 5 <nil>}]" {
		t.Fatalf("after the answer the record says %+v", r)
	}
	line.Cut()
	one := int64(1)
	_, err := p.AddStock(t.Context(), s.sale, &api.StockRequest{SKU: "s", Delta: &one}, stock.Match{}, api.Idempotency{Scope: "x", Key: "k"})
	storetest.WantCode(t, err, api.CodeUnknownOutcome)
	_, _, err = p.Put(t.Context(), s.sale, request(9, 60_000, 1), stock.Match{Version: 2})
	storetest.WantCode(t, err, api.CodeUnknownOutcome)
	p.wantItem(s.sale, 9, 0, 0)
	line.Mend()
	// The same key finds out, and so does a sweep, whoever makes it.
	change, err := p.AddStock(t.Context(), s.sale, &api.StockRequest{SKU: "s", Delta: &one}, stock.Match{}, api.Idempotency{Scope: "x", Key: "k"})
	storetest.Must(t, err)
	if !change.Replayed {
		t.Error("the key was used, and nobody says so")
	}
	other := s.mustStart(Options{})
	other.work(other.Sweep)
	storetest.Eventually(t, patience, "the record has version 3", func() bool {
		r := onRecord()
		return r.Version == 3 && fmt.Sprint(r.Items) == "[{s 9 <nil>}]"
	})
	if _, open, err := p.live.UnrecordedSettings(t.Context(), s.sale); open || err != nil {
		storetest.Eventually(t, patience, "the outbox is empty", func() bool {
			_, open, err := p.live.UnrecordedSettings(t.Context(), s.sale)
			return err == nil && !open
		})
	}
}

// S9: each change is one step of the version, however many come at once, and of
// those that ask for the same version one wins; the losers learn what is there.
func TestS9_OneWinnerPerVersion(t *testing.T) {
	t.Parallel()
	s := setup(t)
	a, b := s.mustStart(Options{}), s.mustStart(Options{NoLocal: true})
	a.mustPut(s.sale, request(0, 60_000, 1))
	var wins atomic.Int64
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			p := []*process{a, b}[i%2]
			for version := int64(1); version <= 10; {
				one := int64(1)
				_, err := p.AddStock(t.Context(), s.sale, &api.StockRequest{SKU: "s", Delta: &one}, stock.Match{Version: version}, api.Idempotency{})
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
			s := setup(t)
			s.redisURL = server.URL()
			p := s.mustStart(Options{})
			unlock := storetest.LockSQLite(t, s.sqlURL)
			requests := map[string]*api.SaleRequest{s.sale + ".one": request(5, 60_000, 1), s.sale + ".many": request(5, 60_000, 3)}
			for sale, r := range requests {
				_, _, err := p.Put(t.Context(), sale, r, stock.Match{})
				storetest.WantCode(t, err, api.CodeUnknownOutcome)
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
	storetest.Eventually(p.t, patience, "Redis is back", func() bool {
		_, err = p.Sale(p.t.Context(), sale)
		return err == nil || api.CodeOf(err) == api.CodeSaleNotFound
	})
	if there != (err == nil) {
		p.t.Fatalf("sale %s is there: %v, want %v", sale, err, there)
	}
}

func (p *process) awaitOnRecord(sale string) {
	p.t.Helper()
	storetest.Eventually(p.t, patience, "the sale is on record", func() bool {
		on, err := p.rec.Sale(p.t.Context(), sale)
		return err == nil && on != nil
	})
}
