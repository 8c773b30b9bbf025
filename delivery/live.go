package delivery

import (
	"context"

	"fanfare/api"
	"fanfare/store/events"
	"fanfare/store/queue"
)

// superseded is the result of an update or a start that a newer event of its object went before.
var superseded = queue.Result{Outcome: queue.Done, Label: events.LabelSuperseded}

// waited reports whether the notification has waited as a job of its own and needs the checks superseded and removed.
func (w *work) waited() bool {
	return w.claimed != nil && (w.m.Live.Object != "" || w.m.secondToken() != "")
}

// secondToken is a token that the user must have beside the one that the job's guard is about. For an activity of an Android phone it
// is the token under which the activity is kept, for an activity of an iPhone on FCM the token of the phone on which it stands. "":
// there is none. The user may lose either token and keep the other.
func (m *message) secondToken() string {
	if phone, activity, ok := api.LiveTarget(m.Target); ok && activity != "" {
		return phone
	}
	return m.Activity
}

// superseded ends a notification that waited if a newer event of its object has begun, and defers it if that cannot be read. What is
// sent with its event was looked at when the event, or its part, began.
func (d *Delivery) superseded(ctx context.Context, w *work) (r queue.Result, ends bool) {
	if w.claimed == nil || w.m.Live.Object == "" || d.o.Events == nil {
		return r, false
	}
	newer, err := d.o.Events.Superseded(ctx, w.m.Live)
	if err != nil {
		return queue.Result{Outcome: queue.Defer, Reason: "the newest event of the object is not known", Err: err.Error()}, true
	}
	return superseded, newer
}

// removed ends a notification that waited if its second token is no longer the user's, and defers it if that cannot be read. It comes
// after ended, which sets the target to where an activity stands now, and with it the second token.
func (d *Delivery) removed(ctx context.Context, w *work) (r queue.Result, ends bool) {
	token := w.m.secondToken()
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
