package delivery

import (
	"context"
	"time"

	"fanfare/delivery/transport"
)

// start sends a notification without a goroutine that waits for the answer. It returns false, and
// handle has to send the notification, if the notification is not fit to be sent now.
func (d *Delivery) start(ctx context.Context, w *work) bool {
	if !d.fit(ctx, w) {
		return false
	}
	began := time.Now()
	w.group.Add(1)
	d.o.Sender.Start(ctx, w.m.notification(w.id, func() bool { return d.sendable(w) }), func(a transport.Answer) {
		defer w.group.Done()
		d.started(ctx, w, a, began)
	})
	return true
}

// fit tells, without waiting, whether a notification may be sent right now. It makes the checks that
// handle makes.
func (d *Delivery) fit(ctx context.Context, w *work) bool {
	if w.m.Refused != "" || w.retried() || !w.Fresh() {
		return false
	}
	if running, fresh := d.pauses.running(w.app); !running || !fresh {
		return false
	}
	if _, ended := d.ended(ctx, w); ended {
		return false
	}
	return d.backoff.wait(w.m.Token, time.Now()) == 0
}

// started takes the answer to a notification that start sent. A delivery is recorded at once. Any
// other answer is handled in its own goroutine, because other answers wait for this call to return.
func (d *Delivery) started(ctx context.Context, w *work, a transport.Answer, began time.Time) {
	if !withheld(a) {
		d.o.Metrics.answered(w.m.platform(), a, w.m.AcceptedAt)
	}
	if a.Outcome != transport.Delivered || time.Since(began) > slowSend {
		w.group.Go(func() { d.handleToken(ctx, w, &a, began) })
		return
	}
	w.took = a.Took
	d.finish(ctx, w, resultOf[a.Outcome](d, w, a))
	if d.storm.observe(d.names.of(w.app), w.m.User, a.Outcome) {
		w.group.Go(func() { d.stormed(ctx, w.app) })
	}
	d.leave(w)
	if next := d.next(w.m.Token); next != nil {
		d.proceed(ctx, w.group, next)
	}
}

// goOn handles an answer that start got: it sends again if the request was not written.
func (d *Delivery) goOn(ctx context.Context, w *work, a transport.Answer) {
	if withheld(a) {
		a = d.send(w)
	}
	d.handleAnswer(ctx, w, a)
}
