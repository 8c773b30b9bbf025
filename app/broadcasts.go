package app

import (
	"fanfare/api"
	"fanfare/delivery/transport"
	"fanfare/store/broadcasts"

	"github.com/prometheus/client_golang/prometheus"
)

// openBroadcasts makes the broadcasts. The calls to APNs' management host, and the channels that nobody knows, are
// counted.
func (a *app) openBroadcasts() {
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fanfare_broadcast_channel_calls_total", Help: "Calls to APNs' management host, by call and outcome.",
	}, []string{"call", "outcome"})
	unknown := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "fanfare_broadcast_unknown_channels", Help: "Channels of an app at APNs that are on record nowhere, as counted last.",
	}, []string{"app"})
	a.registry.MustRegister(calls, unknown, &broadcastStates{a, prometheus.NewDesc("fanfare_broadcasts", "Broadcasts, by state.", []string{"state"}, nil)})
	a.broadcasts = broadcasts.New(broadcasts.Options{
		DB: a.redis, Record: a.record, Channels: channelsOf(a.sender), Logger: a.log,
		OnManaged:  func(call, outcome string) { calls.WithLabelValues(call, outcome).Inc() },
		OnCompared: func(app string, n int) { unknown.WithLabelValues(app).Set(float64(n)) },
	})
}

// channelsOf finds what makes channels: the sender to APNs, or the log sender in its place.
func channelsOf(s transport.Sender) broadcasts.Channels {
	if senders, ok := s.(transport.Senders); ok {
		s = senders[api.PlatformAPNs]
	}
	channels, _ := s.(broadcasts.Channels) // both have the methods
	return channels
}

// broadcastLoops are the background loops of the broadcasts.
func (a *app) broadcastLoops() []loop {
	loops := []loop{{"broadcasts", a.broadcasts.Run}}
	if a.config.has(rolePush) {
		loops = append(loops, loop{"times of broadcasts", a.broadcasts.RunSent})
	}
	if a.config.has(roleJobs) {
		loops = append(loops, loop{"sweep of broadcasts", a.broadcasts.Sweep}, loop{"channels", a.broadcasts.Compare})
	}
	return loops
}

// broadcastStates shows how many broadcasts there are, as this process knows them at a scrape.
type broadcastStates struct {
	a    *app
	desc *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (s *broadcastStates) Describe(out chan<- *prometheus.Desc) { out <- s.desc }

// Collect implements prometheus.Collector.
func (s *broadcastStates) Collect(out chan<- prometheus.Metric) {
	for state, n := range s.a.broadcasts.States() {
		out <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, float64(n), string(state))
	}
}
