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
// notifications and those of one hop both come this way.
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
func (d *Delivery) leave(w *work) { d.windows.leave(w.charged, w.hanging, w.took) }

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
	c.waiting, c.since = c.waiting[1:], time.Now()
	return w
}
