package app

import (
	"fanfare/store/record"
	"fanfare/store/redisdb"

	"github.com/prometheus/client_golang/prometheus"
)

// poolMetrics shows the pools of connections, and Redis' own figures, in /metrics. The figures
// are read at each scrape.
type poolMetrics struct {
	redis map[string]*redisdb.DB // by name in readiness
	sql   *record.DB

	connections, idle, timeouts, most, waits, waited *prometheus.Desc
	used, ahead                                      *prometheus.Desc // of a Redis
}

func newPoolMetrics(a *app) *poolMetrics {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("fanfare_pool_"+name, help, []string{"pool"}, nil)
	}
	m := &poolMetrics{
		redis: map[string]*redisdb.DB{"redis": a.redis}, sql: a.record,
		connections: desc("connections", "Open connections to Redis or the database."),
		idle:        desc("idle_connections", "Open connections that nobody uses."),
		timeouts:    desc("timeouts_total", "Times at which a caller gave up waiting for a connection to Redis."),
		most:        desc("max_connections", "How many connections to the database there may be."),
		waits:       desc("waits_total", "Those who had to wait for a connection."),
		waited:      desc("wait_seconds_total", "How long they waited."),
		used: prometheus.NewDesc("fanfare_redis_memory_used_ratio",
			"Part of its maxmemory that the fullest master uses, 0 without a limit.", []string{"redis"}, nil),
		ahead: prometheus.NewDesc("fanfare_redis_clock_ahead_seconds",
			"How far this machine's clock is ahead of Redis', of the master where that is farthest.", []string{"redis"}, nil),
	}
	if a.contactsRedis != a.redis {
		m.redis["contacts_redis"] = a.contactsRedis
	}
	return m
}

// Describe implements prometheus.Collector. It names no metrics: the registry takes what Collect gives.
func (m *poolMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m *poolMetrics) Collect(out chan<- prometheus.Metric) {
	tell := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, label string) {
		out <- prometheus.MustNewConstMetric(desc, kind, value, label)
	}
	for name, db := range m.redis {
		if r := db.Reading(); r != nil {
			tell(m.used, prometheus.GaugeValue, r.Used, name)
			tell(m.ahead, prometheus.GaugeValue, r.ClockAhead.Seconds(), name)
		}
		for _, p := range db.Pools() {
			pool := name + "_" + p.Name
			tell(m.connections, prometheus.GaugeValue, float64(p.Open), pool)
			tell(m.idle, prometheus.GaugeValue, float64(p.Idle), pool)
			tell(m.waits, prometheus.CounterValue, float64(p.Waits), pool)
			tell(m.waited, prometheus.CounterValue, p.Waited.Seconds(), pool)
			tell(m.timeouts, prometheus.CounterValue, float64(p.Timeouts), pool)
		}
	}
	s := m.sql.Pool()
	tell(m.connections, prometheus.GaugeValue, float64(s.OpenConnections), "sql")
	tell(m.idle, prometheus.GaugeValue, float64(s.Idle), "sql")
	tell(m.most, prometheus.GaugeValue, float64(s.MaxOpenConnections), "sql")
	tell(m.waits, prometheus.CounterValue, float64(s.WaitCount), "sql")
	tell(m.waited, prometheus.CounterValue, s.WaitDuration.Seconds(), "sql")
}
