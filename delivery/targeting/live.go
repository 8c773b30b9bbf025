package targeting

import (
	"context"
	"slices"

	"fanfare/api"
	"fanfare/store/devices"
	"fanfare/store/events"
	"fanfare/store/queue"
)

// waitsForNewer is why a live event waits whose object has one that began before.
const waitsForNewer = "an earlier event of its object goes first"

// beginLive begins a live event, and looks whether a newer one of its object goes before a part, or the next page, of one. It
// returns false if the page was finished: the event is superseded, or has to wait. If some of it was sent, it goes on, and
// its other notifications end as superseded.
func (t *Targeting) beginLive(ctx context.Context, p *page) bool {
	if p.job.Live == nil || p.newer {
		return true
	}
	if t.o.Cancels == nil {
		p.c.Finish(queue.Result{Outcome: queue.Dead, Reason: "unknown_audience", Err: "this process cannot begin live events"})
		return false
	}
	b, err := t.begin(ctx, p)
	switch {
	case err != nil:
		t.postpone(p, "begin_live", err)
		return false
	case b.Wait > 0:
		p.c.Finish(queue.Result{Outcome: queue.Defer, Delay: b.Wait, Untouched: true, Reason: waitsForNewer})
		return false
	case !b.Superseded:
		return true
	case p.part(), len(p.job.Missed) > 0, t.partlyDone(ctx, p):
		p.newer = !p.large() // a page that was split before ends with its parts
		return true
	}
	p.c.Finish(queue.Result{Outcome: queue.Done, Report: p.job.ReportSuperseded(), ReportTTL: t.o.ReportTTL})
	return false
}

// begin begins the event of a page, or looks whether a newer one has begun since.
func (t *Targeting) begin(ctx context.Context, p *page) (b events.Begun, err error) {
	if p.job.Live.Stamp == 0 {
		return t.o.Cancels.BeginLive(ctx, p.event(), p.job)
	}
	if of := p.job.Supersedable(); of.Object != "" {
		b.Superseded, err = t.o.Cancels.Superseded(ctx, of)
	}
	return b, err
}

// leaveActivities leaves of the settings of a live event's users the activities that it is for, in place of their devices.
func (p *page) leaveActivities() {
	if p.job.Live == nil {
		return
	}
	for i := range p.targets {
		t := &p.targets[i]
		t.Devices = p.activitiesOf(t)
	}
}

// activitiesOf are those of a user's activities that the event is for. On Android an activity is one of the phone that is a
// device of the user, and nobody else's: it has the phone's token, state and guard.
func (p *page) activitiesOf(t *devices.Target) (list []api.Device) {
	for _, a := range t.Activities {
		if a.Live.Ended(p.c.Clock()) || !p.shows(a.Live) {
			continue
		}
		if phone, own, ok := api.LiveTarget(a.Target); ok && own == "" {
			at := slices.IndexFunc(t.Devices, func(d api.Device) bool { return d.Token == phone })
			if at < 0 {
				continue
			}
			live := a.Live
			a = t.Devices[at]
			a.Live = live
		}
		list = append(list, a)
	}
	return list
}

// shows reports whether the event is for an activity.
func (p *page) shows(l *api.DeviceLive) bool {
	if p.job.Live.Action == api.LiveStart {
		return l.Object == api.LiveStarts && l.AttributesType == p.job.Live.AttributesType
	}
	return l.Object == p.job.Object
}
