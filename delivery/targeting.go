package delivery

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"fanfare/store/devices"
	"fanfare/store/events"
	"fanfare/store/queue"
)

// AudiencePager reads one page of an audience: at most limit users of id whose
// names come after the one given, by name. Fewer than limit: the last page.
type AudiencePager func(ctx context.Context, id, after string, limit int) ([]string, error)

// TargetingOptions say what a Targeting works on. Events, Notifications and
// Devices are needed; the rest may stay zero.
type TargetingOptions struct {
	// Events is the queue it works on, Notifications the one it fills.
	Events, Notifications *queue.Queue
	Devices               *devices.Store
	// Delivery, if this process has one, sends the only notification of an event at
	// once.
	Delivery *Delivery
	// Pagers read audiences by their kind (events.KindContactsOf, KindChat); an
	// event of a kind without one becomes a dead letter.
	Pagers map[string]AudiencePager
	// LiveKey names the key of Redis that exists while a user reads his chats
	// on a live stream: an event to a chat does not go to him then. Default: none.
	LiveKey func(user string) string
	// Deep is how many notifications a shard may hold before the pages of large
	// audiences are deferred; default 250. The contract's bound is 10,000: the
	// smaller one keeps what others post meanwhile fast. Sends under way count.
	Deep int64
	// PageDelay is how long a page is deferred then; default 20 ms.
	PageDelay time.Duration
	// ReportTTL is how long the report of an event stays whose notifications may
	// wait; default 48 h, see Options.
	ReportTTL time.Duration
	Metrics   *Metrics
	// Logger hears of events that can't be targeted; default: nobody.
	Logger *slog.Logger
}

// Targeting turns accepted events into notifications, one per device.
type Targeting struct {
	o TargetingOptions
	// largePage lets one page of a large audience at a time check the depth and
	// write, so that many together can't pass the bound.
	largePage sync.Mutex
	deep      depthGuess
	sending   sync.WaitGroup // of what Delivery sends at once
}

// NewTargeting makes a Targeting. It starts nothing.
func NewTargeting(o TargetingOptions) *Targeting {
	if o.Deep <= 0 {
		o.Deep = 250
	}
	if o.PageDelay <= 0 {
		o.PageDelay = 20 * time.Millisecond
	}
	if o.ReportTTL <= 0 {
		o.ReportTTL = 48 * time.Hour
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil, nil)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Targeting{o: o}
}

// Run targets events until ctx ends and what was begun is finished or handed
// back.
func (t *Targeting) Run(ctx context.Context) error {
	err := t.o.Events.Run(ctx, t.target)
	t.sending.Wait()
	return err
}

// target works on a batch: small audiences together, large ones page by page.
func (t *Targeting) target(ctx context.Context, batch []*queue.Claimed) {
	var small []*page
	users := 0
	for _, c := range batch {
		p := t.open(c)
		if p == nil {
			continue
		}
		if p.large() {
			t.targetLarge(ctx, p)
			continue
		}
		if !t.read(ctx, p) {
			continue
		}
		if users+len(p.users) > events.PageSize {
			t.resolve(ctx, small)
			small, users = nil, 0
		}
		small, users = append(small, p), users+len(p.users)
	}
	t.resolve(ctx, small)
}

// targetLarge does one page of a large audience, or postpones it while the
// notifications already there are many.
func (t *Targeting) targetLarge(ctx context.Context, p *page) {
	if !t.largePage.TryLock() {
		p.c.Finish(queue.Result{Outcome: queue.Defer, Delay: t.o.PageDelay, Reason: "another page is being written"})
		return
	}
	defer t.largePage.Unlock()
	if t.tooDeep() {
		p.c.Finish(queue.Result{Outcome: queue.Defer, Delay: t.o.PageDelay, Reason: "the notification shards are deep"})
		return
	}
	if t.read(ctx, p) {
		t.resolve(ctx, []*page{p})
	}
}

// open decodes an event and ends it when its time is over; nil: ended.
func (t *Targeting) open(c *queue.Claimed) *page {
	j, err := events.DecodeJob(c.Payload)
	if err != nil {
		c.Finish(queue.Result{Outcome: queue.Dead, Reason: "bad_payload", Err: err.Error()})
		return nil
	}
	p := &page{c: c, job: j, clock: time.Now()}
	if p.begun() || j.Push.ExpiresAt == 0 || c.Now.UnixMilli() < j.Push.ExpiresAt {
		return p
	}
	c.Finish(queue.Result{Outcome: queue.Done, Report: j.ReportExpired()})
	return nil
}

// read fills in the page's users; false: the page was finished otherwise.
func (t *Targeting) read(ctx context.Context, p *page) bool {
	users, next, err := t.readPage(ctx, p)
	if err == nil {
		p.users, p.next = users, next
		return true
	}
	t.postpone(p, "read_audience", err)
	return false
}

// postpone gives the event back because something it needs is away.
func (t *Targeting) postpone(p *page, reason string, err error) {
	t.o.Logger.Warn("targeting waits", "event", p.c.ID, "reason", reason, "error", err)
	p.c.Finish(deferOrRetry(reason, err))
}
