package delivery

import (
	"context"
	"slices"
	"strings"
	"time"

	"fanfare/store/queue"
)

const (
	// togetherFor is how old a part of a large audience gets before the notifications to the apps that have
	// room leave without the others. An app that hangs is not waited for.
	togetherFor = time.Second
	// mostTogether is how many notifications ask for room together: those of a part to all apps, and those of any other event to one
	// app. To an app that is slow it may be as few as leastTogether: more might never become free together.
	mostTogether, leastTogether = 250, 25
	// mostApart is how many notifications of an event to one app become jobs of their own because the app has no room. With
	// more of them the event waits, as a part does, so that it takes little more of Redis than it did before.
	mostApart = 4
)

// Shares are the numbers of devices, by app, for which an event needs room in the apps' windows.
type Shares []share

// MayTry reports whether an event, or a part of a large audience, that came then would have room for one of these shares now, or,
// unless it is a part, would wait for that in the process.
func (d *Delivery) MayTry(part bool, came time.Time, s Shares) bool {
	return d.windows.mayTry(part, came, s...)
}

// Hang reports whether all of the shares' apps have stopped answering.
func (d *Delivery) Hang(s Shares) bool { return d.windows.hanging(s) == len(s) }

// CountNoRoom counts that an event, a part or a notification waits in its queue because these apps have no room.
func (d *Delivery) CountNoRoom(s Shares) {
	for _, one := range s {
		d.o.Metrics.noRoom.WithLabelValues(d.names.of(one.App)).Inc()
	}
}

// sendPieces sends an event's notifications, or lets them wait. Those of a part go together; those of any other event by their
// app, so that none waits for the room of another app.
func (d *Delivery) sendPieces(ctx context.Context, e *Event, works []*work) {
	if !e.part() {
		slices.SortStableFunc(works, func(a, b *work) int { return strings.Compare(a.charged, b.charged) })
	}
	for len(works) > 0 {
		n := min(len(works), mostTogether)
		if !e.part() {
			n = d.together(works)
		}
		d.sendPiece(ctx, e, works[:n])
		works = works[n:]
	}
}

// together is how many of an event's notifications, which are sorted by app, ask for room together. A few that would be left of those
// to the app go with the others.
func (d *Delivery) together(works []*work) int {
	n := slices.IndexFunc(works, func(w *work) bool { return w.charged != works[0].charged })
	if n < 0 {
		n = len(works)
	}
	if n <= leastTogether {
		return n
	}
	if most := min(max(d.windows.soon(works[0].charged)/2, leastTogether), mostTogether); n > most+mostApart {
		n = most
	}
	return n
}

// sendPiece sends some of an event's notifications, or lets them wait in the process until their apps' windows have
// room, if there will be room in time.
func (d *Delivery) sendPiece(ctx context.Context, e *Event, piece []*work) {
	shares := sharesOf(piece)
	if d.windows.take(e.part(), shares...) {
		d.beginAll(ctx, e, piece)
		return
	}
	e.Group.Add(1)
	enter := func() {
		e.Group.Go(func() { d.beginAll(ctx, e, piece) })
		e.Group.Done()
	}
	refuse := func() {
		e.Group.Go(func() { d.sendSome(ctx, e, piece, shares) })
		e.Group.Done()
	}
	switch taken, refused := d.windows.takeOrWait(&waiter{shares: shares, part: e.part(), came: e.Claim.EnqueuedAt, enter: enter, refuse: refuse}); {
	case taken:
		enter()
	case refused:
		refuse()
	}
}

// sendSome is called when the apps of a piece do not all have room. The notifications of a part to apps with room are sent
// if another app hangs or the part has waited for long. The others stay in the queue as the event or the part. Few of an
// event, and those of what may not wait, become jobs of their own.
func (d *Delivery) sendSome(ctx context.Context, e *Event, piece []*work, shares Shares) {
	var taken Shares
	if e.part() && len(shares) > 1 && (e.Claim.Clock().Sub(e.Claim.EnqueuedAt) > togetherFor || d.windows.hanging(shares) > 0) {
		taken = d.windows.takeSome(shares)
	}
	var now, left []*work
	for _, w := range piece {
		if slices.ContainsFunc(taken, func(s share) bool { return s.App == w.charged }) {
			now = append(now, w)
		} else {
			left = append(left, w)
		}
	}
	if len(now) > 0 {
		d.beginAll(ctx, e, now)
	}
	if len(left) == 0 {
		return
	}
	lacking := slices.DeleteFunc(shares, func(s share) bool { return slices.Contains(taken, s) })
	d.CountNoRoom(lacking)
	if e.GiveBack != nil && (e.part() || len(left) > mostApart) {
		e.leave(len(left), lacking)
		return
	}
	d.storeApart(ctx, e, left)
}

// storeApart turns notifications into jobs, and ends those that came too late or are cancelled.
func (d *Delivery) storeApart(ctx context.Context, e *Event, works []*work) {
	d.begun(e, works)
	var wait []*work
	for _, w := range works {
		if r, ended := d.ended(ctx, w); ended && r.Outcome == queue.Done {
			d.targeted(w)
			d.endWithEvent(ctx, w, r)
		} else {
			wait = append(wait, w)
		}
	}
	if len(wait) > 0 {
		d.store(ctx, queue.Result{Outcome: queue.Defer, Reason: WindowFull}, wait...)
	}
}
