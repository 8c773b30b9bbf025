package stock

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// at is the sale through a process whose scripts find Redis' clock standing at a moment.
func (w *liveWorld) at(moment time.Time) *liveWorld {
	w.t.Helper()
	clock := fmt.Sprintf("({ '%d', '%d' })", moment.Unix(), moment.Nanosecond()/1000)
	files := fstest.MapFS{}
	names, err := fs.Glob(luaFiles, "lua/*.lua")
	storetest.Must(w.t, err)
	for _, name := range names {
		text, err := luaFiles.ReadFile(name)
		storetest.Must(w.t, err)
		files[name] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(string(text), "redis.call('TIME')", clock))}
	}
	standing := w.another(Options{})
	standing.scripts = readScripts(func(name string) *redisdb.Script { return redisdb.MustScript(files, "lua/"+name+".lua") })
	return standing
}

// S6: a hold ends in the very millisecond that expires_at names: for a confirmation, a
// release or an extension, for readers, for the sweeper, and for another user who wants its unit.
func TestS6_AHoldEndsToTheMillisecond(t *testing.T) {
	t.Parallel()
	overFor := map[string]func(w *liveWorld, hold string) (bool, error){
		"confirm": func(w *liveWorld, hold string) (bool, error) {
			e, err := w.End(t.Context(), EndHold{Sale: w.sale, ID: hold, Sell: true})
			return e.Reservation.State == api.ReservationExpired, expected(err, api.CodeNotHeld)
		},
		"release": func(w *liveWorld, hold string) (bool, error) {
			e, err := w.End(t.Context(), EndHold{Sale: w.sale, ID: hold})
			return e.Reservation.State == api.ReservationExpired, expected(err, api.CodeNotHeld)
		},
		"extend": func(w *liveWorld, hold string) (bool, error) {
			e, err := w.extend(hold, api30Days)
			return e.Reservation.State == api.ReservationExpired, expected(err, api.CodeNotHeld)
		},
		"read": func(w *liveWorld, hold string) (bool, error) {
			r, err := w.Reservation(t.Context(), w.sale, hold)
			return err == nil && r.State == api.ReservationExpired, err
		},
		"list": func(w *liveWorld, _ string) (bool, error) {
			items, _, err := w.Reservations(t.Context(), w.sale, "u", "", 1)
			return len(items) == 1 && items[0].State == api.ReservationExpired, err
		},
		"sweep": func(w *liveWorld, _ string) (bool, error) {
			parts, err := w.partitionsOf(t.Context(), w.sale)
			storetest.Must(t, err)
			found, err := w.sweepAll(t.Context(), parts)
			return len(found) == 1 && found[0].answer.returned == 1, err
		},
		"reserve": func(w *liveWorld, _ string) (bool, error) {
			_, err := w.reserve("another", units("s", 1))
			return err == nil, expected(err, api.CodeSoldOut)
		},
	}
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		for what, isOver := range overFor {
			for _, over := range []bool{false, true} {
				w := newLiveWorld(t, db)
				w.mustOpen(offer{stock: map[string]int64{"s": 1}, maxHold: api30Days})
				hold := w.mustReserve("u", units("s", 1))
				if got, err := isOver(w.at(edge(hold.ExpiresAt.Time, over)), hold.ID); got != over || err != nil {
					t.Errorf("%s: over is %t, want %t; %v", what, got, over, err)
				}
			}
		}
	})
}

// edge is a moment, or the millisecond before it.
func edge(moment time.Time, reached bool) time.Time {
	if reached {
		return moment
	}
	return moment.Add(-time.Millisecond)
}

// expected is nil for an error of that code.
func expected(err error, code api.Code) error {
	if api.CodeOf(err) == code {
		return nil
	}
	return err
}

// A sale begins and ends in the very millisecond that its settings name, and an idle sale when
// nobody has reserved for exactly its idle time.
func TestASaleOpensAndEndsToTheMillisecond(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		const idle = time.Minute
		w.mustOpen(offer{stock: map[string]int64{"s": 10}, starts: time.Minute, idle: idle.Milliseconds()})
		starts := w.mustRead().StartsAt.Time
		for _, c := range []struct {
			at   time.Time
			code api.Code
		}{
			{edge(starts, false), api.CodeNotStarted},
			{edge(starts, true), ""},
			{edge(starts.Add(idle), true), api.CodeEnded},
			{edge(starts.Add(idle), false), ""}, // renews it
			{edge(edge(starts.Add(idle), false).Add(idle), false), ""},
		} {
			w := w.at(c.at)
			state := w.mustRead().State
			if _, err := w.reserve("u", units("s", 1)); api.CodeOf(err) != c.code || (state == api.SaleOpen) != (err == nil) {
				t.Errorf("%v after its start it is %s, and reserving says %v", c.at.Sub(starts), state, err)
			}
		}
	})
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 10}})
		for _, over := range []bool{false, true} {
			w := w.at(edge(w.mustRead().EndsAt.Time, over))
			state := w.mustRead().State
			_, err := w.reserve("u", units("s", 1))
			if (api.CodeOf(err) == api.CodeEnded) != over || (state == api.SaleEnded) != over {
				t.Errorf("over is %t: it is %s, and reserving says %v", over, state, err)
			}
		}
	})
}
