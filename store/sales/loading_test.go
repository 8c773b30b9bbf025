package sales

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"fanfare/api"
	"fanfare/store/lock"
	"fanfare/store/stock"
	"fanfare/store/storetest"
)

// S5: Redis restarted, and another process still reads the sale from the record. A hold is confirmed meanwhile.
func TestS5_ConfirmedWhileAnotherReadsTheRecord(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	s := setup(t)
	s.redisURL = server.URL()
	p := s.mustStart(Options{})
	p.mustPut(s.sale, request(5, 60_000, 1))
	id := p.mustBuy(s.sale, "u", 2).ID
	server.Restart()
	var answer lock.Answer
	storetest.Eventually(t, patience, "another process may restore the sale", func() (ok bool) {
		var err error
		answer, err = p.locker.TryAcquire(t.Context(), s.sale)
		return err == nil && answer.Status == lock.Acquired
	})
	held, stop := answer.Lease.Keep(t.Context())
	row, err := p.rec.LoadSale(held, s.sale, stock.NewLoading(""))
	storetest.Must(t, err)
	storetest.Must(t, p.live.Load(held, settingsOf(row)))

	p.mustConfirm(s.sale, id)
	_, err = p.live.Sale(t.Context(), s.sale)
	if !errors.Is(err, stock.ErrLoading) {
		t.Errorf("the sale is open meanwhile: %v", err)
	}
	stop()
}

// S5, S15: reservations that wait while their sale is read from the record take no places of other sales, and there
// are only so many of them. The others are refused at once, and begin to read what else must be read.
func TestS15_WhoWaitsForASaleTakesNoPlaceOfAnother(t *testing.T) {
	t.Parallel()
	const room = 3
	s := setup(t)
	p := s.mustStart(Options{MaxInFlight: room})
	read, open, lost := s.sale+".read", s.sale+".open", s.sale+".lost"
	for _, sale := range []string{read, open, lost} {
		p.mustPut(sale, request(100, 60_000, 1))
	}
	answer, err := p.locker.TryAcquire(t.Context(), read) // another process reads it
	storetest.Must(t, err)
	_, stop := answer.Lease.Keep(t.Context())
	stale := func(sale string) {
		storetest.Must(t, p.db.Client().HSet(t.Context(), "ff:{sale:"+sale+":0}:sale", "run_id", "another").Err())
	}
	stale(read)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var all sync.WaitGroup
	for i := range room {
		all.Go(func() {
			_, _, err := p.Reserve(ctx, read, &api.ReservationRequest{User: fmt.Sprint("u", i), Lines: []api.Line{{SKU: "s", Quantity: 1}}}, api.Idempotency{})
			if err != nil {
				t.Errorf("not answered when the sale had been read: %v", err)
			}
		})
	}
	storetest.Eventually(t, patience, "as many wait as may", func() bool { return p.waiting.Load() == room })
	for i := range 10 * room {
		_, err := p.buy(read, fmt.Sprint("late", i), 1)
		if e := mustError(t, err, api.CodeUnavailable); e.RetryAfter <= 0 {
			t.Fatalf("no Retry-After: %+v", e)
		}
	}
	p.mustBuy(open, "u", 1)
	stale(lost)
	mustEventuallyBuy(t, p, lost)
	stop()
	_, err = answer.Lease.Release(t.Context())
	storetest.Must(t, err)
	all.Wait()
	if n := p.inFlight.Load() + p.waiting.Load(); n != 0 {
		t.Errorf("%d count as under way or waiting", n)
	}
}

// S15: no more sales are restored at once than may wait, however many names are asked for, and the sweeper does not wait for
// one that is being restored already.
func TestS15_LoadsAreBounded(t *testing.T) {
	t.Parallel()
	const most = 3
	var r restorations
	end := make(chan struct{})
	block := func() error { <-end; return nil }
	for n := range most {
		if r.begin(fmt.Sprint("made-up", n), most, block) == nil {
			t.Errorf("load %d was refused", n)
		}
	}
	one := r.begin("made-up0", most, block)
	if one == nil || !r.isUnderWay("made-up0") {
		t.Error("a load that is under way was refused")
	}
	refused := r.begin("another", most, block)
	if err := refused.wait(t.Context()); refused != nil || r.isUnderWay("another") || api.CodeOf(err) != api.CodeUnavailable {
		t.Errorf("one more load: %v", err)
	}
	s := &Store{restores: restorations{underWay: r.underWay}}
	s.onStale(t.Context(), "made-up1") // a Store without anything else: it asks nothing
	close(end)
	if err := one.wait(t.Context()); err != nil {
		t.Error(err)
	}
}
