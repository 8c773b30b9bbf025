package webhooks_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

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
	facts [2][]api.Fact
	away  error
	asked func() // is called when somebody asks for the ends
	o     webhooks.Options
	*webhooks.Store
}

func setup(t testing.TB, db *redisdb.DB) *world {
	t.Helper()
	w := &world{t: t, redis: db, rec: storetest.Record(t, storetest.SQLite(t)), ends: []string{"7", "9"}}
	w.o = webhooks.Options{
		Record: w.rec, DB: db, Feed: w,
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
	all, secret, err := w.Put(w.t.Context(), id, r, api.Match{})
	storetest.Must(w.t, err)
	return all, secret
}

func (w *world) Lanes() int { return 2 }

func (w *world) Ends(context.Context) ([]string, error) {
	if w.asked != nil {
		w.asked()
	}
	return w.ends, w.away
}

func (w *world) End(_ context.Context, lane int) (string, error) { return w.ends[lane], w.away }

// ReadLane reads one fact. A position is the number of facts before it.
func (w *world) ReadLane(_ context.Context, lane int, after string, types func(string) bool, _, _ int) ([]api.Fact, string, int64, error) {
	n, err := strconv.Atoi(after)
	if err != nil || n >= len(w.facts[lane]) {
		return nil, after, 0, err
	}
	next := strconv.Itoa(n + 1)
	if f := w.facts[lane][n]; types(f.Type) {
		return []api.Fact{f}, next, 0, nil
	}
	return nil, next, 0, nil
}

// Oldest is not sure about a lane of which five facts and none of the types follow.
func (w *world) Oldest(_ context.Context, after []string, types func(string) bool) (since time.Time, sure bool, err error) {
	sure = true
	for lane, text := range after {
		n, err := strconv.Atoi(text)
		if err != nil {
			return since, false, err
		}
		for i, f := range w.facts[lane][min(n, len(w.facts[lane])):] {
			if types(f.Type) || i == 4 {
				if since.IsZero() || f.At.Before(since) {
					since, sure = f.At.Time, types(f.Type)
				}
				break
			}
		}
	}
	return since, sure, nil
}

func (*world) Between(string, string) int64 { return 0 }

func (w *world) Join(context.Context) (<-chan struct{}, func()) { return nil, func() {} }

func (w *world) PositionOf(lanes []string) (string, error) { return strings.Join(lanes, " "), nil }

func (w *world) LanesOf(_ context.Context, position string) ([]string, error) {
	return strings.Split(position, " "), nil
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
		storetest.Must(t, w.Delete(t.Context(), "shop", api.Match{}))
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
	_, _, err := w.Put(t.Context(), "shop", r, api.Match{})
	storetest.WantCode(t, err, api.CodeValidation)
	w.o.Plain = true
	if _, _, err := webhooks.New(w.o).Put(t.Context(), "shop", r, api.Match{}); err != nil {
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
	storetest.Must(t, w.Delete(t.Context(), "shop", api.Match{}))
	if all, changed := load(); !changed || len(all) != 0 {
		t.Errorf("%v %v", all, changed)
	}
}

// Without the positions of a new webhook there is none.
func TestAWebhookIsNotMadeWithoutPositions(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Open(t, "embedded"))
	w.away = api.Errorf(api.CodeUnavailable, "away")
	_, _, err := webhooks.New(w.o).Put(t.Context(), "shop", someRequest(), api.Match{})
	storetest.WantCode(t, err, api.CodeUnavailable)
	_, err = w.Get(t.Context(), "shop")
	storetest.WantCode(t, err, api.CodeNotFound)
}

// H5: the status of a webhook is that of all its lanes: the latest answer, the longest failure, the oldest fact that was
// not taken, and all that was missed.
func TestH5_Status(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		w.ends = []string{"0", "0"}
		w.mustPut("shop", someRequest())
		status := func() *api.WebhookStatus {
			t.Helper()
			s, err := w.Status(t.Context(), "shop")
			storetest.Must(t, err)
			return s
		}
		if s := status(); s.Position != "0 0" || s.LagMS != 0 || s.LastAnswer != nil || s.FailingSince != nil || s.ID != "shop" {
			t.Errorf("%+v", s)
		}
		all, err := w.Get(t.Context(), "shop")
		storetest.Must(t, err)
		note := func(lane int, to string, code int, gap int64) {
			t.Helper()
			ok, err := w.Note(t.Context(), webhooks.Step{Series: all.Series, Lane: lane, From: "0", To: to, Answer: &api.WebhookAnswer{Status: code}, Taken: code == 200, Gap: gap})
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
		}
		minute := api.At(time.Now().Add(-time.Minute))
		w.facts[1] = []api.Fact{{Type: "event.done"}, {Type: "other"}, {Type: "event.done", At: minute}}
		w.facts[0] = []api.Fact{{Type: "event.done", At: api.At(time.Now())}}
		note(1, "1", 200, 7)
		if s := status(); s.Position != "0 1" || s.LagMS < 59_000 || s.LagMS > 600_000 || s.LastAnswer.Status != 200 || s.FailingSince != nil || s.Gap != 7 {
			t.Errorf("%+v", s)
		}
		note(0, "0", 500, 0)
		if s := status(); s.LastAnswer.Status != 500 || s.FailingSince == nil || time.Since(s.FailingSince.Time).Abs() > time.Minute {
			t.Errorf("%+v", s)
		}
		storetest.Must(t, w.Replay(t.Context(), "shop", "1 3"))
		if s := status(); s.Position != "1 3" || s.LagMS != 0 || s.LagAtMost {
			t.Errorf("%+v", s)
		}
		for range 6 {
			w.facts[1] = append(w.facts[1], api.Fact{Type: "other", At: minute})
		}
		if s := status(); s.LagMS < 59_000 || !s.LagAtMost {
			t.Errorf("behind many others: %+v", s)
		}
	})
}

// H4: if some of a replay may have begun, the answer does not say that nothing happened.
func TestH4_HalfAReplay(t *testing.T) {
	t.Parallel()
	away := false
	w := setup(t, storetest.Faulty(t, storetest.Open(t, storetest.Redis(t).URL()), func(name string, answered bool) error {
		if away && name == "webhook_begin" && !answered {
			return storetest.ErrCut
		}
		return nil
	}))
	w.mustPut("shop", someRequest())
	away = true
	storetest.WantCode(t, w.Replay(t.Context(), "shop", "1 2"), api.CodeUnknownOutcome)
}

// H4: a webhook that another call makes while this one sets the positions of a new one is replaced, and goes on where it is. One that is
// refused sets none.
func TestH4_TwoMakeAWebhook(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Open(t, "embedded"))
	ask := func() { t.Error("a call that makes nothing asks for positions") }
	w.asked = func() { ask() }
	_, _, err := w.Put(t.Context(), "shop", someRequest(), api.Match{Version: api.AnyVersion})
	storetest.WantCode(t, err, api.CodeVersionMismatch)

	for _, m := range []api.Match{{}, {Absent: true}} {
		var other string
		ask = func() {
			w.asked = nil
			_, other = w.mustPut("shop", someRequest())
			w.ends = []string{"70", "90"}
		}
		w.ends, w.asked = []string{"7", "9"}, func() { ask() }
		r := someRequest()
		r.Types = append(r.Types, "dead_letter.created")
		_, secret, err := w.Put(t.Context(), "shop", r, m)
		if m.Absent {
			storetest.WantCode(t, err, api.CodeVersionMismatch)
		} else {
			storetest.Must(t, err)
		}
		all, err := w.Get(t.Context(), "shop")
		storetest.Must(t, err)
		if got := w.after("shop"); got != "7 9" || secret != "" || all.Secrets[0] != other || (len(all.Types) == 2) == m.Absent {
			t.Errorf("it goes on at %s, as %+v", got, all)
		}
		storetest.Must(t, w.Delete(t.Context(), "shop", api.Match{}))
	}
}
