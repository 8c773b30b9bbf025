package delivery

import (
	"context"

	"fanfare/api"
	"fanfare/store/events"
	"fanfare/store/queue"
)

// superseded is the result of an update or a start that a newer event of its object went before.
var superseded = queue.Result{Outcome: queue.Done, Label: events.LabelSuperseded}

// waited reports whether this waited as a job of its own, and a newer event may have begun meanwhile, or the activity of an
// Android phone may have been removed, which leaves the phone's token as it is.
func (w *work) waited() bool {
	return w.claimed != nil && (w.m.Live.Object != "" || w.m.Activity != "")
}

// superseded ends a notification that waited if a newer event of its object has begun, and defers it if that cannot be read. What is
// sent with its event was looked at when the event, or its part, began.
func (d *Delivery) superseded(ctx context.Context, w *work) (r queue.Result, ends bool) {
	if r, ends = d.removed(ctx, w); ends || !w.waited() || w.m.Live.Object == "" || d.o.Events == nil {
		return r, ends
	}
	newer, err := d.o.Events.Superseded(ctx, w.m.Live)
	if err != nil {
		return queue.Result{Outcome: queue.Defer, Reason: "the newest event of the object is not known", Err: err.Error()}, true
	}
	return superseded, newer
}

// removed ends a notification that waited if the activity was removed for which an Android phone gets it, and defers it if that
// cannot be read.
func (d *Delivery) removed(ctx context.Context, w *work) (r queue.Result, ends bool) {
	if !w.waited() || w.m.Activity == "" || d.o.Devices == nil {
		return r, false
	}
	g, err := d.o.Devices.GuardOf(ctx, w.m.User, w.m.Activity)
	if err != nil {
		return queue.Result{Outcome: queue.Defer, Reason: "the activity is not known", Err: err.Error()}, true
	}
	return failed("device_gone"), !g.Reaches(w.m.User)
}

// endWith ends the notification not later than the activity that it is for, and with it.
func (m *message) endWith(l *api.DeviceLive) {
	if l.EndsAt > 0 && (m.Push.ExpiresAt == 0 || l.EndsAt < m.Push.ExpiresAt) {
		m.Push.ExpiresAt = l.EndsAt
	}
	m.Activity = l.Token
}
