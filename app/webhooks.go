package app

import (
	"context"
	"net"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"

	"fanfare/api"
	"fanfare/delivery/hooks"
	"fanfare/store/record"
	"fanfare/store/webhooks"
)

// openWebhooks makes the webhooks and what sends facts to them. Requests and facts are counted by outcome.
func (a *app) openWebhooks() {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fanfare_webhook_requests_total", Help: "Requests to webhooks, by outcome.",
	}, []string{"outcome"})
	sent := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fanfare_webhook_facts_total", Help: "Facts in requests to webhooks, by outcome.",
	}, []string{"outcome"})
	for _, outcome := range hooks.Outcomes { // they start at 0, so that an alert sees the first one, too
		requests.WithLabelValues(outcome)
		sent.WithLabelValues(outcome)
	}
	a.registry.MustRegister(requests, sent)
	a.webhooks = webhooks.New(webhooks.Options{
		Record: a.record, DB: a.redis, Beside: a.eventQueue.KeyBeside, Feed: a.facts, Plain: len(a.config.WebhookNets) > 0, Logger: a.log,
	})
	a.poster = hooks.NewPoster(hooks.PosterOptions{AllowNets: a.config.WebhookNets, Own: a.listensAt, Now: a.redis.Clock})
	a.refused = &hooks.Letters{Jobs: a.jobQueue, Webhooks: a.webhooks, Poster: a.poster}
	a.hooks = hooks.New(hooks.Options{
		Webhooks: a.webhooks, Feed: a.facts, Locks: hooks.NewLocks(a.redis), Poster: a.poster, Bury: a.refused.Bury, Drain: a.drain(), Logger: a.log,
		OnAnswer: func(outcome string, facts int) {
			requests.WithLabelValues(outcome).Inc()
			sent.WithLabelValues(outcome).Add(float64(facts))
		},
	})
}

// webhookLoops are the loops that send facts to webhooks.
func (a *app) webhookLoops() []loop {
	return []loop{{"webhooks", a.webhooks.Run}, {"facts to webhooks", a.hooks.Run}}
}

// testWebhook sends a fact to try a webhook.
func (a *app) testWebhook(ctx context.Context, w *record.Webhook) *api.WebhookAnswer {
	return a.poster.Test(ctx, w)
}

// listensAt are the addresses at which this process listens.
func (a *app) listensAt() []netip.AddrPort {
	if at := a.listening.Load(); at != nil {
		return *at
	}
	return nil
}

// noteListening notes the addresses at which this process listens, also for the commands of an in-process Redis.
func (a *app) noteListening(fronts ...*front) {
	var all []netip.AddrPort
	for _, redis := range a.redises() {
		if at, err := netip.ParseAddrPort(redis.Listens()); err == nil {
			all = append(all, at)
		}
	}
	for _, f := range fronts {
		if f == nil {
			continue
		}
		if at, ok := f.listener.Addr().(*net.TCPAddr); ok {
			all = append(all, at.AddrPort())
		}
	}
	a.listening.Store(&all)
}
