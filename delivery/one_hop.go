package delivery

import (
	"context"
	"sync"
	"time"

	"fanfare/store/events"
	"fanfare/store/queue"
)

// heldFresh is how long what targeting read of a device may be taken for true.
const heldFresh = time.Second

// oneHop is an event with a single notification, which the process that targeted it
// sends itself: the end of the event is the notification's record, and nothing is
// stored between them. Only an event that nobody had before goes this way. Whoever
// takes it over stores the notification under its id: so what two processes may
// both have done is known as the same.
type oneHop struct {
	job    *events.Job
	counts events.Counts
	read   time.Time       // when its device was
	group  *sync.WaitGroup // of those who wait for the end of what was begun
}

// stale tells that the device has to be looked up again before it is sent to.
func (e *oneHop) stale() bool { return e != nil && time.Since(e.read) > heldFresh }

// takeEvent sends the only notification of an event, behind those to the same
// device.
func (d *Delivery) takeEvent(ctx context.Context, c *queue.Claimed, m *message, clock time.Time, e *oneHop) {
	w := &work{Claimed: c, id: NotificationID(c.ID, m.Token), m: m, clock: clock, event: e}
	if !d.takeSlot(m.app()) {
		d.spawn(w, func() { d.postpone(ctx, w, "its app has too many sends under way") })
		return
	}
	d.begin(ctx, w)
}

// finishEvent ends the event with its notification. What has to wait becomes a
// notification of its own, and waits in the queue.
func (d *Delivery) finishEvent(ctx context.Context, w *work, r queue.Result) {
	switch r.Outcome {
	case queue.Done:
		d.o.Metrics.ended.WithLabelValues(r.Label, d.o.Metrics.endLabel(r)).Inc()
		w.Finish(queue.Result{Report: w.event.job.ReportDone(w.event.counts, events.SentAs(r.Label))})
	case queue.Release:
		w.Finish(r)
	default:
		d.store(ctx, w, r)
	}
}

// store makes the notification a job, with the attempt and the counts that the
// result brings, and then ends the event.
func (d *Delivery) store(ctx context.Context, w *work, r queue.Result) {
	if !w.Alive() {
		w.Finish(queue.Result{Outcome: queue.Release}) // others have the event by now
		return
	}
	job := queue.Job{
		ID: w.id, Shard: d.o.Queue.Route(w.m.Token), Group: w.m.Event, Guard: w.m.Token, Delay: w.Wait(r), Counts: r.Counts,
	}
	switch r.Outcome {
	case queue.Dead:
		w.m.Refused = r.Reason
		job.Payload, _ = encode(w.m) // it came out of the queue as JSON
	case queue.Retry:
		job.Failures = 1
		fallthrough
	default:
		job.Payload, job.Counts = w.m.marked(), plus(job.Counts, events.CountRetrying, 1)
	}
	if _, err := d.o.Queue.Enqueue(context.WithoutCancel(ctx), job); err != nil {
		w.Finish(deferOrRetry("write_notifications", err))
		return
	}
	w.Finish(queue.Result{Report: w.event.job.ReportTargeted(w.event.counts), ReportTTL: d.o.ReportTTL})
}

// bury makes a dead letter of a notification that was refused with its event.
func (d *Delivery) bury(ctx context.Context, w *work) {
	r := queue.Result{Outcome: queue.Dead, Label: events.LabelFailed, Reason: w.m.Refused}
	w.m.Refused = "" // it may be tried again
	r.Payload, _ = encode(w.m)
	d.finish(ctx, w, r)
}
