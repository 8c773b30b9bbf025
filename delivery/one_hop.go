package delivery

import (
	"context"
	"slices"
	"sync"
	"time"

	"fanfare/api"
	"fanfare/store/devices"
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
	// togetherFor is how old a part of a large audience gets before the notifications to the apps that have
	// room leave without the others. An app that hangs is not waited for.
	togetherFor = time.Second
	// MaxAtOnce is the largest number of devices that an event, or a part of one, may have to be sent
	// in one hop.
	MaxAtOnce = 250
)

// OneHop is an event, or a part of one, with few notifications, which are sent by the process that
// targeted it. Nothing is stored between targeting and sending. One result at the end of the event
// records all notifications. Until then each notification that has ended is a mark of the event.
// An event that a process has claimed before goes in two hops: an earlier process may have stored a notification as
// a job without a mark, and a job is not stored twice. The ids are the same in both cases, so that a notification
// that both processes sent can be recognized as the same. Only a part that is Settled goes in one hop again.
type OneHop struct {
	Claim     *queue.Claimed
	Job       *events.Job
	Counts    events.Counts
	Read      time.Time       // when its devices were read
	Group     *sync.WaitGroup // counts the notifications that are under way
	ReportTTL time.Duration
	Sent      events.Sent // the ends of its other notifications, from an earlier claim
	// Begun is called with the notifications that begin, or become jobs of their own.
	Begun func([]Recipient)
	// GiveBack is set for parts of large audiences. It takes a part back if no app has room in time.
	GiveBack func(Shares)

	to     []Recipient
	mu     sync.Mutex
	left   int // notifications that have neither ended nor been stored
	stored bool
	undone *queue.Result // how the event goes on, because a notification could neither end nor be stored
}

// Recipient is a device that gets the event, and the user it belongs to.
type Recipient struct {
	User   string
	Device *api.Device
}

// Shares are the numbers of devices, by app, for which an event needs room in the apps' windows.
type Shares []share

// Fits reports whether a part of a large audience with these shares would have room for one of them now.
func (d *Delivery) Fits(s Shares) bool { return d.windows.fits(true, s...) }

// Hang reports whether all of the shares' apps have stopped answering.
func (d *Delivery) Hang(s Shares) bool { return d.windows.hanging(s) == len(s) }

// id is the event's id.
func (e *OneHop) id() string { return e.Job.Event(e.Claim.ID) }

// part reports whether this is a part of a large audience.
func (e *OneHop) part() bool { return e.Job.Of != "" }

// SendAtOnce sends an event's notifications now, or lets the event wait in the process until its
// apps' windows have room. It returns false, having begun nothing, if there is no room in time.
func (d *Delivery) SendAtOnce(ctx context.Context, e *OneHop, to []Recipient) bool {
	works := d.works(e, to)
	shares := sharesOf(works)
	if d.windows.take(e.part(), shares...) {
		e.begin()
		d.beginAll(ctx, works)
		return true
	}
	return d.waitForWindow(ctx, e, works, shares)
}

// begin reports that the notifications have begun. It drops the callbacks, which hold on to all
// that was read for the event.
func (e *OneHop) begin() {
	e.Begun(e.to)
	e.Begun, e.GiveBack, e.to = nil, nil, nil
}

// works builds the event's notifications.
func (d *Delivery) works(e *OneHop, to []Recipient) []work {
	n, id := len(to), e.id()
	e.left, e.to = n, to
	messages, works := make([]message, n), make([]work, n)
	for i, r := range to {
		messages[i] = message{
			Token: r.Device.Token, User: r.User, Topic: r.Device.Topic, Environment: r.Device.Environment,
			RegisteredAt: r.Device.RegisteredAt.UnixMilli(), Event: id, AcceptedAt: e.Job.AcceptedAt, Push: *e.Job.PushFor(r.Device),
			Target: r.Device.Target, Suspect: r.Device.State == api.DeviceSuspect, Trace: e.Job.Trace,
		}
		app := d.app(&messages[i])
		works[i] = work{
			lease: e.Claim, event: e, id: events.NotificationID(id, r.Device.Token), m: &messages[i], enqueued: e.Claim.EnqueuedAt,
			app: app, charged: app, group: e.Group,
		}
		e.Sent.Make(messages[i].platform(), 1)
	}
	return works
}

// waitForWindow lets an event wait in the process until its apps' windows have room. It returns false
// if there will be no room in time.
func (d *Delivery) waitForWindow(ctx context.Context, e *OneHop, works []work, shares Shares) bool {
	w := &waiter{shares: shares, part: e.part()}
	w.enter = func() {
		e.begin()
		e.Group.Go(func() { d.beginAll(ctx, works) })
		e.Group.Done()
	}
	w.refuse = func() {
		defer e.Group.Done()
		if e.GiveBack != nil {
			d.sendSome(ctx, e, works, shares)
			return
		}
		e.begin()
		e.Group.Go(func() { d.postponeAll(ctx, works) })
	}
	e.Group.Add(1)
	switch taken, refused := d.windows.takeOrWait(w); {
	case taken:
		w.enter()
	case refused && e.GiveBack != nil:
		w.refuse()
	case refused:
		e.Group.Done()
		return false
	}
	return true
}

// sendSome sends the notifications of a part whose apps have room, if another app hangs or the part has waited
// for long. The part stays in the queue for the other notifications. If no app has room it is given back.
func (d *Delivery) sendSome(ctx context.Context, e *OneHop, works []work, shares Shares) {
	var taken Shares
	if len(shares) > 1 && (e.Claim.Clock().Sub(e.Claim.EnqueuedAt) > togetherFor || d.windows.hanging(shares) > 0) {
		taken = d.windows.takeSome(true, shares)
	}
	if len(taken) == 0 {
		e.GiveBack(shares)
		return
	}
	var to []Recipient
	var now []work
	for i, w := range works {
		if slices.ContainsFunc(taken, func(s share) bool { return s.app == w.charged }) {
			to, now = append(to, e.to[i]), append(now, w)
		}
	}
	e.to, e.left = to, len(now)
	next := *e.Job
	next.Settled = e.Claim.Fence
	e.undone = &queue.Result{Outcome: queue.Defer, Delay: Jitter(togetherFor), Reason: WindowFull, Payload: next.Encode()}
	e.begin()
	d.beginAll(ctx, now)
}

// fail keeps why a notification failed, before its end.
func (e *OneHop) fail(w *work, reason string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Sent.Fail(w.failed(reason))
}

// end notes that a notification has ended, or was stored.
func (e *OneHop) end(w *work, mark string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if mark == events.MarkStored {
		e.stored = true
	} else {
		e.Sent.Count(mark)
		e.Sent.Keep(w.id, mark, w.Clock())
	}
	e.left--
	if e.left > 0 || e.undone != nil {
		report := ""
		if !e.part() {
			report = e.Job.ReportTargeted(e.Counts, e.Sent)
		}
		e.Claim.Mark(events.MarkName(w.id), events.MarkText(mark, w.m.User), report)
	}
	e.finish()
}

// undo notes that a notification could neither end nor be stored. The event goes on with this
// result once none of its notifications is under way.
func (e *OneHop) undo(r queue.Result) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.undone = &r
	e.left--
	e.finish()
}

// finish ends the event when its last notification is done. The lock is held.
func (e *OneHop) finish() {
	switch {
	case e.left > 0:
	case e.undone != nil:
		e.Claim.Finish(*e.undone)
	default:
		e.Claim.Finish(e.Job.End(e.Counts, e.Sent, !e.stored, e.ReportTTL))
	}
}

// beginAll begins an event's notifications; each waits for earlier sends to its device.
func (d *Delivery) beginAll(ctx context.Context, works []work) {
	for i := range works {
		d.begin(ctx, &works[i])
	}
}

// postponeAll turns an event's notifications into jobs of their own.
func (d *Delivery) postponeAll(ctx context.Context, works []work) {
	for i := range works { // together, so that they are stored in a few trips
		works[i].group.Go(func() { d.postpone(ctx, &works[i], WindowFull) })
	}
}

// finishEvent ends a notification of an event. A notification that has to wait becomes a job of
// its own in the queue.
func (d *Delivery) finishEvent(ctx context.Context, w *work, r queue.Result) {
	switch r.Outcome {
	case queue.Done:
		d.o.Metrics.end(w.m.platform(), r)
		if r.Label == events.LabelFailed {
			r.Label = events.FailedBy(d.o.Metrics.endLabel(r))
			w.event.fail(w, r.Reason)
		}
		w.event.end(w, events.MarkOf(w.m.platform(), r.Label))
	case queue.Release:
		w.event.undo(r)
	default:
		d.store(ctx, w, r)
	}
}

// store turns the notification into a job, with the result's attempt and counts.
func (d *Delivery) store(ctx context.Context, w *work, r queue.Result) {
	if !w.Alive() {
		w.event.undo(queue.Result{Outcome: queue.Release}) // another process has the event by now
		return
	}
	job := events.JobFor(d.o.Queue, w.m.Event, w.m.Token, w.m.platform())
	job.Type, job.Guard = actorMark(w.event.Job.Actor), devices.GuardName(w.m.Token)
	job.Delay, job.Counts, job.Note = w.event.Claim.Wait(r), r.Counts, w.waiting(r)
	switch r.Outcome {
	case queue.Dead:
		w.m.Refused, w.m.RefusedSaid = r.Reason, r.Err
		job.Payload = w.m.encode()
	case queue.Retry:
		job.Failures = 1
		fallthrough
	default:
		job.Payload, job.Counts = w.m.marked(), plus(job.Counts, events.CountRetrying, 1)
	}
	if _, err := d.o.Queue.Enqueue(context.WithoutCancel(ctx), job); err != nil {
		w.event.undo(DeferOrRetry("write_notifications", err))
		return
	}
	w.event.end(w, events.MarkStored)
}
