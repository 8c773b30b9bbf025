package targeting

import (
	"fanfare/api"
	"fanfare/delivery"
	"fanfare/store/events"
)

// chooseChannel makes the one notification of an event to a broadcast, unless an earlier owner of the event has. The
// token stands for the object, so that the notification keeps its id if the channel changes.
func (t *Targeting) chooseChannel(p *page) {
	b := t.channel(p.job.Audience.Channel)
	d := &api.Device{
		Token: api.BroadcastToken(b.Object), Platform: string(api.PlatformAPNs), Topic: b.Topic, Environment: b.Environment,
		State: api.DeviceActive, RegisteredAt: api.AtMillis(p.job.AcceptedAt),
	}
	if !p.marked(d) {
		p.found = append(p.found, delivery.Recipient{Device: d, Broadcast: b})
	}
}

// channel is the broadcast as it is now, if this process knows that it has a channel: since the event was accepted it
// may have got another one.
func (t *Targeting) channel(b *events.Broadcast) *events.Broadcast {
	if t.o.Broadcasts == nil {
		return b
	}
	if known := t.o.Broadcasts.Known(b.Object); known != nil && known.State == api.BroadcastOpen {
		return events.BroadcastOf(known)
	}
	return b
}
