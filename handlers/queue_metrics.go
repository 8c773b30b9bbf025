package handlers

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"fanfare/api"
	"fanfare/store/contacts"
	"fanfare/store/queue"
	"fanfare/store/sales"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
)

const (
	// statsFresh is how old the queues' figures in /metrics may be. Within that time Redis is asked
	// only once, however many scrapers there are.
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

// owedFigure is a gauge of a backlog of contacts or sales. value returns false if it could not be
// read.
type owedFigure struct {
	desc  *prometheus.Desc
	value func(*api.Stats) (float64, bool)
}

// queueMetrics shows readiness, the queues, and the backlog of contacts and sales in /metrics.
// The figures cover all processes, and the process that is scraped reads them from Redis and SQL.
// Only readiness and the wake-up latency are the process's own. Figures that cannot be read are
// absent: old figures are never shown.
type queueMetrics struct {
	queues   []*queue.Queue
	contacts *contacts.Store
	sales    *sales.Store
	figures  []queueFigure
	owed     []owedFigure
	stats    atomic.Pointer[api.Stats]

	ready       func(context.Context) api.Readiness
	readiness   atomic.Pointer[api.Readiness]
	isReady     *prometheus.Desc
	up, latency *prometheus.Desc // of a dependency

	reading sync.Mutex // one reading at a time
	read    time.Time  // when the last one began
}

func newQueueMetrics(o Options) *queueMetrics {
	m := &queueMetrics{queues: o.Queues, contacts: o.Contacts, sales: o.Sales}
	add := func(kind prometheus.ValueType, name, help string, value func(*api.QueueStats) float64) {
		desc := prometheus.NewDesc("fanfare_queue_"+name, help, []string{"queue"}, nil)
		m.figures = append(m.figures, queueFigure{desc, kind, value})
	}
	add(prometheus.GaugeValue, "depth", "Jobs that are waiting and could run.", func(s *api.QueueStats) float64 { return float64(s.Depth) })
	add(prometheus.GaugeValue, "blocked", "Jobs that wait for their conflict key.", func(s *api.QueueStats) float64 { return float64(s.Blocked) })
	add(prometheus.GaugeValue, "scheduled", "Jobs that wait for a time, including retries.", func(s *api.QueueStats) float64 { return float64(s.Scheduled) })
	add(prometheus.GaugeValue, "in_flight", "Jobs that a process is working on.", func(s *api.QueueStats) float64 { return float64(s.InFlight) })
	add(prometheus.GaugeValue, "parked", "Jobs that are set aside because their app is paused.", func(s *api.QueueStats) float64 { return float64(s.Parked) })
	add(prometheus.GaugeValue, "dead_letters", "Jobs that were given up and are still kept.", func(s *api.QueueStats) float64 { return float64(s.DeadLetters) })
	add(prometheus.GaugeValue, "oldest_age_seconds", "Age of the oldest job that is waiting or running.", func(s *api.QueueStats) float64 { return float64(s.OldestAgeMS) / 1000 })
	add(prometheus.GaugeValue, "unserved_shards", "Shards that no process serves.", func(s *api.QueueStats) float64 { return float64(len(s.Unserved)) })
	add(prometheus.CounterValue, "retries_total", "Failures after which a job was tried again.", func(s *api.QueueStats) float64 { return float64(s.Retries) })
	add(prometheus.CounterValue, "leases_recovered_total", "Jobs that were started again because their lease had ended.", func(s *api.QueueStats) float64 { return float64(s.Recovered) })
	add(prometheus.CounterValue, "dead_letters_dropped_total", "Dead letters that were dropped because they were too old or too many.", func(s *api.QueueStats) float64 { return float64(s.Dropped) })
	add(prometheus.GaugeValue, "wakeup_seconds", "Mean time from enqueueing to claiming of jobs that woke an idle worker of this process.",
		func(s *api.QueueStats) float64 { return s.WakeupMS / 1000 })
	m.addOwed()
	m.addReadiness(o.Ready)
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
	add("contacts_lag_seconds", "Age of the oldest change that the index of recent contacts does not have yet.", ofContacts(func(c *api.ContactsStats) float64 { return float64(c.LagMS) / 1000 }))
	add("sale_waiting_orders", "Confirmed reservations whose orders are not on record yet.", ofSales(func(s *api.SalesStats) float64 { return float64(s.WaitingOrders) }))
	add("sale_orders_lag_seconds", "Age of the oldest confirmed reservation whose order is not on record yet.", ofSales(func(s *api.SalesStats) float64 { return float64(s.LagMS) / 1000 }))
	add("sale_open_sales", "Sales that are open for reservations, whether or not units are available.", ofSales(func(s *api.SalesStats) float64 { return float64(s.Open) }))
	add("sale_unread_sales", "Sales that could not be read and are missing in the other figures of sales.", ofSales(func(s *api.SalesStats) float64 { return float64(s.UnreadSales) }))
	add("sale_oversold_units", "Units sold beyond the totals, over all sales; /v1/stats lists them by sale.", ofSales(oversoldUnits))
}

func oversoldUnits(s *api.SalesStats) (units float64) {
	for _, skus := range s.Oversold {
		for _, n := range skus {
			units += float64(n)
		}
	}
	return units
}

// addReadiness adds the readiness that /readyz reports.
func (m *queueMetrics) addReadiness(ready func(context.Context) api.Readiness) {
	m.ready = ready
	m.isReady = prometheus.NewDesc("fanfare_ready", "1 while this process is ready according to /readyz, otherwise 0.", nil, nil)
	m.up = prometheus.NewDesc("fanfare_dependency_up", "State of a dependency of this process in /readyz: 1 ok, 0.5 degraded, 0 down.", []string{"dependency"}, nil)
	m.latency = prometheus.NewDesc("fanfare_dependency_latency_seconds", "Time that the dependency took to answer.", []string{"dependency"}, nil)
}

// dependencyUp is the metric's value for a dependency's state.
var dependencyUp = map[string]float64{"ok": 1, "degraded": 0.5}

func (m *queueMetrics) collectReadiness(out chan<- prometheus.Metric, r *api.Readiness) {
	is := 0.0
	if r.Ready {
		is = 1
	}
	out <- prometheus.MustNewConstMetric(m.isReady, prometheus.GaugeValue, is)
	for _, d := range r.Dependencies {
		out <- prometheus.MustNewConstMetric(m.up, prometheus.GaugeValue, dependencyUp[d.State], d.Name)
		out <- prometheus.MustNewConstMetric(m.latency, prometheus.GaugeValue, d.LatencyMS/1000, d.Name)
	}
}

// Describe implements prometheus.Collector. It names no metrics: the registry takes what Collect gives.
func (m *queueMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector, from the last reading.
func (m *queueMetrics) Collect(out chan<- prometheus.Metric) {
	stats := m.stats.Load()
	if stats == nil {
		return
	}
	m.collectReadiness(out, m.readiness.Load())
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

// before refreshes the figures if they are older than statsFresh, and then calls next.
func (m *queueMetrics) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.refresh(r.Context())
		next.ServeHTTP(w, r)
	})
}

// refresh reads the figures. Concurrent scrapes share one reading, even if it failed.
func (m *queueMetrics) refresh(ctx context.Context) {
	m.reading.Lock()
	defer m.reading.Unlock()
	if time.Since(m.read) < statsFresh {
		return
	}
	m.read = time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statsPatience) // not cancelled with this request: other scrapes wait for the same reading
	defer cancel()
	var stats api.Stats
	var all sync.WaitGroup
	all.Go(func() {
		if queues, err := statsOf(ctx, m.queues); err == nil {
			stats.Queues = queues
		}
	})
	all.Go(func() { readOwed(ctx, m.contacts, m.sales, &stats) })
	all.Go(func() { m.readiness.Store(new(m.ready(ctx))) })
	all.Wait()
	m.stats.Store(&stats)
}

// readOwed adds the backlog of contacts and sales. Figures that cannot be read are left out.
func readOwed(ctx context.Context, contacts *contacts.Store, sales *sales.Store, to *api.Stats) {
	var both sync.WaitGroup
	both.Go(func() {
		if lag, err := contacts.Stats(ctx); err == nil {
			to.Contacts = &lag
		}
	})
	both.Go(func() {
		if owed, err := sales.Stats(ctx); err == nil {
			to.Sales = &owed
		}
	})
	both.Wait()
}

// statsOf asks all queues at once.
func statsOf(ctx context.Context, queues []*queue.Queue) ([]api.QueueStats, error) {
	stats := make([]api.QueueStats, len(queues))
	g, ctx := errgroup.WithContext(ctx)
	for i, q := range queues {
		g.Go(func() (err error) {
			stats[i], err = q.Stats(ctx)
			return err
		})
	}
	return stats, g.Wait()
}
