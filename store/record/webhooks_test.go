package record_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

// A webhook is on record with its secrets. Each change raises the version, and the same again changes nothing.
func TestWebhooksOnRecord(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		ctx := t.Context()
		version := func() int64 {
			v, err := db.Version(ctx, record.VersionWebhooks)
			storetest.Must(t, err)
			return v
		}
		request := &api.WebhookRequest{URL: "https://a.example.com/?a=1&b=<2>", Types: []string{"event.done", "x"}, Max: new(int64(7)), State: api.WebhookOn}
		put := func(id, secret, series string) (*record.Webhook, bool) {
			t.Helper()
			w, created, err := db.PutWebhook(ctx, id, request, secret, series)
			storetest.Must(t, err)
			return w, created
		}
		for _, id := range []string{"b", "B"} {
			w, created := put(id, "first", "series-"+id)
			if !created || w.ID != id || w.URL != request.URL || !slices.Equal(w.Types, request.Types) || w.Max != 7 || w.State != api.WebhookOn || w.Series != "series-"+id ||
				!slices.Equal(w.Secrets, []string{"first"}) || w.OldSecretUntil != nil || time.Since(w.CreatedAt.Time).Abs() > time.Minute {
				t.Errorf("%+v %v", w, created)
			}
		}
		before := version()
		if w, created := put("b", "other", "other"); created || w.Series != "series-b" || w.Secrets[0] != "first" || version() != before {
			t.Errorf("the same again: %+v %v", w, created)
		}
		request.State = api.WebhookOff
		if w, created := put("b", "other", "other"); created || w.State != api.WebhookOff || w.Series != "series-b" || w.Secrets[0] != "first" || version() == before {
			t.Errorf("another state: %+v %v", w, created)
		}
		request.State = api.WebhookOn
		put("b", "", "")

		for _, secret := range []string{"second", "third"} {
			if _, err := db.AddWebhookSecret(ctx, "b", secret); err != nil {
				t.Fatal(err)
			}
		}
		_, err := db.AddWebhookSecret(ctx, "b", "fourth")
		storetest.WantCode(t, err, api.CodeTooManyNames)
		if e, ok := errors.AsType[*api.Error](err); !ok || e.RetryAfter < 23*time.Hour || e.RetryAfter > 24*time.Hour {
			t.Errorf("another secret is refused with %+v", err)
		}
		w, err := db.Webhook(ctx, "b")
		if err != nil || !slices.Equal(w.Secrets, []string{"third", "second", "first"}) || time.Until(w.OldSecretUntil.Time) < 23*time.Hour || time.Until(w.OldSecretUntil.Time) > 25*time.Hour {
			t.Errorf("%+v %v", w, err)
		}

		other, none := *w, *w
		other.Series, none.ID = "other", "none"
		before = version()
		storetest.Must(t, db.TouchWebhook(ctx, "b"))
		storetest.WantCode(t, db.TouchWebhook(ctx, "none"), api.CodeNotFound)
		if version() == before {
			t.Error("nobody is told to read it again")
		}
		for _, wrong := range []*record.Webhook{&other, &none, w} { // w was changed since it was read
			storetest.Must(t, db.EndWebhook(ctx, wrong))
		}
		if w, err = db.Webhook(ctx, "b"); err != nil || w.Gone || w.State != api.WebhookOn {
			t.Errorf("%+v %v", w, err)
		}
		storetest.Must(t, db.EndWebhook(ctx, w))
		if w, err = db.Webhook(ctx, "b"); err != nil || !w.Gone || w.State != api.WebhookOff {
			t.Errorf("%+v %v", w, err)
		}
		if w, _ := put("b", "", ""); w.Gone || w.State != api.WebhookOn {
			t.Errorf("%+v", w)
		}

		all, err := db.Webhooks(ctx)
		if err != nil || len(all) != 2 || all[0].ID != "B" || all[1].ID != "b" {
			t.Errorf("%+v %v", all, err)
		}
		before = version()
		storetest.Must(t, db.DeleteWebhook(ctx, "b"))
		if version() == before {
			t.Error("a deletion does not raise the version")
		}
		storetest.Must(t, db.DeleteWebhook(ctx, "b"))
		_, err = db.Webhook(ctx, "b")
		storetest.WantCode(t, err, api.CodeNotFound)
		_, err = db.AddWebhookSecret(ctx, "b", "x")
		storetest.WantCode(t, err, api.CodeNotFound)
	})
}

// There are at most 100 webhooks, and one that is there can be changed then.
func TestWebhooksAreBounded(t *testing.T) {
	t.Parallel()
	db := storetest.Record(t, storetest.SQLite(t))
	request := &api.WebhookRequest{URL: "https://a.example.com/", Types: []string{"x"}, Max: new(int64(1)), State: api.WebhookOn}
	put := func(id string) error {
		_, _, err := db.PutWebhook(t.Context(), id, request, "secret", "series")
		return err
	}
	for n := range api.MaxWebhooks {
		storetest.Must(t, put(fmt.Sprint("w", n)))
	}
	storetest.WantCode(t, put("one-more"), api.CodeTooManyNames)
	request.URL = "https://b.example.com/"
	storetest.Must(t, put("w7"))
}
