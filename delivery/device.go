package delivery

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fanfare/api"
	"fanfare/delivery/transport"
)

const (
	// maxDeviceWrites is how many device states are written at once; deviceWriteWithin is how
	// long one write may take.
	maxDeviceWrites   = 32
	deviceWriteWithin = 5 * time.Second
	// alarmEvery is how often one alarm is logged; all are counted.
	alarmEvery = time.Minute
)

// updateDevice records what an answer says about the device. It runs after the result was given to the
// queue, so that a slow or absent SQL does not hold up sends. If the write fails, the answer to the
// next send leads to the same write again.
func (d *Delivery) updateDevice(ctx context.Context, w *work, a transport.Answer) {
	if judgesToken(a.Outcome) {
		d.watchStorm(ctx, w.app, w.m.User, a.Outcome)
	}
	drop := a.Outcome == transport.DropDevice && a.Drops(w.m.registeredAt())
	suspect := a.Outcome == transport.SuspectDevice && !d.storm.isOpen(d.names.of(w.app)) && d.pauses.last(w.app).Reason != stormReason
	if drop || suspect { // a write that waits for SQL must not hold room in the app's window
		w.group.Go(func() { d.markDevice(ctx, w, a, drop || w.m.Suspect) })
	}
}

// watchStorm pauses the app when the tokens of too many users were refused.
func (d *Delivery) watchStorm(ctx context.Context, app, user string, o transport.Outcome) {
	if d.storm.observe(d.names.of(app), user, o) {
		d.stormed(ctx, app)
	}
}

// stormed pauses an app whose storm breaker opened.
func (d *Delivery) stormed(ctx context.Context, app string) {
	d.o.Metrics.breaker.WithLabelValues(d.names.of(app)).Set(1)
	d.alarm(alarmStorm, "app", app)
	d.pause(ctx, app, stormReason, false)
}

// markDevice drops the device, or makes it suspect.
func (d *Delivery) markDevice(ctx context.Context, w *work, a transport.Answer, drop bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deviceWriteWithin)
	defer cancel()
	select {
	case d.deviceWrites <- struct{}{}:
		defer func() { <-d.deviceWrites }()
	case <-ctx.Done():
		return
	}
	var at api.Time
	if !a.GoneAt.IsZero() {
		at = api.At(a.GoneAt)
	}
	var err error
	if registered := api.AtMillis(w.m.RegisteredAt); drop {
		err = d.o.Devices.Drop(ctx, w.m.Token, a.Reason, at, registered)
	} else {
		err = d.o.Devices.MarkSuspect(ctx, w.m.Token, a.Reason, registered)
	}
	if err != nil {
		d.o.Logger.Warn("the state of a device was not written; the next answer brings it again", "reason", a.Reason, "error", err)
	}
}

// alarm counts a condition that an operator should look at, and logs it at most once a minute
// for each kind and app.
func (d *Delivery) alarm(kind string, args ...any) {
	d.o.Metrics.alarm(kind)
	key := kind
	if len(args) > 1 {
		if app, ok := args[1].(string); ok {
			key += " " + d.alarmNames.of(app)
		}
	}
	d.mu.Lock()
	loud := time.Since(d.alarmed[key]) > alarmEvery
	if loud {
		d.alarmed[key] = time.Now()
	}
	d.mu.Unlock()
	if loud {
		d.o.Logger.Error("alarm: "+kind, args...)
	}
}

// reasonOf names an answer by the service's reason, or else by the status or the outcome.
func reasonOf(a transport.Answer) string {
	switch {
	case a.Reason != "":
		return a.Reason
	case a.Status != 0:
		return "status_" + strconv.Itoa(a.Status)
	}
	return a.Outcome.String()
}

// pauseReason is why an app is paused, with the service's own words, which may name a missing permission.
func pauseReason(a transport.Answer) string {
	if a.Said == "" {
		return reasonOf(a)
	}
	return reasonOf(a) + ": " + a.Said
}

// saidOf renders an answer for people. It becomes the last error of a dead letter.
func saidOf(a transport.Answer) string {
	switch {
	case a.Err != nil:
		return a.Err.Error()
	case a.Status != 0:
		return strings.TrimSpace(fmt.Sprintf("%d %s %s", a.Status, a.Reason, a.Said))
	}
	return reasonOf(a)
}
