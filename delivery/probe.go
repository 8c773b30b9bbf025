package delivery

import (
	"context"
	"math/rand/v2"
	"time"

	"fanfare/delivery/transport"
	"fanfare/store/apps"
	"fanfare/store/queue"
)

const (
	// unparkStep is how many parked notifications move back at once, and
	// unparkDeep how many a shard may hold while they do.
	unparkStep = 100
	unparkDeep = 2000
	// resumeEvery is how often a resuming app's notifications move.
	resumeEvery = 50 * time.Millisecond
	// stormReason is the reason of a pause by the storm breaker.
	stormReason = "storm of bad device tokens"
)

// ProbeNow lets every paused app try one notification at once, whatever the
// interval: after the configuration was read again (SIGHUP). It does not wait.
func (d *Delivery) ProbeNow() {
	select {
	case d.probeNow <- struct{}{}:
	default:
	}
}

// mayPass tells whether a notification's app takes it now. A paused app takes
// one per interval in the whole cluster.
func (d *Delivery) mayPass(ctx context.Context, w *work) bool {
	app := w.m.app()
	if d.pauses.app(ctx, app).State != apps.Paused {
		return true
	}
	ok, err := d.o.Apps.TakeProbe(ctx, app, d.o.ProbeEvery)
	if err != nil {
		d.o.Logger.Debug("no probe", "app", app, "error", err)
	}
	w.probe = ok
	return ok
}

// park puts a notification aside until its app runs again, uncounted.
func (d *Delivery) park(ctx context.Context, w *work) {
	d.finish(ctx, w, queue.Result{Outcome: queue.Park, Parked: w.m.app(), Reason: "its app is paused"})
}

// pause stops an app for the whole cluster.
func (d *Delivery) pause(ctx context.Context, app, reason string) {
	d.pauses.set(app, apps.App{State: apps.Paused, Since: time.Now(), Reason: reason})
	first, err := d.o.Apps.PauseApp(ctx, app, reason)
	if err != nil {
		d.o.Logger.Warn("pause app", "app", app, "error", err)
	}
	if first || err != nil {
		d.alarm("app_paused", "app", app, "reason", reason)
	}
}

// reopen lets a paused app run again when an answer shows that APNs takes its
// configuration.
func (d *Delivery) reopen(ctx context.Context, w *work, a transport.Answer) {
	app := w.m.app()
	if !w.probe || !accepts(a, d.pauses.last(app).Reason) {
		return
	}
	d.pauses.set(app, apps.App{State: apps.Resuming, Since: time.Now()})
	was, err := d.o.Apps.ResumeApp(ctx, app)
	if err != nil {
		d.o.Logger.Warn("resume app", "app", app, "error", err)
	}
	if was {
		d.o.Logger.Info("app resumes", "app", app)
	}
	d.nudge(app)
}

// accepts tells whether an answer proves that the app is configured well. A bad
// token proves it unless bad tokens were the reason of the pause.
func accepts(a transport.Answer, pausedFor string) bool {
	switch a.Outcome {
	case transport.Delivered, transport.FailMessage, transport.DropDevice, transport.OurBug, transport.BackoffDevice:
		return true
	case transport.SuspectDevice:
		return pausedFor != stormReason
	}
	return false
}

// appChanged follows an app's state in the metrics; when it runs again its
// storm breaker starts afresh.
func (d *Delivery) appChanged(app string, _, is apps.State) {
	d.o.Metrics.paused.WithLabelValues(app).Set(map[apps.State]float64{apps.Paused: 1, apps.Resuming: 0.5}[is])
	if is != apps.Paused {
		d.storm.reset(app)
		d.o.Metrics.breaker.WithLabelValues(app).Set(0)
	}
}

// nudge asks watchApps to look at an app's parked notifications soon.
func (d *Delivery) nudge(app string) {
	select {
	case d.nudges <- app:
	default: // the next tick will
	}
}

// watchApps probes paused apps and moves back what resuming ones have parked,
// until ctx ends. A process that has none asks four times per interval.
func (d *Delivery) watchApps(ctx context.Context) error {
	pause := d.lookAfterApps(ctx, true)
	for {
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
			pause = d.lookAfterApps(ctx, false)
		case <-d.probeNow:
			pause = d.lookAfterApps(ctx, true)
		case app := <-d.nudges:
			pause = d.lookAfter(ctx, app, d.pauses.last(app))
		}
		timer.Stop()
	}
}

// lookAfterApps does one round and says when the next is due.
func (d *Delivery) lookAfterApps(ctx context.Context, now bool) time.Duration {
	next := max(d.o.ProbeEvery/4, resumeEvery)
	all := d.pauses.refresh(ctx)
	for app, a := range all {
		if now && a.State == apps.Paused {
			if err := d.o.Apps.FreeProbe(ctx, app); err != nil {
				d.o.Logger.Debug("probe now", "app", app, "error", err)
			}
		}
		next = min(next, d.lookAfter(ctx, app, a))
	}
	return next
}

// lookAfter brings back one parked notification of a paused app, or a step of
// those of a resuming one.
func (d *Delivery) lookAfter(ctx context.Context, app string, a apps.App) time.Duration {
	switch a.State {
	case apps.Paused:
		d.unparkOne(ctx, app)
	case apps.Resuming:
		d.unparkStep(ctx, app)
		return resumeEvery
	}
	return max(d.o.ProbeEvery/4, resumeEvery)
}

// unparkOne brings back one notification, of any shard, for a probe.
func (d *Delivery) unparkOne(ctx context.Context, app string) {
	shards := d.o.Queue.Shards()
	first := rand.IntN(shards)
	for n := range shards {
		moved, err := d.o.Queue.Unpark(ctx, (first+n)%shards, app, 1)
		if err != nil || moved > 0 {
			return
		}
	}
}

// unparkStep moves a bounded number back in every shard that has room. When
// none is left the app is simply running. What others park after that, because
// they still think that it is paused, watchParked finds.
func (d *Delivery) unparkStep(ctx context.Context, app string) {
	left := false
	for n := range d.o.Queue.Shards() {
		if d.o.Queue.Depth(n) > unparkDeep {
			left = true
			continue
		}
		moved, err := d.o.Queue.Unpark(ctx, n, app, unparkStep)
		left = left || err != nil || moved > 0
	}
	if left {
		return
	}
	if err := d.o.Apps.ForgetApp(ctx, app); err != nil {
		return
	}
	for n := range d.o.Queue.Shards() {
		d.o.Queue.LookAgain(n, 2*pausesFresh) // by then everybody has noticed
	}
}

// watchParked brings back, until ctx ends, what the regular looks at the shards
// find parked under an app that is not paused. However it got there, nothing
// stays: a process may park late, a pause may never have been written, and its
// note may be lost.
func (d *Delivery) watchParked(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case p := <-d.o.Queue.ParkedNames():
			if d.pauses.runs(ctx, p.Name) && d.bringBack(ctx, p) {
				d.o.Queue.LookAgain(p.Shard, pausesFresh)
			}
		}
	}
}

// bringBack moves as many back as a shard may hold and tells whether there may
// be more. One that is moved although its app was paused meanwhile is parked
// again by whoever claims it.
func (d *Delivery) bringBack(ctx context.Context, p queue.ParkedName) (more bool) {
	for range unparkDeep / unparkStep {
		if d.o.Queue.Depth(p.Shard) > unparkDeep {
			break
		}
		moved, err := d.o.Queue.Unpark(ctx, p.Shard, p.Name, unparkStep)
		if err != nil || moved < unparkStep {
			return false
		}
	}
	return true
}
