package sales

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/stock"
	"fanfare/store/storetest"
)

// mustSell sells one unit to each of so many users, of whose orders no job knows.
func (p *process) mustSell(sale string, users int) {
	p.t.Helper()
	p.mustPut(sale, request(int64(users), 0, 1))
	const atOnce = 64
	storetest.AtOnce(p.t, atOnce, func(ctx context.Context, i int) error {
		for ; i < users; i += atOnce {
			r := &api.ReservationRequest{User: fmt.Sprint("u", i), Lines: []api.Line{{SKU: "s", Quantity: 1}}}
			if _, err := p.live.Reserve(ctx, stock.ReserveStock{Sale: sale, Request: r}); err != nil {
				return err
			}
		}
		return nil
	})
}

// S13: what the relay lost is enqueued by one sweep, however much it is, while jobs take
// orders from its beginning.
func TestS13_OneSweepFindsAllThatWaits(t *testing.T) {
	t.Parallel()
	s := setup(t)
	dead := s.mustStart(Options{})
	const waiting = 5*sweepPage + 7
	dead.mustSell(s.sale, waiting)
	ref := stock.Ref{Sale: s.sale}
	p := s.mustStart(Options{})
	swept := stock.Swept{Sale: s.sale, Orders: waiting, OldestOrderMS: time.Minute.Milliseconds()}
	p.onSwept(t.Context(), swept)
	if n := p.depth(); n != waiting {
		t.Errorf("%d of %d are enqueued", n, waiting)
	}
	p.onSwept(t.Context(), swept)
	if p.swept.due(ref) {
		t.Error("they are not left to their jobs")
	}
	// After one that is on record the list goes on where that one was.
	first, err := p.live.WaitingOrders(t.Context(), ref, stock.Order{}, 3)
	storetest.Must(t, err)
	for _, gone := range []int{0, 3} {
		for _, o := range first[:gone] {
			_, err := p.live.OrdersRecorded(t.Context(), s.sale, o)
			storetest.Must(t, err)
		}
		rest, err := p.live.WaitingOrders(t.Context(), ref, first[2], waiting)
		storetest.Must(t, err)
		seen := map[string]bool{}
		for _, o := range rest {
			seen[o.Reservation] = true
		}
		if len(seen) != len(rest) || len(rest) != waiting-3 || seen[first[2].Reservation] {
			t.Errorf("%d of %d come after the third", len(rest), waiting-3)
		}
	}
	p.work(p.write)
	p.awaitNoneWaiting(s.sale)
	p.awaitRows(s.sale, waiting)
}

// S13: one master of the queue is away. One sweep enqueues the orders of the other shards, all of them.
func TestS13_OneSweepFindsAllBesideAMasterThatIsAway(t *testing.T) {
	t.Parallel()
	s := setup(t)
	dead := s.mustStart(Options{})
	const waiting = 2*sweepPage + 7
	dead.mustSell(s.sale, waiting)
	orders, err := dead.live.WaitingOrders(t.Context(), stock.Ref{Sale: s.sale}, stock.Order{}, waiting)
	storetest.Must(t, err)
	first := int64(0) // how many go to the first shard
	for _, o := range orders {
		if dead.jobs.Route(o.Reservation) == 0 {
			first++
		}
	}
	secondShard := func(cmd redis.Cmder) string {
		if strings.Contains(fmt.Sprint(cmd.Args()...), "jobs-"+s.sale+":1.") {
			return "second shard"
		}
		return ""
	}
	var away atomic.Bool
	p := s.mustStartOn(storetest.FaultyBy(t, dead.db, secondShard, func(string, bool) error {
		if away.Load() {
			return storetest.ErrCut
		}
		return nil
	}), Options{})
	away.Store(true)
	p.onSwept(t.Context(), stock.Swept{Sale: s.sale, Orders: waiting, OldestOrderMS: time.Minute.Milliseconds()})
	if n := dead.depth(); n != first || len(orders) != waiting {
		t.Errorf("%d of %d are enqueued", n, first)
	}
}

// depth is how many jobs wait.
func (p *process) depth() int64 {
	p.t.Helper()
	stats, err := p.jobs.Stats(p.t.Context())
	storetest.Must(p.t, err)
	return stats.Depth + stats.InFlight + stats.Scheduled
}

// BenchmarkBacklog tells how many orders a second reach SQL after the relay lost them all.
func BenchmarkBacklog(b *testing.B) {
	for name, url := range map[string]func(testing.TB) string{"SQLite": storetest.SQLite, "MySQL": storetest.MySQL} {
		b.Run(name, func(b *testing.B) {
			const waiting = 20_000
			var orders, seconds float64
			for range b.N {
				s := setup(b)
				s.sqlURL = url(b)
				s.mustStart(Options{}).mustSell(s.sale, waiting)
				p := s.mustStart(Options{})
				began := time.Now()
				stop := p.work(p.Sweep, func(ctx context.Context) error { return p.jobs.Run(ctx, queue.ByType(p.Jobs())) })
				storetest.Eventually(b, 4*patience, "none waits", func() bool {
					stats, err := p.Stats(b.Context())
					return err == nil && stats.WaitingOrders == 0
				})
				orders, seconds = orders+waiting, seconds+time.Since(began).Seconds()
				stop()
			}
			b.ReportMetric(orders/seconds, "orders/s")
		})
	}
}
