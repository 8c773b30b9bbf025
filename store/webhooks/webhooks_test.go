package webhooks_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
	"fanfare/store/webhooks"
)

// world is a database and a Redis, with the ends of two lanes.
type world struct {
	t     testing.TB
	redis *redisdb.DB
	rec   *record.DB
	ends  []string
	o     webhooks.Options
	*webhooks.Store
}

func setup(t testing.TB, db *redisdb.DB) *world {
	t.Helper()
	w := &world{t: t, redis: db, rec: storetest.Record(t, storetest.SQLite(t)), ends: []string{"7", "9"}}
	w.o = webhooks.Options{
		Record: w.rec, DB: db, Ends: func(context.Context) ([]string, error) { return w.ends, nil },
		Beside: func(lane int, name string) string { return fmt.Sprintf("ff:{test:%d}:%s", lane, name) },
	}
	w.Store = webhooks.New(w.o)
	return w
}

func someRequest() *api.WebhookRequest {
	return &api.WebhookRequest{URL: "https://shop.example.com/hook", Types: []string{"event.done"}}
}

func (w *world) mustPut(id string, r *api.WebhookRequest) (*api.Webhook, string) {
	w.t.Helper()
	all, secret, err := w.Put(w.t.Context(), id, r)
	storetest.Must(w.t, err)
	return all, secret
}

// after lists the positions of a webhook in both lanes.
func (w *world) after(id string) string {
	w.t.Helper()
	all, err := w.Get(w.t.Context(), id)
	storetest.Must(w.t, err)
	lanes, err := w.Progress(w.t.Context(), all.Series, 0, 1)
	storetest.Must(w.t, err)
	return lanes[0].After + " " + lanes[1].After
}

// H7: the secret of a webhook is told once, and has 32 random bytes.
func TestH7_TheSecretIsToldOnce(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Open(t, "embedded"))
	made, secret := w.mustPut("shop", someRequest())
	if made.Max != api.DefaultWebhookMax || made.State != api.WebhookOn {
		t.Errorf("%+v", made)
	}
	text, ok := strings.CutPrefix(secret, "whsec_")
	raw, err := base64.StdEncoding.DecodeString(text)
	key, err2 := webhooks.KeyOf(secret)
	if !ok || err != nil || err2 != nil || len(raw) != 32 || !bytes.Equal(raw, key) {
		t.Errorf("%q %v %v", secret, err, err2)
	}
	if _, again := w.mustPut("shop", someRequest()); again != "" {
		t.Errorf("a second answer has %q", again)
	}
	if _, other := w.mustPut("other", someRequest()); other == secret {
		t.Error("two webhooks have one secret")
	}
	_, second, err := w.AddSecret(t.Context(), "shop")
	if all, _ := w.Get(t.Context(), "shop"); err != nil || second == secret || len(all.Secrets) != 2 || all.Secrets[0] != second || all.Secrets[1] != secret {
		t.Errorf("%v %+v", err, all)
	}
	_, _, err = w.AddSecret(t.Context(), "none")
	storetest.WantCode(t, err, api.CodeNotFound)
}

// H4: a new webhook begins where the lanes end, and one that is changed goes on where it is. One that is deleted and made
// again is another one.
func TestH4_WhereAWebhookBegins(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		w.mustPut("shop", someRequest())
		if got := w.after("shop"); got != "7 9" {
			t.Errorf("begins at %s", got)
		}
		w.ends = []string{"70", "90"}
		other := someRequest()
		other.Types = []string{"event.done", "dead_letter.created"}
		w.mustPut("shop", other)
		if got := w.after("shop"); got != "7 9" {
			t.Errorf("goes on at %s", got)
		}
		storetest.Must(t, w.Delete(t.Context(), "shop"))
		w.mustPut("shop", other)
		if got := w.after("shop"); got != "70 90" {
			t.Errorf("begins again at %s", got)
		}
	})
}

// H8: without allowed networks a URL is https.
func TestH8_HTTPNeedsANetwork(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Open(t, "embedded"))
	r := someRequest()
	r.URL = "http://127.0.0.1:3000/"
	_, _, err := w.Put(t.Context(), "shop", r)
	storetest.WantCode(t, err, api.CodeValidation)
	w.o.Plain = true
	if _, _, err := webhooks.New(w.o).Put(t.Context(), "shop", r); err != nil {
		t.Error(err)
	}
}

// H4: a process learns of changes that others make.
func TestH4_ChangesAreRead(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Open(t, "embedded"))
	other := webhooks.New(w.o)
	load := func() (map[string]*record.Webhook, bool) {
		t.Helper()
		_, changed := other.All()
		storetest.Must(t, other.Load(t.Context()))
		all, _ := other.All()
		select {
		case <-changed:
			return all, true
		default:
			return all, false
		}
	}
	if all, changed := load(); len(all) != 0 || !changed {
		t.Errorf("%v %v", all, changed)
	}
	if _, changed := load(); changed {
		t.Error("nothing has changed")
	}
	_, secret := w.mustPut("shop", someRequest())
	if all, changed := load(); !changed || all["shop"].Secrets[0] != secret {
		t.Errorf("%v %v", all, changed)
	}
	storetest.Must(t, w.Delete(t.Context(), "shop"))
	if all, changed := load(); !changed || len(all) != 0 {
		t.Errorf("%v %v", all, changed)
	}
}

// Without the positions of a new webhook there is none.
func TestAWebhookIsNotMadeWithoutPositions(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Open(t, "embedded"))
	w.o.Ends = func(context.Context) ([]string, error) { return nil, api.Errorf(api.CodeUnavailable, "away") }
	_, _, err := webhooks.New(w.o).Put(t.Context(), "shop", someRequest())
	storetest.WantCode(t, err, api.CodeUnavailable)
	_, err = w.Get(t.Context(), "shop")
	storetest.WantCode(t, err, api.CodeNotFound)
}
