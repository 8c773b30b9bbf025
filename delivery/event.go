package delivery

import (
	"context"
	"slices"
	"sync"
	"time"

	"fanfare/api"
	"fanfare/store/events"
	"fanfare/store/queue"
)

const (
	// heldFresh is how long after targeting read a device it may still be sent to.
	heldFresh = time.Second
	// guardFresh is the same limit for a device whose guard came with a claim, or whose owner
	// was read for a retried dead letter. It is longer because a claimed notification first
	// waits for the app's window, for at most patience.
	guardFresh = heldFresh + patience
)

// Event is an event, or a part of one, whose notifications are sent by the process that targeted it. Nothing is stored
// between targeting and sending, and one result at the end of the event records all notifications. Until then each
// notification that has ended is a mark of the event. Only a notification that has to wait becomes a job of its own.
type Event struct {
	Claim     *queue.Claimed
	Job       *events.Job
	Counts    events.Counts
	Read      time.Time       // when its devices were read
	Group     *sync.WaitGroup // counts the notifications that are under way
	ReportTTL time.Duration
	Sent      events.Sent // the ends of its other notifications, from an earlier claim
	// Settled says that each notification which an earlier claim began has a mark. If it is false, an earlier process may
	// have stored a notification as a job without a mark, or may be about to. Then all become jobs, because a job is
	// not stored twice. The ids are the same in both cases, so that a notification that both processes sent can be
	// recognized as the same.
	Settled bool
	// Superseded says that a newer live event of the object has begun: no notification is sent any more.
	Superseded bool
	// Rest is the event as it goes on with further users when its notifications have ended or become jobs; nil: there
	// are none.
	Rest *events.Job
	// Tells tells that the event is over, if that is asked for; nil: nobody asks.
	Tells *events.Store
	// Begun is called when notifications begin, or become jobs of their own. all says that these were the last ones,
	// and that none is left to a later claim.
	Begun func(all bool)
	// Over says that the event is cancelled or too late: what is left of it asks for no room.
	Over bool
	// GiveBack is set if the event may wait in the queue. It takes the event back if none of its apps has room in time.
	GiveBack func(Shares)

	mu        sync.Mutex
	left      int           // notifications that have neither ended nor been stored, nor been left to a later claim
	undecided int           // those of them that may still be left to one
	began     bool          // one of them was sent or stored
	stored    bool          // one may have become a job
	lacking   Shares        // the room that those lacked which are left to a later claim, of each app the smallest share
	facts     []queue.Fact  // of the notification that ended last
	undone    *queue.Result // how the event goes on, because a notification could neither end nor be stored
}

// Recipient is a device that gets the event, and the user it belongs to.
type Recipient struct {
	User   string
	Device *api.Device
	Badge  int64 // the number that the event shows to the user, if its type has one
	// Broadcast is set if the event goes to the channel of a broadcast. The device then stands for the channel, and there
	// is no user.
	Broadcast *events.Broadcast
}

// id is the event's id.
func (e *Event) id() string { return e.Job.Event(e.Claim.ID) }

// part reports whether this is a part of a large audience.
func (e *Event) part() bool { return e.Job.Of != "" }

// Send sends an event's notifications, or stores those that have to wait. It may let them wait in the process until
// their apps' windows have room.
func (d *Delivery) Send(ctx context.Context, e *Event, to []Recipient) {
	works := d.works(e, to)
	switch {
	case len(works) == 0:
		e.Begun(true)
		e.finish()
	case !e.Settled:
		d.begun(e, works)
		d.storing <- struct{}{} // what a dead process left may be very much
		e.Group.Go(func() {
			defer func() { <-d.storing }()
			d.store(ctx, queue.Result{Outcome: queue.Continue}, works...)
		})
	case e.Superseded:
		d.begun(e, works)
		for _, w := range works {
			d.targeted(w)
			d.endWithEvent(ctx, w, superseded)
		}
	case e.Over:
		d.storeApart(ctx, e, works)
	default:
		d.sendPieces(ctx, e, works)
	}
}

// works builds the event's notifications.
func (d *Delivery) works(e *Event, to []Recipient) []*work {
	n, id := len(to), e.id()
	e.left, e.undecided, e.stored = n, n, !e.Claim.First // an earlier claim may have stored some
	messages, all, works := make([]message, n), make([]work, n), make([]*work, n)
	for i, r := range to {
		push := &e.Job.Push
		if r.Broadcast == nil {
			push = e.Job.PushFor(r.Device)
		}
		if e.Job.Push.Badge != "" {
			push = push.WithBadge(r.Badge)
		}
		messages[i] = message{
			Token: r.Device.Token, User: r.User, Topic: r.Device.Topic, Environment: r.Device.Environment,
			RegisteredAt: r.Device.RegisteredAt.UnixMilli(), Event: id, AcceptedAt: e.Job.AcceptedAt, Push: *push,
			Target: r.Device.Target, Suspect: r.Device.State == api.DeviceSuspect, Trace: e.Job.Trace, Live: e.Job.Supersedable(),
		}
		if b := r.Broadcast; b != nil {
			messages[i].Channel, messages[i].Latest = b.Channel, b.Latest
		}
		if l := r.Device.Live; l != nil {
			messages[i].endWith(l)
		}
		app := d.app(&messages[i])
		all[i] = work{
			lease: e.Claim, event: e, id: events.NotificationID(id, r.Device.Token), m: &messages[i], enqueued: e.Claim.EnqueuedAt,
			app: app, charged: app, group: e.Group,
		}
		works[i] = &all[i]
	}
	return works
}

// begun notes that notifications of the event begin, or become jobs.
func (d *Delivery) begun(e *Event, works []*work) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.began = true
	for _, w := range works {
		e.Sent.Make(w.m.platform(), 1)
	}
	e.undecided -= len(works)
	e.Begun(e.undecided == 0 && len(e.lacking) == 0)
	e.decided()
}

// leave leaves notifications to a later claim, because their apps lack this room.
func (e *Event) leave(n int, lacking Shares) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range lacking {
		if at := slices.IndexFunc(e.lacking, func(known share) bool { return known.App == s.App }); at < 0 {
			e.lacking = append(e.lacking, s)
		} else {
			e.lacking[at].N = min(e.lacking[at].N, s.N)
		}
	}
	e.undecided, e.left = e.undecided-n, e.left-n
	e.decided()
	e.finish()
}

// decided drops the callbacks, which hold on to all that was read for the event, when all notifications have begun or
// are left to a later claim. The lock is held.
func (e *Event) decided() {
	if e.undecided == 0 && e.began {
		e.Begun, e.GiveBack = nil, nil
	}
}

// fail keeps why a notification failed, before its end.
func (e *Event) fail(f events.Failed) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Sent.Fail(f)
}

// end notes that a notification has ended under a label, or was stored. The facts are told in the same step.
func (e *Event) end(w *work, label string, facts ...queue.Fact) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.facts = facts
	mark := events.MarkOf(w.m.platform(), label)
	if label == events.LabelStored {
		e.stored = true
	} else {
		e.Sent.Count(mark)
		e.Sent.Keep(w.id, mark, w.Clock())
	}
	e.left--
	if e.left > 0 || e.undone != nil || len(e.lacking) > 0 || e.Rest != nil {
		e.Claim.Mark(events.MarkName(w.id), events.MarkText(mark, w.m.User), e.report(), facts...)
	}
	e.finish()
}

// report is the event's report while its notifications are under way. A part has none. As long as some notifications may
// be left to a later claim, which reads devices and preferences again, the report has those alone that have begun.
func (e *Event) report() string {
	switch {
	case e.part():
		return ""
	case e.undecided > 0 || len(e.lacking) > 0:
		return e.Job.ReportTargeting(e.Job.Counted, e.Sent)
	case e.Rest != nil:
		return e.Job.ReportTargeting(e.Counts, e.Sent)
	}
	return e.Job.ReportTargeted(e.Counts, e.Sent)
}

// undo notes that a notification could neither end nor be stored. The event goes on with this
// result once none of its notifications is under way.
func (e *Event) undo(r queue.Result) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.undone = &r
	e.left--
	e.finish()
}

// finish ends the event when its last notification is done, or gives it back to the queue for what is left of it. The
// lock is held.
func (e *Event) finish() {
	switch {
	case e.left > 0:
	case e.undone != nil:
		e.Claim.Finish(*e.undone)
	case len(e.lacking) > 0 && !e.began:
		e.GiveBack(e.lacking)
	case len(e.lacking) > 0:
		next := *e.Job
		next.Settled, next.Lacks = e.Claim.Fence, e.Lacks(e.lacking)
		e.goOn(queue.Result{Outcome: queue.Defer, Delay: Jitter(togetherFor), Reason: WindowFull, Payload: next.Encode()})
	case e.Rest != nil:
		e.Rest.Settled, e.Rest.Lacks = 0, nil
		if e.Settled { // otherwise those that it goes on with may have notifications without a mark
			e.Rest.Settled = e.Claim.Fence
		}
		if e.Rest.Cursor != "" {
			e.Rest.Sent = e.Sent
		}
		e.goOn(queue.Result{Outcome: queue.Continue, Payload: e.Rest.Encode()})
	default:
		r := e.Job.End(e.Counts, e.Sent, !e.stored, e.ReportTTL)
		r.Facts = e.facts
		e.Claim.Finish(e.Tells.TellOver(e.Claim, e.Job, r))
	}
}

// Lacks is the room for which all that is left of the event waits, if some of it lacks this room; nil if there are further
// users, who may have devices of other apps.
func (e *Event) Lacks(room Shares) Shares {
	if e.Rest != nil {
		return nil
	}
	return room
}

// goOn gives the event back to the queue, with its report. The lock is held.
func (e *Event) goOn(r queue.Result) {
	if r.Report = e.report(); r.Report != "" {
		r.ReportTTL = e.ReportTTL
	}
	e.Claim.Finish(r)
}

// beginAll begins notifications for which there is room; each waits for earlier sends to its device.
func (d *Delivery) beginAll(ctx context.Context, e *Event, works []*work) {
	d.begun(e, works)
	for _, w := range works {
		d.targeted(w)
		d.begin(ctx, w)
	}
}

// targeted counts a notification that is sent, or was stored and was not there before, once.
func (d *Delivery) targeted(w *work) {
	if !w.counted {
		d.o.Metrics.of(w.m.platform()).targeted.Inc()
		w.counted = true
	}
}

// endWithEvent ends a notification of an event. A notification that has to wait becomes a job of
// its own in the queue.
func (d *Delivery) endWithEvent(ctx context.Context, w *work, r queue.Result) {
	var facts []queue.Fact
	switch r.Outcome {
	case queue.Done:
		d.o.Metrics.end(w.m.platform(), r)
		if r.Label == events.LabelFailed {
			r.Label = events.FailedBy(d.o.Metrics.endLabel(r))
			f := w.failed(r.Reason)
			w.event.fail(f)
			facts = d.o.Events.TellFailed(w.m.Event, f)
		}
		w.event.end(w, r.Label, facts...)
	case queue.Release:
		w.event.undo(r)
	default:
		d.store(ctx, r, w)
	}
}
