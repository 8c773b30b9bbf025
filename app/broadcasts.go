package app

import (
	"context"

	"fanfare/api"
	"fanfare/delivery/logsender"
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
		DB: a.redis, Record: a.record, Channels: channelsOf(a.sender, a.config.has(rolePush)), Logger: a.log,
		OnManaged:  func(call, outcome string) { calls.WithLabelValues(call, outcome).Inc() },
		OnCompared: func(app string, n int) { unknown.WithLabelValues(app).Set(float64(n)) },
	})
}

// channelsOf finds what makes and deletes channels: the sender to APNs, or the log sender in its place. The channels of a log sender
// are made up, which a process may do that also sends to them. One that does not send leaves them alone: another process may
// have the credentials, and real channels.
func channelsOf(s transport.Sender, sends bool) broadcasts.Channels {
	if senders, ok := s.(transport.Senders); ok {
		s = senders[api.PlatformAPNs]
	}
	if _, logs := s.(*logsender.Sender); logs && !sends {
		return noChannels{}
	}
	channels, _ := s.(broadcasts.Channels) // both have the methods
	return channels
}

// noChannels is broadcasts.Channels without an app.
type noChannels struct{}

func (noChannels) TakesBroadcast(string, api.Environment) bool { return false }

func (noChannels) CreateChannel(context.Context, string, api.Environment, api.BroadcastKeep) (string, error) {
	return "", noCredentials()
}

func (noChannels) DeleteChannel(context.Context, string, api.Environment, string) error {
	return noCredentials()
}

func (noChannels) ListChannels(context.Context, string, api.Environment) ([]string, error) {
	return nil, noCredentials()
}

func noCredentials() error {
	return api.Errorf(api.CodeUnknownApp, "this process has no credentials of APNs, and does not send")
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
