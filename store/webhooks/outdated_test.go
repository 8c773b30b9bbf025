package webhooks

import (
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// H4: a process that cannot read the webhooks for a while knows none, because they may have been deleted, until it can again.
func TestH4_AProcessWithoutTheDatabaseStops(t *testing.T) {
	t.Parallel()
	url := storetest.SQLite(t)
	cut, back := storetest.Record(t, url), storetest.Record(t, url)
	s := New(Options{Record: cut})
	r := &api.WebhookRequest{URL: "https://shop.example.com/", Types: []string{api.FactEventDone}, Max: new(int64(1)), State: api.WebhookOn}
	_, _, err := cut.PutWebhook(t.Context(), "shop", r, "secret", "series")
	storetest.Must(t, err)
	storetest.Must(t, s.Load(t.Context()))
	known := func() int { all, _ := s.All(); return len(all) }
	storetest.Must(t, cut.Close())
	if err := s.Load(t.Context()); err == nil || known() != 1 {
		t.Errorf("right after the cut %d are known, %v", known(), err)
	}
	s.outdated = time.Nanosecond
	_, changed := s.All()
	for range 2 {
		if err := s.Load(t.Context()); err == nil || known() != 0 {
			t.Errorf("later %d are known, %v", known(), err)
		}
	}
	select {
	case <-changed:
	default:
		t.Error("nobody is told")
	}
	s.o.Record = back
	if err := s.Load(t.Context()); err != nil || known() != 1 {
		t.Errorf("with the database %d are known, %v", known(), err)
	}
}
