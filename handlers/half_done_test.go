package handlers_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"fanfare/api"
	"fanfare/handlers"
	"fanfare/store/storetest"
)

// B2: if the badge was changed, and showing it failed, the answer does not say that nothing happened. A repeat shows it.
func TestB2_ANumberThatIsNotShown(t *testing.T) {
	t.Parallel()
	w, away := setupWithout(t, "call_enqueue")
	put := call{method: "PUT", path: "/v1/users/bob/badge", body: `{"count":3,"clear":true}`}
	away.Store(true)
	w.do(put).wants(t, 503, problem(api.CodeUnknownOutcome, "*", `"retry_after_ms":1000`))
	if a := w.get("/v1/users/bob/badge"); !strings.HasPrefix(a.body, `{"count":3,`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	away.Store(false)
	if a := w.do(put); a.status != 200 {
		t.Errorf("again: %d %s", a.status, a.body)
	}
	if list := w.get("/v1/events?type=fanfare.badge").body; strings.Count(list, `"id":`) != 1 {
		t.Errorf("the events are %s", list)
	}
}

// C17: if the text was removed, and its pushes were not withdrawn, the answer does not say that nothing happened. A repeat
// withdraws them.
func TestC17_AMessageThatIsNotWithdrawn(t *testing.T) {
	t.Parallel()
	w, away := setupWithout(t, "set_add")
	w.mustChat("team", "ann", "bob")
	w.mustSend("team", "ann", 1, 1)
	away.Store(true)
	withdrawn := func(want int64) {
		t.Helper()
		if n := w.db.Client().XLen(t.Context(), "ff:{withdrawn}:events").Val(); n != want {
			t.Errorf("%d events are withdrawn, want %d", n, want)
		}
	}
	w.del("/v1/chats/team/messages/1").wants(t, 503, problem(api.CodeUnknownOutcome, "*", `"retry_after_ms":1000`))
	withdrawn(0)
	if a := w.get("/v1/chats/team/messages?user=bob"); !strings.Contains(a.body, `"redacted":true`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	away.Store(false)
	w.del("/v1/chats/team/messages/1").wants(t, 204, "")
	withdrawn(1)
}

// E1: if the operation has begun, and cannot be read, the answer does not say that nothing happened.
func TestE1_AnOperationThatIsNotShown(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *handlers.Options) {
		o.Record = storetest.Record(t, fmt.Sprintf("mysql://u:p@127.0.0.1:%d/x", storetest.FreePort(t)))
	})
	w.del("/v1/users/bob").wants(t, 503, problem(api.CodeUnknownOutcome, "*", `"retry_after_ms":1000`))
	if all, err := w.record.Operations(t.Context(), "", 10); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}

// setupWithout opens a server on a Redis that is out of reach for one script while away is true.
func setupWithout(t *testing.T, script string) (w *world, away *atomic.Bool) {
	t.Helper()
	away = &atomic.Bool{}
	db := storetest.Faulty(t, storetest.Open(t, storetest.Redis(t).URL()), func(name string, answered bool) error {
		if name == script && !answered && away.Load() {
			return storetest.ErrCut
		}
		return nil
	})
	return setupOn(t, db), away
}
