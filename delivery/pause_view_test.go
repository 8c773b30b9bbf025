package delivery

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/delivery/transport"
	"fanfare/store/apps"
	"fanfare/store/storetest"
)

// heldReading delays the answers to readings of the paused apps.
type heldReading struct{ read, release chan struct{} }

func (h heldReading) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (h heldReading) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (h heldReading) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if cmds[0].Name() == "hgetall" {
			h.read <- struct{}{}
			<-h.release
		}
		return err
	}
}

// TestAPauseOutlivesTheReadingsBeforeIt: a reading that began before an app was paused here does
// not undo the pause, however late it arrives. The storm breaker stays open.
func TestAPauseOutlivesTheReadingsBeforeIt(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "")
	held := heldReading{make(chan struct{}, 100), make(chan struct{})}
	db.Client().AddHook(held)
	d := New(Options{Sender: silentSender(), Apps: apps.New(db, apps.Options{})})
	app := transport.AppOf(api.PlatformAPNs, "com.example.app", "production")
	var reading, storm sync.WaitGroup
	reading.Go(func() { d.pauses.refresh(t.Context()) })
	<-held.read // Redis has answered: nothing is paused
	storm.Go(func() {
		for n := range 50 {
			d.watchStorm(t.Context(), app, fmt.Sprint(n), transport.SuspectDevice)
		}
	})
	storetest.Eventually(t, time.Minute, "the app to be paused", func() bool { return d.pauses.last(app).State == apps.Paused })
	const written = "written/while it was read"
	if _, err := d.pauses.change(written, apps.App{State: apps.Paused}, func() (bool, error) { return true, nil }); err != nil {
		t.Fatal(err)
	}
	close(held.release)
	reading.Wait()
	if a := d.pauses.last(written); a.State != apps.Paused {
		t.Errorf("an app whose pause was written meanwhile is %+v", a)
	}
	storm.Wait()
	mustBe := func(when string, state apps.State, open bool) {
		t.Helper()
		if a := d.pauses.last(app); a.State != state || d.storm.isOpen(app) != open {
			t.Errorf("%s the app is %+v, its breaker open: %v", when, a, d.storm.isOpen(app))
		}
	}
	mustBe("after an earlier reading", apps.Paused, true)
	d.pauses.refresh(t.Context())
	mustBe("after a later reading", apps.Paused, true)
	if a := d.pauses.last(written); a.State != apps.Running {
		t.Errorf("an app that Redis does not know to be paused is %+v", a)
	}
	if _, err := d.o.Apps.ResumeApp(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	d.pauses.refresh(t.Context())
	mustBe("resumed by another", apps.Resuming, false)
}
