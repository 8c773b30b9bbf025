package delivery

import (
	"context"
	"maps"
	"math/rand/v2"
	"time"

	"fanfare/delivery/transport"
	"fanfare/store/apps"
	"fanfare/store/queue"
)

const (
	// unparkStep is how many parked notifications move back at once; unparkDeep is how many a
	// shard may hold meanwhile.
	unparkStep = 100
	unparkDeep = 2000
	// resumeEvery is how often a resuming app's notifications move.
	resumeEvery = 50 * time.Millisecond
	// askedEvery is how often a process looks for probes that operators ask for while an app is
	// paused.
	askedEvery = time.Second
	// stormReason is the reason of a pause by the storm breaker.
	stormReason = "storm of bad device tokens"
)

// ProbeNow sends one notification of every paused app as a probe now, without waiting for the
// interval. It is called after the configuration was read again (SIGHUP), and does not block.
func (d *Delivery) ProbeNow() {
	select {
	case d.probeNow <- struct{}{}:
	default:
	}
}

// maySend reports whether a notification may be sent to its app now. A paused app gets one per
// interval in the whole cluster.
func (d *Delivery) maySend(ctx context.Context, w *work) bool {
	if d.pauses.app(ctx, w.app).State != apps.Paused {
		return true
	}
	ok, err := d.o.Apps.TakeProbe(ctx, w.app, d.o.ProbeEvery)
	if err != nil {
		d.o.Logger.Debug("no probe", "app", w.app, "error", err)
	}
	w.probe = ok
	return ok
}

// parking parks a notification, uncounted, until its app runs again. When parked notifications
// take all the memory that they may, the newest end here.
func (d *Delivery) parking(w *work) queue.Result {
	if d.o.Queue.MayPark(w.m.Token, w.enqueued, w.Clock()) {
		return queue.Result{Outcome: queue.Park, Parked: w.app}
	}
	if !d.parkedFull.Swap(true) {
		d.alarm(alarmParkedFull, "app", w.app)
	}
	return failed("app_paused")
}

// pause pauses an app for the whole cluster. An operator should look at it.
func (d *Delivery) pause(ctx context.Context, app, reason string) {
	first, err := d.pauses.change(app, apps.App{State: apps.Paused, Since: time.Now(), Reason: reason}, func() (bool, error) {
		return d.o.Apps.PauseApp(ctx, app, reason)
	})
	if err != nil {
		d.o.Logger.Warn("pause app", "app", app, "error", err)
	}
	if first || err != nil {
		d.alarm(alarmPaused, "app", app, "reason", reason)
	}
}

// resume lets a paused app run again when an answer shows that the service accepts its
// configuration.
func (d *Delivery) resume(ctx context.Context, w *work, a transport.Answer) {
	if !w.probe || !accepts(a, d.pauses.last(w.app).Reason) {
		return
	}
	was, err := d.pauses.change(w.app, apps.App{State: apps.Resuming, Since: time.Now()}, func() (bool, error) {
		return d.o.Apps.ResumeApp(ctx, w.app)
	})
	if err != nil {
		d.o.Logger.Warn("resume app", "app", w.app, "error", err)
	}
	if was {
		d.o.Logger.Info("app resumes", "app", w.app)
	}
	d.wake(w.app)
}

// accepts reports whether an answer proves that the app is configured correctly. A bad token
// proves it, too, unless bad tokens were the reason of the pause. A notification that was not sent proves nothing.
func accepts(a transport.Answer, pausedFor string) bool {
	if a.Status == 0 {
		return false
	}
	switch a.Outcome {
	case transport.Delivered, transport.FailMessage, transport.DropDevice, transport.OurBug, transport.BackoffDevice:
		return true
	case transport.SuspectDevice:
		return pausedFor != stormReason && !a.Alone()
	}
	return false
}

// appChanged updates the metrics with an app's state, and resets the app's storm breaker when it
// runs again.
func (d *Delivery) appChanged(app string, was, is apps.State) {
	name := d.names.of(app)
	// The difference is added, because several apps may share the name.
	d.o.Metrics.paused.WithLabelValues(name).Add(pausedGauge[is] - pausedGauge[was])
	if is == apps.Paused {
		d.wake("") // from now on watchApps looks for probes that operators ask for
	} else {
		d.storm.reset(name)
		d.o.Metrics.breaker.WithLabelValues(name).Set(0)
	}
}

// pausedGauge is an app's value in the metric.
var pausedGauge = map[apps.State]float64{apps.Paused: 1, apps.Resuming: 0.5}

// wake makes watchApps check an app's parked notifications soon.
func (d *Delivery) wake(app string) {
	select {
	case d.wakes <- app:
	default: // the next tick checks it
	}
}

// watchApps probes paused apps and moves back the parked notifications of resuming ones, until
// ctx ends. Without such apps it reads the states four times per interval. While an app is paused, it
// also looks each second for probes that operators ask for.
func (d *Delivery) watchApps(ctx context.Context) error {
	next, ask, answered := time.Now().Add(d.checkApps(ctx, true)), time.Now(), map[string]string{}
	for {
		until := next
		if d.pauses.somePaused() && ask.Before(next) {
			until = ask
		}
		timer := time.NewTimer(time.Until(until))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
			if until.Before(next) {
				d.probeAsked(ctx, answered)
				ask = time.Now().Add(askedEvery)
				break
			}
			next = time.Now().Add(d.checkApps(ctx, false))
		case <-d.probeNow:
			next = time.Now().Add(d.checkApps(ctx, true))
		case app := <-d.wakes: // brings the check of all apps forward, never back
			if soon := time.Now().Add(d.checkApp(ctx, app, d.pauses.last(app))); soon.Before(next) {
				next = soon
			}
		}
		timer.Stop()
	}
}

// probeAsked brings back one parked notification of each paused app for which an operator has asked for
// a probe since the last call. answered has the requests that need nothing more.
func (d *Delivery) probeAsked(ctx context.Context, answered map[string]string) {
	asked, err := d.o.Apps.Asked(ctx)
	if err != nil {
		d.o.Logger.Debug("probes were not read", "error", err)
		return
	}
	maps.DeleteFunc(answered, func(app, request string) bool { return asked[app] != request })
	for app, request := range asked {
		if answered[app] != request && d.pauses.last(app).State == apps.Paused && d.unparkOne(ctx, app) {
			answered[app] = request
		}
	}
}

// checkApps checks every app and returns when to do it again.
func (d *Delivery) checkApps(ctx context.Context, now bool) time.Duration {
	next := max(d.o.ProbeEvery/4, resumeEvery)
	all := d.pauses.refresh(ctx)
	if len(all) == 0 {
		d.parkedFull.Store(false)
	}
	for app, a := range all {
		if now && a.State == apps.Paused {
			if err := d.o.Apps.FreeProbe(ctx, app); err != nil {
				d.o.Logger.Debug("probe now", "app", app, "error", err)
			}
		}
		next = min(next, d.checkApp(ctx, app, a))
	}
	return next
}

// checkApp brings back one parked notification of a paused app, or the next parked notifications of a
// resuming app.
func (d *Delivery) checkApp(ctx context.Context, app string, a apps.App) time.Duration {
	switch a.State {
	case apps.Paused:
		d.unparkOne(ctx, app)
	case apps.Resuming:
		d.unparkStep(ctx, app)
		return resumeEvery
	}
	return max(d.o.ProbeEvery/4, resumeEvery)
}

// unparkOne brings back one notification, of any shard, for a probe. It returns false if Redis did not
// answer.
func (d *Delivery) unparkOne(ctx context.Context, app string) bool {
	shards := d.o.Queue.Shards()
	first := rand.IntN(shards)
	for n := range shards {
		moved, err := d.o.Queue.Unpark(ctx, (first+n)%shards, app, 1)
		if err != nil || moved > 0 {
			return err == nil
		}
	}
	return true
}

// unparkStep moves a bounded number back in every shard that has room. When none is left the app
// is running. Other processes may park more until they have read the new state; watchParked
// finds that.
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
		d.o.Queue.LookAgain(n, 2*pausesFresh) // by then every process has read the new state
	}
}

// watchParked brings back, until ctx ends, notifications that the queue's regular checks find parked
// although their app is not paused. This happens if a process parked them late, if the pause was
// never written, or if Redis lost it.
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

// bringBack moves back as many notifications as a shard may hold, and reports whether there may be more.
// If the app was paused again in the meantime, the process that claims them parks them again.
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
