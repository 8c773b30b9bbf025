package record_test

import (
	"encoding/json"
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
			w, created, err := db.PutWebhook(ctx, id, request, api.Match{}, record.NewWebhook{Secret: secret, Series: series})
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
		storetest.Must(t, db.DeleteWebhook(ctx, "b", api.Match{}))
		if version() == before {
			t.Error("a deletion does not raise the version")
		}
		storetest.Must(t, db.DeleteWebhook(ctx, "b", api.Match{}))
		_, err = db.Webhook(ctx, "b")
		storetest.WantCode(t, err, api.CodeNotFound)
		_, err = db.AddWebhookSecret(ctx, "b", "x")
		storetest.WantCode(t, err, api.CodeNotFound)
	})
}

// H7: the secret before the newest one signs for 24 h more. When the oldest has ended, it is gone and another can be made.
func TestH7_SecretsEnd(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		ctx := t.Context()
		request := &api.WebhookRequest{URL: "https://a.example.com/", Types: []string{"x"}, Max: new(int64(1)), State: api.WebhookOn}
		_, _, err := db.PutWebhook(ctx, "shop", request, api.Match{}, record.NewWebhook{Secret: "first", Series: "series"})
		storetest.Must(t, err)
		add := func(secret string) error {
			w, err := db.AddWebhookSecret(ctx, "shop", secret)
			if err == nil && w.OldSecretUntil.Sub(w.SecretAt.Time) != 24*time.Hour {
				t.Errorf("the one before %s signs until %v, and that was made at %v", secret, w.OldSecretUntil, w.SecretAt)
			}
			return err
		}
		// pass lets some hours pass for the secrets that were replaced.
		pass := func(hours int) {
			t.Helper()
			var text string
			storetest.Must(t, db.SQL().GetContext(ctx, &text, "SELECT old_secrets FROM webhooks"))
			var old []map[string]any
			storetest.Must(t, json.Unmarshal([]byte(text), &old))
			for _, one := range old {
				one["until"] = int64(one["until"].(float64)) - int64(hours)*time.Hour.Milliseconds()
			}
			changed, err := json.Marshal(old)
			storetest.Must(t, err)
			_, err = db.SQL().ExecContext(ctx, "UPDATE webhooks SET old_secrets = ?", string(changed))
			storetest.Must(t, err)
		}
		want := func(secrets ...string) {
			t.Helper()
			w, err := db.Webhook(ctx, "shop")
			storetest.Must(t, err)
			all, err := db.Webhooks(ctx)
			storetest.Must(t, err)
			if !slices.Equal(w.Secrets, secrets) || !slices.Equal(all[0].Secrets, secrets) || (w.OldSecretUntil == nil) != (len(secrets) == 1) {
				t.Errorf("%v and %v sign, not %v; the one before the newest until %v", w.Secrets, all[0].Secrets, secrets, w.OldSecretUntil)
			}
		}
		storetest.Must(t, add("second"))
		pass(12)
		storetest.Must(t, add("third"))
		pass(11)
		want("third", "second", "first")
		storetest.WantCode(t, add("fourth"), api.CodeTooManyNames)
		pass(1)
		want("third", "second")
		storetest.Must(t, add("fourth"))
		want("fourth", "third", "second")
		err = add("fifth")
		storetest.WantCode(t, err, api.CodeTooManyNames)
		if e, ok := errors.AsType[*api.Error](err); !ok || e.RetryAfter <= 11*time.Hour || e.RetryAfter > 12*time.Hour {
			t.Errorf("another secret is refused with %+v", err)
		}
		pass(24)
		want("fourth")
	})
}

// There are at most 100 webhooks, and one that is there can be changed then.
func TestWebhooksAreBounded(t *testing.T) {
	t.Parallel()
	db := storetest.Record(t, storetest.SQLite(t))
	request := &api.WebhookRequest{URL: "https://a.example.com/", Types: []string{"x"}, Max: new(int64(1)), State: api.WebhookOn}
	put := func(id string) error {
		_, _, err := db.PutWebhook(t.Context(), id, request, api.Match{}, record.NewWebhook{Secret: "secret", Series: "series"})
		return err
	}
	for n := range api.MaxWebhooks {
		storetest.Must(t, put(fmt.Sprint("w", n)))
	}
	storetest.WantCode(t, put("one-more"), api.CodeTooManyNames)
	request.URL = "https://b.example.com/"
	storetest.Must(t, put("w7"))
}

// A webhook is changed or removed only in a version for which the condition holds. Only what a PUT or 410 changes is another version,
// and a webhook that is made again has none that another one had.
func TestWebhooksAreChangedUnderConditions(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		ctx := t.Context()
		newest := record.NewWebhook{Secret: "secret", Series: "series"}
		put := func(url string, m api.Match, made record.NewWebhook) (*record.Webhook, error) {
			w, _, err := db.PutWebhook(ctx, "shop", &api.WebhookRequest{URL: url, Types: []string{"x"}, Max: new(int64(1)), State: api.WebhookOn}, m, made)
			return w, err
		}
		refused := func(err error, present *record.Webhook) {
			t.Helper()
			storetest.WantCode(t, err, api.CodeVersionMismatch)
			e, _ := errors.AsType[*api.Error](err)
			if present == nil {
				if len(e.Facts) != 0 {
					t.Errorf("refused with %v", e.Facts)
				}
				return
			}
			if shown, ok := e.Facts["webhook"].(*api.Webhook); !ok || shown.URL != present.URL || shown.Version != present.Version || e.Facts["version"] != present.Version {
				t.Errorf("refused with %v, not %+v", e.Facts, present)
			}
		}
		before := mustVersion(t, db, record.VersionWebhooks)
		_, err := put("https://a.example.com/", api.Match{Version: api.AnyVersion}, newest)
		refused(err, nil)
		refused(db.DeleteWebhook(ctx, "shop", api.Match{Version: 1}), nil)
		if _, err := put("https://a.example.com/", api.Match{}, record.NewWebhook{}); !errors.Is(err, record.ErrNewWebhook) {
			t.Errorf("made of nothing: %v", err)
		}
		if v := mustVersion(t, db, record.VersionWebhooks); v != before {
			t.Errorf("what was refused raised the version from %d to %d", before, v)
		}

		first, err := put("https://a.example.com/", api.Match{Absent: true}, newest)
		storetest.Must(t, err)
		_, err = put("https://b.example.com/", api.Match{Absent: true}, newest)
		refused(err, first)
		second, err := put("https://b.example.com/", api.Match{Version: first.Version}, record.NewWebhook{})
		storetest.Must(t, err)
		_, err = put("https://c.example.com/", api.Match{Version: first.Version}, newest)
		refused(err, second)
		refused(db.DeleteWebhook(ctx, "shop", api.Match{Version: first.Version}), second)

		_, err = db.AddWebhookSecret(ctx, "shop", "other")
		storetest.Must(t, err)
		storetest.Must(t, db.TouchWebhook(ctx, "shop"))
		same, err := put("https://b.example.com/", api.Match{}, newest)
		storetest.Must(t, err)
		if second.Version <= first.Version || same.Version != second.Version || !slices.Equal(same.Secrets, []string{"other", "secret"}) {
			t.Errorf("%+v after %+v and %+v", same, second, first)
		}
		storetest.Must(t, db.EndWebhook(ctx, same))
		ended, err := db.Webhook(ctx, "shop")
		if err != nil || ended.Version <= second.Version {
			t.Errorf("%+v %v", ended, err)
		}
		_, err = put("https://b.example.com/", api.Match{Version: second.Version}, newest)
		refused(err, ended)
		on, err := put("https://b.example.com/", api.Match{Version: ended.Version}, newest)
		if err != nil || on.Gone || on.Version <= ended.Version {
			t.Errorf("%+v %v", on, err)
		}

		storetest.Must(t, db.DeleteWebhook(ctx, "shop", api.Match{Version: on.Version}))
		again, err := put("https://a.example.com/", api.Match{Absent: true}, newest)
		if err != nil || again.Version <= on.Version {
			t.Errorf("%+v %v", again, err)
		}
	})
}
