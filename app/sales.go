package app

import (
	"context"

	"fanfare/store/facts"
	"fanfare/store/sales"
	"fanfare/store/stock"

	"github.com/prometheus/client_golang/prometheus"
)

// openSales makes the sales. The outcome of each attempt to reserve, and of each attempt to
// restore a sale, is counted.
func (a *app) openSales() {
	tries := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fanfare_sale_reservations_total", Help: "Attempts to reserve, by outcome.",
	}, []string{"outcome"})
	restores := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fanfare_sale_restores_total", Help: "Attempts to restore a sale from SQL after Redis lost data or failed over, by outcome.",
	}, []string{"outcome"})
	for _, outcome := range []string{"done", "failed"} { // they start at 0, so that an alert sees the first one, too
		restores.WithLabelValues(outcome)
	}
	a.registry.MustRegister(tries, restores)
	c := a.config
	a.sales = sales.New(a.redis, a.record, a.jobQueue, sales.Options{
		NoLocal: !bool(c.SaleLocal), MaxInFlight: c.SaleMaxInFlight, MinReplicas: c.SaleMinReplicas, Logger: a.log,
		Facts: stock.Facts{
			Tells: a.tells.On,
			Left:  func(o stock.FactOutbox) { a.facts.Left(facts.OutboxOfSlot(o.Name, o.Key)) },
			Move: func(ctx context.Context, o stock.FactOutbox) error {
				return a.facts.Move(ctx, facts.OutboxOfSlot(o.Name, o.Key))
			},
		},
		OnReserve: func(outcome string) { tries.WithLabelValues(outcome).Inc() },
		OnRestore: func(outcome string) { restores.WithLabelValues(outcome).Inc() },
	})
}

// saleLoops are the background loops of the sales.
func (a *app) saleLoops() []loop {
	loops := []loop{{"sales", a.sales.Run}}
	if a.config.has(roleJobs) {
		loops = append(loops, loop{"sweep of sales", a.sales.Sweep})
	}
	return loops
}
