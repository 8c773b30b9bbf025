package targeting

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"fanfare/delivery"
	"fanfare/store/badges"
	"fanfare/store/broadcasts"
	"fanfare/store/devices"
	"fanfare/store/events"
	"fanfare/store/queue"
)

// Pager reads one page of an audience: at most limit users of id whose
// names come after the one given, by name. Fewer than limit: the last page.
type Pager func(ctx context.Context, id, after string, limit int) ([]string, error)

// Options say what a Targeting works on. Events, Notifications, Devices and
// Delivery are needed; the rest may stay zero.
type Options struct {
	// Queue is the queue of events, on which it works. Notifications is that of the notifications which have to wait.
	Queue, Notifications *queue.Queue
	Devices              *devices.Store
	// Delivery sends the notifications.
	Delivery *delivery.Delivery
	// Broadcasts knows the channels of broadcasts by now; default: they are as they were when an event was accepted.
	Broadcasts *broadcasts.Store
	// Pagers read audiences by their kind (events.KindContactsOf and the others, but
	// KindUsers); an event of a kind without one becomes a dead letter.
	Pagers map[string]Pager
	// Events knows which events were cancelled, begins live events, tells which events are over, and notes the recipients of
	// events that count who opens them; default: none, and none of such events.
	Events *events.Store
	// Badges gives users the numbers that events show on the icon of their app, one for each ask. Needed for event types with
	// a badge.
	Badges func(ctx context.Context, asks []badges.Ask) []badges.Reached
	// LiveKey names the key of Redis that exists while a user has a live stream of chats. Such
	// users get no notifications of events to a chat. Default: none.
	LiveKey func(user string) string
	// NotePatience is for how long a part waits, from the first failure to note its recipients on, if its event counts who opens
	// it; default 30 s, which outlasts a fail-over.
	NotePatience time.Duration
	// MaxAge is how old an event or a part gets before its notifications expire; default 24 h. The queue should keep it
	// for Overtime longer.
	MaxAge time.Duration
	// ReportTTL is how long an event's report stays while its notifications may wait; it should
	// outlast MaxAge and Overtime. Default 48 h.
	ReportTTL time.Duration
	// InFlight is how many events this process may have claimed; a quarter of them may wait
	// for SQL. Default delivery.InFlight.
	InFlight int
	Metrics  *delivery.Metrics
	// Logger receives events that can't be targeted; default: discarded.
	Logger *slog.Logger
}

// Targeting finds the devices of accepted events, and hands them to Delivery.
type Targeting struct {
	o       Options
	refused refusals
	looks   *rate.Limiter  // for parts that are read although their event's apps hang
	events  backlog        // as last read
	sending sync.WaitGroup // counts what Delivery sends, and the goroutines that ask SQL
	sql     sqlPages
	full    atomic.Bool // parts go on without having noted their recipients, because Redis is nearly full
}

// New makes a Targeting. It starts nothing.
func New(o Options) *Targeting {
	o.MaxAge, o.ReportTTL = cmp.Or(o.MaxAge, 24*time.Hour), cmp.Or(o.ReportTTL, 48*time.Hour)
	o.NotePatience = cmp.Or(o.NotePatience, 30*time.Second)
	o.InFlight = cmp.Or(o.InFlight, delivery.InFlight)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Metrics == nil {
		o.Metrics = delivery.NewMetrics(nil, nil)
	}
	return &Targeting{o: o, looks: rate.NewLimiter(looksPerSecond, 1)}
}

// Run targets events until ctx ends and everything it began is finished or handed back.
func (t *Targeting) Run(ctx context.Context) error {
	err := t.o.Queue.Run(ctx, t.target)
	t.sending.Wait()
	return err
}

// mostPages is how many pages of large audiences are split in one go.
const mostPages = 4

// target works on a batch. Events that need no SQL go first; those that do are left to the
// goroutine that asks SQL for their shard, so that a hanging SQL holds up no other event.
func (t *Targeting) target(ctx context.Context, batch []*queue.Claimed) {
	var pages, inSQL []*page
	for _, c := range batch {
		switch p := open(c); {
		case p == nil:
		case p.beginsLive():
			t.sending.Go(func() { t.beginLive(ctx, p) })
		case p.inSQL() && len(p.job.Lacks) > 0 && t.goesNoFurther(ctx, p):
		case p.inSQL():
			inSQL = append(inSQL, p)
		default:
			pages = append(pages, p)
		}
	}
	forSQL := t.work(ctx, pages, leftToSQL{})
	t.leaveToSQL(ctx, batch[0].Shard, append(forSQL, inSQL...))
}

// work reads the audiences of pages and targets them: small ones together, then large ones
// page by page. Parts are worked on beside it, so that nobody waits for them. If it is told where to
// note users who need SQL, it asks none, and returns, untouched, the pages that need it or that are
// behind others. Otherwise SQL is asked until it fails once; the rest goes back unread.
func (t *Targeting) work(ctx context.Context, pages []*page, left leftToSQL) (forSQL []*page) {
	var small, parts, large []*page
	var away error // why SQL is no longer asked
	users := 0
	resolve := func() {
		var more []*page
		more, away = t.resolveSmall(ctx, small, left, away)
		forSQL, small, users = append(forSQL, more...), nil, 0
	}
	for _, p := range pages {
		if p.inSQL() && slices.ContainsFunc(small, func(s *page) bool { return !s.inSQL() }) {
			resolve() // before more audiences are read, which may take long
		}
		switch {
		case t.goesNoFurther(ctx, p):
		case away != nil:
			t.postpone(p, "sql_away", away)
		case p.large():
			large = append(large, p)
		case !t.read(ctx, p):
			if p.inSQL() && delivery.Passing(p.err) {
				away = p.err
			}
		case t.splits(ctx, p):
			large = append(large, p)
		case p.part():
			parts = append(parts, p)
		default:
			if users+len(p.users) > events.PageSize {
				resolve()
			}
			small, users = append(small, p), users+len(p.users)
		}
	}
	resolve()
	for some := range slices.Chunk(parts, partsOfAPage) {
		t.resolveParts(ctx, some)
	}
	t.nextPages(ctx, large, away)
	return forSQL
}

// goesNoFurther ends a page that is cancelled, late or superseded, and lets one wait that would find no room. It returns true if
// the page was finished. Nothing is asked of SQL.
func (t *Targeting) goesNoFurther(ctx context.Context, p *page) bool {
	return t.endCancelled(ctx, p) || t.endLate(ctx, p) || t.endSuperseded(ctx, p) || t.waitsForWindow(p)
}

// resolveSmall targets small audiences, and returns those that are left to SQL. If SQL is away only cached
// users are targeted, and the other pages go back.
func (t *Targeting) resolveSmall(ctx context.Context, pages []*page, left leftToSQL, away error) ([]*page, error) {
	if away == nil {
		forSQL, err := t.resolve(ctx, pages, left)
		if left == nil && delivery.Passing(err) {
			away = err
		}
		return forSQL, away
	}
	forSQL, _ := t.resolve(ctx, pages, leftToSQL{})
	for _, p := range forSQL {
		t.postpone(p, "sql_away", away)
	}
	return nil, away
}

// resolveParts targets parts in a goroutine. Only as many ask SQL at a time as it can answer; the
// others go back to the queue.
func (t *Targeting) resolveParts(ctx context.Context, parts []*page) {
	if !t.sql.addParts(len(parts), t.mostForSQL()/eventsOfAPart) {
		for _, p := range parts {
			t.wait(p, pageDelay, "many parts wait for SQL")
		}
		return
	}
	t.sending.Go(func() {
		_, _ = t.resolve(ctx, parts, nil)
		t.sql.addParts(-len(parts), 0)
	})
}

// nextPages splits the next page of some large audiences.
func (t *Targeting) nextPages(ctx context.Context, large []*page, away error) {
	for n, p := range large {
		switch {
		case n >= mostPages:
			t.wait(p, pageDelay, "others' pages go first")
		case p.inSQL() && p.users == nil && away != nil:
			t.postpone(p, "sql_away", away)
		default:
			t.nextPage(ctx, p)
			if p.inSQL() && p.users == nil && delivery.Passing(p.err) {
				away = p.err
			}
		}
	}
}

// splits reports whether an audience that has been read is to be split. If a process had the event
// before, it goes on the way it began, as parts or as a whole, however many users it has by now,
// because notifications may be marked or stored. If the earlier process left no trace, its parts
// may still be on their way to Redis, which accepts each part only once.
func (t *Targeting) splits(ctx context.Context, p *page) bool {
	large := len(p.users) > events.PartSize
	if kind := p.job.Audience.Kind(); p.c.First || p.part() || kind == events.KindUsers || kind == events.KindBroadcast {
		return large
	}
	_, _, split, err := events.SplitBefore(ctx, t.o.Queue, p.c.ID, p.job.Cursor)
	if err == nil && !split && large {
		var whole bool
		whole, err = t.madeWhole(ctx, p)
		split = !whole
	}
	p.err = err
	return split || err != nil
}

// madeWhole reports whether a process stored or sent notifications of the event itself rather than
// of its parts.
func (t *Targeting) madeWhole(ctx context.Context, p *page) (bool, error) {
	made, err := events.StoredCounts(ctx, t.o.Notifications, p.c.ID)
	if err != nil || slices.ContainsFunc(made[0], func(counts map[string]int64) bool { return len(counts) > 0 }) {
		return err == nil, err
	}
	marks, err := t.o.Queue.Marks(ctx, p.c)
	return err == nil && len(marks[0]) > 0, err
}

// nextPage splits the next page of a large audience, when its turn has come.
func (t *Targeting) nextPage(ctx context.Context, p *page) {
	switch {
	case p.err != nil:
		t.postpone(p, "read_parts", p.err)
	case p.large() && (!t.mayGoOn(ctx, p) || !t.read(ctx, p)):
	default:
		t.split(ctx, p)
	}
}

// partsOfAPage is how many parts a page becomes.
const partsOfAPage = events.PageSize / events.PartSize

// mayGoOn reports whether the next page of a large audience may be split. It may while few events
// and parts wait, or when all of its own parts have ended. The work under way is bounded by the
// processes that do it.
func (t *Targeting) mayGoOn(ctx context.Context, p *page) bool {
	if t.events.allows(ctx, t.o.Queue, mostParts, partsOfAPage) {
		return true
	}
	counts, err := t.o.Queue.Groups(ctx, p.c.ID)
	if err != nil {
		t.postpone(p, "read_parts", err)
		return false
	}
	if p.job.Parts <= counts[events.LabelPart]+counts[events.LabelFailed] { // some may be dead letters
		return true
	}
	p.c.Finish(queue.Result{Outcome: queue.Defer, Delay: pageDelay, Reason: "many parts wait"})
	return false
}

// wait defers an event or a part that cannot begin, or go on, now.
func (t *Targeting) wait(p *page, least time.Duration, why string) {
	p.c.Finish(queue.Result{Outcome: queue.Defer, Delay: delivery.Jitter(p.waits(least, partWaitMost)), Untouched: true, Reason: why})
}

// split stores a page as parts and goes on with the next one, at the end of the queue.
func (t *Targeting) split(ctx context.Context, p *page) {
	if !p.c.Alive() {
		p.c.Finish(queue.Result{Outcome: queue.Release})
		return
	}
	cursor, n, err := events.Split(ctx, t.o.Queue, p.c.ID, p.job, p.users, p.next, t.o.MaxAge+Overtime)
	if err != nil {
		t.postpone(p, writeParts, err)
		return
	}
	next := *p.job
	next.Cursor, next.Parts, next.Lacks = cursor, p.job.Parts+n, nil
	if cursor == "" {
		t.end(p, queue.Result{Outcome: queue.Done, Report: next.ReportTargeted(next.Counted, next.Sent), ReportTTL: t.o.ReportTTL})
		return
	}
	p.c.Finish(queue.Result{Outcome: queue.Continue, Payload: next.Encode(), Report: next.ReportTargeting(next.Counted, next.Sent), ReportTTL: t.o.ReportTTL})
}

// endLate ends an event whose time is over before any of it was begun.
func (t *Targeting) endLate(ctx context.Context, p *page) bool {
	late := !p.begun() && p.job.Push.ExpiresAt > 0 && p.c.Clock().UnixMilli() >= p.job.Push.ExpiresAt
	if !late || t.partlySent(ctx, p) {
		return false
	}
	t.end(p, queue.Result{Outcome: queue.Done, Report: p.job.ReportExpired()})
	return true
}

// end ends an event, and tells that it is over.
func (t *Targeting) end(p *page, r queue.Result) {
	p.c.Finish(t.o.Events.TellOver(p.c, p.job, r))
}

// partlySent reports whether another process may already have sent some of an event: it may have
// stored notifications or parts, which are sent, and died before it could say so.
func (t *Targeting) partlySent(ctx context.Context, p *page) bool {
	if p.c.First {
		return false
	}
	// If Redis cannot tell, the event goes on, and ends as late notifications do.
	if _, _, split, err := events.SplitBefore(ctx, t.o.Queue, p.c.ID, p.job.Cursor); split || err != nil {
		return true
	}
	made, err := t.madeWhole(ctx, p)
	return made || err != nil
}

// read reads the page's users. It returns false if the page was finished in another way.
func (t *Targeting) read(ctx context.Context, p *page) bool {
	users, next, err := t.readPage(ctx, p)
	if err == nil {
		p.users, p.next = users, next
		return true
	}
	p.err = err
	t.postpone(p, "read_audience", err)
	return false
}

// writeParts is the reason with which an event is deferred of which parts may be stored.
const writeParts = "write_parts"

// postpone gives the event back because a dependency is away. It keeps changes of the job, such as the expiry
// computed now, also in a dead letter that is tried again.
func (t *Targeting) postpone(p *page, reason string, err error) {
	t.o.Logger.Warn("targeting waits", "event", p.c.ID, "reason", reason, "error", err)
	r := deferOrRetry(reason, err)
	r.Untouched = reason != writeParts // nothing of the page was begun
	if p.changed {
		r.Payload = p.job.Encode()
	}
	p.c.Finish(r)
}
