package facts

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// H1: processes follow the types that are on; one that does not know them, or not any more, tells all.
func TestH1_InDoubtAllIsTold(t *testing.T) {
	t.Parallel()
	db := storetest.Record(t, storetest.SQLite(t))
	storetest.Must(t, db.Migrate(t.Context()))
	w := NewSwitch(db, slog.New(slog.DiscardHandler))
	if !w.On(api.FactEventDone) || !w.On("any") || w.OfQueue("notifications")() != "le" || w.OfQueue("events")() != "le" || w.OfQueue("jobs")() != "l" {
		t.Error("before the types were read, not all are told")
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = w.Run(ctx) }()
	follows := func(what string, is func() bool) {
		t.Helper()
		storetest.Eventually(t, Known, what, is)
	}
	follows("none is on", func() bool { return !w.On(api.FactEventDone) && w.OfQueue("notifications")() == "" })
	set, err := w.Put(t.Context(), []string{api.FactNotificationFailed})
	storetest.Must(t, err)
	if ahead := time.Until(set.Since.Time); ahead < Known-2*time.Second || ahead > Known+time.Second {
		t.Errorf("none is missing from %v on", ahead)
	}
	follows("one is on", func() bool { return w.On(api.FactNotificationFailed) })
	if w.On(api.FactEventDone) || w.OfQueue("notifications")() != "l" || w.OfQueue("events")() != "" {
		t.Error("another type is told, too")
	}
	stop()
	<-done // from now on it cannot read them
	if w.On(api.FactEventDone) {
		t.Error("it is in doubt at once")
	}
	storetest.Eventually(t, soon, "it is in doubt", func() bool { return w.On(api.FactEventDone) && w.OfQueue("events")() == "le" })
	if inDoubt+pollEvery >= Known {
		t.Error("a process may not know of a type when none of its facts may be missing")
	}
}
