package delivery

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fanfare/api"
	"fanfare/delivery/transport"
	"fanfare/store/events"
	"fanfare/store/queue"
)

// Metrics are the metrics of targeting and delivery. No label holds a user, a token or any other
// value that callers choose without bound. Metrics whose names begin with apns cover all
// senders.
type Metrics struct {
	accepted   prometheus.Counter
	targeted   *prometheus.CounterVec
	suppressed *prometheus.CounterVec
	sent       *prometheus.CounterVec
	ended      *prometheus.CounterVec
	opened     *prometheus.CounterVec
	latency    *prometheus.HistogramVec
	apns       platformMetrics
	noRoom     *prometheus.CounterVec
	breaker    *prometheus.GaugeVec
	paused     *prometheus.GaugeVec
	alarms     *prometheus.CounterVec
	rate       rate
	reasons    map[string]bool      // those that may be labels
	totals     *prometheus.Registry // has the metrics that Totals reads
	longest    atomic.Int64         // since the last call of Longest, in ms
}

// platformMetrics are those of one platform, for which no label has to be looked up.
type platformMetrics struct {
	targeted prometheus.Counter
	latency  prometheus.Observer
}

// of has the metrics of a platform.
func (m *Metrics) of(p api.Platform) platformMetrics {
	if p == api.PlatformAPNs {
		return m.apns
	}
	return platformMetrics{m.targeted.WithLabelValues(string(p)), m.latency.WithLabelValues(string(p))}
}

// NewMetrics makes the metrics and registers them, unless the registry is nil. Reasons are the
// ones that the Sender documents: all others become "other".
func NewMetrics(r prometheus.Registerer, reasons []string) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "fanfare", Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "fanfare", Name: name, Help: help}, []string{"app"})
	}
	m := &Metrics{
		accepted:   prometheus.NewCounter(prometheus.CounterOpts{Namespace: "fanfare", Name: "events_accepted_total", Help: "Events that were accepted."}),
		targeted:   counter("notifications_targeted_total", "Notifications that were made for devices.", "platform"),
		suppressed: counter("recipients_suppressed_total", "Users who got no notification, by the first reason that applied.", "reason"),
		sent:       counter("apns_answers_total", "Answers to sends, by outcome and by the reason that the push service gave.", "platform", "outcome", "reason"),
		ended:      counter("notifications_ended_total", "Notifications that have ended, by state and reason.", "platform", "state", "reason"),
		opened:     counter("notifications_opened_total", "Users who opened or dismissed a notification, once for each event.", "action"),
		noRoom:     counter("apns_no_room_total", "Times that an event, a part of one or a notification had to wait in its queue because an app had no room.", "app"),
		breaker:    gauge("apns_breaker_open", "1 while the storm breaker of an app is open in this process; apps beyond the first 1,000 share other."),
		paused:     gauge("apns_app_paused", "1 while an app is paused, 0.5 while its messages are on their way back; of the app other their sum."),
		alarms:     counter("alarms_total", "Conditions that an operator should look at.", "kind"),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "fanfare", Name: "event_to_answer_seconds", Help: "Time from the acceptance of an event to the answer of the push service.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600},
		}, []string{"platform"}),
	}
	m.apns = platformMetrics{m.targeted.WithLabelValues(string(api.PlatformAPNs)), m.latency.WithLabelValues(string(api.PlatformAPNs))}
	for _, kind := range []string{alarmStorm, alarmPaused, alarmOurBug, alarmNoApp, alarmParkedFull, alarmEmptied} { // they start at 0, so that an alert sees the first alarm as well
		m.alarms.WithLabelValues(kind)
	}
	for _, action := range []string{events.Opened.String(), events.Dismissed.String()} {
		m.opened.WithLabelValues(action)
	}
	m.reasons = map[string]bool{"": true}
	for _, reason := range reasons {
		m.reasons[reason] = true
	}
	m.totals = prometheus.NewRegistry()
	m.totals.MustRegister(m.accepted, m.sent, m.ended, m.opened, m.alarms, m.latency)
	if r != nil {
		r.MustRegister(m.accepted, m.targeted, m.suppressed, m.sent, m.ended, m.opened, m.noRoom, m.breaker, m.paused, m.alarms, m.latency)
	}
	return m
}

// Accepted counts events; hand it to the events store.
func (m *Metrics) Accepted(n int) { m.accepted.Add(float64(n)) }

// Opened counts a user who opened or dismissed a notification; hand it to the events store.
func (m *Metrics) Opened(action string) { m.opened.WithLabelValues(action).Inc() }

// Suppressed counts users who were not notified for a reason.
func (m *Metrics) Suppressed(reason string, n int64) {
	if n > 0 {
		m.suppressed.WithLabelValues(reason).Add(float64(n))
	}
}

// Longest is the longest time from the acceptance of an event to an answer since the last call.
func (m *Metrics) Longest() time.Duration { return time.Duration(m.longest.Swap(0)) * time.Millisecond }

// DeliveredPerSecond is this process's mean rate of deliveries over the last minute.
func (m *Metrics) DeliveredPerSecond() float64 { return m.rate.mean(time.Now()) }

// end counts a notification that has ended with this result.
func (m *Metrics) end(p api.Platform, r queue.Result) {
	m.ended.WithLabelValues(string(p), r.Label, m.endLabel(r)).Inc()
}

// answered counts one answer of the Sender.
func (m *Metrics) answered(p api.Platform, a transport.Answer, accepted int64) {
	m.sent.WithLabelValues(string(p), a.Outcome.String(), m.reasonLabel(a.Reason)).Inc()
	if a.Status == 0 && a.Outcome != transport.Delivered { // the log sender delivers without a status
		return
	}
	now := time.Now()
	took := max(0, now.UnixMilli()-accepted)
	for most := m.longest.Load(); took > most && !m.longest.CompareAndSwap(most, took); most = m.longest.Load() {
	}
	m.of(p).latency.Observe(float64(took) / 1000)
	if a.Outcome == transport.Delivered {
		m.rate.add(now)
	}
}

// Kinds of alarms.
const (
	alarmStorm  = "storm"
	alarmPaused = "app_paused"
	alarmOurBug = "our_bug"
	alarmNoApp  = "no_app"
	// alarmParkedFull is raised once, and again only after no app was paused.
	alarmParkedFull = "parked_full"
	// alarmEmptied is raised by the worker of each shard whose keys are gone.
	alarmEmptied = "redis_emptied"
)

// RedisEmptied raises the alarm that Redis lost what a queue had; hand it to the queues.
func (m *Metrics) RedisEmptied() { m.alarm(alarmEmptied) }

func (m *Metrics) alarm(kind string) { m.alarms.WithLabelValues(kind).Inc() }

// reasonLabel is an answer's reason as a label. Undocumented reasons share one label, because a
// service could send anything.
func (m *Metrics) reasonLabel(reason string) string {
	if m.reasons[reason] {
		return reason
	}
	return "other"
}

// endLabel is a result's reason as a label: one of fanfare's own, or one that the service
// documents.
func (m *Metrics) endLabel(r queue.Result) string {
	switch r.Reason {
	case "device_gone", "no_app", "app_paused", "unknown_outcome", "bad_payload", redactedReason:
		return r.Reason
	}
	return m.reasonLabel(r.Reason)
}

// rate counts in one slot per second, for the mean of the last minute.
type rate struct {
	mu    sync.Mutex
	slots [60]int64
	began time.Time // the first call
	last  int64     // the newest slot's second after that
}

func (r *rate) add(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slots[r.forget(now)%60]++
}

// mean is the rate per second. Before a minute has passed, it is taken over the time since the
// first count.
func (r *rate) mean(now time.Time) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	second := r.forget(now)
	var sum int64
	for _, n := range r.slots {
		sum += n
	}
	return float64(sum) / float64(min(60, second+1))
}

// forget clears the slots of seconds that have passed since the last call, and returns the present second. It goes by
// monotonic time, which no clock that is put right changes.
func (r *rate) forget(now time.Time) (second int64) {
	if r.began.IsZero() {
		r.began = now
	}
	second = max(int64(now.Sub(r.began)/time.Second), r.last)
	for s := max(r.last+1, second-59); s <= second; s++ {
		r.slots[s%60] = 0
	}
	r.last = second
	return second
}

const (
	// maxAppNames is how many apps a process tracks under their own name. It is bounded because
	// clients choose topics, and with them the apps.
	maxAppNames = 1000
	// otherApps is the name that all further apps share.
	otherApps = "other"
)

// appNames maps apps to the names that they are tracked under; the first apps get their own.
type appNames struct {
	mu    sync.Mutex
	named map[string]struct{}
}

// newAppNames starts with the configured apps, so that topics that clients send cannot crowd
// them out.
func newAppNames(configured map[string]error) *appNames {
	n := &appNames{named: map[string]struct{}{}}
	for _, name := range slices.Sorted(maps.Keys(configured)) {
		n.of(name)
	}
	return n
}

// of returns the app's own name or the shared one.
func (n *appNames) of(app string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.named[app]; ok {
		return app
	}
	if len(n.named) >= maxAppNames {
		return otherApps
	}
	n.named[app] = struct{}{}
	return app
}

// alarmEvery is how often one alarm is logged; all are counted.
const alarmEvery = time.Minute

// alarm counts a condition that an operator should look at, and logs it at most once a minute
// for each kind and app.
func (d *Delivery) alarm(kind string, args ...any) {
	d.o.Metrics.alarm(kind)
	key := kind
	if len(args) > 1 {
		if app, ok := args[1].(string); ok {
			key += " " + d.alarmNames.of(app)
		}
	}
	d.mu.Lock()
	loud := time.Since(d.alarmed[key]) > alarmEvery
	if loud {
		d.alarmed[key] = time.Now()
	}
	d.mu.Unlock()
	if loud {
		d.o.Logger.Error("alarm: "+kind, args...)
	}
}
