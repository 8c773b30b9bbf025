package delivery

import (
	"cmp"
	"context"
	"errors"
	"time"

	"fanfare/api"
	"fanfare/api/trace"
	"fanfare/delivery/transport"
	"fanfare/store/apps"
	"fanfare/store/devices"
	"fanfare/store/events"
	"fanfare/store/queue"

	"go.opentelemetry.io/otel/attribute"
	oteltrace "go.opentelemetry.io/otel/trace"
)

const (
	// A postponed notification first waits for postponeLeast, because its turn would not come within
	// half of that time. Later it waits for a quarter of its age (postponeShare).
	postponeLeast, postponeShare = 2 * patience, 4
	// maxGuardReads is how many owners are read at once; guardReadWithin is how
	// long one read may take.
	maxGuardReads   = 32
	guardReadWithin = heldFresh
	// A notification whose device was read too long ago is claimed again after recheckLeast or, if
	// it is older, after a share of its age (recheckShare).
	recheckLeast, recheckShare = time.Second, 16
)

// handle brings one notification to a result.
func (d *Delivery) handle(ctx context.Context, w *work) {
	if w.m.Refused != "" {
		d.bury(ctx, w)
		return
	}
	d.mayBeStopped(ctx, w) // for ended, which does not wait
	r, ends := d.ended(ctx, w)
	if !ends && len(w.m.Push.Payload) == 0 { // it is too large for its service (W6), so it is no probe either
		r, ends = failed(reasonTooLarge), true
	}
	if !ends {
		r, ends = d.removed(ctx, w)
	}
	if !ends {
		r, ends = d.superseded(ctx, w)
	}
	if ends {
		d.finish(ctx, w, r)
		if r.Outcome == queue.Done && d.pauses.last(w.app).State == apps.Paused {
			d.wake(w.app) // this was the probe; let another notification be the probe
		}
		return
	}
	if !d.maySend(ctx, w) {
		d.finish(ctx, w, d.parking(w))
		return
	}
	if wait := d.backoff.wait(w.m.Token, time.Now()); wait > 0 && !w.probe {
		d.finish(ctx, w, queue.Result{Outcome: queue.Defer, Delay: wait, Reason: "the device backs off"})
		return
	}
	d.handleAnswer(ctx, w, d.send(w))
}

const (
	// redactedReason is why a notification of a message fails whose text was removed.
	redactedReason = "redacted"
	// reasonTooLarge is why one fails that was accepted and is too large for its service.
	reasonTooLarge = "payload_too_large"
)

// stopped reports whether a notification is not to be sent any more, and how it ends then: its event was
// cancelled, or it is about a message of a chat that was redacted. unsure says that this is not known, because
// the views of this process are too old.
func (d *Delivery) stopped(w *work) (r queue.Result, is, unsure bool) {
	if d.o.Events == nil {
		return r, false, false
	}
	if is, fresh := d.o.Events.Cancelled(d.place(w), w.m.Event); is || !fresh && !w.young() {
		return queue.Result{Outcome: queue.Done, Label: events.LabelCancelled}, is, !is
	}
	if !w.m.Push.OfMessage() {
		return r, false, false
	}
	is, fresh := d.o.Events.Withdrawn(w.m.Event)
	return failed(redactedReason), is, !fresh
}

// place is the shard that the process has the notification from, or the event that it is sent with.
func (d *Delivery) place(w *work) events.Place {
	if w.event != nil {
		return d.o.Events.PlaceOfEvents(w.event.Claim.Shard)
	}
	return d.o.Events.PlaceOfNotifications(w.claimed.Shard)
}

// young reports whether the notification's event cannot have been cancelled a second ago.
func (w *work) young() bool { return w.event != nil && w.event.Job.Young() }

// mayBeStopped reads again what was cancelled and redacted, if a view is too old. While Redis cannot be read,
// it returns true for every notification that needs the views.
func (d *Delivery) mayBeStopped(ctx context.Context, w *work) bool {
	_, is, unsure := d.stopped(w)
	if unsure {
		d.o.Events.RefreshCancelled(ctx, d.place(w))
		if w.m.Push.OfMessage() {
			d.o.Events.RefreshWithdrawn(ctx)
		}
		_, is, unsure = d.stopped(w)
	}
	return is || unsure
}

// postpone defers a notification without checking it. The delay grows with the notification's
// age, so that the backlog of an app that hangs is claimed only a few times.
func (d *Delivery) postpone(ctx context.Context, w *work, why string) {
	wait := min(max(postponeLeast, w.Clock().Sub(w.enqueued)/postponeShare), d.o.RetryMax)
	d.finish(ctx, w, queue.Result{Outcome: queue.Defer, Delay: Jitter(wait), Reason: why})
}

// ended reports whether the notification goes no further now: its event was cancelled, its message was
// redacted, the device no longer belongs to this user, the notification has expired, or the owner of the device
// or the cancelled events or redacted messages cannot be read, or were read too long ago.
func (d *Delivery) ended(ctx context.Context, w *work) (queue.Result, bool) {
	now := w.Clock()
	age := now.Sub(w.enqueued)
	expired := w.m.expired(now) || age > d.o.MaxAge
	r, stopped, unsure := d.stopped(w)
	if stopped {
		return r, true
	}
	// A guard outlives everything that was queued before it was written. If there is none, the
	// device has not changed since the notification was queued. This does not hold for a retried
	// dead letter, which may be older.
	var g devices.Guard
	known := false
	if w.claimed != nil && w.m.Channel == "" {
		g, known = devices.ParseGuard(w.claimed.GuardValue)
	}
	switch {
	case w.claimed == nil || expired:
	case w.m.Channel != "":
		d.findChannel(w)
	case w.retried():
		var err error
		w.owner = time.Now()
		if g, err = d.guardOf(ctx, w.m.User, w.m.Token); err != nil {
			return queue.Result{Outcome: queue.Defer, Reason: "the owner of the device is not known", Err: err.Error()}, true
		}
		known = true
	}
	switch {
	case known && !g.Reaches(w.m.User):
		return failed("device_gone"), true
	case expired:
		return queue.Result{Outcome: queue.Done, Label: events.LabelExpired}, true
	case w.stale() || unsure:
		return queue.Result{Outcome: queue.Defer, Delay: w.recheckDelay()}, true
	case known:
		d.update(w, g)
	}
	return queue.Result{}, false
}

// guardOf reads from a user's settings whether a token is the user's. Only a few reads run at a time, so that a
// backlog does not keep requests from SQL.
func (d *Delivery) guardOf(ctx context.Context, user, token string) (devices.Guard, error) {
	ctx, cancel := context.WithTimeout(ctx, guardReadWithin)
	defer cancel()
	select {
	case d.guardReads <- struct{}{}:
		defer func() { <-d.guardReads }()
	case <-ctx.Done():
		return devices.Guard{}, ctx.Err()
	}
	return d.o.Devices.GuardOf(ctx, user, token)
}

// stale reports whether the device was read too long ago to send to it.
func (w *work) stale() bool {
	switch {
	case w.event != nil:
		return time.Since(w.event.Read) > heldFresh
	case w.retried():
		return time.Since(w.owner) > guardFresh
	}
	return w.claimed.GuardAge() > guardFresh
}

// retried reports whether the notification is a dead letter that is tried again. Such a job names no
// guard.
func (w *work) retried() bool { return w.claimed != nil && w.claimed.Guard == "" }

// recheckDelay is how long a stale notification waits in the queue for its next claim, which reads
// the device's guard. An older one waits longer, so that the backlog of a slow device costs
// little. Notifications of the same age wait for the same time and stay in order.
func (w *work) recheckDelay() time.Duration {
	if w.event != nil {
		return time.Millisecond // it becomes a job of its own
	}
	age := w.Clock().Sub(w.enqueued)
	return max(recheckLeast, (age / recheckShare).Truncate(recheckLeast))
}

// update applies the device's current registration to the message: a browser is sent to with its newest
// keys.
func (d *Delivery) update(w *work, g devices.Guard) {
	w.m.Topic, w.m.Environment, w.m.RegisteredAt, w.m.Target = g.Topic, g.Environment, g.RegisteredAt.UnixMilli(), g.Target
	w.m.Suspect = g.State == api.DeviceSuspect
	w.app = d.app(w.m)
}

// send calls the Sender and waits for the answer. The Sender calls sendable right before it writes a
// request, so that no send starts whose result could not be recorded before the lease ends. If Redis is
// away or the process gets no processor time, notifications wait instead of being sent twice. A
// notification that waited too long is not sent: its device is read again first. The next claim also
// ends a notification that was cancelled, or whose message was redacted, in the meantime.
func (d *Delivery) send(w *work) transport.Answer {
	ctx := w.Context()
	n := d.notification(w)
	for {
		if ctx.Err() != nil || !w.AwaitFresh(ctx) {
			return transport.Answer{Outcome: transport.NotSent, Err: transport.ErrMayNotSend}
		}
		if w.stale() || d.mayBeStopped(ctx, w) {
			return transport.Answer{Outcome: transport.Again, RetryAfter: w.recheckDelay()}
		}
		began := time.Now()
		n.At = w.Clock()
		a := transport.Await(ctx, d.o.Sender, n)
		if withheld(a) {
			continue // not written: wait for the lease's renewal, or for the next claim
		}
		d.answered(w, a, began)
		return a
	}
}

// answered counts the answer to a request that began at a time, and records it below the call that brought the event.
func (d *Delivery) answered(w *work, a transport.Answer, began time.Time) {
	d.o.Metrics.answered(w.m.platform(), a, w.m.AcceptedAt)
	if w.m.Trace == "" {
		return
	}
	s := trace.Step{Name: "send", Kind: oteltrace.SpanKindClient, Began: began, Ended: time.Now(), Attributes: []attribute.KeyValue{
		attribute.String("fanfare.event", w.m.Event), attribute.String("fanfare.notification", w.id), attribute.String("fanfare.platform", string(w.m.platform())),
		attribute.String("fanfare.topic", w.m.Topic), attribute.String("fanfare.outcome", a.Outcome.String()), attribute.Int("http.response.status_code", a.Status)}}
	if a.Took > 0 {
		s.Began = s.Ended.Add(-a.Took)
	}
	if a.Outcome != transport.Delivered {
		s.Failed = cmp.Or(a.Reason, a.Outcome.String())
	}
	trace.Record(w.m.Trace, s)
}

// notification is what the Sender gets.
func (d *Delivery) notification(w *work) *transport.Notification {
	n := w.m.notification(w.id, w.Clock(), func() bool { return d.sendable(w) })
	n.Bulk = w.event != nil && w.event.part()
	return n
}

// sendable reports whether a notification may be written now: its result can be recorded, its device was
// read recently, and it is known to be neither cancelled nor redacted.
func (d *Delivery) sendable(w *work) bool {
	_, stopped, unsure := d.stopped(w)
	return w.Fresh() && !w.stale() && !stopped && !unsure
}

// withheld reports whether a request was not written because it was not sendable.
func withheld(a transport.Answer) bool {
	return a.Outcome == transport.NotSent && errors.Is(a.Err, transport.ErrMayNotSend)
}

// DeferOrRetry is the result of a job after an error. A dependency that is away uses no attempt;
// an error of fanfare itself uses one.
func DeferOrRetry(reason string, err error) queue.Result {
	r := queue.Result{Outcome: queue.Retry, Reason: reason, Err: err.Error()}
	if Passing(err) {
		r.Outcome = queue.Defer
	}
	return r
}

// Passing reports whether an error means that a dependency is away or that there was no time to ask it.
func Passing(err error) bool {
	return api.Passing(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
