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
