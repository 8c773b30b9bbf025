package delivery

import (
	"context"

	"fanfare/api"
	"fanfare/store/events"
	"fanfare/store/queue"
)

// superseded is the result of an update that a newer one of its object went before.
var superseded = queue.Result{Outcome: queue.Done, Label: events.LabelSuperseded}

// waited reports whether this is an update that waited as a job of its own. Meanwhile a newer one may have begun.
func (w *work) waited() bool { return w.claimed != nil && w.m.Live.Object != "" }

// superseded ends an update that waited if a newer one of its object has begun, and defers it if that cannot be read. What is
// sent with its event was looked at when the event, or its part, began.
func (d *Delivery) superseded(ctx context.Context, w *work) (r queue.Result, ends bool) {
	if !w.waited() || d.o.Events == nil {
		return r, false
	}
	newer, err := d.o.Events.Superseded(ctx, w.m.Live)
	if err != nil {
		return queue.Result{Outcome: queue.Defer, Reason: "the newest event of the object is not known", Err: err.Error()}, true
	}
	return superseded, newer
}

// endWith ends the notification not later than the activity that it is for.
func (m *message) endWith(l *api.DeviceLive) {
	if l.EndsAt > 0 && (m.Push.ExpiresAt == 0 || l.EndsAt < m.Push.ExpiresAt) {
		m.Push.ExpiresAt = l.EndsAt
	}
}
