package stock

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/storetest"
)

// forget makes the time pass after which ended holds are forgotten, and sweeps.
func (w *liveWorld) forget(p *partition) {
	w.t.Helper()
	ctx, c := context.Background(), w.db.Client()
	for _, id := range c.ZRange(ctx, p.due, 0, -1).Val() {
		if text := c.HGet(ctx, p.reservations, id).Val(); text[0] != 'h' {
			storetest.Must(w.t, c.ZAdd(ctx, p.due, redis.Z{Score: 1, Member: id}).Err())
		}
	}
	storetest.Must(w.t, w.Sweep(ctx))
}

// ids lists a user's reservations, in pages of two.
func (w *liveWorld) ids(user string) (ids []string) {
	w.t.Helper()
	for cursor := ""; ; {
		page, next, err := w.Reservations(context.Background(), w.sale, user, cursor, 2)
		storetest.Must(w.t, err)
		for _, r := range page {
			ids = append(ids, r.ID)
		}
		if cursor = next; cursor == "" {
			return ids
		}
	}
}

// S4: a hold that was released or has expired is known for an hour, and what was said
// with a key for as long as keys are; nothing else of the user's is lost with it.
func TestS4_AnEndedHoldIsForgotten(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		ctx, c := t.Context(), w.db.Client()
		w.mustOpen(offer{stock: map[string]int64{"s": 10}, limit: 5})
		parts, err := w.partitionsOf(ctx, w.sale)
		storetest.Must(t, err)
		p := parts[0]
		var kept, ended []string
		for i := range 8 {
			r := w.mustReserve("u", units("s", 1))
			switch i % 4 {
			case 0:
				_, err = w.End(ctx, EndHold{Sale: w.sale, ID: r.ID, Sell: true})
				kept = append([]string{r.ID}, kept...)
			case 1: // stays held
				kept = append([]string{r.ID}, kept...)
			case 2:
				_, err = w.End(ctx, EndHold{Sale: w.sale, ID: r.ID, Once: key("release"+strconv.Itoa(i), "b")})
				ended = append(ended, r.ID)
			default:
				w.overdue(r.ID)
				err = w.Sweep(ctx)
				ended = append(ended, r.ID)
			}
			storetest.Must(t, err)
			if i == 3 {
				w.forget(p) // and the list goes on where it was cut
			}
		}
		for _, id := range ended[2:] {
			record := c.HGet(ctx, p.reservations, id).Val()
			r, err := parseStored(id, record)
			storetest.Must(t, err)
			if left := int64(c.ZScore(ctx, p.due, id).Val()) - r.ended; left != 3_600_000 {
				t.Errorf("an ended hold is known for %d ms", left)
			}
		}
		storetest.Must(t, w.Sweep(ctx))
		if got, want := len(w.ids("u")), len(kept)+2; got != want {
			t.Errorf("before their time %d reservations are listed, want %d", got, want)
		}
		w.forget(p)
		if got := w.ids("u"); fmt.Sprint(got) != fmt.Sprint(kept) {
			t.Errorf("listed are %v, want %v", got, kept)
		}
		for _, id := range ended {
			_, err := w.Reservation(ctx, w.sale, id)
			storetest.WantCode(t, err, api.CodeNotFound)
			_, err = w.End(ctx, EndHold{Sale: w.sale, ID: id})
			storetest.WantCode(t, err, api.CodeNotFound)
		}
		again, err := w.End(ctx, EndHold{Sale: w.sale, ID: ended[2], Once: key("release6", "b")})
		storetest.Must(t, err)
		if !again.Replayed || again.Reservation.State != api.ReservationReleased || again.Reservation.ID != ended[2] {
			t.Errorf("the same key answers %+v", again)
		}
		if n := c.HLen(ctx, p.reservations).Val(); n != int64(len(kept))+1 { // and the user
			t.Errorf("the ledger has %d fields", n)
		}
		w.want("s", "6 2 2 10")
		_, err = w.reserve("u", units("s", 2))
		storetest.WantCode(t, err, api.CodeLimitReached)
		w.mustAddUp()
	})
}

// S4: who reserves and releases all day leaves no more behind than an hour of it.
func TestS4_TheLedgerIsBounded(t *testing.T) {
	t.Parallel()
	w := newLiveWorld(t, storetest.Open(t, storetest.Redis(t).URL()))
	w.mustOpen(offer{stock: map[string]int64{"s": 1}})
	parts, err := w.partitionsOf(t.Context(), w.sale)
	storetest.Must(t, err)
	for range 10 {
		for range 50 {
			_, err := w.End(t.Context(), EndHold{Sale: w.sale, ID: w.mustReserve("u", units("s", 1)).ID})
			storetest.Must(t, err)
		}
		w.forget(parts[0])
	}
	ledger, due := w.db.Client().HLen(t.Context(), parts[0].reservations).Val(), w.db.Client().ZCard(t.Context(), parts[0].due).Val()
	if ledger > 1 || due > 0 {
		t.Errorf("%d fields and %d times are left", ledger, due)
	}
	w.want("s", "1 0 0 1")
}

// S4: users buy more than once in a crowd that also returns their due holds. What they
// have is listed in its order and ends as always, also when what stands between is
// forgotten.
func TestS4_ReservationsOfOneUserInACrowd(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 8}})
		due := w.mustReserve("u", units("s", 2)).ID
		held := w.mustReserve("v", units("s", 1)).ID
		w.overdue(due)
		g := w.gatherAt("stock_reserve")
		g.hold("h")
		one := []api.Line{units("s", 1)}
		crowd := []*buyer{
			{user: "u", lines: one}, {user: "v", lines: one}, {user: "u", lines: one}, // and 2 are left
			{user: "w", lines: []api.Line{units("s", 3)}}, // the due hold is returned for him
			{user: "u", lines: one},
		}
		for _, b := range crowd {
			g.buy(t.Context(), b)
		}
		g.Release(2)
		for i, b := range crowd {
			g.mustBeTold(i, b)
		}
		id := func(i int) string { return crowd[i].got.Reservation.ID }
		wantIDs := func(user string, want ...string) {
			t.Helper()
			if got := w.ids(user); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s has %v, want %v", user, got, want)
			}
		}
		wantIDs("u", id(4), id(2), id(0), due)
		wantIDs("v", id(1), held)
		w.want("s", "0 8 0 8")
		r, err := w.Reservation(t.Context(), w.sale, due)
		if err != nil || r.State != api.ReservationExpired {
			t.Errorf("the due hold is %+v: %v", r, err)
		}
		for _, ended := range []string{id(2), held} {
			_, err := w.End(t.Context(), EndHold{Sale: w.sale, ID: ended})
			storetest.Must(t, err)
		}
		parts, err := w.partitionsOf(t.Context(), w.sale)
		storetest.Must(t, err)
		w.forget(parts[0])
		wantIDs("u", id(4), id(0))
		wantIDs("v", id(1))
		w.want("s", "2 6 0 8")
		w.mustAddUp()
	})
}

// S4: the end of a sale with very many reservations holds up nobody: Redis takes the keys
// away at once, and frees their memory beside its work.
func TestS4_TheEndOfALargeLedger(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	w, c := newLiveWorld(t, storetest.Open(t, server.URL())), server.Client()
	over := keptAfterEnd + time.Hour
	w.mustOpen(offer{stock: map[string]int64{"s": 1}, starts: -over - time.Hour, ends: -over})
	storetest.Must(t, w.SettingsRecorded(t.Context(), w.sale, 1))
	parts, err := w.partitionsOf(t.Context(), w.sale)
	storetest.Must(t, err)
	const fill = "for n = 1, 10000 do redis.call('HSET', KEYS[1], ARGV[1] .. n, 'r|user|1|1|1||s=1') end return 1"
	const many = 20
	for n := range many {
		storetest.Must(t, c.Eval(t.Context(), fill, []string{parts[0].reservations}, n).Err())
	}
	before := freedBeside(t, c)
	storetest.Must(t, w.retire(t.Context(), parts))
	if n := c.Exists(t.Context(), parts[0].reservations, parts[0].sale).Val(); n != 0 {
		t.Fatal("the sale is still there")
	}
	if storetest.Calls(t, c, "unlink") != 1 || storetest.Calls(t, c, "del") != 0 {
		t.Errorf("the keys went by %d UNLINK and %d DEL", storetest.Calls(t, c, "unlink"), storetest.Calls(t, c, "del"))
	}
	// The ledger is so large that an UNLINK leaves it to another thread of Redis.
	if n := freedBeside(t, c) - before; n < 1 {
		t.Errorf("%d values were freed beside Redis' work", n)
	}
}

// freedBeside is how many values a server has freed, or is about to free, in its own thread for that.
func freedBeside(t testing.TB, c redis.Cmdable) (n int) {
	t.Helper()
	for _, line := range strings.Fields(c.Info(t.Context(), "memory").Val()) {
		for _, name := range []string{"lazyfreed_objects:", "lazyfree_pending_objects:"} {
			if value, ok := strings.CutPrefix(line, name); ok {
				one, err := strconv.Atoi(value)
				storetest.Must(t, err)
				n += one
			}
		}
	}
	return n
}

// S13: a reservation is the same however often its call is made, also when the
// record of the call is gone and the reservation came back from an order.
func TestS13_AnOrderAnswersForItsCall(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		ctx := t.Context()
		w.mustOpen(offer{stock: map[string]int64{"s": 10}, hold: -1, partitions: 2})
		r := ReserveStock{Sale: w.sale, Once: key("u", "k"), Request: &api.ReservationRequest{User: "u", Lines: []api.Line{units("s", 2)}}}
		first, err := w.Reserve(ctx, r)
		storetest.Must(t, err)
		p, err := w.partitionByID(ctx, w.sale, first.Reservation.ID)
		storetest.Must(t, err)
		storetest.Must(t, w.db.Client().Del(ctx, p.once(r.Once.Name())).Err())
		again, err := w.Reserve(ctx, r)
		storetest.Must(t, err)
		if !again.Replayed || again.Reservation.ID != first.Reservation.ID {
			t.Errorf("again: %+v, first %+v", again, first)
		}
		r.Request = &api.ReservationRequest{User: "u", Lines: []api.Line{units("s", 1)}}
		_, err = w.Reserve(ctx, r)
		storetest.WantCode(t, err, api.CodeIdempotencyReused)
		r.Once, r.Call = api.Idempotency{}, NewCall()
		for range 2 {
			_, err = w.Reserve(ctx, r)
			storetest.Must(t, err)
		}
		w.want("s", "7 0 3 10")
	})
}
