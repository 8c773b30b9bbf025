package handlers_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/handlers"
	"fanfare/store/storetest"

	"github.com/prometheus/client_golang/prometheus"
)

// Q20: /metrics has depth, blocked, oldest age, leases recovered, wake-up latency and unserved
// shards of every queue.
func TestQ20_QueueMetrics(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.post("/v1/events", anEvent).wants(t, 202, `{"id":"*"}`)
	text := w.scrape(t, "fanfare_queue_depth{")
	for _, want := range []string{
		`fanfare_queue_depth{queue="events"} 1`, `fanfare_queue_depth{queue="notifications"} 0`,
		`fanfare_queue_blocked{queue="events"} 0`, `fanfare_queue_scheduled{queue="events"} 0`,
		`fanfare_queue_in_flight{queue="events"} 0`, `fanfare_queue_parked{queue="events"} 0`,
		`fanfare_queue_dead_letters{queue="jobs"} 0`, `fanfare_queue_unserved_shards{queue="events"} 2`,
		`fanfare_queue_retries_total{queue="events"} 0`, `fanfare_queue_leases_recovered_total{queue="events"} 0`, `fanfare_queue_dead_letters_dropped_total{queue="events"} 0`,
		`fanfare_queue_wakeup_seconds{queue="events"} 0`, `fanfare_queue_oldest_age_seconds{queue="events"} `,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %s", want)
		}
	}
}

// J1: /metrics has the figures of callers' queues.
func TestJ1_MetricsOfCallersQueues(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.post("/v1/queues/emails/jobs", `{"type":"t"}`).wants(t, 202, `{"id":"*"}`)
	w.post("/v1/queues/emails/jobs", `{"type":"t"}`).wants(t, 202, `{"id":"*"}`)
	w.post("/v1/queues/emails/claims", `{"worker":"w"}`)
	text := w.scrape(t, "fanfare_job_queue_depth{")
	for name, want := range map[string]string{
		"depth": "1", "blocked": "0", "scheduled": "0", "running": "1", "dead_letters": "0", "oldest_age_seconds": "0",
		"done_total": "0", "retries_total": "0", "leases_ended_total": "0",
	} {
		if !strings.Contains(text, "fanfare_job_queue_"+name+`{queue="emails"} `+want) {
			t.Errorf("lacks %s", name)
		}
	}
}

// scrape reads /metrics until it has a figure, because on a busy machine Redis may not answer the
// first scrape in time.
func (w *world) scrape(t testing.TB, figure string) (text string) {
	t.Helper()
	storetest.Eventually(t, time.Minute, figure, func() bool {
		text = w.get("/metrics").body
		return strings.Contains(text, "\n"+figure)
	})
	return text
}

// Scrapes are cheap: however many there are, Redis is asked once in three seconds.
func TestQueueMetricsAreReadOnceForManyScrapes(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	w := setupOn(t, storetest.Open(t, redis.URL()))
	w.get("/metrics")
	before, began := storetest.Calls(t, redis.Client(), "evalsha"), time.Now()
	for range 20 {
		w.get("/metrics")
	}
	if after := storetest.Calls(t, redis.Client(), "evalsha"); after != before && time.Since(began) < 2*time.Second {
		t.Errorf("20 scrapes: %d scripts became %d", before, after)
	}
}

// While Redis is away a scrape is answered without the queues' figures, because old figures would
// look as if all were well.
func TestQueueMetricsWithoutRedis(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	w := setupOn(t, storetest.Open(t, redis.URL()), func(o *handlers.Options) { o.Web.Registry = prometheus.NewRegistry() })
	w.post("/v1/queues/emails/jobs", `{"type":"t"}`).wants(t, 202, `{"id":"*"}`)
	w.scrape(t, "fanfare_job_queue_depth{")
	redis.Pause()
	defer redis.Resume()
	storetest.Eventually(t, time.Minute, "the figures are read again", func() bool { return !strings.Contains(w.get("/metrics").body, "fanfare_job_queue_") })
	began := time.Now()
	text := w.get("/metrics").body
	if !strings.Contains(text, "fanfare_http_in_flight_requests 1") || strings.Contains(text, "queue_") {
		t.Errorf("answered %s", text)
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("it took %v", took)
	}
}

// Stats and metrics of a queue agree with its content.
func TestStatsOfAnEmptyQueue(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var stats api.Stats
	storetest.Must(t, json.Unmarshal([]byte(w.get("/v1/stats").body), &stats))
	for _, q := range stats.Queues {
		if q.Depth != 0 || q.OldestAgeMS != 0 || q.WakeupMS != 0 || q.InFlight != 0 {
			t.Errorf("%+v", q)
		}
	}
}
