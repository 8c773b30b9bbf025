package e2e

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// H1: buyers reserve, pay, give back and forget while two processes are killed in turns. The feed tells once of each order on record, once
// of each hold that was over, of no other, and each time that little was left.
func TestH1_KillsLoseNoFactOfASale(t *testing.T) {
	t.Parallel()
	for name, partitions := range map[string]int{"One": 1, "Four": 4} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := storetest.Sized(3000, 900)
			vars := quick("FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t))
			k := newKilled(t, vars)
			k.now()[0].mustTellFacts(api.FactTypes...)
			low := 3 * n / 4
			m := mustMarket(t, "told", k.now, int64(n), map[string]any{"partitions": partitions, "hold_ms": 2000,
				"items": []any{map[string]any{"sku": "s", "stock": n, "low_at": low}}})
			b := &tellers{market: m, ended: map[string]string{}}
			pace := time.NewTicker(12 * time.Second / time.Duration(n)) // so that there is time for some kills
			defer pace.Stop()
			f := newTold()
			k.run(f, func() error {
				return spread(n, func(i int) error {
					<-pace.C
					return b.buy(i)
				})
			})
			m.settle(int64(n), 0)
			storetest.Eventually(t, 3*time.Minute, "all is told", func() bool {
				f.read(t, k.now()[0], time.Second)
				for id, how := range b.ended {
					if how != "" && len(f.facts[id]) == 0 {
						return false
					}
				}
				return true
			})
			if f.read(t, k.now()[0], 2*time.Second); f.gap != 0 {
				t.Errorf("a gap of %d", f.gap)
			}
			b.check(f, low)
			t.Logf("%d buyers, %d kills, %d facts", n, k.kills, len(f.ids))
		})
	}
}

// tellers are buyers, of each of whose reservations it is known which fact there must be; "": none.
type tellers struct {
	*market
	mu    sync.Mutex
	ended map[string]string
}

// buy reserves a unit. The buyer pays, gives it back or forgets it.
func (b *tellers) buy(i int) error {
	id, err := b.reserve(fmt.Sprint("user-", i), 1, fmt.Sprint("buy-", i))
	if err != nil || id == "" {
		return err
	}
	fact := api.FactHoldExpired
	if how := []string{"confirm", "release", ""}[i%3]; how != "" {
		var v verdict
		status, err := b.insist(&v, "POST", "/reservations/"+id+"/"+how, nil)
		switch {
		case err != nil:
			return err
		case status == 200 && how == "confirm":
			fact = api.FactOrderCreated
		case status == 200:
			fact = ""
		case v.State != api.ReservationExpired:
			return fmt.Errorf("%s: %d %+v", how, status, v)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended[id] = fact
	return nil
}

func (b *tellers) check(f *told, low int) {
	b.t.Helper()
	orders := map[string]bool{}
	for _, o := range b.orders() {
		orders[o.Reservation] = true
	}
	for id, want := range b.ended {
		facts := f.facts[id]
		if want == "" && len(facts) == 0 {
			continue
		}
		if len(facts) != 1 || facts[0].Type != want || orders[id] != (want == api.FactOrderCreated) {
			b.t.Errorf("of %s, which is on record: %t, there are %+v, want %q", id, orders[id], facts, want)
		}
	}
	for key, facts := range f.facts {
		if _, ok := b.ended[key]; !ok && key != b.sale {
			b.t.Errorf("facts of another key: %+v", facts)
		}
	}
	if len(f.facts[b.sale]) == 0 {
		b.t.Error("it was not told that little is left")
	}
	for _, one := range f.facts[b.sale] {
		var data struct {
			SKU       string
			Available int
		}
		storetest.Must(b.t, json.Unmarshal(one.Data, &data))
		if one.Type != api.FactStockBelow || data.SKU != "s" || data.Available > low {
			b.t.Errorf("told: %s %s", one.Type, one.Data)
		}
	}
}
