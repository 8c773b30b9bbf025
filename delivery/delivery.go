package delivery

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"fanfare/delivery/transport"
	"fanfare/store/apps"
	"fanfare/store/devices"
	"fanfare/store/queue"
)

// Options say what a Delivery works on. Queue, Sender, Devices and Apps are
// needed; the rest may stay zero.
type Options struct {
	// Queue is the queue "notifications".
	Queue   *queue.Queue
	Sender  transport.Sender
	Devices *devices.Store
	Apps    *apps.Store
	Metrics *Metrics
	// Logger hears of paused apps, alarms and failures; default: nobody.
	Logger *slog.Logger
	// ProbeEvery is how often a paused app tries one notification, in the whole
	// cluster; default 30 s.
	ProbeEvery time.Duration
	// MaxAge is how long a notification waits for what is away; default 24 h.
	// It should be the queue's own.
	MaxAge time.Duration
	// RetryBase and RetryMax bound the backoff of a device and of lost
	// connections; defaults 500 ms and 5 min.
	RetryBase, RetryMax time.Duration
	// Places is how many notifications a process has in hand at once beyond the pace of
	// their apps, half of them of one app; default Places.
	Places int
}

func (o Options) withDefaults() Options {
	or := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	or(&o.ProbeEvery, 30*time.Second)
	or(&o.MaxAge, 24*time.Hour)
	or(&o.RetryBase, 500*time.Millisecond)
	or(&o.RetryMax, 5*time.Minute)
	if o.Places <= 0 {
		o.Places = Places
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
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
	// names are for the breaker and the metrics; alarms, which any topic can raise,
	// take none from them.
	names, alarmNames *appNames

	probeNow     chan struct{}
	wakes        chan string
	deviceWrites chan struct{}
	guardReads   chan struct{}

	slots *slots // of notifications in hand

	mu      sync.Mutex
	chains  map[string]*chain    // by token
	alarmed map[string]time.Time // when an alarm was logged last, by kind and app
	wg      sync.WaitGroup
}

// New makes a Delivery. It starts nothing.
func New(o Options) *Delivery {
	o = o.withDefaults()
	d := &Delivery{
		o: o, backoff: newBackoffs(o.RetryBase, o.RetryMax), storm: newBreaker(breakerOptions{}),
		probeNow: make(chan struct{}, 1), wakes: make(chan string, 64), deviceWrites: make(chan struct{}, maxDeviceWrites),
		guardReads: make(chan struct{}, maxGuardReads),
		slots:      newSlots(o.Places, time.Now), chains: map[string]*chain{}, alarmed: map[string]time.Time{},
	}
	configured := o.Sender.Apps()
	d.names, d.alarmNames = newAppNames(configured), newAppNames(configured)
	d.pauses = newPauses(o.Apps, o.Logger, d.appChanged)
	return d
}

// Run sends until ctx ends and what was begun is finished or handed back. It
// begins with a probe of every paused app.
func (d *Delivery) Run(ctx context.Context) error {
	g, stopped := errgroup.WithContext(ctx)
	g.Go(func() error { return d.o.Queue.Run(stopped, d.take) })
	g.Go(func() error { return d.watchApps(stopped) })
	g.Go(func() error { return d.watchParked(stopped) })
	err := g.Wait()
	d.wg.Wait()
	return err
}

// work is one notification in this process: a claimed one, or one of a claimed event,
// which is sent where the event was targeted.
type work struct {
	*queue.Claimed
	id       string // the notification's
	m        *message
	probe    bool            // it may be sent though its app is paused
	answered bool            // by the service: its app does not hang
	held     room            // its app's is kept: a new registration may change the message's
	event    *oneHop         // nil: the notification was claimed
	group    *sync.WaitGroup // of those for whose end the loop waits that handed the work in
}

// take starts a batch. Notifications of one token go one after the other, in
// the order they were claimed; different tokens go at the same time. When an app
// has too many in hand, waiting or under way, the rest is postponed, so that a
// slow app leaves room for others.
func (d *Delivery) take(ctx context.Context, batch []*queue.Claimed) {
	for _, c := range batch {
		m, err := decodeMessage(c.Group, c.Payload)
		if err != nil {
			c.Finish(queue.Result{Outcome: queue.Dead, Reason: "bad_payload", Err: err.Error()})
			continue
		}
		w := &work{Claimed: c, id: NotificationID(m.Event, m.Token), m: m, group: &d.wg}
		if w.held.app = m.app(); !d.slots.take(1, 1, w.held) {
			d.postpone(ctx, w, "its app has too many sends under way")
			continue
		}
		d.begin(ctx, w)
	}
}

// chain is what waits behind a token's present send.
type chain struct {
	waiting []*work
	since   time.Time // when the present one was begun
}

// slowSend is how long the send to one device may take before what waits behind
// it is postponed: a device that hangs holds up nobody but itself.
const slowSend = 5 * time.Second

// begin sends a notification, or lets it wait behind the present one of its token.
func (d *Delivery) begin(ctx context.Context, w *work) {
	d.mu.Lock()
	c, running := d.chains[w.m.Token]
	slow := running && time.Since(c.since) > slowSend
	switch {
	case !running:
		d.chains[w.m.Token] = &chain{since: time.Now()}
	case !slow:
		c.waiting = append(c.waiting, w)
	}
	d.mu.Unlock()
	switch {
	case slow:
		w.group.Go(func() { d.postponeSlow(ctx, w) })
	case !running:
		d.proceed(ctx, w.group, w)
	}
}

// proceed sends a token's next notification, in a goroutine if it may have to wait. It
// belongs to the group of who was there before: that is not over yet.
func (d *Delivery) proceed(ctx context.Context, g *sync.WaitGroup, w *work) {
	w.group = g
	if !d.start(ctx, w) {
		g.Go(func() { d.handleToken(ctx, w, nil, time.Now()) })
	}
}

// handleToken handles a token's notifications until none waits; the first was begun when
// began says, and there may be an answer to it already.
func (d *Delivery) handleToken(ctx context.Context, w *work, a *transport.Answer, began time.Time) {
	for ; w != nil; began = time.Now() {
		if a != nil {
			d.goOn(ctx, w, *a)
			a = nil
		} else {
			d.handle(ctx, w)
		}
		next := d.following(ctx, w, began)
		if next != nil {
			next.group = w.group
		}
		w = next
	}
}

// following ends a token's present notification and gives its next; those that waited
// for a slow one are postponed.
func (d *Delivery) following(ctx context.Context, w *work, began time.Time) *work {
	token := w.m.Token
	d.leave(w)
	next := d.next(token)
	for next != nil && time.Since(began) > slowSend {
		d.postponeSlow(ctx, next)
		next = d.next(token)
	}
	return next
}

// leave gives back what a notification was in hand by, with the last one of an event the
// event's place.
func (d *Delivery) leave(w *work) {
	d.slots.free(w.held, w.answered)
	if e := w.event; e != nil && e.inHand.Add(-1) == 0 {
		d.slots.freePlace(e.place)
	}
}

// postponeSlow postpones a notification whose device is slow.
func (d *Delivery) postponeSlow(ctx context.Context, w *work) {
	d.postpone(ctx, w, "its device is slow")
	d.leave(w)
}

func (d *Delivery) next(token string) *work {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.chains[token]
	if len(c.waiting) == 0 {
		delete(d.chains, token)
		return nil
	}
	w := c.waiting[0]
	c.waiting, c.since = c.waiting[1:], time.Now()
	return w
}
