package handlers

import (
	"context"
	"net/http"

	"fanfare/api"
	"fanfare/handlers/web"
	"fanfare/store/apikeys"
	"fanfare/store/apps"
	"fanfare/store/badges"
	"fanfare/store/broadcasts"
	"fanfare/store/chat"
	"fanfare/store/chat/live"
	"fanfare/store/contacts"
	"fanfare/store/deadletters"
	"fanfare/store/devices"
	"fanfare/store/events"
	"fanfare/store/facts"
	"fanfare/store/jobs"
	"fanfare/store/lock"
	"fanfare/store/queue"
	"fanfare/store/record"
	"fanfare/store/sales"
	"fanfare/store/schedules"
	"fanfare/store/series"
	"fanfare/store/servers"
	"fanfare/store/usertokens"
	"fanfare/store/values"
	"fanfare/store/webhooks"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options are the parts that the handlers use. All are needed, except UserConfirm, About and what of Web has
// a default.
type Options struct {
	Events  *events.Store
	Devices *devices.Store
	Keys    *apikeys.Store
	// Record has the topics: they are in SQL alone.
	Record *record.DB
	// Tokens are the user tokens and tickets.
	Tokens *usertokens.Store
	// Erase begins the operation that erases a user, and returns its id.
	Erase func(ctx context.Context, user string) (string, error)
	// Contacts are the recent contacts.
	Contacts *contacts.Store
	// Chats are the chats, and Live is for their streams and long polls. Pusher makes push
	// notifications of messages for members without a stream.
	Chats  *chat.Store
	Live   *live.Hub
	Pusher *chat.Pusher
	// UserConfirm lets users confirm their own reservations. Default: only API keys can, so that a
	// backend confirms once the buyer has paid.
	UserConfirm bool
	// Apps lists the apps of push services, by name. Pauses knows which are paused.
	Apps   func(context.Context) ([]api.App, error)
	Pauses *apps.Store
	// Servers lists the processes, and Series has what they did minute by minute.
	Servers *servers.Store
	Series  *series.Store
	// Sales are the sales.
	Sales *sales.Store
	// Jobs are the queues of callers, with their jobs.
	Jobs *jobs.Store
	// Schedules enqueue jobs at the times of a cron.
	Schedules *schedules.Store
	// Badges are the numbers on the icons of users' apps.
	Badges *badges.Store
	// Broadcasts are the objects with a channel of APNs.
	Broadcasts *broadcasts.Store
	// Locks are the locks of callers.
	Locks *lock.Locker
	// Values and Counters are the values and the counters of callers.
	Values   *values.Values
	Counters *values.Counters
	// Facts are what happened, and FactSwitch says of which types they are written.
	Facts      *facts.Store
	FactSwitch *facts.Switch
	// Webhooks send facts. TestWebhook sends one to try a webhook, and returns what its receiver says.
	Webhooks    *webhooks.Store
	TestWebhook func(ctx context.Context, w *record.Webhook) *api.WebhookAnswer
	// DeadLetters retries and deletes many dead letters.
	DeadLetters *deadletters.Store
	// Queues are those behind stats, in the order in which they are listed.
	Queues []*queue.Queue
	// DeadQueues are those that have dead letters: Queues, and that of Jobs.
	DeadQueues []*queue.Queue

	// TakesDevice reports whether there is an app for a device. With a user token, other devices
	// cannot be registered.
	TakesDevice func(*api.DeviceRequest) bool
	// PushOrigins lists the push services whose browsers can register.
	PushOrigins api.PushOrigins
	// PublicKey is the public key of the app of Web Push for a topic, in base64url; ok is false if there is
	// none.
	PublicKey func(topic string) (key string, ok bool)

	// Ready reports the state of the dependencies.
	Ready func(context.Context) api.Readiness
	// DeliveredPerSecond is this process's mean rate over the last minute.
	DeliveredPerSecond func() float64

	// About describes this process and its configuration.
	About api.About
	// Console makes the operators' console, which calls the routes of the given handler.
	Console func(routes http.Handler) http.Handler

	// Document serves openapi.json, and Docs the pages below /docs/ and /llms.txt.
	Document, Docs http.Handler

	// Web says which callers to answer and how many requests at once. New sets its HasKeys,
	// Authenticate and Users from Keys and Tokens; /metrics serves its Registry, which is needed.
	Web web.Options
}

// server holds the parts that the handlers share.
type server struct {
	o Options
	// confirming is the scope that a user token needs to confirm a reservation; "": user tokens
	// cannot confirm.
	confirming api.UserScope
	web        *web.Server
	metrics    http.Handler
	figures    *web.Fresh[figures]
	messages   prometheus.Counter
	console    http.Handler // set before the first request
}

// New makes the HTTP handler. It starts nothing and needs no closing.
func New(o Options) http.Handler {
	o = o.withCallers()
	s := newServer(o)
	all := s.web.Handler(s.routes())
	s.console = o.Console(all)
	return all
}

// getConsole serves the console.
func (s *server) getConsole(w http.ResponseWriter, r *http.Request) { s.console.ServeHTTP(w, r) }

func newServer(o Options) *server {
	scraped := newQueueMetrics(o)
	messages := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "fanfare_chat_messages_total", Help: "Chat messages sent through this process.",
	})
	o.Web.Registry.MustRegister(messages)
	confirming := api.UserScope("")
	if o.UserConfirm {
		confirming = api.UserScopeBuy
	}
	s := &server{
		o: o, confirming: confirming, web: web.New(o.Web), messages: messages,
		metrics: scraped.before(promhttp.HandlerFor(o.Web.Registry, promhttp.HandlerOpts{})),
	}
	s.figures = &web.Fresh[figures]{Every: figuresEvery, Read: s.readFigures}
	return s
}

// withCallers lets the edge find callers in the stores.
func (o Options) withCallers() Options {
	o.Web.HasKeys, o.Web.Authenticate, o.Web.Find = o.Keys.Any, o.Keys.Authenticate, o.Keys.Find
	o.Web.Users = web.Users{Recall: o.Tokens.Recall, Verify: o.Tokens.Verify, Take: o.Tokens.TakeTicket, Ended: o.Tokens.Ended, Erased: o.Tokens.Erased}
	return o
}
