package targeting_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fanfare/api"
	"fanfare/delivery"
	"fanfare/delivery/apns/apnstest"
	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// TestPausedAppsDoNotFillRedis: when parked notifications take all the memory that they may, the
// newest fail. Their reports and one alarm show that, and they are not dead letters. Notifications
// of other apps are sent. The older ones wait, even if one was probed in the meantime, and are sent
// when the app resumes.
func TestPausedAppsDoNotFillRedis(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		registry := prometheus.NewRegistry()
		metrics := delivery.NewMetrics(registry, nil)
		p := refusing(t, options{db: db,
			queue:    func(o *queue.Options) { o.Shards, o.ParkedBytes = 1, 5000 },
			delivery: func(o *delivery.Options) { o.ProbeEvery, o.Metrics = time.Hour, metrics },
		})
		const posts = 30
		var ids []string
		waits := int64(0)
		for n := range posts {
			ids = append(ids, p.mustPost(hello("bob")))
			storetest.Eventually(t, soon, "it waits or has ended", func() bool {
				return p.parked() > waits || p.mustReport(ids[n]).State == api.EventDone
			})
			waits = p.parked()
		}
		if waits < 3 || waits > 25 {
			t.Fatalf("%d notifications wait in 5,000 bytes", waits)
		}
		for n, id := range ids {
			if r := p.mustReport(id); n < int(waits) && r.Retrying != 1 || n >= int(waits) && (r.Failed != 1 || r.Retrying != 0 || r.State != api.EventDone) {
				t.Errorf("report %d of %d: %+v", n, waits, r)
			}
		}
		if n := counted(t, registry, "fanfare_notifications_ended_total", "failed", "app_paused"); n != float64(posts-waits) {
			t.Errorf("%v are counted as failed, want %d", n, posts-waits)
		}
		if n := counted(t, registry, "fanfare_alarms_total", "parked_full"); n != 1 {
			t.Errorf("%v alarms", n)
		}
		stats, err := p.first.queueOfNotes.Stats(t.Context())
		if err != nil || stats.DeadLetters != 0 {
			t.Errorf("%d dead letters, %v", stats.DeadLetters, err)
		}
		p.mustCounts(p.mustEnd(p.mustPost(hello("eve")), api.EventDone), counts{1, 1, 1, 0, 0})
		for range 3 { // refused again, and parked again
			before := p.requests(badTopic)
			p.first.delivery.ProbeNow()
			storetest.Eventually(t, soon, "one to be tried", func() bool { return p.requests(badTopic) > before && p.parked() == waits })
		}
		p.apns.ScriptTopic(badTopic, apnstest.OK())
		p.first.delivery.ProbeNow()
		for _, id := range ids[:waits] {
			p.mustCounts(p.mustEnd(id, api.EventDone), counts{1, 1, 1, 0, 0})
		}
	})
}

// counted is the value of a counter with the given labels.
func counted(t *testing.T, r *prometheus.Registry, name string, values ...string) float64 {
	t.Helper()
	families, err := r.Gather()
	storetest.Must(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			found := 0
			for _, l := range m.GetLabel() {
				for _, v := range values {
					if l.GetValue() == v {
						found++
					}
				}
			}
			if f.GetName() == name && found == len(values) {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}
