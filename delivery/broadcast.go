package delivery

import (
	"context"
	"time"

	"fanfare/api"
	"fanfare/delivery/transport"
	"fanfare/store/events"
)

// findChannel gives a notification that waited, or a dead letter that is tried again, the present channel of its broadcast: it
// may have got another one meanwhile. If this process knows of none, the channel stays, and APNs says what became of it.
func (d *Delivery) findChannel(w *work) {
	w.owner = time.Now()
	if d.o.Broadcasts == nil {
		return
	}
	known := d.o.Broadcasts.Known(api.ObjectOfBroadcast(w.m.Token))
	if known == nil || known.State != api.BroadcastOpen {
		return
	}
	b := events.BroadcastOf(known)
	w.m.Channel, w.m.Latest, w.m.Topic, w.m.Environment = b.Channel, b.Latest, b.Topic, b.Environment
	w.app = d.app(w.m)
}

// noteBroadcast notes that APNs took a broadcast.
func (d *Delivery) noteBroadcast(w *work) {
	if w.m.Channel != "" && d.o.Broadcasts != nil {
		d.o.Broadcasts.NoteSent(api.ObjectOfBroadcast(w.m.Token), w.Clock())
	}
}

// updateChannel records that APNs no longer knows a channel. If that cannot be written, the answer to the next update
// brings it again.
func (d *Delivery) updateChannel(ctx context.Context, w *work, a transport.Answer) {
	if a.Outcome != transport.DropDevice || d.o.Broadcasts == nil {
		return
	}
	w.group.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deviceWriteWithin)
		defer cancel()
		if err := d.o.Broadcasts.Lose(ctx, api.ObjectOfBroadcast(w.m.Token), w.m.Channel); err != nil {
			d.o.Logger.Warn("the loss of a channel was not written; the next answer brings it again", "reason", a.Reason, "error", err)
		}
	})
}
