package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"fanfare/delivery"
	"fanfare/delivery/hooks"
	"fanfare/delivery/targeting"
	"fanfare/delivery/transport"
	"fanfare/docs/site"
	"fanfare/handlers"
	"fanfare/handlers/web"
	"fanfare/openapi"
	"fanfare/store/apikeys"
	"fanfare/store/apps"
	"fanfare/store/badges"
	"fanfare/store/broadcasts"
	"fanfare/store/chat"
	"fanfare/store/chat/live"
	"fanfare/store/contacts"
	"fanfare/store/deadletters"
	"fanfare/store/devices"
	"fanfare/store/erasure"
	"fanfare/store/events"
	"fanfare/store/facts"
	"fanfare/store/jobs"
	"fanfare/store/lock"
	"fanfare/store/queue"
	"fanfare/store/record"
	"fanfare/store/redisdb"
	"fanfare/store/redisdb/child"
	"fanfare/store/sales"
	"fanfare/store/schedules"
	"fanfare/store/series"
	"fanfare/store/servers"
	"fanfare/store/usertokens"
	"fanfare/store/values"
	"fanfare/store/webhooks"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// app holds all parts, built and not yet started.
type app struct {
	config   *config
	log      *slog.Logger
	registry *prometheus.Registry
	metrics  *delivery.Metrics

	redis *redisdb.DB
	// child is the server of an embedded Redis. nil: it is in the memory of this process, and whyMemory
	// says why, or Redis is not embedded.
	child     *child.Server
	folder    io.Closer // locks the data of an embedded Redis in memory
	whyMemory string
	// contactsRedis holds the index of recent contacts: redis, unless
	// FANFARE_CONTACTS_REDIS_URL names another.
	contactsRedis *redisdb.DB
	record        *record.DB
	// The queues of events to be targeted, of notifications to be sent to APNs, and of
	// background jobs.
	eventQueue, notificationQueue, jobQueue *queue.Queue

	keys       *apikeys.Store
	tokens     *usertokens.Store
	devices    *devices.Store
	events     *events.Store
	apps       *apps.Store
	servers    *servers.Store
	series     *series.Store
	jobs       *jobs.Store
	schedules  *schedules.Store
	broadcasts *broadcasts.Store
	facts      *facts.Store
	tells      *facts.Switch
	webhooks   *webhooks.Store
	hooks      *hooks.Sender
	refused    *hooks.Letters
	poster     *hooks.Poster
	badges     *badges.Store
	locks      *lock.Locker
	values     *values.Values
	counters   *values.Counters
	letters    *deadletters.Store
	contacts   *contacts.Store
	sales      *sales.Store
	erasure    *erasure.Store

	chats   *chat.Store
	streams *live.Hub
	pusher  *chat.Pusher

	sender    transport.Sender
	trialApps string // the apps file of openTrial, "" if there is none
	targeting *targeting.Targeting
	delivery  *delivery.Delivery

	// starting says why nothing can be served yet; nil: this process has started.
	starting atomic.Pointer[string]
	stopping atomic.Bool
	// listening has the addresses at which this process listens; nil: it does not yet.
	listening atomic.Pointer[[]netip.AddrPort]
	readings  *web.Fresh[reading]
	// closing is closed when HTTP stops: streams end then.
	closing chan struct{}
	// following counts the streams that have left their http.Server.
	following sync.WaitGroup
}

// build makes the parts from the bottom up. It starts nothing and contacts no other server. An
// error means a mistake in the configuration.
func build(ctx context.Context, c *config, log *slog.Logger) (*app, error) {
	a := &app{config: c, log: log, registry: prometheus.NewRegistry(), closing: make(chan struct{})}
	a.readings = &web.Fresh[reading]{Every: readyFresh, Read: a.ask}
	a.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	sender, err := a.openSender()
	if err != nil {
		return nil, err
	}
	a.sender = sender
	a.metrics = delivery.NewMetrics(a.registry, sender.Reasons())
	if err := a.openStores(ctx); err != nil {
		a.close()
		return nil, err
	}
	a.registry.MustRegister(newPoolMetrics(a), buildInfo(), a.embeddedRestarts())
	a.openQueues()
	if err := a.openNouns(); err != nil {
		a.close()
		return nil, err
	}
	a.openWorkers()
	a.openErasure()
	return a, nil
}

func (a *app) openStores(ctx context.Context) error {
	var err error
	options := redisdb.Options{URL: a.config.RedisURL, Logger: a.log}
	if a.config.embedded() {
		if err := a.openEmbedded(ctx, &options); err != nil {
			return err
		}
	}
	if a.redis, err = redisdb.Open(ctx, options); err != nil {
		return fmt.Errorf("FANFARE_REDIS_URL: %w", err)
	}
	a.contactsRedis = a.redis
	if url := a.config.ContactsURL; url != "" {
		if a.contactsRedis, err = redisdb.Open(ctx, redisdb.Options{URL: url, Logger: a.log}); err != nil {
			return fmt.Errorf("FANFARE_CONTACTS_REDIS_URL: %w", err)
		}
	}
	if a.record, err = record.Open(ctx, record.Options{URL: a.config.DatabaseURL, Logger: a.log}); err != nil {
		return fmt.Errorf("FANFARE_DATABASE_URL: %w", err)
	}
	return nil
}

// drain is how long work that is under way may go on when the process stops:
// long enough for a slow answer of APNs, short enough to hand back the rest.
func (a *app) drain() time.Duration { return a.config.ShutdownTimeout / 4 }

func (a *app) openNouns() error {
	a.keys = apikeys.New(a.record, apikeys.Options{Logger: a.log})
	var err error
	if a.tokens, err = usertokens.New(a.record, a.redis, usertokens.Options{KeysFile: a.config.UserKeysFile, KeyEnded: a.keys.Ended, Logger: a.log}); err != nil {
		return fmt.Errorf("FANFARE_USER_KEYS_FILE: %w", err)
	}
	a.devices = devices.New(a.redis, a.record, a.notificationQueue, devices.Options{Logger: a.log, GuardTTL: a.config.MaxAge + time.Hour,
		Tells: a.tells.On, Told: func(keys ...string) { a.facts.Recorded(keys...) }})
	a.openBroadcasts()
	a.events = events.New(events.Options{
		DB: a.redis, Queue: a.eventQueue, Notifications: a.notificationQueue, Record: a.record, Logger: a.log, OnAccepted: a.metrics.Accepted, OnOpened: a.metrics.Opened,
		MaxAge: a.config.MaxAge, SendsTo: a.sendsTo, Delivers: a.delivers, Broadcast: a.broadcasts.Open, Tells: a.tells.On,
	})
	a.openChat()
	a.apps = apps.New(a.redis, apps.Options{Tells: a.tells.On, Left: func() { a.facts.Left(appsOutbox) }})
	a.servers = servers.New(a.redis, servers.Options{DeliveredPerSecond: a.metrics.DeliveredPerSecond, Logger: a.log})
	a.series = series.New(a.redis, series.Options{Totals: a.metrics.Totals, Longest: a.metrics.Longest, Depths: a.depths, Logger: a.log})
	a.jobs = jobs.New(jobs.Options{DB: a.redis, RetryBase: a.config.RetryBase, RetryMax: a.config.RetryMax, MaxAge: a.config.MaxAge, Tells: a.tells.OfQueue("work"), Logger: a.log})
	a.schedules = schedules.New(schedules.Options{Record: a.record, Enqueue: a.jobs.Enqueue, Logger: a.log})
	a.badges = badges.New(a.redis, badges.Options{MaxAge: a.config.MaxAge + targeting.Overtime})
	a.locks = lock.New(a.redis, lock.Options{Name: "locks"})
	a.values, a.counters = values.NewValues(a.redis), values.NewCounters(a.redis)
	a.letters = deadletters.New(deadletters.Options{Queues: a.deadQueues(), Jobs: a.jobQueue, Logger: a.log})
	a.openFacts()
	a.openWebhooks()
	a.contacts = contacts.New(a.contactsRedis, a.record, a.jobQueue, contacts.Options{
		Max: a.config.ContactsMax, Min: a.config.ContactsMin, Logger: a.log,
	})
	a.openSales()
	return nil
}

func (a *app) openWorkers() {
	c := a.config
	a.delivery = delivery.New(delivery.Options{
		Queue: a.notificationQueue, Sender: a.sender, Devices: a.devices, Apps: a.apps, Events: a.events, Metrics: a.metrics, Logger: a.log,
		ProbeEvery: c.AppProbeInterval, MaxAge: c.MaxAge, RetryBase: c.RetryBase, RetryMax: c.RetryMax, InFlight: c.MaxInFlight,
		Unrecorded: a.eventQueue.Unrecorded, PushOrigins: c.pushOrigins(), Broadcasts: a.broadcasts,
	})
	a.targeting = targeting.New(targeting.Options{
		Queue: a.eventQueue, Notifications: a.notificationQueue, Devices: a.devices, Delivery: a.delivery, Broadcasts: a.broadcasts,
		Pagers: map[string]targeting.Pager{
			events.KindContactsOf: a.record.ContactsOf, events.KindChat: a.chats.MemberNames,
			events.KindTopic: a.record.TopicUsers, events.KindAll: a.record.UsersWithDevice, events.KindActivities: a.record.UsersWithDevice,
		},
		Badges: a.numbers, Events: a.events, MaxAge: c.MaxAge, ReportTTL: c.MaxAge + targeting.Overtime + c.EventRetention, LiveKey: live.PresenceKey, InFlight: c.MaxInFlight, Metrics: a.metrics, Logger: a.log,
	})
}

// redises are the general Redis and, if there is one, the separate Redis for contacts.
func (a *app) redises() []*redisdb.DB {
	if a.contactsRedis == a.redis {
		return []*redisdb.DB{a.redis}
	}
	return []*redisdb.DB{a.redis, a.contactsRedis}
}

// redisLoops are the loops that each Redis needs while it is in use. The series stops with them, when nothing
// is counted any more.
func (a *app) redisLoops() []loop {
	loops := []loop{{"series", a.series.Run}}
	for _, redis := range a.redises() {
		loops = append(loops, loop{"redis", redis.Run})
	}
	return loops
}

// jobLoops are the loops that keep the stores fresh, and those of the background jobs.
func (a *app) jobLoops() []loop {
	loops := append([]loop{{"keys", a.keys.Run}, {"user tokens", a.tokens.Run}, {"event types", a.events.Run}, {"servers", a.sayAlive}, {"queues of jobs", a.jobs.Run}, {"schedules", a.schedules.Run}, {"types of facts", a.tells.Run}, {"facts", a.facts.Run}, {"facts on record", a.facts.RunRecorded}}, a.saleLoops()...)
	loops = append(append(loops, a.chatLoops()...), a.broadcastLoops()...)
	if a.config.has(roleJobs) {
		loops = append(loops, a.webhookLoops()...)
		loops = append(loops, loop{"outbox", a.outbox().Run}, loop{"old facts", a.facts.RunUpkeep}, loop{"jobs", func(ctx context.Context) error {
			return a.jobQueue.Run(ctx, queue.ByType(traced(a.jobHandlers())))
		}})
	}
	return loops
}

// jobHandlers are the handlers of background jobs, by type.
func (a *app) jobHandlers() map[string]func(context.Context, *queue.Claimed) queue.Result {
	all := a.contacts.Jobs()
	maps.Copy(all, a.sales.Jobs())
	maps.Copy(all, a.erasure.Handlers())
	maps.Copy(all, a.letters.Handlers())
	maps.Copy(all, a.refused.Handlers())
	return all
}

// outbox is the relay of changes on record to Redis.
func (a *app) outbox() *record.Relay {
	all := a.devices.Outbox()
	maps.Copy(all, a.contacts.Outbox())
	maps.Copy(all, a.erasure.Outbox())
	maps.Copy(all, a.facts.Outbox())
	return a.record.NewRelay(record.RelayOptions{DeletedRetention: a.config.DeletedRetention, Logger: a.log}, all)
}

// pushLoops are the workers behind the queues of events and notifications.
func (a *app) pushLoops() []loop {
	if !a.config.has(rolePush) {
		return nil
	}
	return []loop{{"targeting", a.targeting.Run}, {"delivery", a.delivery.Run}}
}

// handlers returns the HTTP handlers of this process: one for users, and one for operators (see
// FANFARE_METRICS_ADDR).
func (a *app) handlers() (public, private http.Handler) {
	hidden := ""
	if a.config.MetricsAddr != "" {
		hidden = "/metrics"
	}
	whole := handlers.New(handlers.Options{
		Events: a.events, Devices: a.devices, Record: a.record, Keys: a.keys, Tokens: a.tokens, Erase: a.erasure.Erase, UserConfirm: bool(a.config.UserConfirm), Contacts: a.contacts, Sales: a.sales, Servers: a.servers, Series: a.series, Jobs: a.jobs, Schedules: a.schedules, Badges: a.badges, Broadcasts: a.broadcasts, Locks: a.locks, Values: a.values, Counters: a.counters, DeadLetters: a.letters, Facts: a.facts, FactSwitch: a.tells, Webhooks: a.webhooks, TestWebhook: a.testWebhook, Apps: a.listApps, Pauses: a.apps,
		Queues: a.queues(), DeadQueues: a.deadQueues(), TakesDevice: a.sender.Takes, PushOrigins: a.config.pushOrigins(), PublicKey: a.webPushKey, Ready: a.readyFor, DeliveredPerSecond: a.metrics.DeliveredPerSecond,
		Chats: a.chats, Live: a.streams, Pusher: a.pusher,
		About: a.about(), Console: a.console, Document: openapi.Document(), Docs: site.New(a.config.documents, openapi.UI, web.NotFound),
		Web: web.Options{
			Logger: a.log, Registry: a.registry, RateLimit: a.config.RateLimit, UserRateLimit: a.config.UserRateLimit,
			UserMessageRateLimit: a.config.UserMessageRateLimit, UserMessageBytes: a.config.UserMessageBytes,
			AllowedOrigins: a.config.AllowedOrigins, Proxies: a.config.TrustedProxies, RequestTimeout: a.config.RequestTimeout,
			MaxStreams: a.config.MaxStreams, KeyMaxStreams: a.config.KeyMaxStreams,
			UserMaxStreams: a.config.UserMaxStreams, UserMaxPolls: a.config.UserMaxPolls, UserMaxInFlight: a.config.UserMaxInFlight,
			Starting: a.notYet, Closing: a.closing, Streams: &a.following,
		},
	})
	public = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == hidden || strings.HasPrefix(r.URL.Path, "/v1/") && !a.config.has(roleAPI) || a.hidesConsole(r.URL.Path) {
			r = r.Clone(r.Context())
			r.URL.Path, r.URL.RawPath = "/not-here", "" // the router answers with its own 404
		}
		whole.ServeHTTP(w, r)
	})
	return public, a.privateHandler(whole)
}

// reload is the reaction to SIGHUP: it reads apps, keys of user tokens and certificates again, and
// paused apps are probed at once. A file that cannot be read changes nothing.
func (a *app) reload(front *front) {
	if err := a.configure(a.sender); err != nil {
		a.log.Error("the apps were not reloaded; the old ones stay", "error", err)
	} else {
		a.log.Info("the apps were reloaded")
	}
	if err := a.tokens.Reload(); err != nil {
		a.log.Error("the keys of user tokens were not reloaded; the old ones stay", "variable", "FANFARE_USER_KEYS_FILE", "error", err)
	}
	if front.cert != nil {
		if err := front.cert.reload(); err != nil {
			a.log.Error("the certificate was not reloaded; the old one stays", "error", err)
		}
	}
	a.delivery.ProbeNow()
}

// close closes what build opened: the sender, Redis with an embedded server, then SQL.
func (a *app) close() {
	var errs []error
	if a.jobs != nil {
		a.jobs.Close()
	}
	if a.sender != nil {
		errs = append(errs, a.sender.Close())
	}
	for _, redis := range a.redises() {
		if redis != nil {
			errs = append(errs, redis.Close())
		}
	}
	if a.child != nil {
		a.child.Stop()
	}
	if a.folder != nil {
		errs = append(errs, a.folder.Close())
	}
	if a.record != nil {
		errs = append(errs, a.record.Close())
	}
	if err := errors.Join(errs...); err != nil {
		a.log.Warn("not everything closed cleanly", "error", err)
	}
}
