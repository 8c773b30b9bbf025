package sales

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// A watcher gets how a sale stands, then changes, at most 10 a second however
// many there are, and always the last; one read serves all watchers of a process.
func TestWatch(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p, seller := s.mustStart(Options{}), s.mustStart(Options{})
	seller.mustPut(s.sale, request(60, 60_000, 1))
	_, err := p.Watch(t.Context(), s.sale+"x")
	storetest.WantCode(t, err, api.CodeSaleNotFound)

	var watches []*Watch
	for range 3 {
		w, err := p.Watch(t.Context(), s.sale)
		storetest.Must(t, err)
		watches = append(watches, w)
	}
	first := watches[0]
	<-first.Wake()
	if now, fresh := first.Next(); !fresh || now.State != api.SaleOpen || !maps.Equal(now.Available, map[string]int64{"s": 60}) {
		t.Fatalf("%+v %v", now, fresh)
	}
	go func() {
		for i := range 60 {
			if _, err := seller.buy(s.sale, fmt.Sprint("u", i), 1); err != nil {
				t.Error(err)
			}
			redisdb.Sleep(t.Context(), 10*time.Millisecond)
		}
	}()
	events, began := 0, time.Now()
	last := int64(60)
	storetest.Eventually(t, patience, "the last change", func() bool {
		select {
		case <-first.Wake():
		default:
			return false
		}
		now, fresh := first.Next()
		left := now.Available["s"]
		if fresh {
			events++
		}
		if left > last {
			t.Errorf("%d after %d", left, last)
		}
		last = left
		return left == 0 && now.State == api.SaleSoldOut
	})
	if most := int(time.Since(began)/streamEvery) + 1; events > most {
		t.Errorf("%d events in %v", events, time.Since(began))
	}
	for _, w := range watches {
		p.hub.mu.Lock()
		n := len(p.hub.sales)
		p.hub.mu.Unlock()
		if n != 1 {
			t.Errorf("%d sales are read", n)
		}
		w.Stop()
	}
	if len(p.hub.sales) != 0 {
		t.Error("it is read though nobody watches")
	}
}
