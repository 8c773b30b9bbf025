package delivery

import (
	"context"
	"sync"
	"time"

	"fanfare/delivery/transport"
)

// chain holds the notifications to one token that wait for the send that is under way.
type chain struct {
	waiting []*work
	since   time.Time // when that send began
}

// slowSend is how long the send to one device may take before the notifications that wait for it are
// postponed. So a device that hangs holds up no other device.
const slowSend = 5 * time.Second

// begin sends a notification, or lets it wait until the present send to its token has ended. Claimed
// notifications and those that are sent with their event both come this way.
func (d *Delivery) begin(ctx context.Context, w *work) {
	d.mu.Lock()
	c, running := d.chains[w.m.Token]
	slow := running && time.Since(c.since) > slowSend
	switch {
	case !running:
		d.chains[w.m.Token] = &chain{since: time.Now()}
	case !slow:
		c.waiting = append(c.waiting, w)
	}
	d.mu.Unlock()
	switch {
	case slow:
		w.group.Go(func() { d.postponeSlow(ctx, w) })
	case !running:
		d.proceed(ctx, w.group, w)
	}
}

// proceed sends a token's next notification, in a goroutine if it may have to wait. The
// notification joins the wait group of the one before it, which is still open.
func (d *Delivery) proceed(ctx context.Context, g *sync.WaitGroup, w *work) {
	w.group = g
	if !d.start(ctx, w) {
		g.Go(func() { d.handleToken(ctx, w, nil, time.Now()) })
	}
}

// start sends a notification without a goroutine that waits for the answer. It returns false, and
// handle has to send the notification, if the notification is not fit to be sent now.
func (d *Delivery) start(ctx context.Context, w *work) bool {
	if !d.fit(ctx, w) {
		return false
	}
	began := time.Now()
	w.group.Add(1)
	d.o.Sender.Start(ctx, d.notification(w), func(a transport.Answer) {
		defer w.group.Done()
		d.started(ctx, w, a, began)
	})
	return true
}

// fit tells, without waiting, whether a notification may be sent right now. It makes the checks that
// handle makes.
func (d *Delivery) fit(ctx context.Context, w *work) bool {
	if w.m.Refused != "" || w.retried() || w.waited() || !w.Fresh() {
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

// started takes the answer to a notification that start sent. A delivery is recorded at once, unless the
// device is suspect. Any other answer is handled in its own goroutine, because other answers wait for this
// call to return.
func (d *Delivery) started(ctx context.Context, w *work, a transport.Answer, began time.Time) {
	if !withheld(a) {
		d.answered(w, a, began)
	}
	if a.Outcome != transport.Delivered || w.m.Suspect || time.Since(began) > slowSend {
		w.group.Go(func() { d.handleToken(ctx, w, &a, began) })
		return
	}
	w.accepted, w.took = true, a.Took
	d.finish(ctx, w, resultOf[a.Outcome](d, w, a))
	if w.m.Channel == "" && d.storm.observe(d.names.of(w.app), w.m.User, a.Outcome) {
		w.group.Go(func() { d.stormed(ctx, w.app) })
	}
	d.leave(w)
	if next := d.next(w.m.Token); next != nil {
		d.proceed(ctx, w.group, next)
	}
}

// handleToken handles a token's notifications until none is left. The first one began at began. a is
// its answer, if it has one already.
func (d *Delivery) handleToken(ctx context.Context, w *work, a *transport.Answer, began time.Time) {
	for ; w != nil; began = time.Now() {
		if a != nil {
			d.goOn(ctx, w, *a)
			a = nil
		} else {
			d.handle(ctx, w)
		}
		next := d.following(ctx, w, began)
		if next != nil {
			next.group = w.group
		}
		w = next
	}
}

// goOn handles an answer that start got: it sends again if the request was not written.
func (d *Delivery) goOn(ctx context.Context, w *work, a transport.Answer) {
	if withheld(a) {
		a = d.send(w)
	}
	d.handleAnswer(ctx, w, a)
}

// following ends a token's present notification and returns the next one. If the present one was
// slow, the notifications that waited for it are postponed.
func (d *Delivery) following(ctx context.Context, w *work, began time.Time) *work {
	token := w.m.Token
	d.leave(w)
	next := d.next(token)
	for next != nil && time.Since(began) > slowSend {
		d.postponeSlow(ctx, next)
		next = d.next(token)
	}
	return next
}

// leave returns a notification's room to its app's window.
func (d *Delivery) leave(w *work) { d.windows.leave(w.charged, w.hanging, w.accepted, w.took) }

// postponeSlow postpones a notification whose device is slow.
func (d *Delivery) postponeSlow(ctx context.Context, w *work) {
	d.postpone(ctx, w, "its device is slow")
	d.leave(w)
}

func (d *Delivery) next(token string) *work {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.chains[token]
	if len(c.waiting) == 0 {
		delete(d.chains, token)
		return nil
	}
	w := c.waiting[0]
	c.waiting[0] = nil // or the list would keep it until it is copied
	c.waiting, c.since = c.waiting[1:], time.Now()
	return w
}
