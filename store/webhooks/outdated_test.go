package webhooks

import (
	"slices"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

// H4: a process that cannot read the webhooks for a while knows none, because they may have been deleted, until it can again.
func TestH4_AProcessWithoutTheDatabaseStops(t *testing.T) {
	t.Parallel()
	url := storetest.SQLite(t)
	cut, back := storetest.Record(t, url), storetest.Record(t, url)
	s := New(Options{Record: cut})
	if s.o.Outdated != time.Minute {
		t.Errorf("it knows them for %v", s.o.Outdated)
	}
	r := &api.WebhookRequest{URL: "https://shop.example.com/", Types: []string{api.FactEventDone}, Max: new(int64(1)), State: api.WebhookOn}
	_, _, err := cut.PutWebhook(t.Context(), "shop", r, api.Match{}, record.NewWebhook{Secret: "secret", Series: "series"})
	storetest.Must(t, err)
	storetest.Must(t, s.Load(t.Context()))
	known := func() int { all, _ := s.All(); return len(all) }
	storetest.Must(t, cut.Close())
	if err := s.Load(t.Context()); err == nil || known() != 1 {
		t.Errorf("right after the cut %d are known, %v", known(), err)
	}
	s.o.Outdated = time.Nanosecond
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

// H4: a database that does not answer puts that off no longer than one that refuses.
func TestH4_AProcessWhoseDatabaseHangsStops(t *testing.T) {
	t.Parallel()
	proxy, url := storetest.ProxyTo(t, storetest.MySQL(t))
	db, err := record.Open(t.Context(), record.Options{URL: url, Timeout: time.Hour})
	storetest.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	s := New(Options{Record: db, Outdated: time.Second})
	r := &api.WebhookRequest{URL: "https://shop.example.com/", Types: []string{api.FactEventDone}, Max: new(int64(1)), State: api.WebhookOn}
	_, _, err = db.PutWebhook(t.Context(), "shop", r, api.Match{}, record.NewWebhook{Secret: "secret", Series: "series"})
	storetest.Must(t, err)
	storetest.Must(t, s.Load(t.Context()))
	if all, _ := s.All(); len(all) != 1 {
		t.Fatalf("%d are known", len(all))
	}
	proxy.Hold(true)
	done := make(chan error, 1)
	go func() { done <- s.Load(t.Context()) }()
	select {
	case err := <-done:
		if all, _ := s.All(); err == nil || len(all) != 0 {
			t.Errorf("%d are known, %v", len(all), err)
		}
	case <-time.After(30 * time.Second):
		t.Error("it waits for an answer")
	}
}

// H7: a process learns within a minute that a secret has ended, though nobody has changed the webhook.
func TestH7_AProcessLearnsThatASecretEnded(t *testing.T) {
	t.Parallel()
	url := storetest.SQLite(t)
	rec := storetest.Record(t, url)
	s := New(Options{Record: rec})
	r := &api.WebhookRequest{URL: "https://shop.example.com/", Types: []string{api.FactEventDone}, Max: new(int64(1)), State: api.WebhookOn}
	_, _, err := rec.PutWebhook(t.Context(), "shop", r, api.Match{}, record.NewWebhook{Secret: "first", Series: "series"})
	storetest.Must(t, err)
	_, err = rec.AddWebhookSecret(t.Context(), "shop", "second")
	storetest.Must(t, err)
	want := func(secrets ...string) {
		t.Helper()
		storetest.Must(t, s.Load(t.Context()))
		if all, _ := s.All(); !slices.Equal(all["shop"].Secrets, secrets) {
			t.Errorf("%v sign, not %v", all["shop"].Secrets, secrets)
		}
	}
	want("second", "first")
	storetest.ExecSQLite(t, url, `UPDATE webhooks SET old_secrets = '[{"secret":"first","until":1}]'`)
	want("second", "first") // the database is not asked for all webhooks once a second
	_, changed := s.All()
	before := *s.known.Load()
	before.read = before.read.Add(-time.Minute)
	s.known.Store(&before)
	want("second")
	select {
	case <-changed:
	default:
		t.Error("nobody is told")
	}
}
