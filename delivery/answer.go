package delivery

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fanfare/api"
	"fanfare/delivery/transport"
	"fanfare/store/events"
	"fanfare/store/queue"
)

// handleAnswer turns an answer into a result, by the table resultOf.
func (d *Delivery) handleAnswer(ctx context.Context, w *work, a transport.Answer) {
	w.asked = true
	w.accepted, w.took = a.Outcome == transport.Delivered, a.Took
	w.hanging = a.Status == 0 && !w.accepted
	d.resume(ctx, w, a)
	r := resultOf[a.Outcome](d, w, a)
	if r.Reason == "" {
		r.Reason = a.Reason
	}
	if a.Err != nil {
		r.Err = a.Err.Error()
	}
	if a.Outcome == transport.PauseApp {
		d.pause(ctx, w.app, pauseReason(a))
	}
	d.finish(ctx, w, r)
	if w.m.Channel != "" {
		d.updateChannel(ctx, w, a)
		return
	}
	d.updateDevice(ctx, w, a)
}

// updateDevice records what an answer says about the device. It runs after the result was given to the
// queue, so that a slow or absent SQL does not hold up sends. If the write fails, the answer to the
// next send leads to the same write again.
func (d *Delivery) updateDevice(ctx context.Context, w *work, a transport.Answer) {
	if judgesToken(a.Outcome) && !a.Alone() {
		d.watchStorm(ctx, w.app, w.m.User, a.Outcome)
	}
	if state := d.stateAfter(w, a); state != "" { // a write that waits for SQL must not hold room in the app's window
		w.group.Go(func() { d.markDevice(ctx, w, a, state) })
	}
}

// stateAfter is the state that an answer gives the device; "" leaves it as it is. Two refusals in a row drop a
// device, and a delivery between them makes it active again.
func (d *Delivery) stateAfter(w *work, a transport.Answer) api.DeviceState {
	switch {
	case a.Outcome == transport.Delivered && w.m.Suspect:
		return api.DeviceActive
	case a.Outcome == transport.DropDevice && (w.m.Suspect || a.Drops(w.m.registeredAt())):
		return api.DeviceDropped
	case a.Outcome == transport.DropDevice:
		return api.DeviceSuspect // registered after the time that the service names: the next such answer decides
	case a.Outcome == transport.SuspectDevice, w.blamed:
		return d.afterRefusal(w, a)
	}
	return ""
}

// afterRefusal is the state that a refusal gives the device. The app may be at fault if many of its tokens are
// refused, or those of several users in a row.
func (d *Delivery) afterRefusal(w *work, a transport.Answer) api.DeviceState {
	name, alone := d.names.of(w.app), a.Alone()
	switch {
	case !alone && (d.storm.isOpen(name) || d.pauses.last(w.app).Reason == stormReason):
		return ""
	case !w.m.Suspect:
		return api.DeviceSuspect
	case a.Spare || !alone && d.storm.inARow(name):
		return ""
	}
	return api.DeviceDropped
}

// markDevice writes the state that an answer gives a device.
func (d *Delivery) markDevice(ctx context.Context, w *work, a transport.Answer, state api.DeviceState) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deviceWriteWithin)
	defer cancel()
	select {
	case d.deviceWrites <- struct{}{}:
		defer func() { <-d.deviceWrites }()
	case <-ctx.Done():
		return
	}
	var err error
	switch registered := api.AtMillis(w.m.RegisteredAt); state {
	case api.DeviceDropped:
		var at api.Time
		if a.Drops(w.m.registeredAt()) && !a.GoneAt.IsZero() {
			at = api.At(a.GoneAt)
		}
		err = d.o.Devices.Drop(ctx, w.m.Token, reasonOf(a), at, registered)
	case api.DeviceSuspect:
		err = d.o.Devices.MarkSuspect(ctx, w.m.Token, reasonOf(a), registered)
	default:
		err = d.o.Devices.MarkActive(ctx, w.m.Token, registered)
	}
	if err != nil {
		d.o.Logger.Warn("the state of a device was not written; the next answer brings it again", "reason", a.Reason, "error", err)
	}
}

const (
	// maxDeviceWrites is how many device states are written at once; deviceWriteWithin is how
	// long one write may take.
	maxDeviceWrites   = 32
	deviceWriteWithin = 5 * time.Second
)

// resultOf has the result for each outcome. Done ends the notification, Retry uses up an attempt, and
// Defer does not. A result without a delay gets the backoff of the queue.
var resultOf = map[transport.Outcome]func(d *Delivery, w *work, a transport.Answer) queue.Result{
	transport.Delivered: func(d *Delivery, w *work, _ transport.Answer) queue.Result {
		d.backoff.forget(w.m.Token)
		d.noteBroadcast(w)
		if host := api.OriginOf(w.m.Target); host != "" {
			d.hosts.observe(host, w.m.User, transport.Delivered)
		}
		return queue.Result{Outcome: queue.Done, Label: events.LabelDelivered}
	},
	transport.FailMessage:   func(_ *Delivery, _ *work, a transport.Answer) queue.Result { return failed(reasonOf(a)) },
	transport.SuspectDevice: func(_ *Delivery, _ *work, a transport.Answer) queue.Result { return failed(a.Reason) },
	transport.DropDevice:    func(_ *Delivery, _ *work, a transport.Answer) queue.Result { return failed(a.Reason) },
	transport.OurBug:        (*Delivery).ourBug,
	transport.UnclearRefusal: func(d *Delivery, w *work, a transport.Answer) queue.Result {
		host := api.OriginOf(w.m.Target)
		d.hosts.observe(host, w.m.User, a.Outcome)
		if w.blamed = !a.Spare && d.hosts.blames(host); d.hosts.inARow(host) {
			return d.ourBug(w, a)
		}
		return failed(reasonOf(a))
	},
	transport.PauseApp: func(d *Delivery, w *work, _ transport.Answer) queue.Result { return d.parking(w) },
	transport.NoApp: func(d *Delivery, w *work, _ transport.Answer) queue.Result {
		d.alarm(alarmNoApp, "app", w.app)
		return failed("no_app")
	},
	transport.Again: func(_ *Delivery, _ *work, a transport.Answer) queue.Result {
		return queue.Result{Outcome: queue.Defer, Delay: max(a.RetryAfter, time.Millisecond)}
	},
	transport.Retry: func(_ *Delivery, _ *work, a transport.Answer) queue.Result {
		return queue.Result{Outcome: queue.Retry, Label: events.LabelFailed, Delay: a.RetryAfter, Least: a.Least, Reason: reasonOf(a), Err: saidOf(a)}
	},
	transport.RetryUncounted: func(d *Delivery, w *work, a transport.Answer) queue.Result {
		return queue.Result{Outcome: queue.Defer, Delay: a.RetryAfter}
	},
	transport.BackoffDevice: func(d *Delivery, w *work, a transport.Answer) queue.Result {
		return queue.Result{Outcome: queue.Defer, Delay: d.backoff.next(w.m.Token, a.RetryAfter, time.Now())}
	},
	transport.NotSent: func(d *Delivery, w *work, a transport.Answer) queue.Result {
		if errors.Is(a.Err, transport.ErrMayNotSend) || w.Context().Err() != nil {
			return queue.Result{Outcome: queue.Release}
		}
		return queue.Result{Outcome: queue.Defer, Delay: a.RetryAfter}
	},
	transport.UnknownOutcome: func(d *Delivery, w *work, _ transport.Answer) queue.Result {
		counts := map[string]int64{events.CountUnknown: 1}
		if w.m.Push.NoRetryUnknown {
			r := failed("unknown_outcome")
			r.Counts = counts
			return r
		}
		return queue.Result{Outcome: queue.Defer, Counts: counts, Reason: "unknown_outcome"}
	},
}

// reasonOf names an answer by the service's reason, or else by the status or the outcome.
func reasonOf(a transport.Answer) string {
	switch {
	case a.Reason != "":
		return a.Reason
	case a.Status != 0:
		return "status_" + strconv.Itoa(a.Status)
	}
	return a.Outcome.String()
}

// saidOf renders an answer for people. It becomes the last error of a dead letter.
func saidOf(a transport.Answer) string {
	switch {
	case a.Err != nil:
		return a.Err.Error()
	case a.Status != 0:
		return strings.TrimSpace(fmt.Sprintf("%d %s %s", a.Status, a.Reason, a.Said))
	}
	return reasonOf(a)
}

// pauseReason is why an app is paused, with the service's own words, which may name a missing permission.
func pauseReason(a transport.Answer) string {
	if a.Said == "" {
		return reasonOf(a)
	}
	return reasonOf(a) + ": " + a.Said
}

func failed(reason string) queue.Result {
	return queue.Result{Outcome: queue.Done, Label: events.LabelFailed, Reason: reason}
}

// ourBug is the result of an answer that only a change of fanfare or of its configuration can cure.
func (d *Delivery) ourBug(w *work, a transport.Answer) queue.Result {
	d.alarm(alarmOurBug, "app", w.app, "reason", reasonOf(a))
	return queue.Result{Outcome: queue.Dead, Label: events.LabelFailed, Reason: reasonOf(a), Err: saidOf(a)}
}

// attempt is the number of the present attempt. Sent with its event it is always the first.
func (w *work) attempt() int {
	if w.event != nil {
		return 1
	}
	return w.claimed.Attempt
}

// finish gives the result to the queue, and keeps the count of retrying notifications.
func (d *Delivery) finish(ctx context.Context, w *work, r queue.Result) {
	if r.Outcome == queue.Retry && w.attempt() >= d.o.Queue.MaxAttempts() {
		r.Outcome, r.Reason, r.Delay = queue.Dead, "max_attempts", 0
	}
	if w.event != nil {
		d.endWithEvent(ctx, w, r)
		return
	}
	if r.Outcome == queue.Dead && w.m.Retrying {
		again := *w.m // an operator may retry the dead letter, which is not counted as retrying
		again.Retrying = false
		r.Payload = again.encode()
	}
	label := r.Label
	if r.Outcome == queue.Done && r.Label == events.LabelFailed {
		label = events.FailedBy(d.o.Metrics.endLabel(r))
		f := w.failed(r.Reason)
		r.Counts, r.Failures, r.Facts = plus(r.Counts, label, 1), f.Line(), d.o.Events.TellFailed(w.m.Event, f)
	}
	if r.Outcome == queue.Dead {
		w.claimed.Class = queue.ClassOf(w.m.Push.EventType(), w.app)
	}
	switch r.Outcome {
	case queue.Done, queue.Dead:
		r.Note = events.OutcomeText(label, w.Clock())
		d.o.Metrics.end(w.m.platform(), r)
		if w.m.Retrying {
			r.Counts = plus(r.Counts, events.CountRetrying, -1)
		}
	case queue.Retry, queue.Defer, queue.Park:
		r.Note = w.waiting(r)
		if !w.m.Retrying {
			r.Counts = plus(r.Counts, events.CountRetrying, 1)
			r.Payload = w.m.marked()
		}
	}
	w.claimed.Finish(r)
}

// failed is what is kept of the notification when it failed for a reason.
func (w *work) failed(reason string) events.Failed {
	return events.Failed{User: w.m.User, Token: api.ShortToken(w.m.Token), Platform: w.m.platform(), Topic: w.m.Topic, Environment: w.m.Environment,
		Reason: reason, At: w.Clock().UnixMilli(), Attempts: w.attempt()}
}

// waiting is what the record of the notification says while it waits after a result; "": nothing.
func (w *work) waiting(r queue.Result) string {
	if r.Reason == "" || r.Outcome != queue.Retry && r.Outcome != queue.Defer {
		return ""
	}
	return events.Waiting(r.Reason, w.asked)
}

func plus(counts map[string]int64, name string, n int64) map[string]int64 {
	if counts == nil {
		counts = map[string]int64{}
	}
	counts[name] += n
	return counts
}

// bury turns a notification that was refused with its event into a dead letter.
func (d *Delivery) bury(ctx context.Context, w *work) {
	r := queue.Result{Outcome: queue.Dead, Label: events.LabelFailed, Reason: w.m.Refused, Err: w.m.RefusedSaid}
	w.m.Refused, w.m.RefusedSaid = "", "" // the dead letter may be tried again
	r.Payload = w.m.encode()
	d.finish(ctx, w, r)
}
