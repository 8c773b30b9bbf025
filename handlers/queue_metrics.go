package handlers

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"fanfare/api"
	"fanfare/store/contacts"
	"fanfare/store/sales"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
)

const (
	// statsFresh is how old the queues' figures in /metrics may be: however
	// many scrape, Redis is asked once in that time.
	statsFresh = 3 * time.Second
	// statsPatience is how long a scrape waits for Redis.
	statsPatience = time.Second
)

// queueFigure is one metric of a queue.
type queueFigure struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*api.QueueStats) float64
}

// owedFigure is a gauge of what contacts or sales owe; false: it could not be read.
type owedFigure struct {
	desc  *prometheus.Desc
	value func(*api.Stats) (float64, bool)
}

// queueMetrics show the queues, and what contacts and sales owe, in /metrics. The
// figures are those of all processes, read by whichever is scraped; only the wake-up
// latency is this process's own. What Redis or SQL does not answer is absent rather
// than old.
type queueMetrics struct {
	queues   []deadQueue
	contacts *contacts.Store // nil: there are none
	sales    *sales.Store    // nil: there are none
	figures  []queueFigure
	owed     []owedFigure
	stats    atomic.Pointer[api.Stats]

	reading sync.Mutex // one reading at a time
	read    time.Time  // when the last one began
}

func newQueueMetrics(o Options) *queueMetrics {
	m := &queueMetrics{queues: o.queues(), contacts: o.Contacts, sales: o.Sales}
	add := func(kind prometheus.ValueType, name, help string, value func(*api.QueueStats) float64) {
		desc := prometheus.NewDesc("fanfare_queue_"+name, help, []string{"queue"}, nil)
		m.figures = append(m.figures, queueFigure{desc, kind, value})
	}
	add(prometheus.GaugeValue, "depth", "Jobs that wait and could run.", func(s *api.QueueStats) float64 { return float64(s.Depth) })
	add(prometheus.GaugeValue, "blocked", "Jobs that wait for their conflict key.", func(s *api.QueueStats) float64 { return float64(s.Blocked) })
	add(prometheus.GaugeValue, "scheduled", "Jobs that wait for their time, retries among them.", func(s *api.QueueStats) float64 { return float64(s.Scheduled) })
	add(prometheus.GaugeValue, "in_flight", "Jobs that a process works on.", func(s *api.QueueStats) float64 { return float64(s.InFlight) })
	add(prometheus.GaugeValue, "parked", "Jobs of paused apps and types.", func(s *api.QueueStats) float64 { return float64(s.Parked) })
	add(prometheus.GaugeValue, "dead_letters", "Jobs that were given up and are kept.", func(s *api.QueueStats) float64 { return float64(s.DeadLetters) })
	add(prometheus.GaugeValue, "oldest_age_seconds", "Age of the oldest job that waits or runs.", func(s *api.QueueStats) float64 { return float64(s.OldestAgeMS) / 1000 })
	add(prometheus.GaugeValue, "unserved_shards", "Shards that no process serves.", func(s *api.QueueStats) float64 { return float64(len(s.Unserved)) })
	add(prometheus.CounterValue, "retries_total", "Failures after which a job was tried again.", func(s *api.QueueStats) float64 { return float64(s.Retries) })
	add(prometheus.CounterValue, "leases_recovered_total", "Jobs started again because their lease ended.", func(s *api.QueueStats) float64 { return float64(s.Recovered) })
	add(prometheus.CounterValue, "dead_letters_dropped_total", "Dead letters that were dropped because they were too old or too many.", func(s *api.QueueStats) float64 { return float64(s.Dropped) })
	add(prometheus.GaugeValue, "wakeup_seconds", "Mean time from enqueueing to claiming of jobs that woke an idle worker of this process.",
		func(s *api.QueueStats) float64 { return s.WakeupMS / 1000 })
	m.addOwed()
	o.Web.Registry.MustRegister(m)
	return m
}

// addOwed adds the figures of contacts and sales.
func (m *queueMetrics) addOwed() {
	add := func(name, help string, value func(*api.Stats) (float64, bool)) {
		m.owed = append(m.owed, owedFigure{prometheus.NewDesc("fanfare_"+name, help, nil, nil), value})
	}
	ofContacts := func(value func(*api.ContactsStats) float64) func(*api.Stats) (float64, bool) {
		return func(s *api.Stats) (float64, bool) {
			if s.Contacts == nil {
				return 0, false
			}
			return value(s.Contacts), true
		}
	}
	ofSales := func(value func(*api.SalesStats) float64) func(*api.Stats) (float64, bool) {
		return func(s *api.Stats) (float64, bool) {
			if s.Sales == nil {
				return 0, false
			}
			return value(s.Sales), true
		}
	}
	add("contacts_pending", "Changes on record that the index of recent contacts does not have yet.", ofContacts(func(c *api.ContactsStats) float64 { return float64(c.Pending) }))
	add("contacts_lag_seconds", "Age of the oldest of them.", ofContacts(func(c *api.ContactsStats) float64 { return float64(c.LagMS) / 1000 }))
	add("sale_waiting_orders", "Confirmed reservations whose orders are not on record yet.", ofSales(func(s *api.SalesStats) float64 { return float64(s.WaitingOrders) }))
	add("sale_orders_lag_seconds", "Age of the oldest of them.", ofSales(func(s *api.SalesStats) float64 { return float64(s.LagMS) / 1000 }))
	add("sale_oversold_units", "Units sold beyond their totals, of all sales; stats name them.", ofSales(oversoldUnits))
}

func oversoldUnits(s *api.SalesStats) (units float64) {
	for _, skus := range s.Oversold {
		for _, n := range skus {
			units += float64(n)
		}
	}
	return units
}

// Describe implements prometheus.Collector.
func (m *queueMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, f := range m.figures {
		out <- f.desc
	}
	for _, f := range m.owed {
		out <- f.desc
	}
}

// Collect implements prometheus.Collector, from what was read last.
func (m *queueMetrics) Collect(out chan<- prometheus.Metric) {
	stats := m.stats.Load()
	if stats == nil {
		return
	}
	for i := range stats.Queues {
		s := &stats.Queues[i]
		for _, f := range m.figures {
			out <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(s), s.Name)
		}
	}
	for _, f := range m.owed {
		if value, known := f.value(stats); known {
			out <- prometheus.MustNewConstMetric(f.desc, prometheus.GaugeValue, value)
		}
	}
}

// before refreshes the figures, unless they are fresh, and lets next serve them.
func (m *queueMetrics) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.refresh(r.Context())
		next.ServeHTTP(w, r)
	})
}

// refresh reads the figures. Scrapes at the same time share one reading, also
// one that failed.
func (m *queueMetrics) refresh(ctx context.Context) {
	m.reading.Lock()
	defer m.reading.Unlock()
	if time.Since(m.read) < statsFresh {
		return
	}
	m.read = time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statsPatience) // others wait for it as well
	defer cancel()
	var stats api.Stats
	var all sync.WaitGroup
	all.Go(func() {
		if queues, err := statsOf(ctx, m.queues); err == nil {
			stats.Queues = queues
		}
	})
	if m.contacts != nil {
		all.Go(func() {
			if lag, err := m.contacts.Stats(ctx); err == nil {
				stats.Contacts = &lag
			}
		})
	}
	if m.sales != nil {
		all.Go(func() {
			if owed, err := m.sales.Stats(ctx); err == nil {
				stats.Sales = &owed
			}
		})
	}
	all.Wait()
	m.stats.Store(&stats)
}

// statsOf asks all queues at once.
func statsOf(ctx context.Context, queues []deadQueue) ([]api.QueueStats, error) {
	stats := make([]api.QueueStats, len(queues))
	g, ctx := errgroup.WithContext(ctx)
	for i, q := range queues {
		g.Go(func() (err error) {
			stats[i], err = q.queue.Stats(ctx)
			return err
		})
	}
	return stats, g.Wait()
}
