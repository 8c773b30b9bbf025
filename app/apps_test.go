package app

import (
	"context"
	"reflect"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/transport"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// configured is a sender with these apps.
type configured struct {
	transport.Sender
	apps map[string]error
}

func (c configured) Apps() map[string]error { return c.apps }
func (configured) Close() error             { return nil }

// N16: apps of the configuration are listed, and those that are paused, resume, or have something
// waiting.
func TestN16_TheListOfApps(t *testing.T) {
	t.Parallel()
	a := mustBuildApp(t)
	a.sender = configured{apps: map[string]error{"shop/sandbox": nil, "shop/fcm": nil, "*/production": nil}}
	storetest.Must(t, a.notificationQueue.Init(t.Context()))
	must := func(_ bool, err error) { t.Helper(); storetest.Must(t, err) }
	must(a.apps.PauseApp(t.Context(), "shop/production", "InvalidProviderToken"))
	must(a.apps.PauseApp(t.Context(), "news/webpush:push.example.com", "401 Unauthorized"))
	must(a.apps.ResumeApp(t.Context(), "news/webpush:push.example.com"))
	_, err := a.notificationQueue.Enqueue(t.Context(), queue.Job{Shard: 0, Payload: []byte("1")}, queue.Job{Shard: 3, Payload: []byte("2")})
	storetest.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- a.notificationQueue.Run(ctx, queue.Each(func(context.Context, *queue.Claimed) queue.Result {
			return queue.Result{Outcome: queue.Park, Parked: "gone/production"}
		}))
	}()
	waiting := func() int64 {
		counts, err := a.notificationQueue.ParkedCounts(t.Context())
		storetest.Must(t, err)
		return counts["gone/production"]
	}
	storetest.Eventually(t, time.Minute, "all to be parked", func() bool { return waiting() == 2 })
	cancel()
	storetest.Must(t, <-done)
	got, err := a.listApps(t.Context())
	storetest.Must(t, err)
	for i := range got {
		if got[i].Since != nil {
			if d := time.Since(got[i].Since.Time); d < -time.Minute || d > time.Minute {
				t.Errorf("%s since %v", got[i].App, d)
			}
			got[i].Since = nil
		} else if got[i].State != api.AppRunning {
			t.Errorf("%s has no time", got[i].App)
		}
	}
	want := []api.App{
		{App: "*/production", Topic: "*", Platform: "apns", Environment: "production", State: "running"},
		{App: "gone/production", Topic: "gone", Platform: "apns", Environment: "production", State: "running", Waiting: 2},
		{App: "news/webpush:push.example.com", Topic: "news", Platform: "webpush", State: "resuming", Reason: "401 Unauthorized"},
		{App: "shop/fcm", Topic: "shop", Platform: "fcm", State: "running"},
		{App: "shop/production", Topic: "shop", Platform: "apns", Environment: "production", State: "paused", Reason: "InvalidProviderToken"},
		{App: "shop/sandbox", Topic: "shop", Platform: "apns", Environment: "sandbox", State: "running"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
}
