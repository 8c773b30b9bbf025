package main

import (
	"fmt"

	"fanfare/store/stock"

	"github.com/prometheus/client_golang/prometheus"
)

// openSales makes the sales. What became of each try to reserve is counted.
func (h *house) openSales() error {
	tries := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fanfare_sale_reservations_total", Help: "Tries to reserve, by what became of them.",
	}, []string{"outcome"})
	h.registry.MustRegister(tries)
	c := h.config
	var err error
	h.sales, err = stock.New(h.redis, h.record, h.jobQueue, stock.Options{
		NoLocal: !bool(c.SaleLocal), MaxInFlight: c.SaleMaxInFlight, MinReplicas: c.SaleMinReplicas, Logger: h.log,
		OnReserve: func(outcome string) { tries.WithLabelValues(outcome).Inc() },
	})
	if err != nil {
		return fmt.Errorf("FANFARE_SALE_MIN_REPLICAS: %w", err)
	}
	return nil
}

// saleLoops are what sales need in the background.
func (h *house) saleLoops() []loop {
	loops := []loop{{"sales", h.sales.Run}}
	if h.config.has(roleJobs) {
		loops = append(loops, loop{"sweep of sales", h.sales.Sweep})
	}
	return loops
}
