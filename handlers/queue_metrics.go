package handlers

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"fanfare/api"
	"fanfare/handlers/web"
	"fanfare/store/contacts"
	"fanfare/store/facts"
	"fanfare/store/queue"
	"fanfare/store/sales"
	"fanfare/store/webhooks"

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

// figure is one metric of something that is read as a T.
type figure[T any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*T) float64
}

// collect gives the metrics of one T.
func collect[T any](out chan<- prometheus.Metric, figures []figure[T], from *T, labels ...string) {
	for _, f := range figures {
		out <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(from), labels...)
	}
}

// queueMetrics shows readiness, the queues, those of callers, and the backlog of contacts and sales in /metrics.
// The figures cover all processes, and the process that is scraped reads them from Redis and SQL.
// Only readiness and the wake-up latency are the process's own. Figures that cannot be read are
// absent: old figures are never shown.
type queueMetrics struct {
	o          Options
	ofQueues   []figure[api.QueueStats]
	ofJobs     []figure[api.JobQueue]
	ofContacts []figure[api.ContactsStats]
	ofSales    []figure[api.SalesStats]
	ofFacts    []figure[facts.Kept]
	ofWebhooks []figure[webhooks.Failing]
	latest     atomic.Pointer[scrape]
	readings   *web.Fresh[*scrape]

	isReady     *prometheus.Desc
	up, latency *prometheus.Desc // of a dependency
}

// scrape is one reading. Its fields are nil or empty if they could not be read.
type scrape struct {
	stats api.Stats
	jobs  *api.JobQueueList
	ready api.Readiness
	facts *facts.Kept
	hooks *webhooks.Failing
}

func newQueueMetrics(o Options) *queueMetrics {
	m := &queueMetrics{o: o}
	m.readings = &web.Fresh[*scrape]{Every: statsFresh, Read: m.read}
	add := func(kind prometheus.ValueType, name, help string, value func(*api.QueueStats) float64) {
		desc := prometheus.NewDesc("fanfare_queue_"+name, help, []string{"queue"}, nil)
		m.ofQueues = append(m.ofQueues, figure[api.QueueStats]{desc, kind, value})
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
	m.addJobs()
	m.addOwed()
	m.addFacts()
	m.addReadiness()
	o.Web.Registry.MustRegister(m)
	return m
}

// addJobs adds the figures of callers' queues.
func (m *queueMetrics) addJobs() {
	add := func(kind prometheus.ValueType, name, help string, value func(*api.JobQueue) float64) {
		desc := prometheus.NewDesc("fanfare_job_queue_"+name, help, []string{"queue"}, nil)
		m.ofJobs = append(m.ofJobs, figure[api.JobQueue]{desc, kind, value})
	}
	add(prometheus.GaugeValue, "depth", "Jobs of callers that may be claimed.", func(q *api.JobQueue) float64 { return float64(q.Depth) })
	add(prometheus.GaugeValue, "blocked", "Jobs of callers that wait for their conflict key.", func(q *api.JobQueue) float64 { return float64(q.Blocked) })
	add(prometheus.GaugeValue, "scheduled", "Jobs of callers that wait for a time, including retries.", func(q *api.JobQueue) float64 { return float64(q.Scheduled) })
	add(prometheus.GaugeValue, "running", "Jobs of callers that workers hold.", func(q *api.JobQueue) float64 { return float64(q.Running) })
	add(prometheus.GaugeValue, "dead_letters", "Jobs of callers that were given up and are still kept.", func(q *api.JobQueue) float64 { return float64(q.DeadLetters) })
	add(prometheus.GaugeValue, "oldest_age_seconds", "Age of the first job of callers that may be claimed.", func(q *api.JobQueue) float64 { return float64(q.OldestAgeMS) / 1000 })
	add(prometheus.CounterValue, "done_total", "Jobs of callers that were completed.", func(q *api.JobQueue) float64 { return float64(q.Done) })
	add(prometheus.CounterValue, "retries_total", "Failures after which a job of callers was tried again.", func(q *api.JobQueue) float64 { return float64(q.Retries) })
	add(prometheus.CounterValue, "leases_ended_total", "Leases of workers that ended before the job did.", func(q *api.JobQueue) float64 { return float64(q.Recovered) })
}

// addOwed adds the figures of contacts and sales.
func (m *queueMetrics) addOwed() {
	ofContacts := func(name, help string, value func(*api.ContactsStats) float64) {
		desc := prometheus.NewDesc("fanfare_"+name, help, nil, nil)
		m.ofContacts = append(m.ofContacts, figure[api.ContactsStats]{desc, prometheus.GaugeValue, value})
	}
	ofSales := func(name, help string, value func(*api.SalesStats) float64) {
		desc := prometheus.NewDesc("fanfare_"+name, help, nil, nil)
		m.ofSales = append(m.ofSales, figure[api.SalesStats]{desc, prometheus.GaugeValue, value})
	}
	ofContacts("contacts_pending", "Changes on record that the index of recent contacts does not have yet.", func(c *api.ContactsStats) float64 { return float64(c.Pending) })
	ofContacts("contacts_lag_seconds", "Age of the oldest change that the index of recent contacts does not have yet.", func(c *api.ContactsStats) float64 { return float64(c.LagMS) / 1000 })
	ofSales("sale_waiting_orders", "Confirmed reservations whose orders are not on record yet.", func(s *api.SalesStats) float64 { return float64(s.WaitingOrders) })
	ofSales("sale_orders_lag_seconds", "Age of the oldest confirmed reservation whose order is not on record yet.", func(s *api.SalesStats) float64 { return float64(s.LagMS) / 1000 })
	ofSales("sale_open_sales", "Sales that are open for reservations, whether or not units are available.", func(s *api.SalesStats) float64 { return float64(s.Open) })
	ofSales("sale_unread_sales", "Sales that could not be read and are missing in the other figures of sales.", func(s *api.SalesStats) float64 { return float64(s.UnreadSales) })
	ofSales("sale_oversold_units", "Units sold beyond the totals, over all sales; /v1/stats lists them by sale.", oversoldUnits)
}

// addFacts adds the figures of facts and webhooks.
func (m *queueMetrics) addFacts() {
	add := func(kind prometheus.ValueType, name, help string, value func(*facts.Kept) float64) {
		desc := prometheus.NewDesc("fanfare_facts_"+name, help, nil, nil)
		m.ofFacts = append(m.ofFacts, figure[facts.Kept]{desc, kind, value})
	}
	addHooks := func(name, help string, value func(*webhooks.Failing) float64) {
		desc := prometheus.NewDesc("fanfare_webhooks_"+name, help, nil, nil)
		m.ofWebhooks = append(m.ofWebhooks, figure[webhooks.Failing]{desc, prometheus.GaugeValue, value})
	}
	addHooks("failing", "Webhooks whose last facts were not taken, in any lane.", func(f *webhooks.Failing) float64 { return float64(f.Webhooks) })
	addHooks("failing_seconds", "For how long a webhook has taken nothing in a lane, at most.", func(f *webhooks.Failing) float64 { return f.Longest.Seconds() })
	add(prometheus.GaugeValue, "kept", "Facts that are kept for readers.", func(k *facts.Kept) float64 { return float64(k.Facts) })
	add(prometheus.GaugeValue, "oldest_age_seconds", "Age of the oldest fact that is kept; 0: none is.", func(k *facts.Kept) float64 { return k.Age.Seconds() })
	add(prometheus.GaugeValue, "waiting", "Facts that wait for their move to their lanes.", func(k *facts.Kept) float64 { return float64(k.Left) })
	add(prometheus.CounterValue, "missed_total", "Facts that were dropped before readers through this process came to them.", func(k *facts.Kept) float64 { return float64(k.Missed) })
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
func (m *queueMetrics) addReadiness() {
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
	latest := m.latest.Load()
	if latest == nil {
		return
	}
	stats := &latest.stats
	m.collectReadiness(out, &latest.ready)
	for i := range stats.Queues {
		collect(out, m.ofQueues, &stats.Queues[i], stats.Queues[i].Name)
	}
	if latest.jobs != nil {
		for i := range latest.jobs.Items {
			q := &latest.jobs.Items[i]
			collect(out, m.ofJobs, q, q.Queue)
		}
	}
	if latest.facts != nil {
		collect(out, m.ofFacts, latest.facts)
	}
	if latest.hooks != nil {
		collect(out, m.ofWebhooks, latest.hooks)
	}
	if stats.Contacts != nil {
		collect(out, m.ofContacts, stats.Contacts)
	}
	if stats.Sales != nil {
		collect(out, m.ofSales, stats.Sales)
	}
}

// before refreshes the figures if they are older than statsFresh, and then calls next.
func (m *queueMetrics) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.readings.Get(r.Context())
		next.ServeHTTP(w, r)
	})
}

// read reads the figures, and keeps them for Collect.
func (m *queueMetrics) read(ctx context.Context) *scrape {
	ctx, cancel := context.WithTimeout(ctx, statsPatience)
	defer cancel()
	r := &scrape{}
	var all sync.WaitGroup
	all.Go(func() {
		if queues, err := statsOf(ctx, m.o.Queues); err == nil {
			r.stats.Queues = queues
		}
	})
	all.Go(func() { r.jobs, _ = m.o.Jobs.Queues(ctx) }) // nil after an error
	all.Go(func() { readOwed(ctx, m.o.Contacts, m.o.Sales, &r.stats) })
	all.Go(func() {
		if kept, err := m.o.Facts.Kept(ctx); err == nil {
			r.facts = &kept
		}
	})
	all.Go(func() {
		if failing, err := m.o.Webhooks.Failing(ctx); err == nil {
			r.hooks = &failing
		}
	})
	all.Go(func() { r.ready = m.o.Ready(ctx) })
	all.Wait()
	m.latest.Store(r)
	return r
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
