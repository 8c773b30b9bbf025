package delivery

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/apps"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// counted counts the readings of one key, and of all keys.
type counted struct {
	key      string
	of, read atomic.Int64
}

func (c *counted) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (c *counted) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (c *counted) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if cmd.Name() == "hgetall" {
				c.read.Add(1)
				if slices.Contains(cmd.Args(), any(c.key)) {
					c.of.Add(1)
				}
			}
		}
		return next(ctx, cmds)
	}
}

// N16: processes look for probes that operators ask for while an app is paused, and never while none
// is.
func TestN16_NobodyLooksWhileNothingIsPaused(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Redis(t).URL())
	q := queue.New(db, queue.Options{Name: "notifications", MaxAge: -1})
	storetest.Must(t, q.Init(t.Context()))
	asked := &counted{key: "ff:{apps}:asked"}
	db.Client().AddHook(asked)
	d := New(Options{Queue: q, Sender: silentSender(), Apps: apps.New(db, apps.Options{}), ProbeEvery: 400 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.watchApps(ctx) }()
	storetest.Eventually(t, time.Minute, "the states were read for longer than a second", func() bool { return asked.read.Load() > 20 })
	if n := asked.of.Load(); n != 0 {
		t.Errorf("%d looks while nothing was paused", n)
	}
	const app = "com.example.app/production"
	change := func(f func(context.Context) (bool, error)) {
		t.Helper()
		if did, err := f(t.Context()); err != nil || !did {
			t.Fatal(did, err)
		}
	}
	change(func(ctx context.Context) (bool, error) { return d.o.Apps.PauseApp(ctx, app, "refused") })
	storetest.Eventually(t, time.Minute, "looks while an app is paused", func() bool { return asked.of.Load() >= 3 })
	change(func(ctx context.Context) (bool, error) { return d.o.Apps.ResumeApp(ctx, app) })
	storetest.Eventually(t, time.Minute, "the app runs", func() bool { return d.pauses.last(app).State == apps.Running })
	looks, reads := asked.of.Load(), asked.read.Load()
	storetest.Eventually(t, time.Minute, "more readings", func() bool { return asked.read.Load() > reads+20 })
	if n := asked.of.Load(); n > looks+1 { // one may have been under way
		t.Errorf("%d looks after the app ran again", n-looks)
	}
	cancel()
	storetest.Must(t, <-done)
}
