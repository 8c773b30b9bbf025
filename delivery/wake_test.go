package delivery

import (
	"context"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/apps"
	"fanfare/store/devices"
	"fanfare/store/events"
	"fanfare/store/events/render"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// TestWakesOfOneAppLeaveOthersTheirProbes: an app with many expiring notifications wakes its
// process all the time. Another app, which is paused, is probed even so.
func TestWakesOfOneAppLeaveOthersTheirProbes(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Redis(t).URL())
	q := queue.New(db, queue.Options{Name: "notifications", GroupRetention: time.Hour, MaxAge: -1})
	storetest.Must(t, q.Init(t.Context()))
	d := New(Options{
		Queue: q, Sender: silentSender(), Apps: apps.New(db, apps.Options{}), Devices: devices.New(db, nil, q, devices.Options{}), ProbeEvery: 500 * time.Millisecond,
	})
	device := &api.Device{Token: "ab", Topic: "com.example.paused", Environment: api.EnvProduction, RegisteredAt: api.AtMillis(1)}
	_, err := d.o.Apps.PauseApp(t.Context(), "com.example.paused/production", "refused")
	storetest.Must(t, err)
	event := queue.NewID(0, time.Now())
	w := d.workOf(event, &events.Job{AcceptedAt: time.Now().UnixMilli(), Push: render.Push{Payload: []byte("{}")}}, device)
	job := d.jobOf(w, queue.Result{Outcome: queue.Continue})
	job.Guard = "none"
	_, err = q.Enqueue(t.Context(), job)
	storetest.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	pace := time.NewTicker(time.Millisecond)
	defer pace.Stop()
	storetest.Eventually(t, time.Minute, "the paused app's notification to be delivered", func() bool {
		for range 20 {
			<-pace.C
			d.wake("com.example.other/production")
		}
		counts, err := q.Groups(t.Context(), event)
		storetest.Must(t, err)
		return counts[events.LabelDelivered] == 1
	})
	cancel()
	storetest.Must(t, <-done)
}
