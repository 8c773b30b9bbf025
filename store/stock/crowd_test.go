package stock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// gatheredCalls are calls of one partition and one kind that one script answers.
type gatheredCalls struct {
	*liveWorld
	*storetest.Crowd
}

// gatherAt is another process of the sale, whose first run of a script is held up.
func (w *liveWorld) gatherAt(script string) *gatheredCalls {
	c := storetest.NewCrowd(w.t, script)
	g := &gatheredCalls{w.faulty(w.o, c.Fault), c}
	_, err := g.partitionsOf(w.t.Context(), w.sale)
	storetest.Must(w.t, err)
	return g
}

// hold begins with a reservation that is refused.
func (g *gatheredCalls) hold(user string) {
	g.Add(g.t.Context(), func(ctx context.Context) {
		_, err := g.Reserve(ctx, ReserveStock{Sale: g.sale, Request: &api.ReservationRequest{User: user, Lines: []api.Line{units("none", 1)}}})
		storetest.WantCode(g.t, err, api.CodeValidation)
	})
}

// buyer is one caller of a crowd and what he should be told.
type buyer struct {
	user  string
	lines []api.Line
	once  api.Idempotency
	code  api.Code // of the refusal; "": he gets it
	fact  any      // remaining or available of the refusal

	got  Reserved
	err  error
	told chan struct{}
}

// buy adds a buyer.
func (g *gatheredCalls) buy(ctx context.Context, b *buyer) {
	b.told = make(chan struct{})
	g.Add(ctx, func(ctx context.Context) {
		defer close(b.told)
		b.got, b.err = g.Reserve(ctx, ReserveStock{Sale: g.sale, Once: b.once, Request: &api.ReservationRequest{User: b.user, Lines: b.lines}})
	})
}

// mustBeTold compares what a buyer was told.
func (g *gatheredCalls) mustBeTold(i int, b *buyer) {
	g.t.Helper()
	if api.CodeOf(b.err) != b.code {
		g.t.Errorf("%d: %v, want %q", i, b.err, b.code)
		return
	}
	e, _ := errors.AsType[*api.Error](b.err)
	var fact any
	switch b.code {
	case api.CodeLimitReached:
		fact = e.Facts["remaining"]
	case api.CodeSoldOut:
		fact = e.Facts["available"].(map[string]int64)[b.lines[0].SKU]
	case api.CodeValidation:
		fact = e.Fields[0].Field
	}
	if fact != b.fact {
		g.t.Errorf("%d: %v, want %v", i, fact, b.fact)
	}
}

// One script answers a crowd in which some buy, some are refused for their own
// reasons, some repeat, and some have gone.
func TestS1_EachOfACrowdHasHisOwnAnswer(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		for _, hold := range []int64{60_000, -1} {
			w := newLiveWorld(t, w.db)
			w.mustOpen(offer{stock: map[string]int64{"s": 5, "a": 9}, limit: 3, hold: hold})
			old, err := w.reserveOnce(key("old", "b"), "o", units("a", 1))
			storetest.Must(t, err)
			g := w.gatherAt("stock_reserve")
			g.hold("h")
			crowd := []*buyer{
				{user: "u", lines: []api.Line{units("s", 2)}},
				{user: "v", lines: []api.Line{units("a", 1), units("s", 2)}},
				{user: "u", lines: []api.Line{units("s", 2)}, code: api.CodeLimitReached, fact: int64(1)},
				{user: "w", lines: []api.Line{units("s", 2)}, code: api.CodeSoldOut, fact: int64(1)},
				{user: "w", lines: []api.Line{units("a", 1), units("none", 1)}, code: api.CodeValidation, fact: "lines[1].sku"},
				{user: "u", lines: []api.Line{units("s", 1)}},
				{user: "w", lines: []api.Line{units("s", 1)}, code: api.CodeSoldOut, fact: int64(0)},
				{user: "k", lines: []api.Line{units("a", 1)}, once: key("k", "b")},
				{user: "k", lines: []api.Line{units("a", 1)}, once: key("k", "b")},
				{user: "k", lines: []api.Line{units("a", 2)}, once: key("k", "c"), code: api.CodeIdempotencyReused},
				{user: "w", lines: []api.Line{units("s", 1)}, once: key("w", "b"), code: api.CodeSoldOut, fact: int64(0)},
				{user: "o", lines: []api.Line{units("a", 1)}, once: key("old", "b")},
				{user: "w", lines: []api.Line{units("a", 3)}},
				{user: "o", lines: []api.Line{units("a", 1)}},
				{user: "o", lines: []api.Line{units("a", 2)}, code: api.CodeLimitReached, fact: int64(1)},
			}
			for _, b := range crowd {
				g.buy(t.Context(), b)
			}
			g.Release(2)
			for i, b := range crowd {
				g.mustBeTold(i, b)
			}
			first, again := crowd[7].got, crowd[8].got
			if first.Replayed || !again.Replayed || again.Reservation.ID != first.Reservation.ID || crowd[11].got.Reservation.ID != old.Reservation.ID {
				t.Errorf("%+v, then %+v and %+v", first, again, crowd[11].got)
			}
			state := api.ReservationHeld
			if hold < 0 {
				state = api.ReservationSold
			}
			for i, b := range crowd {
				r := b.got.Reservation
				if b.err == nil && (r.User != b.user || !slices.Equal(r.Lines, b.lines) || r.State != state || (b.got.Order != nil) != (hold < 0 && !b.got.Replayed)) {
					t.Errorf("%d: %+v", i, b.got)
				}
			}
			want := map[bool][2]string{true: {"0 5 0 5", "2 7 0 9"}, false: {"0 0 5 5", "2 0 7 9"}}[hold > 0]
			w.want("s", want[0])
			w.want("a", want[1])
			w.mustAddUp()
		}
	})
}

// Who goes before his turn has done nothing, who goes while the script is under way
// does not know; the others do not notice.
func TestS1_SomeOfACrowdGoAway(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 5}})
		g := w.gatherAt("stock_reserve")
		ctx, cancel := context.WithCancel(t.Context())
		gone := []*buyer{{user: "a", lines: []api.Line{units("s", 1)}, once: key("a", "b")}, {user: "b", lines: []api.Line{units("s", 2)}, once: key("b", "b")}}
		stay := []*buyer{{user: "c", lines: []api.Line{units("s", 2)}}, {user: "d", lines: []api.Line{units("s", 2)}}, {user: "e", lines: []api.Line{units("s", 1)}, code: api.CodeSoldOut, fact: int64(0)}}
		g.buy(ctx, gone[0]) // his script is held up
		g.buy(t.Context(), stay[0])
		g.buy(ctx, gone[1])
		g.buy(t.Context(), stay[1])
		g.buy(t.Context(), stay[2])
		cancel()
		<-gone[0].told
		<-gone[1].told
		g.Release(2)
		storetest.WantCode(t, gone[0].err, api.CodeUnknownOutcome)
		storetest.WantCode(t, gone[1].err, api.CodeUnavailable)
		for i, b := range stay {
			g.mustBeTold(i, b)
		}
		w.want("s", "0 5 0 5")
	})
}

// More holds are due than one script returns: a crowd repeats until it has them all,
// and is refused only then.
func TestS1_ACrowdReturnsManyDueHolds(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		const n, callers = 2*dueAtOnce + 10, 10
		w.mustOpen(offer{stock: map[string]int64{"s": n}, hold: 60_000})
		for i := range n {
			w.overdue(w.mustReserve(fmt.Sprint("u", i), units("s", 1)).ID)
		}
		g := w.gatherAt("stock_reserve")
		g.hold("h")
		var crowd []*buyer
		for i := range callers {
			b := &buyer{user: fmt.Sprint("v", i), lines: []api.Line{units("s", n/callers)}}
			crowd = append(crowd, b)
			g.buy(t.Context(), b)
		}
		g.Open()
		for i, b := range crowd {
			g.mustBeTold(i, b)
		}
		w.want("s", fmt.Sprint(0, n, 0, n))
		_, err := w.reserve("w", units("s", 1))
		storetest.WantCode(t, err, api.CodeSoldOut)
		w.mustAddUp()
	})
}

// A refusal tells when the next hold ends, also when that is one of its own crowd.
func TestS11_NextDueHoldOfACrowd(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 1}, hold: 60_000})
		g := w.gatherAt("stock_reserve")
		g.hold("h")
		one, two := &buyer{user: "u", lines: []api.Line{units("s", 1)}}, &buyer{user: "v", lines: []api.Line{units("s", 1)}, code: api.CodeSoldOut, fact: int64(0)}
		g.buy(t.Context(), one)
		g.buy(t.Context(), two)
		g.Release(2)
		g.mustBeTold(0, one)
		g.mustBeTold(1, two)
		if two.got.SoldOut == nil || two.got.SoldOut.NextDue != time.Minute {
			t.Errorf("%+v", two.got.SoldOut)
		}
	})
}

// A crowd whose process knows the sale otherwise than it is finds out, and each gets
// his answer there: the sale has other partitions now.
func TestS12_ACrowdFindsTheSaleChanged(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 5}})
		g := w.gatherAt("stock_reserve")
		g.hold("h")
		var crowd []*buyer
		for i := range 9 {
			b := &buyer{user: fmt.Sprint("u", i), lines: []api.Line{units("s", 1)}}
			crowd = append(crowd, b)
			g.buy(t.Context(), b)
		}
		for _, key := range newPartition(w.sale, 0).core(newPartition(w.sale, 0).totals) {
			storetest.Must(t, w.db.Client().Del(t.Context(), key).Err())
		}
		again := w.another(Options{})
		again.mustOpen(offer{stock: map[string]int64{"s": 7}, partitions: 3})
		g.Open()
		got := 0
		for i, b := range crowd {
			if b.err == nil {
				got++
			} else if api.CodeOf(b.err) != api.CodeSoldOut {
				t.Errorf("%d: %v", i, b.err)
			}
		}
		if got != 7 {
			t.Errorf("%d of 7 units were had", got)
		}
		again.want("s", "0 7 0 7")
		again.mustAddUp()
	})
}

// Confirmations and releases of a crowd: each hold ends once, and each caller learns
// what became of his.
func TestS4_EndsOfACrowd(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 10}})
		ids := make([]string, 5)
		for i := range ids {
			ids[i] = w.mustReserve("u", units("s", 1)).ID
		}
		w.overdue(ids[4])
		g := w.gatherAt("reservation_end")
		type ending struct {
			id, how string
			owner   string // "": anybody's
			once    api.Idempotency
			code    api.Code
			state   api.ReservationState
			got     Ended
			err     error
		}
		unknown := newID(0)
		crowd := []*ending{
			{id: unknown, how: "s", code: api.CodeNotFound},
			{id: ids[0], how: "s", state: api.ReservationSold},
			{id: ids[0], how: "r", code: api.CodeNotHeld, state: api.ReservationSold},
			{id: ids[0], how: "s", state: api.ReservationSold},
			{id: ids[1], how: "r", state: api.ReservationReleased},
			{id: ids[1], how: "r", state: api.ReservationReleased},
			{id: ids[1], how: "s", code: api.CodeNotHeld, state: api.ReservationReleased},
			{id: ids[2], how: "s", once: key("c", "b"), state: api.ReservationSold},
			{id: ids[2], how: "s", once: key("c", "b"), state: api.ReservationSold},
			{id: ids[3], how: "s", once: key("c", "other"), code: api.CodeIdempotencyReused},
			{id: ids[4], how: "s", code: api.CodeNotHeld, state: api.ReservationExpired},
			{id: unknown, how: "r", code: api.CodeNotFound},
			{id: ids[3], how: "s", owner: "stranger", code: api.CodeNotFound},
			{id: ids[0], how: "s", owner: "u", state: api.ReservationSold},
		}
		for _, e := range crowd {
			g.Add(t.Context(), func(ctx context.Context) {
				e.got, e.err = g.End(ctx, EndHold{Sale: g.sale, ID: e.id, Sell: e.how == "s", Owner: e.owner, Once: e.once})
			})
		}
		g.Release(2)
		for i, e := range crowd {
			if api.CodeOf(e.err) != e.code || e.got.Reservation.State != e.state || (e.got.Order != nil) != (e.code == "" && e.how == "s") {
				t.Errorf("%d: %+v %v, want %s %q", i, e.got, e.err, e.state, e.code)
			}
			if e.got.Replayed != (i == 8) {
				t.Errorf("%d: replayed %v", i, e.got.Replayed)
			}
		}
		w.want("s", "7 1 2 10")
		orders, err := w.WaitingOrders(t.Context(), Ref{w.sale, 0}, Order{}, 10)
		if err != nil || len(orders) != 2 {
			t.Errorf("%d orders wait: %v", len(orders), err)
		}
		w.mustAddUp()
	})
}

// S14: a master without its replicas, which may have been emptied, does not say that a hold is unknown.
func TestS14_NoHoldIsUnknownWithoutReplicas(t *testing.T) {
	t.Parallel()
	first := storetest.Redis(t)
	w := newLiveWorld(t, storetest.Open(t, first.URL()))
	w.mustOpen(offer{stock: map[string]int64{"s": 2}, maxHold: 3_600_000})
	careful := w.another(Options{MinReplicas: 1})
	mustSay := func(want api.Code) {
		t.Helper()
		_, extended := careful.extend(newID(0), 60_000)
		_, released := careful.End(t.Context(), EndHold{Sale: w.sale, ID: newID(0)})
		_, confirmed := careful.End(t.Context(), EndHold{Sale: w.sale, ID: newID(0), Sell: true, Once: key("k", "")})
		for what, err := range map[string]error{"extend": extended, "release": released, "confirm": confirmed} {
			if api.CodeOf(err) != want {
				t.Errorf("%s: %v, want %s", what, err, want)
			}
		}
	}
	mustSay(api.CodeUnknownOutcome)
	storetest.Redis(t, "--replicaof", fmt.Sprintf("127.0.0.1 %d", first.Port()))
	storetest.Eventually(t, patience, "a replica follows", func() bool {
		n, err := first.Wait(t.Context(), 1, time.Second)
		return err == nil && n == 1
	})
	mustSay(api.CodeNotFound)
}

// A crowd waits once for the replicas. Those who were refused need none.
func TestS14_OneWaitForACrowd(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	w := newLiveWorld(t, storetest.Open(t, server.URL()))
	w.mustOpen(offer{stock: map[string]int64{"s": 2}})
	g := w.another(Options{MinReplicas: 1}).gatherAt("stock_reserve") // there is none
	g.hold("h")
	crowd := []*buyer{
		{user: "u", lines: []api.Line{units("s", 1)}, code: api.CodeUnknownOutcome},
		{user: "w", lines: []api.Line{units("s", 9)}, code: api.CodeSoldOut, fact: int64(1)},
		{user: "v", lines: []api.Line{units("s", 1)}, code: api.CodeUnknownOutcome},
		{user: "w", lines: []api.Line{units("s", 1)}, code: api.CodeSoldOut, fact: int64(0)},
	}
	for _, b := range crowd {
		g.buy(t.Context(), b)
	}
	g.Release(2)
	for i, b := range crowd {
		g.mustBeTold(i, b)
	}
	w.want("s", "0 2 0 2")
	if n := storetest.Calls(t, server.Client(), "wait"); n != 1 {
		t.Errorf("WAIT was sent %d times", n)
	}
}
