package facts

import (
	"log/slog"
	"testing"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

// H1: a webhook turns its types of facts on, and they are off again when it is deleted.
func TestH1_WebhooksTurnTypesOn(t *testing.T) {
	t.Parallel()
	db := storetest.Record(t, storetest.SQLite(t))
	w := NewSwitch(db, slog.New(slog.DiscardHandler))
	load := func() {
		t.Helper()
		storetest.Must(t, w.Load(t.Context()))
	}
	load()
	if w.On(api.FactEventDone) {
		t.Error("a type is on that nobody wants")
	}
	r := &api.WebhookRequest{URL: "https://shop.example.com/", Types: []string{api.FactEventDone}, Max: new(int64(1)), State: api.WebhookOff}
	_, _, err := db.PutWebhook(t.Context(), "shop", r, api.Match{}, record.NewWebhook{Secret: "secret", Series: "series"})
	storetest.Must(t, err)
	load()
	if !w.On(api.FactEventDone) || w.On(api.FactNotificationFailed) {
		t.Error("not the type of the webhook is on")
	}
	set, err := w.Get(t.Context())
	if err != nil || len(set.Types) != 0 {
		t.Errorf("%+v %v", set, err)
	}
	storetest.Must(t, db.DeleteWebhook(t.Context(), "shop", api.Match{}))
	load()
	if w.On(api.FactEventDone) {
		t.Error("the type of a deleted webhook is on")
	}
}
