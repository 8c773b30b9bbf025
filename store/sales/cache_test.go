package sales

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/stock"
	"fanfare/store/storetest"
)

// calls counts what a Redis executed of one script command by now.
func (p *process) calls() int {
	p.t.Helper()
	return storetest.Calls(p.t, p.db.Client(), "evalsha")
}

// S11: after sold_out a process answers from memory, without Redis, with the
// same refusal; but not a request with an idempotency key, one that might be
// granted, or one for another sku; and only for 100 ms.
func TestS11_SoldOutFromMemory(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.mustStart(Options{})
	p.mustPut(s.sale, request(2, 60_000, 1, "s", "other"))
	p.mustBuy(s.sale, "u", 1)
	// On a slow machine a round may take longer than the memory lasts, and others may ask Redis.
	storetest.Eventually(t, patience, "a round within 100 ms without Redis", func() bool {
		began := time.Now()
		_, err := p.buy(s.sale, "u", 2)
		first := mustError(t, err, api.CodeSoldOut)
		before := p.calls()
		for i := range 20 {
			_, err := p.buy(s.sale, fmt.Sprint("v", i), 2)
			if e := mustError(t, err, api.CodeSoldOut); fmt.Sprint(e.Facts) != fmt.Sprint(first.Facts) || e.Detail != first.Detail {
				t.Fatalf("from memory %+v, from Redis %+v", e, first)
			}
		}
		return p.calls() == before && time.Since(began) <= 90*time.Millisecond
	})
	t.Run("NotWhatMightBeGranted", func(t *testing.T) {
		p.mustCache(s.sale, map[string]int64{"s": 1})
		if err := p.cache.soldOut(s.sale, []api.Line{{SKU: "s", Quantity: 1}}); err != nil {
			t.Errorf("one is left: %v", err)
		}
		if err := p.cache.soldOut(s.sale, []api.Line{{SKU: "s", Quantity: 2}, {SKU: "other", Quantity: 1}}); err != nil {
			t.Errorf("nothing is known of other, which may not even exist: %v", err)
		}
	})
	t.Run("WhatWasAskedFor", func(t *testing.T) {
		p.mustCache(s.sale, map[string]int64{"s": 0, "other": 3})
		for _, lines := range [][]api.Line{{{SKU: "s", Quantity: 1}}, {{SKU: "other", Quantity: 4}}, {{SKU: "other", Quantity: 1}, {SKU: "s", Quantity: 1}}} {
			e := mustError(t, p.cache.soldOut(s.sale, lines), api.CodeSoldOut)
			want := map[string]int64{}
			for _, l := range lines {
				want[l.SKU] = map[string]int64{"s": 0, "other": 3}[l.SKU]
			}
			if got := e.Facts["available"]; !reflect.DeepEqual(got, want) {
				t.Errorf("%v: %v", lines, got)
			}
		}
	})
	t.Run("NotWithAKey", func(t *testing.T) {
		p.mustCache(s.sale, map[string]int64{"s": 0})
		if _, err := p.buy(s.sale, "w", 1, "key"); err != nil {
			t.Errorf("refused from memory: %v", err)
		}
	})
	t.Run("NotWhenOff", func(t *testing.T) {
		off := s.mustStart(Options{NoLocal: true})
		for range 3 {
			before := off.calls()
			_, err := off.buy(s.sale, "w", 2)
			storetest.WantCode(t, err, api.CodeSoldOut)
			if off.calls() == before {
				t.Error("Redis was not asked")
			}
		}
	})
}

// mustCache puts a fresh refusal into the cache.
func (p *process) mustCache(sale string, available map[string]int64) {
	p.cache.putRefusal(sale, &stock.SoldOut{Available: available}, api.Errorf(api.CodeSoldOut, "sold out").With("available", available), p.cache.now())
}

// S11: the memory of a refusal ends after 100 ms, and with the next hold that is
// due if that is earlier, counted from before the question was sent.
func TestS11_MemoryEnds(t *testing.T) {
	t.Parallel()
	lines := []api.Line{{SKU: "s", Quantity: 1}}
	for name, c := range map[string]struct {
		due, after time.Duration
		known      bool
	}{
		"fresh":                {0, 0, true},
		"just before 100 ms":   {0, 99 * time.Millisecond, true},
		"at 100 ms":            {0, 100 * time.Millisecond, false},
		"a hold is due later":  {time.Second, 99 * time.Millisecond, true},
		"before a hold is due": {40 * time.Millisecond, 39 * time.Millisecond, true},
		"when a hold is due":   {40 * time.Millisecond, 40 * time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newCache(true)
			m.putRefusal("x", &stock.SoldOut{Available: map[string]int64{"s": 0}, NextDue: c.due}, api.Errorf(api.CodeSoldOut, "sold out"), 0)
			frozen := func() time.Duration { return c.after }
			m.clock = frozen
			if got := m.soldOut("x", lines) != nil; got != c.known {
				t.Errorf("known: %v", got)
			}
		})
	}
}

// S11: a version that changes ends the memory at once in its own process, and in
// others as soon as they hear of it.
func TestS11_AChangeEndsTheMemory(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p, other := s.mustStart(Options{}), s.mustStart(Options{})
	p.mustPut(s.sale, request(0, 60_000, 1))
	other.work(other.Run)
	storetest.Eventually(t, patience, "the other listens", func() bool {
		n, err := p.db.Client().PubSubNumPat(t.Context()).Result()
		return err == nil && n == 1
	})
	forever := func(p *process) {
		p.cache.mu.Lock()
		defer p.cache.mu.Unlock()
		k := p.cache.entry(s.sale)
		k.refusal, k.available, k.until = api.Errorf(api.CodeSoldOut, "sold out"), map[string]int64{"s": 0}, time.Hour
	}
	forever(p)
	forever(other)
	p.mustRestock(s.sale, 2)
	p.mustBuy(s.sale, "u", 1)
	storetest.Eventually(t, patience, "the other sells", func() bool { _, err := other.buy(s.sale, "v", 1); return err == nil })
}

// S8: restock while sold out: at the latest 100 ms later a reservation succeeds on
// every process, also on one that gets no messages.
func TestS8_RestockReachesEveryProcess(t *testing.T) {
	t.Parallel()
	s := setup(t)
	listening, deaf := s.mustStart(Options{}), s.mustStart(Options{})
	listening.work(listening.Run)
	listening.mustPut(s.sale, request(0, 60_000, 1))
	for round := range 10 {
		for _, p := range []*process{listening, deaf} {
			_, err := p.buy(s.sale, fmt.Sprint("early", round), 1)
			storetest.WantCode(t, err, api.CodeSoldOut)
		}
		listening.mustRestock(s.sale, 2)
		restocked := time.Now()
		for _, p := range []*process{listening, deaf} {
			user := 0
			for {
				asked := time.Now()
				_, err := p.buy(s.sale, fmt.Sprint("late", round, ".", user), 1)
				if err == nil {
					break
				}
				storetest.WantCode(t, err, api.CodeSoldOut)
				if asked.Sub(restocked) > 100*time.Millisecond {
					t.Fatalf("refused %v after the restock", asked.Sub(restocked))
				}
				user++
			}
		}
	}
	listening.wantItem(s.sale, 0, 20, 0)
}

// S11: a sale may be read from memory, at most 100 ms old; what this process did
// itself it sees at once; readers that come together share one read.
func TestS11_ReadingFromMemory(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	m := newCache(true)
	m.clock = func() time.Duration { return time.Duration(now.Load()) }
	var reads atomic.Int64
	read := func(context.Context, string) (*api.Sale, error) {
		return &api.Sale{Version: reads.Add(1)}, nil
	}
	want := func(version int64) {
		t.Helper()
		s, err := m.sale(t.Context(), "x", read)
		if err != nil || s.Version != version {
			t.Fatalf("read %d, want %d (%v)", s.Version, version, err)
		}
	}
	want(1)
	now.Store(int64(99 * time.Millisecond))
	want(1)
	now.Store(int64(100 * time.Millisecond))
	want(2)
	m.dropState("x")
	want(3)
	m.drop("x")
	want(4)
	m.dropAll()
	want(5)
	t.Run("OneReadForAll", func(t *testing.T) {
		m.drop("x")
		gate := make(chan struct{})
		before := reads.Load()
		slow := func(context.Context, string) (*api.Sale, error) { <-gate; return read(t.Context(), "x") }
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if _, err := m.sale(t.Context(), "x", slow); err != nil {
					t.Error(err)
				}
			})
		}
		close(gate)
		all.Wait()
		if n := reads.Load() - before; n > 2 { // the second by one that came after the first had ended
			t.Errorf("%d reads for 50 readers", n)
		}
	})
	t.Run("NotOneThatBeganBeforeAChange", func(t *testing.T) {
		m.drop("x")
		gate, began := make(chan struct{}), make(chan struct{})
		old := func(context.Context, string) (*api.Sale, error) {
			close(began)
			<-gate
			return &api.Sale{Version: -1}, nil
		}
		go func() { _, _ = m.sale(context.Background(), "x", old) }()
		<-began
		m.drop("x") // this process changed something
		want(reads.Load() + 1)
		close(gate)
		want(reads.Load())
	})
	t.Run("AFailureIsNotKept", func(t *testing.T) {
		m.drop("x")
		broken := func(context.Context, string) (*api.Sale, error) { return nil, errors.New("broken") }
		if _, err := m.sale(t.Context(), "x", broken); err == nil {
			t.Error("no error")
		}
		want(reads.Load() + 1)
	})
}

// What is remembered stays bounded, whatever names are asked for.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	m := newCache(true)
	for i := range 3 * maxCached {
		m.putRefusal(fmt.Sprint(i), &stock.SoldOut{}, api.Errorf(api.CodeSoldOut, "sold out"), m.now())
		if len(m.sales) > maxCached {
			t.Fatalf("%d sales", len(m.sales))
		}
	}
}
