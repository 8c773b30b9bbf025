package delivery

import (
	"context"

	"fanfare/store/devices"
	"fanfare/store/events"
	"fanfare/store/queue"
)

// store turns notifications of an event into jobs, with the result's attempt and counts. If the result is Continue,
// they are claimed at once.
func (d *Delivery) store(ctx context.Context, r queue.Result, works ...*work) {
	e := works[0].event
	if !e.Claim.Alive() { // another process has the event by now
		for range works {
			e.undo(queue.Result{Outcome: queue.Release})
		}
		return
	}
	jobs := make([]queue.Job, len(works))
	for i, w := range works {
		jobs[i] = d.jobOf(w, r)
	}
	made, err := d.o.Queue.Enqueue(context.WithoutCancel(ctx), jobs...)
	for i, w := range works {
		if err != nil && (made == nil || made[i].ID == "") {
			e.undo(DeferOrRetry("write_notifications", err))
			continue
		}
		if made != nil && made[i].New {
			d.targeted(w)
		}
		e.end(w, events.LabelStored)
	}
}

// jobOf is the job that a notification of an event becomes.
func (d *Delivery) jobOf(w *work, r queue.Result) queue.Job {
	job := events.JobFor(d.o.Queue, w.m.Event, w.m.Token, w.m.platform())
	job.Type, job.Guard = actorMark(w.event.Job.Actor), devices.GuardName(w.m.Token)
	job.Delay, job.Counts, job.Note = w.event.Claim.Wait(r), r.Counts, w.waiting(r)
	switch r.Outcome {
	case queue.Continue:
	case queue.Dead:
		w.m.Refused, w.m.RefusedSaid = r.Reason, r.Err
	default:
		w.m.Retrying, job.Counts = true, plus(job.Counts, events.CountRetrying, 1)
	}
	if r.Outcome == queue.Retry {
		job.Failures = 1
	}
	job.Payload = w.m.encode()
	return job
}
