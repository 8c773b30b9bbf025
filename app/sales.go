package app

import (
	"fmt"

	"fanfare/store/sales"

	"github.com/prometheus/client_golang/prometheus"
)

// openSales makes the sales. What became of each try to reserve is counted.
func (a *app) openSales() error {
	tries := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fanfare_sale_reservations_total", Help: "Tries to reserve, by what became of them.",
	}, []string{"outcome"})
	a.registry.MustRegister(tries)
	c := a.config
	var err error
	a.sales, err = sales.New(a.redis, a.record, a.jobQueue, sales.Options{
		NoLocal: !bool(c.SaleLocal), MaxInFlight: c.SaleMaxInFlight, MinReplicas: c.SaleMinReplicas, Logger: a.log,
		OnReserve: func(outcome string) { tries.WithLabelValues(outcome).Inc() },
	})
	if err != nil {
		return fmt.Errorf("FANFARE_SALE_MIN_REPLICAS: %w", err)
	}
	return nil
}

// saleLoops are what sales need in the background.
func (a *app) saleLoops() []loop {
	loops := []loop{{"sales", a.sales.Run}}
	if a.config.has(roleJobs) {
		loops = append(loops, loop{"sweep of sales", a.sales.Sweep})
	}
	return loops
}
