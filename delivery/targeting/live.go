package targeting

import (
	"context"
	"slices"

	"fanfare/api"
	"fanfare/store/devices"
	"fanfare/store/queue"
)

// waitsForOther is why a live event waits.
const waitsForOther = "another event of its object goes first"

// beginsLive reports whether this is a live event that has not begun.
func (p *page) beginsLive() bool { return p.job.Live != nil && p.job.Live.Stamp == 0 }

// beginLive begins a live event, which then goes on with its timestamp on record, so that whoever sends it, and however often,
// sends the same one. It ends the event if a newer one of its object goes before, and defers it if it has to wait. It waits for
// nothing but Redis, and is called beside the work on other events.
func (t *Targeting) beginLive(ctx context.Context, p *page) {
	if t.endCancelled(ctx, p) || t.endLate(ctx, p) {
		return
	}
	if t.o.Events == nil {
		p.c.Finish(queue.Result{Outcome: queue.Dead, Reason: "unknown_audience", Err: "this process cannot begin live events"})
		return
	}
	switch b, err := t.o.Events.BeginLive(ctx, p.event(), p.job); {
	case err != nil:
		t.postpone(p, "begin_live", err)
	case b.Wait > 0:
		p.c.Finish(queue.Result{Outcome: queue.Defer, Delay: b.Wait, Untouched: true, Reason: waitsForOther})
	case b.Superseded:
		t.end(p, queue.Result{Outcome: queue.Done, Report: p.job.ReportSuperseded(), ReportTTL: t.o.ReportTTL})
	default:
		p.c.Finish(queue.Result{Outcome: queue.Continue, Payload: p.job.Encode(), Untouched: true})
	}
}

// endSuperseded looks whether a newer event of the object has begun since this one did. It returns true if the page was
// finished. If some of it was sent, it goes on, and its other notifications end as superseded.
func (t *Targeting) endSuperseded(ctx context.Context, p *page) bool {
	of := p.job.Supersedable()
	if of.Object == "" || p.newer || t.o.Events == nil {
		return false
	}
	newer, err := t.o.Events.Superseded(ctx, of)
	switch {
	case err != nil:
		t.postpone(p, "begin_live", err)
	case !newer:
		return false
	case p.part(), len(p.job.Missed) > 0, t.partlyDone(ctx, p):
		p.newer = !p.large() // a page that was split before ends with its parts
		return false
	default:
		t.end(p, queue.Result{Outcome: queue.Done, Report: p.job.ReportSuperseded(), ReportTTL: t.o.ReportTTL})
	}
	return true
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

// activitiesOf are those of a user's activities that the event is for. On FCM an activity is one of a phone that is a device
// of the user, and nobody else's. That of an Android phone has the phone's token, state and guard.
func (p *page) activitiesOf(t *devices.Target) (list []api.Device) {
	for _, a := range t.Activities {
		if a.Live.Ended(p.c.Clock()) || !p.shows(a.Live) {
			continue
		}
		if phone, own, ok := api.LiveTarget(a.Target); ok {
			at := slices.IndexFunc(t.Devices, func(d api.Device) bool { return d.Token == phone })
			if at < 0 {
				continue
			}
			if own == "" {
				live := *a.Live
				live.Token = a.Token
				a = t.Devices[at]
				a.Live = &live
			}
		}
		list = append(list, a)
	}
	return list
}

// endsLive reports whether the event ends activities, whatever their users wish by now: they would go on showing an old state.
func (p *page) endsLive() bool { return p.job.Live != nil && p.job.Live.Action == api.LiveEnd }

// shows reports whether the event is for an activity.
func (p *page) shows(l *api.DeviceLive) bool {
	if p.job.Live.Action == api.LiveStart {
		return l.Object == api.LiveStarts && l.AttributesType == p.job.Live.AttributesType
	}
	return l.Object == p.job.Object
}
