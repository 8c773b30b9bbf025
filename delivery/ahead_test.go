package delivery_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/delivery"
	"fanfare/store/devices"
	"fanfare/store/storetest"
)

// lookups counts the pipelines that read settings and do nothing else.
type lookups struct{ n atomic.Int64 }

func (l *lookups) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (l *lookups) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (l *lookups) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		names := map[string]bool{}
		for _, cmd := range cmds {
			names[cmd.Name()] = true
		}
		if names["hmget"] && !names["evalsha"] {
			l.n.Add(1)
		}
		return next(ctx, cmds)
	}
}

// TestSettingsAreReadWithTheStoring: who takes an event and targets it himself reads what
// its users want in the same round trip, and sees each change that came before.
func TestSettingsAreReadWithTheStoring(t *testing.T) {
	t.Parallel()
	p := setup(t, options{})
	p.mustDevice("bob", 1)
	p.mustDevice("eve", 2)
	own := &lookups{}
	p.db.Client().AddHook(own)
	spared := func() bool {
		before := own.n.Load()
		p.mustCounts(p.mustEnd(p.mustPost(hello("bob", "eve")), api.EventDone), counts{2, 2, 2, 0, 0})
		return own.n.Load() == before
	}
	storetest.Eventually(t, soon, "an event without a lookup of its own", spared)
	if err := p.first.devices.PutOptOut(t.Context(), "bob", hello().Type); err != nil {
		t.Fatal(err)
	}
	for range 20 { // some of them without a lookup
		r := p.mustEnd(p.mustPost(hello("bob", "eve")), api.EventDone)
		if p.mustCounts(r, counts{2, 1, 1, 0, 0}); r.Suppressed.OptedOut != 1 {
			t.Fatalf("report %+v", r)
		}
	}
}

// TestWhatWasReadAheadGrowsOld: nothing older than a second is taken for true.
func TestWhatWasReadAheadGrowsOld(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Redis(t).URL())
	ahead := devices.NewAhead([]devices.Query{{User: "bob", Type: "t"}})
	if err := db.Client().HSet(t.Context(), "ff:{u:bob}:settings", "d", "").Err(); err != nil {
		t.Fatal(err)
	}
	if delivery.TakesAhead(ahead) {
		t.Error("taken before it was read")
	}
	if err := db.Pipeline(t.Context(), 0, ahead.Commands(t.Context())...); err != nil {
		t.Fatal(err)
	}
	for age, want := range map[time.Duration]bool{0: true, 1100 * time.Millisecond: false} {
		ahead.Sent(time.Now().Add(-age))
		if got := delivery.TakesAhead(ahead); got != want {
			t.Errorf("taken after %v: %t", age, got)
		}
	}
}
