package handlers

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"fanfare/api"

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

// queueMetrics show the queues in /metrics. The figures are the whole queue's,
// read from Redis by whichever process is scraped; only the wake-up latency is
// this process's own. While Redis does not answer they are absent rather than
// old.
type queueMetrics struct {
	queues  []deadQueue
	figures []queueFigure
	stats   atomic.Pointer[[]api.QueueStats]

	reading sync.Mutex // one reading at a time
	read    time.Time  // when the last one began
}

func newQueueMetrics(reg prometheus.Registerer, queues []deadQueue) *queueMetrics {
	m := &queueMetrics{queues: queues}
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
	add(prometheus.GaugeValue, "wakeup_seconds", "Mean time from enqueueing to claiming of jobs that woke an idle worker of this process.",
		func(s *api.QueueStats) float64 { return s.WakeupMS / 1000 })
	reg.MustRegister(m)
	return m
}

// Describe implements prometheus.Collector.
func (m *queueMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, f := range m.figures {
		out <- f.desc
	}
}

// Collect implements prometheus.Collector, from what was read last.
func (m *queueMetrics) Collect(out chan<- prometheus.Metric) {
	stats := m.stats.Load()
	if stats == nil {
		return
	}
	for i := range *stats {
		s := &(*stats)[i]
		for _, f := range m.figures {
			out <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(s), s.Name)
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
	stats, err := statsOf(ctx, m.queues)
	if err != nil {
		m.stats.Store(nil)
		return
	}
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
