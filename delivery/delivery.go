package delivery

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"fanfare/api"
	"fanfare/delivery/transport"
	"fanfare/store/apps"
	"fanfare/store/broadcasts"
	"fanfare/store/devices"
	"fanfare/store/events"
	"fanfare/store/queue"
)

// Options are what a Delivery works with. Queue, Sender, Devices and Apps are required; the rest may
// stay zero.
type Options struct {
	// Queue is the queue "notifications".
	Queue   *queue.Queue
	Sender  transport.Sender
	Devices *devices.Store
	Apps    *apps.Store
	// Events knows which notifications are not to be sent, because their events were cancelled, or their
	// messages redacted; default: none.
	Events *events.Store
	// Broadcasts knows the channels of broadcasts, and learns which were lost; default: none is known.
	Broadcasts *broadcasts.Store
	Metrics    *Metrics
	// Logger receives paused apps, alarms and failures; default: discarded.
	Logger *slog.Logger
	// ProbeEvery is how often one notification of a paused app is sent as a probe, in the whole
	// cluster; default 30 s.
	ProbeEvery time.Duration
	// MaxAge is how long a notification waits for a dependency that is away; default 24 h. It
	// should be that of targeting. The queue of notifications has none.
	MaxAge time.Duration
	// RetryBase and RetryMax bound the backoff of a device and of lost
	// connections; defaults 500 ms and 5 min.
	RetryBase, RetryMax time.Duration
	// PushOrigins lists the push services of browsers, by which their apps are named. Default
	// api.KnownPushOrigins.
	PushOrigins api.PushOrigins
	// InFlight limits the requests that a process has under way, together with those that have ended and
	// are not on record. One app has at most eight ninths, or one event. Default InFlight.
	InFlight int
	// Unrecorded is that number for the requests of the queue "events" (queue.Queue.Unrecorded). Default: 0.
	Unrecorded func() int
}

func (o Options) withDefaults() Options {
	o.ProbeEvery = cmp.Or(o.ProbeEvery, 30*time.Second)
	o.MaxAge = cmp.Or(o.MaxAge, 24*time.Hour)
	o.RetryBase = cmp.Or(o.RetryBase, 500*time.Millisecond)
	o.RetryMax = cmp.Or(o.RetryMax, 5*time.Minute)
	o.InFlight = cmp.Or(o.InFlight, InFlight)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Unrecorded == nil {
		o.Unrecorded = func() int { return 0 }
	}
	if o.PushOrigins == nil {
		o.PushOrigins = api.KnownPushOrigins
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil, o.Sender.Reasons())
	}
	return o
}

// Delivery sends notifications to push services and records what became of them.
type Delivery struct {
	o       Options
	pauses  *pauses
	backoff *backoffs
	storm   *breaker
	hosts   *breaker // by the host of a browser's endpoint
	// names limits the app names in the breaker and the metrics. Alarms have a table of their
	// own, because any topic can raise one and would use up the names.
	names, alarmNames *appNames

	probeNow     chan struct{}
	wakes        chan string
	deviceWrites chan struct{}
	guardReads   chan struct{}
	storing      chan struct{} // taken-over events whose notifications are just being stored

	windows *windows // of notifications in flight

	parkedFull atomic.Bool // the alarm was raised

	mu      sync.Mutex
	chains  map[string]*chain    // by token
	alarmed map[string]time.Time // when an alarm was logged last, by kind and app
	wg      sync.WaitGroup
}

// New makes a Delivery. It starts nothing.
func New(o Options) *Delivery {
	o = o.withDefaults()
	d := &Delivery{
		o: o, backoff: newBackoffs(o.RetryBase, o.RetryMax), storm: newBreaker(), hosts: newBreaker(),
		probeNow: make(chan struct{}, 1), wakes: make(chan string, 64), deviceWrites: make(chan struct{}, maxDeviceWrites),
		guardReads: make(chan struct{}, maxGuardReads), storing: make(chan struct{}, maxStoring),
		windows: newWindows(o.InFlight, func() int { return o.Queue.Unrecorded() + o.Unrecorded() }, time.Now), chains: map[string]*chain{}, alarmed: map[string]time.Time{},
	}
	configured := o.Sender.Apps()
	d.names, d.alarmNames = newAppNames(configured), newAppNames(configured)
	for app := range configured { // they start at 0, so that an alert sees the first time as well
		d.o.Metrics.noRoom.WithLabelValues(d.names.of(app))
	}
	d.pauses = newPauses(o.Apps, o.Logger, d.appChanged)
	return d
}

// Run sends until ctx ends and everything that it began is finished or given back. It begins with a
// probe of every paused app.
func (d *Delivery) Run(ctx context.Context) error {
	g, stopped := errgroup.WithContext(ctx)
	g.Go(func() error { return d.o.Queue.Run(stopped, d.take) })
	g.Go(func() error { return d.watchApps(stopped) })
	g.Go(func() error { return d.watchParked(stopped) })
	err := g.Wait()
	d.wg.Wait()
	return err
}

// Room returns how many more events and notifications this process should claim (queue.Options.Room).
// Jobs that it could not send soon stay in the queue.
func (d *Delivery) Room() int { return d.windows.Room() }

// take starts a batch of claimed notifications. Notifications to one token are sent one after the
// other, in the order in which they were claimed. Different tokens are sent concurrently. A
// notification whose app's window is full waits a moment and is then postponed, so that a slow app
// does not take the places of others.
func (d *Delivery) take(ctx context.Context, batch []*queue.Claimed) {
	for _, c := range batch {
		m, err := decodeMessage(c.Group, c.Payload)
		if err != nil {
			c.Finish(queue.Result{Outcome: queue.Dead, Reason: "bad_payload", Err: err.Error()})
			continue
		}
		app := d.app(m)
		d.admit(ctx, &work{
			lease: c, claimed: c, enqueued: c.EnqueuedAt, id: events.NotificationID(m.Event, m.Token), m: m, app: app, charged: app, group: &d.wg,
		})
	}
}

// admit begins a claimed notification as soon as its app's window has room.
func (d *Delivery) admit(ctx context.Context, w *work) {
	if d.windows.take(false, share{App: w.charged, N: 1}) {
		d.begin(ctx, w)
		return
	}
	shares := Shares{{App: w.charged, N: 1}}
	w.group.Add(1)
	begin := func() { d.begin(ctx, w); d.wg.Done() }
	refuse := func() { d.CountNoRoom(shares); d.postpone(ctx, w, WindowFull); d.wg.Done() }
	switch taken, refused := d.windows.takeOrWait(&waiter{shares: shares, came: w.enqueued, enter: begin, refuse: refuse}); {
	case taken:
		begin()
	case refused:
		refuse()
	}
}

// maxStoring is how many taken-over events store their notifications at once; the others are not read any further.
const maxStoring = 64

// WindowFull is the reason with which a notification, an event or a part of one is deferred.
const WindowFull = "its app has too many sends under way"
