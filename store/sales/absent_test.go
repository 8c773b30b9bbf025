package sales

import (
	"fmt"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/stock"
	"fanfare/store/storetest"
)

// S11: that there is no sale of a name is remembered for a second: SQL is asked once then, whatever is called.
func TestS11_AMadeUpSaleAsksSQLOnceASecond(t *testing.T) {
	t.Parallel()
	s := setup(t)
	proxy, url := storetest.ProxyTo(t, storetest.MySQL(t))
	s.sqlURL = url
	p, off := s.mustStart(Options{}), s.mustStart(Options{NoLocal: true})
	calls := map[string]func(p *process) error{
		"read":         func(p *process) error { _, err := p.Sale(t.Context(), s.sale); return err },
		"watch":        func(p *process) error { _, err := p.Watch(t.Context(), s.sale); return err },
		"reserve":      func(p *process) error { _, err := p.buy(s.sale, unused(), 1); return err },
		"reserve once": func(p *process) error { _, err := p.buy(s.sale, unused(), 1, unused()); return err },
		"confirm":      func(p *process) error { _, _, err := p.confirm(s.sale, "x"); return err },
		"extend": func(p *process) error {
			_, _, err := p.Extend(t.Context(), stock.ExtendHold{Sale: s.sale, ID: "x"})
			return err
		},
		"reservation":  func(p *process) error { _, err := p.Reservation(t.Context(), s.sale, "x"); return err },
		"reservations": func(p *process) error { _, _, err := p.Reservations(t.Context(), s.sale, "u", "", 10); return err },
	}
	for name, call := range calls {
		// On a slow machine a round may take longer than the memory lasts.
		storetest.Eventually(t, patience, name+" without SQL", func() bool {
			storetest.WantCode(t, call(p), api.CodeSaleNotFound)
			sql, redis := proxy.Bytes(), p.calls()
			for range 5 {
				storetest.WantCode(t, call(p), api.CodeSaleNotFound)
			}
			asked := p.calls() - redis
			if asked > 5 {
				t.Logf("%s: %d scripts for 5 calls", name, asked)
			}
			return proxy.Bytes() == sql && asked <= 5
		})
		sql := proxy.Bytes()
		storetest.WantCode(t, call(off), api.CodeSaleNotFound)
		if proxy.Bytes() == sql {
			t.Errorf("%s: with answers from memory off SQL was not asked", name)
		}
	}
}

// S11: a sale that is made is there at once, on the server that made it and on others; also one that only the
// record has, on the server that made it, and within a second on others.
func TestS11_ASaleThatIsMadeIsThereAtOnce(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p, other := s.mustStart(Options{}), s.mustStart(Options{})
	for i := range 5 {
		sale := fmt.Sprint(s.sale, i)
		for _, asks := range []*process{p, other} {
			_, err := asks.Sale(t.Context(), sale)
			storetest.WantCode(t, err, api.CodeSaleNotFound)
		}
		p.mustPut(sale, request(2, 60_000, 1))
		other.mustBuy(sale, "u", 1)
		p.mustBuy(sale, "v", 1)
	}
	t.Run("AlsoWhenRedisWasEmptied", func(t *testing.T) {
		sale := s.sale + "lost"
		long := func(p *process) { // longer than the test takes
			p.cache.mu.Lock()
			defer p.cache.mu.Unlock()
			p.cache.absent[sale] = time.Hour
		}
		_, err := p.Sale(t.Context(), sale)
		storetest.WantCode(t, err, api.CodeSaleNotFound)
		r := request(2, 60_000, 1)
		p.mustPut(sale, r)
		long(other)
		storetest.Must(t, p.db.Client().FlushAll(t.Context()).Err())
		p.mustBuy(sale, "u", 1) // asks the record at once
		storetest.Must(t, p.db.Client().FlushAll(t.Context()).Err())
		long(other)
		if _, created, err := other.Put(t.Context(), sale, r, stock.Match{}); created || err != nil {
			t.Errorf("a sale on record was made anew: %v %v", created, err)
		}
		other.mustBuy(sale, "w", 1)
	})
}

// S11: only so many absent sales are remembered, and each for a second.
func TestS11_AbsenceIsForgotten(t *testing.T) {
	t.Parallel()
	m := newCache(true)
	var now time.Duration
	m.clock = func() time.Duration { return now }
	for i := range 3 * maxCached {
		m.putAbsent(fmt.Sprint(i), 0)
		if len(m.absent) > maxCached {
			t.Fatalf("%d are remembered", len(m.absent))
		}
	}
	last := fmt.Sprint(3*maxCached - 1)
	now = absentTime - 1
	if !m.isAbsent(last) {
		t.Error("forgotten too early")
	}
	if now = absentTime; m.isAbsent(last) {
		t.Error("remembered for longer than a second")
	}
	now = 0
	for name, forget := range map[string]func(){"drop": func() { m.drop(last) }, "dropAll": m.dropAll} {
		m.putAbsent(last, 0)
		if forget(); m.isAbsent(last) {
			t.Errorf("remembered after %s", name)
		}
	}
	off := newCache(false)
	if off.putAbsent("x", 0); off.isAbsent("x") {
		t.Error("remembered though answers from memory are off")
	}
}
