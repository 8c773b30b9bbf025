package stock

import (
	"context"
	"strings"
	"testing"

	"fanfare/api"
	"fanfare/store/storetest"
)

// TestS12_KilledAtEveryStep kills a process before and after each contact with
// Redis while it collects, lets a sweeper finish, and checks that nothing is
// lost or doubled.
func TestS12_KilledAtEveryStep(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		deaths := 0
		for n := range 60 {
			w := newLiveWorld(t, w.db)
			w.mustOpen(offer{stock: map[string]int64{"a": 12, "b": 8}, partitions: 4, hold: -1})
			if w.dieAt(n) {
				deaths++
			} else {
				break
			}
			w.mustAddUp()
			w.finishesAlone()
			// All that was not sold can be: to one user, from all partitions.
			left := w.mustRead()
			w.mustReserve("rest", units("a", left.Items[0].Available), units("b", left.Items[1].Available))
			w.want("a", "0 0 12 12")
			w.want("b", "0 0 8 8")
			w.mustAddUp()
		}
		if deaths < 12 {
			t.Errorf("only %d deaths: the transfer has more steps", deaths)
		}
	})
}

// mortal is a process that dies at one of its contacts with Redis. Contacts of the lock do not
// count, and work after its death: else the next process would wait for the end of its lease.
func (w *liveWorld) mortal(m *storetest.Mortal) *liveWorld {
	return w.faulty(Options{}, func(name string, answered bool) error {
		if strings.HasPrefix(name, "lock_") {
			return nil
		}
		return m.Fault(name, answered)
	})
}

// dieAt lets a process reserve what needs a transfer and die at its n-th contact
// with Redis; false when it had fewer.
func (w *liveWorld) dieAt(n int) bool {
	m := storetest.DieAt(n)
	dying := w.mortal(m)
	_, err := dying.reserve("u", units("a", 7), units("b", 5))
	if dead := m.Dead(); err == nil && dead || err != nil && !dead {
		w.t.Fatalf("dead %v, %v", dead, err)
	}
	return m.Dead()
}

// finishesAlone waits until a sweeper of another process has finished all
// transfers.
func (w *liveWorld) finishesAlone() {
	w.t.Helper()
	parts, err := w.partitionsOf(context.Background(), w.sale)
	storetest.Must(w.t, err)
	// Time passes: the records are made older.
	for _, p := range parts {
		for id, text := range w.db.Client().HGetAll(context.Background(), p.out).Val() {
			_, rest, _ := strings.Cut(text, "|")
			storetest.Must(w.t, w.db.Client().HSet(context.Background(), p.out, id, "1|"+rest).Err())
		}
	}
	sweeper := w.another(Options{})
	sweeper.remember(w.sale, len(parts))
	for _, p := range parts {
		found, err := sweeper.sweepAll(context.Background(), []*partition{p})
		storetest.Must(w.t, err)
		for _, f := range found {
			storetest.Must(w.t, sweeper.maintain(context.Background(), f))
		}
	}
	for _, k := range w.mustAddUp() {
		if len(k.out) > 0 {
			w.t.Fatalf("on its way: %+v", k.out)
		}
	}
}

// A transfer is not finished while it is young, and is when it is old, by the
// sweeper alone.
func TestS12_SweeperFinishesOldTransfers(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 8}, partitions: 2})
		dying := w.faulty(Options{}, func(script string, _ bool) error {
			if script == "transfer_credit" {
				return storetest.ErrLost
			}
			return nil
		})
		if _, err := dying.reserve("u", units("s", 7)); err == nil {
			t.Fatal("the process did not die")
		}
		w.want("s", "8 0 0 8") // what is on its way counts as available
		sweeper := w.another(Options{})
		sweeper.sweepOn()
		begin := w.now()
		parts, _ := w.partitionsOf(t.Context(), w.sale)
		storetest.Eventually(t, patience, "the transfer is finished", func() bool {
			found, err := w.readStates(t.Context(), parts...)
			return err == nil && len(underway(found)) == 0
		})
		if took := w.now().Sub(begin); took < transferPatience/2 {
			t.Errorf("it was finished after %v", took)
		}
		w.want("s", "8 0 0 8")
		w.mustAddUp()
	})
}

// A change of stock that takes units from all partitions and gives others, by a
// process that is killed at every step: all of it or nothing, and the sweeper of
// another brings it to all partitions.
func TestS12_ChangesKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		done, undone := 0, 0
		for n := range 60 {
			w := newLiveWorld(t, w.db)
			r := w.mustOpen(offer{stock: map[string]int64{"a": 12, "b": 4}, partitions: 4})
			w.mustReserve("u", units("a", 2))
			r.Items[0].Stock, r.Items[1].Stock = new(int64(3)), new(int64(9))
			r.Items = append(r.Items, api.SaleStock{SKU: "c", Stock: new(int64(5))})
			dying := w.mortal(storetest.DieAt(n))
			_, err := dying.Put(t.Context(), PutSale{Sale: w.sale, Request: r, Match: Match{Version: 1}})
			w.mustAddUp()
			w.finishesAlone()
			left := map[bool]string{true: "1 2 0 3", false: "10 2 0 12"}
			made := w.mustRead().Version == 2
			w.want("a", left[made])
			if err == nil && !made {
				t.Fatal("it was told that it is so")
			}
			if made {
				done++
				w.mustReserve("rest", units("a", 1), units("b", 9), units("c", 5))
			} else {
				undone++
				w.mustReserve("rest", units("a", 10), units("b", 4))
			}
			w.mustAddUp()
			if err == nil {
				break
			}
		}
		if done < 3 || undone < 3 {
			t.Errorf("%d were made, %d were not", done, undone)
		}
	})
}
