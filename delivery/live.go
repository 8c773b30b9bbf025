package delivery

import (
	"context"

	"fanfare/api"
	"fanfare/store/events"
	"fanfare/store/queue"
)

// superseded is the result of an update or a start that a newer event of its object went before.
var superseded = queue.Result{Outcome: queue.Done, Label: events.LabelSuperseded}

// waited reports whether this waited as a job of its own, and meanwhile a newer event may have begun, or the user may have lost
// the other token.
func (w *work) waited() bool {
	return w.claimed != nil && (w.m.Live.Object != "" || w.m.other() != "")
}

// other is a token that the user must have, too, beside the one that the job's guard is about: that under which the activity of
// an Android phone is kept, or that of the phone on which an iPhone's activity stands. "": there is none. Either may be removed,
// or become another user's, while the other stays as it is.
func (m *message) other() string {
	if phone, own, ok := api.LiveTarget(m.Target); ok && own != "" {
		return phone
	}
	return m.Activity
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

// removed ends a notification that waited if the user no longer has its other token, and defers it if that cannot be read.
func (d *Delivery) removed(ctx context.Context, w *work) (r queue.Result, ends bool) {
	token := w.m.other()
	if w.claimed == nil || token == "" || d.o.Devices == nil {
		return r, false
	}
	g, err := d.guardOf(ctx, w.m.User, token)
	if err != nil {
		return queue.Result{Outcome: queue.Defer, Reason: "the activity or its phone is not known", Err: err.Error()}, true
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
