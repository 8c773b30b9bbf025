package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"fanfare/api"
	"fanfare/delivery"
	"fanfare/handlers"
	"fanfare/store/apps"
	"fanfare/store/chat"
	"fanfare/store/contacts"
	"fanfare/store/devices"
	"fanfare/store/events"
	"fanfare/store/keys"
	"fanfare/store/queue"
	"fanfare/store/record"
	"fanfare/store/redisdb"
	"fanfare/store/stock"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// startPatience is how long a start waits for Redis and the database: a
// restart of everything brings them up in any order.
const startPatience = 30 * time.Second

// house is every room, opened and not yet alive.
type house struct {
	config   *config
	log      *slog.Logger
	registry *prometheus.Registry
	metrics  *delivery.Metrics

	redis *redisdb.DB
	// contactsRedis holds the index of recent contacts: redis, unless
	// FANFARE_CONTACTS_REDIS_URL names another.
	contactsRedis *redisdb.DB
	record        *record.DB
	// The queues of what waits for targeting, of what waits for APNs, and of
	// background jobs.
	eventQueue, notificationQueue, jobQueue *queue.Queue

	keys     *keys.Store
	devices  *devices.Store
	events   *events.Store
	apps     *apps.Store
	contacts *contacts.Store
	sales    *stock.Store

	chats    *chat.Store
	liveChat *chat.Live
	pusher   *chat.Pusher

	sender    delivery.Sender
	targeting *delivery.Targeting
	delivery  *delivery.Delivery

	stopping atomic.Bool
	// closing is closed when HTTP stops: streams end then.
	closing chan struct{}
}

// openHouse makes the rooms from the bottom up. Nothing runs yet and nobody is
// asked; what fails here is a mistake in the configuration.
func openHouse(ctx context.Context, c *config, log *slog.Logger) (*house, error) {
	h := &house{config: c, log: log, registry: prometheus.NewRegistry(), closing: make(chan struct{})}
	h.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	h.metrics = delivery.NewMetrics(h.registry)
	sender, err := h.openSender()
	if err != nil {
		return nil, err
	}
	h.sender = sender
	if err := h.openStores(ctx); err != nil {
		h.close()
		return nil, err
	}
	h.openQueues()
	if err := h.openNouns(); err != nil {
		h.close()
		return nil, err
	}
	h.openWorkers()
	return h, nil
}

func (h *house) openStores(ctx context.Context) error {
	var err error
	if h.redis, err = redisdb.Open(ctx, redisdb.Options{URL: h.config.RedisURL, Logger: h.log}); err != nil {
		return fmt.Errorf("FANFARE_REDIS_URL: %w", err)
	}
	h.contactsRedis = h.redis
	if url := h.config.ContactsURL; url != "" {
		if h.contactsRedis, err = redisdb.Open(ctx, redisdb.Options{URL: url, Logger: h.log}); err != nil {
			return fmt.Errorf("FANFARE_CONTACTS_REDIS_URL: %w", err)
		}
	}
	if h.record, err = record.Open(ctx, record.Options{URL: h.config.DatabaseURL, Logger: h.log}); err != nil {
		return fmt.Errorf("FANFARE_DATABASE_URL: %w", err)
	}
	return nil
}

func (h *house) openQueues() {
	c := h.config
	shared := queue.Options{
		Shards: c.Shards, Serve: c.ShardSet, Retention: c.TombstoneRetention, GroupRetention: c.EventRetention, MaxAge: c.MaxAge,
		RetryBase: c.RetryBase, RetryMax: c.RetryMax, MaxAttempts: c.MaxAttempts, Drain: h.drain(), Logger: h.log,
	}
	toTarget, toSend, toDo := shared, shared, shared
	toTarget.Name, toTarget.Lease = "events", c.JobLease
	toSend.Name, toSend.Lease = "notifications", c.NotificationLease
	toDo.Name, toDo.Lease = "jobs", c.JobLease
	toDo.MaxAge = -1            // a change on record never gives up
	toDo.InFlight = jobsAtATime // they share SQL's connections with the requests
	h.eventQueue, h.notificationQueue, h.jobQueue = queue.New(h.redis, toTarget), queue.New(h.redis, toSend), queue.New(h.redis, toDo)
}

// jobsAtATime bounds the background jobs under way in one process.
const jobsAtATime = 32

// queues are all queues.
func (h *house) queues() []*queue.Queue {
	return []*queue.Queue{h.eventQueue, h.notificationQueue, h.jobQueue}
}

// drain is how long work that is under way may go on when the process stops:
// long enough for a slow answer of APNs, short enough to hand back the rest.
func (h *house) drain() time.Duration { return h.config.ShutdownTimeout / 4 }

func (h *house) openNouns() error {
	h.keys = keys.New(h.record, keys.Options{Logger: h.log})
	h.devices = devices.New(h.redis, h.record, h.notificationQueue, devices.Options{Logger: h.log, GuardTTL: h.config.MaxAge + time.Hour})
	h.events = events.New(events.Options{
		DB: h.redis, Queue: h.eventQueue, Notifications: h.notificationQueue, Record: h.record, Logger: h.log, OnAccepted: h.metrics.Accepted,
		Chats: true,
	})
	h.openChat()
	h.apps = apps.New(h.redis)
	var err error
	h.contacts, err = contacts.New(h.contactsRedis, h.record, h.jobQueue, contacts.Options{
		Max: h.config.ContactsMax, Min: h.config.ContactsMin, Logger: h.log,
	})
	if err != nil {
		return err
	}
	return h.openSales()
}

// openSender reads the credentials; without any, notifications are logged.
func (h *house) openSender() (delivery.Sender, error) {
	c := h.config
	if !c.sendsToAPNs() {
		return delivery.NewLogSender(h.log), nil
	}
	return delivery.NewAPNs(delivery.APNsOptions{
		URL: c.APNsURL, CAFile: c.APNsCAFile, KeyFile: c.APNsKeyFile, KeyID: c.APNsKeyID, TeamID: c.APNsTeamID,
		AppsFile: c.APNsAppsFile, SendWithin: c.NotificationLease / 2, Logger: h.log,
	})
}

func (h *house) openWorkers() {
	c := h.config
	h.targeting = delivery.NewTargeting(delivery.TargetingOptions{
		Events: h.eventQueue, Notifications: h.notificationQueue, Devices: h.devices,
		Pagers:  map[string]delivery.AudiencePager{events.KindContactsOf: h.record.ContactsOf, events.KindChat: h.chats.MemberNames},
		LiveKey: chat.PresenceKey, Metrics: h.metrics, Logger: h.log,
	})
	h.delivery = delivery.New(delivery.Options{
		Queue: h.notificationQueue, Events: h.eventQueue, Sender: h.sender, Devices: h.devices, Apps: h.apps, Metrics: h.metrics, Logger: h.log,
		ProbeEvery: c.AppProbeInterval, MaxAge: c.MaxAge, Retention: c.EventRetention, RetryBase: c.RetryBase, RetryMax: c.RetryMax,
	})
}

// prepare waits for Redis and the database, brings the schema up to date, and
// checks what must hold before anybody is served.
func (h *house) prepare(ctx context.Context) error {
	if err := patiently(ctx, h.log, "the database", h.record.Migrate); err != nil {
		return fmt.Errorf("FANFARE_DATABASE_URL: %w", err)
	}
	if err := patiently(ctx, h.log, "the database", h.keys.Load); err != nil {
		return fmt.Errorf("FANFARE_DATABASE_URL: %w", err)
	}
	if !h.config.loopback() && !h.keys.Any() {
		return fmt.Errorf("FANFARE_ADDR: %s can be reached from outside and there is no API key yet; make the first with: fanfare keys create --name first --scopes admin", h.config.Addr)
	}
	for _, q := range h.queues() {
		if err := patiently(ctx, h.log, "Redis", q.Init); err != nil {
			return fmt.Errorf("FANFARE_REDIS_URL: %w", err)
		}
	}
	for _, redis := range h.redises() {
		for _, warning := range redis.Check(ctx) {
			h.log.Warn(warning)
		}
	}
	return nil
}

// redises are the Redis of everything and, if it has its own, that of contacts.
func (h *house) redises() []*redisdb.DB {
	if h.contactsRedis == h.redis {
		return []*redisdb.DB{h.redis}
	}
	return []*redisdb.DB{h.redis, h.contactsRedis}
}

// redisLoops are what each Redis needs while it is in use.
func (h *house) redisLoops() []loop {
	var loops []loop
	for _, redis := range h.redises() {
		loops = append(loops, loop{"redis", redis.Run})
	}
	return loops
}

// patiently tries until it works, for as long as a dependency is merely away.
func patiently(ctx context.Context, log *slog.Logger, what string, try func(context.Context) error) error {
	began, told := time.Now(), time.Time{}
	for {
		err := try(ctx)
		code := api.CodeOf(err)
		away := code == api.CodeUnavailable || code == api.CodeUnknownOutcome || code == api.CodeOverloaded
		if err == nil || !away || ctx.Err() != nil || time.Since(began) > startPatience {
			return err
		}
		if time.Since(told) > 5*time.Second {
			told = time.Now()
			log.Warn("waiting for "+what, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// jobLoops are what keeps the rooms fresh, and the background jobs.
func (h *house) jobLoops() []loop {
	loops := append([]loop{{"keys", h.keys.Run}, {"event types", h.events.Run}}, h.saleLoops()...)
	loops = append(loops, h.chatLoops()...)
	if h.config.has(roleJobs) {
		loops = append(loops, loop{"outbox", h.devices.Run}, loop{"contacts", h.contacts.Run}, loop{"jobs", func(ctx context.Context) error {
			return h.jobQueue.Run(ctx, queue.ByType(h.jobHandlers()))
		}})
	}
	return loops
}

// jobHandlers are what works on background jobs, by type.
func (h *house) jobHandlers() map[string]func(context.Context, *queue.Claimed) queue.Result {
	all := h.contacts.Jobs()
	maps.Copy(all, h.sales.Jobs())
	return all
}

// deliveryLoops are the workers behind the queues.
func (h *house) deliveryLoops() []loop {
	var loops []loop
	if h.config.has(roleTargeting) {
		loops = append(loops, loop{"targeting", h.targeting.Run})
	}
	if h.config.has(roleDelivery) {
		loops = append(loops, loop{"delivery", h.delivery.Run})
	}
	return loops
}

// handler is the HTTP face of this process.
func (h *house) handler() http.Handler {
	whole := handlers.New(handlers.Options{
		Events: h.events, Devices: h.devices, Keys: h.keys, Contacts: h.contacts, Sales: h.sales,
		EventQueue: h.eventQueue, NotificationQueue: h.notificationQueue, JobQueue: h.jobQueue,
		Ready: h.ready, DeliveredPerSecond: h.metrics.DeliveredPerSecond, Logger: h.log, Registry: h.registry,
		RateLimit: h.config.RateLimit, RequestTimeout: h.config.RequestTimeout,
		Chats: h.chats, Live: h.liveChat, Pusher: h.pusher, MaxStreams: h.config.MaxStreams, Closing: h.closing,
	})
	if h.config.has(roleAPI) {
		return whole
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/") {
			r = r.Clone(r.Context())
			r.URL.Path, r.URL.RawPath = "/not-the-api-role", "" // answered by the router's own 404
		}
		whole.ServeHTTP(w, r)
	})
}

// reload is what SIGHUP does: apps and certificates are read again, and paused
// apps may try at once. What is broken stays as it was.
func (h *house) reload(front *front) {
	if err := h.sender.Reload(); err != nil {
		h.log.Error("the apps were not reloaded; the old ones stay", "error", err)
	} else {
		h.log.Info("the apps were reloaded")
	}
	if front.cert != nil {
		if err := front.cert.reload(); err != nil {
			h.log.Error("the certificate was not reloaded; the old one stays", "error", err)
		}
	}
	h.delivery.ProbeNow()
}

// close ends what openHouse opened: the sender, Redis, then SQL.
func (h *house) close() {
	var errs []error
	if h.sender != nil {
		errs = append(errs, h.sender.Close())
	}
	for _, redis := range h.redises() {
		if redis != nil {
			errs = append(errs, redis.Close())
		}
	}
	if h.record != nil {
		errs = append(errs, h.record.Close())
	}
	if err := errors.Join(errs...); err != nil {
		h.log.Warn("not everything closed cleanly", "error", err)
	}
}
