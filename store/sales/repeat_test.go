package sales

import (
	"testing"

	"fanfare/api"
	"fanfare/store/stock"
	"fanfare/store/storetest"
)

// S17: Redis comes back as an older copy, which knows neither a change of stock nor a
// reservation nor the keys they came with; but SQL knows them. Who did not hear the answer
// and calls again with the same key finds what he did.
func TestS17_ARepeatFindsWhatIsOnRecord(t *testing.T) {
	t.Parallel()
	for name, partitions := range map[string]int64{"One": 1, "Three": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := storetest.Redis(t)
			s := setup(t)
			s.redisURL = server.URL()
			p, other := s.mustStart(Options{}), s.mustStart(Options{})
			p.mustPut(s.sale, request(10, 0, partitions))
			p.mustBuy(s.sale, "early", 1)
			storetest.Must(t, server.Client().Save(t.Context()).Err())

			p.work(p.Run, p.write)
			key := func(name string) api.Idempotency { return api.Idempotency{Scope: "test", Key: name} }
			buy := &api.ReservationRequest{User: "u", Lines: []api.Line{{SKU: "s", Quantity: 2}}}
			bought, _, err := p.Reserve(t.Context(), s.sale, buy, key("buy"))
			storetest.Must(t, err)
			five, six, seven := int64(5), int64(6), int64(7)
			restock := func(p *process, delta *int64) (Restocked, error) {
				return p.AddStock(t.Context(), s.sale, &api.StockRequest{SKU: "s", Delta: delta}, stock.Match{}, api.Idempotency{Scope: "test", Key: "five", Body: [32]byte{byte(*delta)}})
			}
			first, err := restock(p, &five)
			storetest.Must(t, err)
			// Two more whose processes died before they knew; another swept them.
			lost := stock.AddStock{Sale: s.sale, Request: &api.StockRequest{SKU: "s", Delta: &six}, Once: key("six")}
			again := stock.AddStock{Sale: s.sale, Request: &api.StockRequest{SKU: "s", Delta: &seven}, Call: stock.NewCall()}
			for _, add := range []stock.AddStock{lost, again} {
				_, _, err = p.live.Restock(t.Context(), add)
				storetest.Must(t, err)
			}
			storetest.Must(t, other.finishSettings(t.Context(), s.sale))
			p.awaitRows(s.sale, 2)
			server.Restart()

			storetest.Eventually(t, patience, "Redis is back", func() bool { _, err := other.read(t.Context(), s.sale); return err == nil })
			r, replayed, err := other.Reserve(t.Context(), s.sale, buy, key("buy"))
			storetest.Must(t, err)
			if !replayed || r.ID != bought.ID || r.State != api.ReservationSold {
				t.Errorf("reserved again: %+v, replayed %v; at first %+v", r, replayed, bought)
			}
			second, err := restock(other, &five)
			storetest.Must(t, err)
			if !second.Replayed || second.Item != first.Item || second.Version != first.Version {
				t.Errorf("restocked again: %+v, at first %+v", second, first)
			}
			_, err = restock(other, &six)
			storetest.WantCode(t, err, api.CodeIdempotencyReused)
			third, err := other.AddStock(t.Context(), s.sale, lost.Request, stock.Match{}, lost.Once)
			storetest.Must(t, err)
			if !third.Replayed || third.Item.Total != 21 {
				t.Errorf("restocked, lost and said again: %+v", third)
			}
			_, change, err := other.live.Restock(t.Context(), again) // as one call goes on once the sale is back
			storetest.Must(t, err)
			if change.Replayed || change.Version != 4 {
				t.Errorf("the same call: %+v", change)
			}
			// 3 are sold of 28; what is left can be bought, and one more cannot.
			other.mustBuy(s.sale, "rest", 25)
			_, err = other.buy(s.sale, "more", 1)
			storetest.WantCode(t, err, api.CodeSoldOut)
			other.wantItem(s.sale, 0, 0, 28)
		})
	}
}
