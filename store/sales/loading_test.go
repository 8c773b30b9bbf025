package sales

import (
	"errors"
	"testing"

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
