package hooks

import (
	"cmp"
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"fanfare/api"
	"fanfare/store/lock"
	"fanfare/store/record"
	"fanfare/store/redisdb"
	"fanfare/store/webhooks"
)

// lease is how long a lane stays with a process that does not renew its lease.
const lease = 10 * time.Second

// NewLocks makes the leases of the lanes.
func NewLocks(db *redisdb.DB) *lock.Locker {
	return lock.New(db, lock.Options{Name: "webhooks", Lease: lease, Retention: time.Minute, MaxAttempts: 1 << 30})
}

// Options are the parts of a Sender. All are needed but OnAnswer, Drain and Logger.
type Options struct {
	Feed     webhooks.Feed
	Webhooks *webhooks.Store
	// Locks has the leases of the lanes, as NewLocks makes them.
	Locks  *lock.Locker
	Poster *Poster
	// Bury puts a fact that was refused too often aside, the last time with a status: that of Letters. Doing so twice must do
	// no harm.
	Bury func(ctx context.Context, w *record.Webhook, f api.Fact, status int) error
	// OnAnswer hears of each request: its outcome, one of Outcomes, and how many facts it had.
	OnAnswer func(outcome string, facts int)
	// Drain is how long a request that is under way may go on when the process stops; default: it ends at once.
	Drain  time.Duration
	Logger *slog.Logger
}

// Sender sends facts to webhooks. Any number of processes may run one.
type Sender struct {
	o        Options
	stopping <-chan struct{} // closed when the process stops; nil before Run
}

// New makes a Sender. It starts nothing.
func New(o Options) *Sender {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.OnAnswer == nil {
		o.OnAnswer = func(string, int) {}
	}
	return &Sender{o: o}
}

// Run sends until ctx ends. It is called once.
func (s *Sender) Run(ctx context.Context) error {
	defer s.o.Poster.Close()
	s.stopping = ctx.Done()
	var all sync.WaitGroup
	for n := range s.o.Feed.Lanes() {
		all.Go(func() { s.serve(ctx, n) })
	}
	all.Wait()
	return nil
}

// serve owns a lane whenever it can, as long as there is a webhook that is on.
func (s *Sender) serve(ctx context.Context, n int) {
	for ctx.Err() == nil {
		all, changed := s.o.Webhooks.All()
		if !anyOn(all) {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		a, err := s.o.Locks.Acquire(ctx, strconv.Itoa(n))
		if err != nil || a.Lease == nil {
			sleep(ctx, errorPause)
			continue
		}
		held, stop := a.Lease.Keep(ctx)
		s.own(held, n)
		stop()
		s.release(ctx, a.Lease)
	}
}

// release gives a lane to whoever waits for it. If that fails, the lease ends by itself.
func (s *Sender) release(ctx context.Context, l *lock.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	_, _ = l.Release(ctx)
}

func anyOn(all map[string]*record.Webhook) bool {
	for _, w := range all {
		if w.State == api.WebhookOn {
			return true
		}
	}
	return false
}

// running is a webhook's reader of a lane.
type running struct {
	w      *record.Webhook
	cancel context.CancelFunc
	done   chan struct{}
}

// own runs the readers of a lane until ctx ends or no webhook is on. It returns when all requests have ended.
func (s *Sender) own(ctx context.Context, n int) {
	var readers sync.WaitGroup
	defer readers.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch, have := newWatch(), map[string]*running{}
	readers.Go(func() { watch.run(ctx, s.o.Feed, n) })
	for ctx.Err() == nil {
		all, changed := s.o.Webhooks.All()
		for id, old := range have {
			if w := all[id]; w == nil || w.State != api.WebhookOn {
				old.cancel()
				delete(have, id)
			}
		}
		for id, w := range all {
			if w.State == api.WebhookOn && (have[id] == nil || have[id].w.Series != w.Series || !have[id].w.UpdatedAt.Equal(w.UpdatedAt.Time) || len(have[id].w.Secrets) != len(w.Secrets)) {
				have[id] = s.start(ctx, &readers, newLane(s, w, n), watch, have[id])
			}
		}
		if len(have) == 0 {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// start starts a reader. It begins when the one before it, which may be nil, has ended.
func (s *Sender) start(ctx context.Context, readers *sync.WaitGroup, l *lane, watch *watch, old *running) *running {
	ctx, cancel := context.WithCancel(ctx)
	r := &running{w: l.w, cancel: cancel, done: make(chan struct{})}
	if old != nil {
		old.cancel()
	}
	readers.Go(func() {
		defer close(r.done)
		defer cancel()
		if old != nil {
			<-old.done
		}
		l.run(ctx, watch)
	})
	return r
}

// grace returns a context that ends with ctx, but Drain later if the process stops: a request to a webhook that was changed or
// deleted is cut off, because a receiver that hangs would delay the change. done must be called.
func (s *Sender) grace(ctx context.Context) (longer context.Context, done func()) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-s.stopping:
			sleep(longer, s.o.Drain)
		default:
		}
		cancel()
	})
	return longer, func() { stop(); cancel() }
}

// tell counts an answer, and logs the first failure and what an operator has to know.
func (s *Sender) tell(ctx context.Context, l *lane, b *batch, a answer, do action) {
	v := a.verdict()
	s.o.OnAnswer(Outcomes[v], len(b.facts))
	attrs := []any{"webhook", l.w.ID, "lane", l.n, "status", a.status, "error", a.err}
	switch {
	case do == end:
		s.o.Logger.WarnContext(ctx, "a webhook was turned off: its receiver answered 410", attrs...)
	case do == giveUp:
		s.o.Logger.WarnContext(ctx, "a webhook refused a fact too often; it is a dead letter", append(attrs, "fact", b.first)...)
	case v != taken && l.pace.failures == 1:
		s.o.Logger.WarnContext(ctx, "a webhook takes no facts; they are sent again", attrs...)
	}
}
