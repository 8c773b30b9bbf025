package hooks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
	"fanfare/store/webhooks"
)

// H4: a batch has at most max facts of the types that the webhook wants, in the order of the lane, and 2xx moves the
// position.
func TestH4_Batches(t *testing.T) {
	t.Parallel()
	w := setup(t, 1)
	w.feed.add(0, "a", "before", 3) // before the webhook was made
	s := newReceiver(t, nil)
	l, waits := w.mustLane(s, 4)
	w.feed.add(0, "a", "k", 3)
	w.feed.add(0, "b", "k", 2)
	w.feed.add(0, "a", "k", 3)
	for range 2 {
		if wait := w.mustTurn(l); wait != 0 {
			t.Errorf("waits %v", wait)
		}
	}
	var sizes []int
	for _, r := range s.got() {
		sizes = append(sizes, len(r.Facts))
		if r.Webhook != "shop" || r.id != idOf(r) || r.Gap != 0 {
			t.Errorf("%s", r.raw)
		}
	}
	if want := []string{"0-3-0", "0-4-0", "0-5-0", "0-8-0", "0-9-0", "0-10-0"}; !slices.Equal(s.facts(), want) || !slices.Equal(sizes, []int{4, 2}) {
		t.Errorf("%v in %v", s.facts(), sizes)
	}
	var raw struct{ Facts []json.RawMessage }
	storetest.Must(t, json.Unmarshal(s.got()[0].raw, &raw))
	at := w.feed.lanes[0].facts[3].At
	if want := fmt.Sprintf(`{"id":"0-3-0","type":"a","key":"k","at":%q,"data":{"n":3}}`, at.Format("2006-01-02T15:04:05.000Z")); string(raw.Facts[0]) != want {
		t.Errorf("got %s, want %s", raw.Facts[0], want)
	}
	if p := w.mustProgress(l); p.After != "11" || p.Last.Status != 204 || !p.FailingSince.IsZero() || time.Since(p.At).Abs() > time.Minute {
		t.Errorf("%+v", p)
	}
	if want := []time.Duration{gatherTime}; !slices.Equal(*waits, want) { // the full batch did not wait
		t.Errorf("waited %v", *waits)
	}
}

// H4: a batch that is not full waits for the facts of 50 ms.
func TestH4_Gathering(t *testing.T) {
	t.Parallel()
	w := setup(t, 1)
	s := newReceiver(t, nil)
	l, _ := w.mustLane(s, 100)
	w.feed.add(0, "a", "k", 1)
	l.sleep = func(context.Context, time.Duration) { w.feed.add(0, "a", "k", 1) }
	w.mustTurn(l)
	if got := s.got(); len(got) != 1 || len(got[0].Facts) != 2 {
		t.Errorf("%v", s.facts())
	}
}

// H4: a body has at most 64 KiB, and a fact that is larger alone is sent alone.
func TestH4_Bytes(t *testing.T) {
	t.Parallel()
	w := setup(t, 1)
	s := newReceiver(t, nil)
	l, _ := w.mustLane(s, 100)
	w.feed.add(0, "a", "k", 60)
	for i := range w.feed.lanes[0].facts {
		w.feed.lanes[0].facts[i].Data = json.RawMessage(`"` + strings.Repeat("x", 3000) + `"`)
	}
	w.feed.lanes[0].facts[5].Data = json.RawMessage(`"` + strings.Repeat("x", 2*maxBatch) + `"`)
	for len(s.facts()) < 60 {
		w.mustTurn(l)
	}
	for _, r := range s.got() {
		if len(r.raw) > maxBatch && len(r.Facts) > 1 {
			t.Errorf("%d bytes with %d facts", len(r.raw), len(r.Facts))
		}
	}
	if n := len(s.got()); n > 8 || len(s.facts()) != 60 {
		t.Errorf("%d requests", n)
	}
}

// H5: facts that are not taken are sent again, with the same id and the same facts, after a wait.
func TestH5_FailuresAreSentAgain(t *testing.T) {
	t.Parallel()
	codes := []int{500, 301, 429, 0, 200}
	w := setup(t, 1)
	s := newReceiver(t, func(rw http.ResponseWriter, n int, _ *request) {
		if codes[n] == 0 {
			panic(http.ErrAbortHandler)
		}
		if codes[n] == 429 {
			rw.Header().Set("Retry-After", "77")
		}
		rw.WriteHeader(codes[n])
	})
	l, _ := w.mustLane(s, 100)
	w.feed.add(0, "a", "k", 5)
	var since time.Time
	for n := range codes {
		wait := w.mustTurn(l)
		p := w.mustProgress(l)
		switch {
		case n == len(codes)-1:
			if wait != 0 || p.After != "5" || !p.FailingSince.IsZero() {
				t.Errorf("%v %+v", wait, p)
			}
			continue
		case codes[n] == 429 && wait != 77*time.Second:
			t.Errorf("after 429: %v", wait)
		case p.After != "0" || p.FailingSince.IsZero() || p.Last.Status != codes[n] || (codes[n] == 0) != (p.Last.Error != ""):
			t.Errorf("after %d: %+v", codes[n], p)
		}
		if since.IsZero() {
			since = p.FailingSince
		}
		if !p.FailingSince.Equal(since) {
			t.Errorf("failing since %v, then %v", since, p.FailingSince)
		}
	}
	got := s.got()
	for _, r := range got {
		if r.id != got[0].id || !bytes.Equal(r.raw, got[0].raw) {
			t.Errorf("%s %s", r.id, r.raw)
		}
	}
}

// H5: a fact that the receiver refuses three times alone is set aside, and the others arrive in order.
func TestH5_ARefusedFactIsPassedOver(t *testing.T) {
	t.Parallel()
	w := setup(t, 1)
	s := newReceiver(t, func(rw http.ResponseWriter, _ int, r *request) {
		if slices.Contains(r.ids(), "0-5-0") {
			rw.WriteHeader(http.StatusUnprocessableEntity)
		}
	})
	l, _ := w.mustLane(s, 8)
	w.feed.add(0, "a", "k", 20)
	for range 40 {
		if w.mustProgress(l).After == "20" {
			break
		}
		w.mustTurn(l)
	}
	alone := 0
	var arrived []string
	for _, r := range s.got() {
		if !slices.Contains(r.ids(), "0-5-0") {
			arrived = append(arrived, r.ids()...)
		} else if len(r.Facts) == 1 {
			alone++
		}
	}
	var want []string
	for i := range 20 {
		if i != 5 {
			want = append(want, fmt.Sprintf("0-%d-0", i))
		}
	}
	if !slices.Equal(arrived, want) || alone != maxRefusals || !slices.Equal(w.buried, []string{"0-5-0"}) {
		t.Errorf("%v, refused alone %d times, buried %v", arrived, alone, w.buried)
	}
	if p := w.mustProgress(l); p.After != "20" || !p.FailingSince.IsZero() {
		t.Errorf("%+v", p)
	}
}

// H5: 410 turns the webhook off, and a PUT turns it on again.
func TestH5_Gone(t *testing.T) {
	t.Parallel()
	w := setup(t, 1)
	s := newReceiver(t, status(http.StatusGone))
	l, _ := w.mustLane(s, 8)
	w.feed.add(0, "a", "k", 1)
	if wait := w.mustTurn(l); wait < time.Second {
		t.Errorf("the next request follows after %v", wait)
	}
	all, err := w.Get(t.Context(), "shop")
	storetest.Must(t, err)
	if all.State != api.WebhookOff || !all.Gone || w.mustProgress(l).After != "0" {
		t.Errorf("%+v", all)
	}
	if again, _ := w.mustPut("shop", s.URL, 8); again.State != api.WebhookOn || again.Gone || again.Series != all.Series {
		t.Errorf("%+v", again)
	}
	// A 410 that comes too late turns off no webhook that was turned on again, and no other one.
	storetest.Must(t, w.End(t.Context(), l.w))
	if all, err = w.Get(t.Context(), "shop"); err != nil || all.Gone {
		t.Errorf("%+v %v", all, err)
	}
	other, _ := w.mustPut("shop", s.URL+"/other", 8)
	storetest.Must(t, w.End(t.Context(), l.w))
	if all, err = w.Get(t.Context(), "shop"); err != nil || all.Gone || all.URL != other.URL {
		t.Errorf("%+v %v", all, err)
	}
}

// H9: facts that are kept no longer are told to the receiver as a gap, until it has taken a batch.
func TestH9_GapsAreTold(t *testing.T) {
	t.Parallel()
	codes := []int{500, 200, 200}
	w := setup(t, 1)
	s := newReceiver(t, func(rw http.ResponseWriter, n int, _ *request) { rw.WriteHeader(codes[n]) })
	l, _ := w.mustLane(s, 8)
	w.feed.add(0, "a", "k", 10)
	w.feed.add(0, "b", "k", 5)
	w.feed.trim(0, 12)
	w.mustTurn(l) // nothing is there for the webhook
	w.feed.add(0, "a", "k", 1)
	w.mustTurn(l)
	w.mustTurn(l)
	w.feed.add(0, "a", "k", 1)
	w.mustTurn(l)
	var gaps []int64
	for _, r := range s.got() {
		gaps = append(gaps, r.Gap)
	}
	if p := w.mustProgress(l); !slices.Equal(gaps, []int64{12, 12, 0}) || p.Gap != 12 || p.After != "17" {
		t.Errorf("%v %+v", gaps, p)
	}
}

// Facts of other types move the position now and then, so that they do not count as a gap later, and at once if they are many.
func TestOtherTypesMoveThePosition(t *testing.T) {
	t.Parallel()
	w := setup(t, 1)
	l, _ := w.mustLane(newReceiver(t, nil), 8)
	w.feed.add(0, "b", "k", 5)
	w.mustTurn(l)
	if p := w.mustProgress(l); p.After != "0" {
		t.Errorf("%+v", p)
	}
	l.passed = time.Now().Add(-passEvery)
	w.feed.add(0, "b", "k", 1)
	w.mustTurn(l)
	if p := w.mustProgress(l); p.After != "6" || p.Last != nil || !p.FailingSince.IsZero() {
		t.Errorf("%+v", p)
	}
	w.feed.add(0, "b", "k", passFacts-1)
	w.mustTurn(l)
	if p := w.mustProgress(l); p.After != "6" {
		t.Errorf("%+v", p)
	}
	w.feed.add(0, "b", "k", 1)
	w.mustTurn(l)
	if p := w.mustProgress(l); p.After != strconv.Itoa(6+passFacts) {
		t.Errorf("%+v", p)
	}
}

// H4: of two senders that believe to own a lane, one moves the position. The other one reads it again, and what it sends
// twice has the same ids.
func TestH4_TwoOwners(t *testing.T) {
	t.Parallel()
	w := setup(t, 1)
	s := newReceiver(t, nil)
	first, _ := w.mustLane(s, 2)
	second := newLane(first.s, first.w, 0)
	w.feed.add(0, "a", "k", 8)
	w.mustTurn(first)
	storetest.Must(t, second.load(t.Context()))
	w.mustTurn(first)
	w.mustTurn(first)  // to 6
	w.mustTurn(second) // from 2 to 4: sent again, and not noted
	if second.known || w.mustProgress(first).After != "6" {
		t.Errorf("%+v", second)
	}
	w.mustTurn(second)
	if want := []string{"0-0-0", "0-1-0", "0-2-0", "0-3-0", "0-4-0", "0-5-0", "0-2-0", "0-3-0", "0-6-0", "0-7-0"}; !slices.Equal(s.facts(), want) || w.mustProgress(first).After != "8" {
		t.Errorf("%v", s.facts())
	}
}

// H9: a position that Redis has lost is the oldest there is: facts are repeated, none is left out.
func TestH9_ALostPosition(t *testing.T) {
	t.Parallel()
	w := setup(t, 1)
	s := newReceiver(t, nil)
	l, _ := w.mustLane(s, 100)
	w.feed.add(0, "a", "k", 2)
	w.mustTurn(l)
	storetest.Must(t, w.redis.Client().FlushAll(t.Context()).Err())
	w.feed.add(0, "a", "k", 1)
	w.mustTurn(l) // sent, and not noted: the position is another one
	w.mustTurn(l)
	if want := []string{"0-0-0", "0-1-0", "0-2-0", "0-0-0", "0-1-0", "0-2-0"}; !slices.Equal(s.facts(), want) || w.mustProgress(l).After != "3" {
		t.Errorf("%v", s.facts())
	}
}

// A replay sets the position back, also under a sender that works.
func TestReplay(t *testing.T) {
	t.Parallel()
	w := setup(t, 1)
	s := newReceiver(t, nil)
	l, _ := w.mustLane(s, 100)
	w.feed.add(0, "a", "k", 2)
	w.mustTurn(l)
	storetest.Must(t, w.Replay(t.Context(), "shop", "1"))
	w.feed.add(0, "a", "k", 1)
	w.mustTurn(l)
	w.mustTurn(l)
	if want := []string{"0-0-0", "0-1-0", "0-2-0", "0-1-0", "0-2-0"}; !slices.Equal(s.facts(), want) {
		t.Errorf("%v", s.facts())
	}
}

// A replay to the very position from which a request is under way counts, too: the facts of the request come again.
func TestAReplayOfWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	w := setup(t, 1)
	s := newReceiver(t, func(a http.ResponseWriter, n int, _ *request) {
		if n == 0 {
			storetest.Must(t, w.Replay(t.Context(), "shop", "0"))
		}
		a.WriteHeader(http.StatusNoContent)
	})
	l, _ := w.mustLane(s, 100)
	if p := w.mustProgress(l); p.After != "0" {
		t.Fatalf("it begins at %s", p.After)
	}
	w.feed.add(0, "a", "k", 2)
	w.mustTurn(l)
	w.mustTurn(l)
	if want := []string{"0-0-0", "0-1-0", "0-0-0", "0-1-0"}; !slices.Equal(s.facts(), want) {
		t.Errorf("%v", s.facts())
	}
}

// A step that is noted twice, because an answer of Redis was lost, counts once.
func TestAStepIsNotedOnce(t *testing.T) {
	t.Parallel()
	w := setup(t, 1)
	step := webhooks.Step{Series: "s", From: "", To: "7", Answer: &api.WebhookAnswer{Status: 200}, Taken: true, Gap: 3}
	for range 2 {
		ok, err := w.Note(t.Context(), step)
		if err != nil || !ok {
			t.Errorf("%v %v", ok, err)
		}
	}
	step.To = "8"
	if ok, err := w.Note(t.Context(), step); err != nil || ok {
		t.Errorf("%v %v", ok, err)
	}
	all, err := w.Progress(t.Context(), "s", 0)
	if err != nil || all[0].Gap != 3 || all[0].After != "7" {
		t.Errorf("%+v %v", all, err)
	}
}

// H5: a fact about the dead letter of a refused fact is passed over: it would be refused, too, and so on.
func TestH5_ARefusalIsNotToldToWebhooks(t *testing.T) {
	t.Parallel()
	w := setup(t, 1)
	s := newReceiver(t, nil)
	l, _ := w.mustLane(s, 100)
	l.w.Types = []string{api.FactDeadLetterCreated}
	w.feed.add(0, api.FactDeadLetterCreated, "k", 3)
	for i, data := range []string{`{"reason":"max_attempts"}`, `{"kind":"task","type":"webhook.fact","reason":"max_attempts"}`, `{"kind":"job","type":"webhook.fact"}`} {
		w.feed.lanes[0].facts[i].Data = json.RawMessage(data)
	}
	w.mustTurn(l)
	if p := w.mustProgress(l); !slices.Equal(s.facts(), []string{"0-0-0", "0-2-0"}) || p.After != "3" {
		t.Errorf("%v %+v", s.facts(), p)
	}
}

// idOf is the webhook-id that a request must have: requests with other facts have other ids.
func idOf(r request) string {
	id := "shop:" + r.Facts[0].ID
	if n := len(r.Facts); n > 1 {
		id += ":" + r.Facts[n-1].ID
	}
	return id
}

// H5: a webhook that has nothing left to take does not fail any more.
func TestH5_NothingLeft(t *testing.T) {
	t.Parallel()
	w := setup(t, 1)
	s := newReceiver(t, status(http.StatusInternalServerError))
	l, _ := w.mustLane(s, 8)
	w.feed.add(0, "a", "k", 1)
	w.mustTurn(l)
	if w.mustProgress(l).FailingSince.IsZero() {
		t.Error("it does not fail")
	}
	storetest.Must(t, w.Replay(t.Context(), "shop", "1"))
	l.known = false
	w.mustTurn(l)
	if p := w.mustProgress(l); !p.FailingSince.IsZero() || p.After != "1" {
		t.Errorf("%+v", p)
	}
}

// A replay begins at once, also in a lane that waits for its next fact.
func TestAReplayBeginsAtOnce(t *testing.T) {
	t.Parallel()
	w := setup(t, 1)
	s := newReceiver(t, nil)
	_, secret := w.mustPut("shop", s.URL, 100)
	s.expect(secret)
	w.start(poster(s))
	w.feed.add(0, "a", "k", 2)
	storetest.Eventually(t, soon, "the facts are taken", func() bool { return len(s.facts()) == 2 })
	storetest.Must(t, w.Replay(t.Context(), "shop", "0"))
	storetest.Eventually(t, soon, "the facts come again", func() bool { return len(s.facts()) == 4 })
}
