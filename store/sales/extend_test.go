package sales

import (
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/stock"
	"fanfare/store/storetest"
)

// S22, S17: an extension that Redis lost in a fail-over is lost: the hold ends when it would have ended
// without. The longest hold of a sale is on record and comes back.
func TestS22_AfterAFailOverTheShorterEndCounts(t *testing.T) {
	t.Parallel()
	storetest.EachSQL(t, func(t *testing.T, sql string) {
		s := setup(t)
		s.sqlURL = sql
		p := s.mustStart(Options{})
		r := request(5, 2000, 2)
		r.MaxHoldMS = new(int64(3_600_000))
		p.mustPut(s.sale, r)
		held := p.mustBuy(s.sale, "u", 2)
		s.redisURL = storetest.Redis(t).URL()
		promoted := s.mustStart(Options{})
		copyKeys(t, p, promoted)
		extended, _, err := p.Extend(t.Context(), stock.ExtendHold{Sale: s.sale, ID: held.ID, HoldMS: 600_000})
		storetest.Must(t, err)
		if !extended.ExpiresAt.After(held.ExpiresAt.Add(time.Minute)) {
			t.Errorf("%v after %v", extended.ExpiresAt, held.ExpiresAt)
		}
		promoted.work(promoted.Sweep)
		storetest.Eventually(t, patience, "the hold ends on the other master", func() bool {
			now, err := promoted.Reservation(t.Context(), s.sale, held.ID)
			return err == nil && now.State == api.ReservationExpired && promoted.has(s.sale, 5)
		})
		storetest.Must(t, promoted.db.Client().FlushAll(t.Context()).Err())
		again := promoted.mustBuy(s.sale, "v", 1)
		longer, _, err := promoted.Extend(t.Context(), stock.ExtendHold{Sale: s.sale, ID: again.ID, HoldMS: 600_000})
		storetest.Must(t, err)
		if now, err := promoted.read(t.Context(), s.sale); err != nil || *now.MaxHoldMS != 3_600_000 || !longer.ExpiresAt.After(again.ExpiresAt.Add(time.Minute)) {
			t.Errorf("%+v, %v, %v after %v", now, err, longer.ExpiresAt, again.ExpiresAt)
		}
	})
}

// has reports whether so many units of "s" are available.
func (p *process) has(sale string, available int64) bool {
	now, err := p.read(p.t.Context(), sale)
	return err == nil && now.Items[0].Available == available
}

// S14: an extension is answered when a replica has it.
func TestS22_ReplicasHaveTheExtension(t *testing.T) {
	t.Parallel()
	master := storetest.Redis(t)
	replica := mustReplicate(t, master)
	s := setup(t)
	s.redisURL = master.URL()
	p := s.mustStart(Options{MinReplicas: 1})
	r := request(5, 60_000, 1)
	r.MaxHoldMS = new(int64(3_600_000))
	p.mustPut(s.sale, r)
	held := p.mustBuy(s.sale, "u", 1)
	replica.Pause()
	_, _, err := p.Extend(t.Context(), stock.ExtendHold{Sale: s.sale, ID: held.ID, HoldMS: 600_000})
	storetest.WantCode(t, err, api.CodeUnknownOutcome)
	replica.Resume()
	storetest.Eventually(t, patience, "the replica has it", func() bool {
		_, _, err := p.Extend(t.Context(), stock.ExtendHold{Sale: s.sale, ID: held.ID, HoldMS: 600_000})
		return err == nil
	})
}
