package delivery

import (
	"context"
	"sync"
	"time"

	"fanfare/store/devices"
	"fanfare/store/events"
	"fanfare/store/queue"
)

const (
	// heldFresh is how long what targeting read of a device may be taken for true.
	heldFresh = time.Second
	// guardFresh is the same for what a claim, or a retried dead letter, read of one. A
	// claimed notification waits for its app's window first, for patience at most.
	guardFresh = heldFresh + patience
	// maxAtOnce is how many devices an event, or a part of one, may have that goes in
	// one hop.
	maxAtOnce = 250
)

// The marks of an event: what became of its notification to a device.
const markStored = "stored" // it is a job of its own; else the label of its end

// markName names a notification's mark: enough of its id.
func markName(id string) string { return id[:18] }

// markText is a mark and whose device it was: who was reached is not among those who are
// left out, whatever he wants by now.
func markText(mark, user string) string { return mark + " " + user }

// oneHop is an event with few notifications, which the process that targeted it sends
// itself. Nothing is stored between targeting and sending: the end of the event is the
// record of all its notifications, and until then those that have ended are marks of
// the event. Only an event that nobody had before goes this way. Whoever takes it over
// stores the notifications without a mark under their ids: so what two processes may
// both have done is known as the same.
type oneHop struct {
	c         *queue.Claimed
	job       *events.Job
	counts    events.Counts
	read      time.Time       // when its devices were
	group     *sync.WaitGroup // of those who wait for the end of what was begun
	reportTTL time.Duration

	mu     sync.Mutex
	left   int // notifications that have neither ended nor were stored
	stored bool
	undone *queue.Result // how the event goes on for one that could do neither
	sent   events.Sent
}

// end notes that a notification has ended under a label, or was stored.
func (e *oneHop) end(w *work, mark string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if mark == markStored {
		e.stored = true
	} else {
		e.sent.Count(mark)
	}
	e.left--
	if e.left > 0 || e.undone != nil {
		report := ""
		if e.job.Of == "" {
			report = e.job.ReportTargeted(e.counts, e.sent)
		}
		e.c.Mark(markName(w.id), markText(mark, w.m.User), report)
	}
	e.finish()
}

// undo notes that a notification could neither end nor be stored: the event goes on
// with this result once nothing of it is under way.
func (e *oneHop) undo(r queue.Result) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.undone = &r
	e.left--
	e.finish()
}

// finish ends the event with its last notification. The lock is held.
func (e *oneHop) finish() {
	switch {
	case e.left > 0:
	case e.undone != nil:
		e.c.Finish(*e.undone)
	default:
		e.c.Finish(targeted(e.job, e.counts, e.sent, !e.stored, e.reportTTL))
	}
}

// beginAll sends notifications of an event, each behind those to its device.
func (d *Delivery) beginAll(ctx context.Context, works []work) {
	for i := range works {
		d.begin(ctx, &works[i])
	}
}

// postponeAll makes jobs of their own of an event's notifications.
func (d *Delivery) postponeAll(ctx context.Context, works []work) {
	for i := range works {
		d.postpone(ctx, &works[i], noRoom)
	}
}

// finishEvent ends a notification of an event. What has to wait becomes a job of its
// own, and waits in the queue.
func (d *Delivery) finishEvent(ctx context.Context, w *work, r queue.Result) {
	switch r.Outcome {
	case queue.Done:
		d.o.Metrics.ended.WithLabelValues(r.Label, d.o.Metrics.endLabel(r)).Inc()
		if r.Label == events.LabelFailed {
			r.Label = events.FailedBy(d.o.Metrics.endLabel(r))
		}
		w.event.end(w, r.Label)
	case queue.Release:
		w.event.undo(r)
	default:
		d.store(ctx, w, r)
	}
}

// store makes the notification a job, with the attempt and the counts that the
// result brings.
func (d *Delivery) store(ctx context.Context, w *work, r queue.Result) {
	if !w.Alive() {
		w.event.undo(queue.Result{Outcome: queue.Release}) // others have the event by now
		return
	}
	job := queue.Job{
		ID: jobID(w.m.Event, w.m.Token), Shard: d.o.Queue.Route(w.m.Token), Group: w.m.Event, Guard: devices.GuardName(w.m.Token), Delay: w.event.c.Wait(r), Counts: r.Counts,
	}
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
		w.event.undo(deferOrRetry("write_notifications", err))
		return
	}
	w.event.end(w, markStored)
}

// bury makes a dead letter of a notification that was refused with its event.
func (d *Delivery) bury(ctx context.Context, w *work) {
	r := queue.Result{Outcome: queue.Dead, Label: events.LabelFailed, Reason: w.m.Refused, Err: w.m.RefusedSaid}
	w.m.Refused, w.m.RefusedSaid = "", "" // it may be tried again
	r.Payload = w.m.encode()
	d.finish(ctx, w, r)
}
