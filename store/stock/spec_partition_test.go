package stock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/lock"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// usersOf gives users whose home is one partition.
func usersOf(partition, partitions, n int) []string {
	var users []string
	for i := 0; len(users) < n; i++ {
		if user := fmt.Sprint("user-", i); Home(user, partitions) == partition {
			users = append(users, user)
		}
	}
	return users
}

// 8 partitions, 8 units, 8 users of one home: all 8 get one.
func TestS12_EightUsersOfOneHome(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 8}, partitions: 8})
		for i, k := range w.mustAddUp() {
			if n := k.stock["s"].available; n != 1 {
				t.Errorf("partition %d has %d units", i, n)
			}
		}
		processes := []*liveWorld{w, w.another(Options{})}
		var all sync.WaitGroup
		for n, user := range usersOf(3, 8, 8) {
			all.Go(func() {
				if _, err := processes[n%2].reserve(user, units("s", 1)); err != nil {
					t.Errorf("%s: %v", user, err)
				}
			})
		}
		all.Wait()
		w.want("s", "0 8 0 8")
		_, err := w.reserve(usersOf(5, 8, 1)[0], units("s", 1))
		storetest.WantCode(t, err, api.CodeSoldOut)
		w.mustAddUp()
	})
}

// A quantity larger than any partition's share is granted while the sum allows.
func TestS12_MoreThanAnyShare(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"a": 64, "b": 640}, partitions: 64})
		w.mustReserve("u", units("a", 60), units("b", 500))
		got, err := w.reserve("v", units("a", 5))
		storetest.WantCode(t, err, api.CodeSoldOut)
		if got.SoldOut.Available["a"] != 4 {
			t.Errorf("%+v", got.SoldOut)
		}
		w.mustReserve("v", units("a", 4), units("b", 140))
		w.want("a", "0 64 0 64")
		w.want("b", "0 640 0 640")
		w.mustAddUp()
	})
}

// Due holds of other partitions are units that are there; the refusal tells when
// the next ends, wherever it is.
func TestS12_HoldsElsewhere(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 300}, partitions: 3})
		for _, user := range usersOf(1, 3, 300) {
			w.overdue(w.mustReserve(user, units("s", 1)).ID)
		}
		buyer := usersOf(2, 3, 1)[0]
		w.mustReserve(buyer, units("s", 300))
		got, err := w.reserve(usersOf(0, 3, 1)[0], units("s", 1))
		storetest.WantCode(t, err, api.CodeSoldOut)
		if due := got.SoldOut.NextDue; due <= 9*time.Minute || due > api.DefaultHold {
			t.Errorf("the next hold ends in %v", due)
		}
		w.mustAddUp()
	})
}

// Whoever reserves and releases all the time: available + held + sold = total in
// every answer, and no buyer is refused while there is always enough for him.
func TestS12_NobodyIsRefusedInVain(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		const buyersNow, partitions = 8, 8
		rounds := 25
		if w.db.Embedded() { // its Lua is slow
			rounds = 8
		}
		// Each buyer has at most one unit: with as many units nobody may be refused.
		w.mustOpen(offer{stock: map[string]int64{"s": buyersNow}, partitions: partitions})
		processes := []*liveWorld{w, w.another(Options{}), w.another(Options{})}
		var all sync.WaitGroup
		stop := make(chan struct{})
		var reads atomic.Int64
		all.Go(func() { readAlong(w, stop, &reads) })
		var buying sync.WaitGroup
		for b := range buyersNow {
			buying.Go(func() {
				p := processes[b%len(processes)]
				for n := range rounds {
					r, err := p.reserve(fmt.Sprint("b", b, ".", n), units("s", 1))
					if err == nil {
						_, err = p.End(context.Background(), EndHold{Sale: p.sale, ID: r.Reservation.ID})
					}
					if err != nil {
						t.Errorf("buyer %d: %v", b, err)
						return
					}
				}
			})
		}
		buying.Wait()
		close(stop)
		all.Wait()
		w.want("s", "8 0 0 8")
		w.mustAddUp()
		if reads.Load() == 0 {
			t.Error("nobody read")
		}
	})
}

// readAlong reads the sale until stop, and checks that every answer adds up.
func readAlong(w *liveWorld, stop <-chan struct{}, reads *atomic.Int64) {
	for {
		s, err := w.Sale(context.Background(), w.sale)
		if err != nil {
			w.t.Error(err)
			return
		}
		for _, i := range s.Items {
			if i.Available+i.Held+i.Sold != i.Total {
				w.t.Errorf("%+v (consistent %v)", i, *s.Consistent)
				return
			}
		}
		reads.Add(1)
		select {
		case <-stop:
			return
		default:
		}
	}
}

// The right to move of a process that died ends with its lease: others wait for
// it, they do not refuse.
func TestS12_AMoverDies(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 8}, partitions: 8})
		dead := lock.New(w.db, lock.Options{Name: "sale", Lease: 300 * time.Millisecond, MaxAttempts: moveAttempts})
		a, err := dead.TryAcquire(t.Context(), w.sale)
		if err != nil || a.Status != lock.Acquired {
			t.Fatalf("%+v %v", a, err)
		}
		w.mustReserve("u", units("s", 5))
		if a.Lease.Alive() {
			t.Error("the lease was not waited for")
		}
		w.mustAddUp()
	})
}

// Transfers hither and thither under load: nothing is lost or doubled.
func TestS12_CollectorsInManyProcesses(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"a": 40, "b": 30}, partitions: 5})
		losing := w.faulty(Options{}, func(_ string, answered bool) error { // its answers get lost
			switch rand.IntN(30) {
			case 0:
				return storetest.ErrLost
			case 1:
				if answered {
					return storetest.ErrTwice
				}
			}
			return nil
		})
		processes := []*liveWorld{w, losing, w.another(Options{})}
		var all sync.WaitGroup
		for k := range 9 {
			all.Go(func() {
				p := processes[k%3]
				for n := range 15 {
					r, err := p.reserve(fmt.Sprint("u", k, ".", n), units("a", rand.Int64N(12)+1), units("b", rand.Int64N(9)+1))
					if err == nil && n%5 > 0 {
						_, err = p.End(context.Background(), EndHold{Sale: p.sale, ID: r.Reservation.ID})
					}
					lost := []api.Code{api.CodeUnknownOutcome, api.CodeUnavailable} // of a write, of a read
					if code := api.CodeOf(err); err != nil && code != api.CodeSoldOut && !slices.Contains(lost, code) {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		w.mustAddUp()
		w.finishesAlone()
	})
}

// A debit that arrives again, however late, takes nothing: neither while its
// transfer is on its way, when it answers the same, nor after.
func TestS12_ADebitComesTwice(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 10}, partitions: 2})
		parts, err := w.partitionsOf(t.Context(), w.sale)
		storetest.Must(t, err)
		from := parts[0]
		found, err := w.readStates(t.Context(), from)
		storetest.Must(t, err)
		id := newRequest()
		send := func() []any {
			t.Helper()
			cmd := w.scripts.debit.Cmd(t.Context(), from.core(from.out), "", 0, found[0].moves, id, 1, "s", 2)
			storetest.Must(t, w.db.Share(t.Context(), redisdb.Write, cmd))
			answer, err := redisdb.ListOf(cmd)
			storetest.Must(t, err)
			return answer
		}
		first := send()
		if again := send(); redisdb.NumberAt(first, 0) != answerDone || fmt.Sprint(first) != fmt.Sprint(again) {
			t.Errorf("first %v, again %v", first, again)
		}
		moving, ok := parseTransfer(from, redisdb.TextAt(first, 2), id, redisdb.TextAt(first, 1))
		if !ok {
			t.Fatalf("answered %v", first)
		}
		for range 2 {
			storetest.Must(t, w.finishTransfers(t.Context(), parts, []transfer{moving}))
		}
		if late := send(); redisdb.NumberAt(late, 0) == answerDone {
			t.Errorf("long after: %v", late)
		}
		for i, k := range w.mustAddUp() {
			if want := []int64{3, 7}[i]; k.stock["s"].available != want || len(k.out) > 0 {
				t.Errorf("partition %d has %d units, want %d", i, k.stock["s"].available, want)
			}
		}
	})
}

// What counts as a proof that there was too little.
func TestS12_ProofOfAShortage(t *testing.T) {
	t.Parallel()
	pass := func(moves, returns string, out ...transfer) []*partitionState {
		return []*partitionState{{}, {moves: moves, returns: returns, out: out}}
	}
	for name, c := range map[string]struct {
		before, now []*partitionState
		proof       bool
	}{
		"the first pass":      {nil, pass("1", "1"), false},
		"nothing happened":    {pass("1", "1"), pass("1", "1"), true},
		"units moved":         {pass("1", "1"), pass("2", "1"), false},
		"units came back":     {pass("1", "1"), pass("1", "2"), false},
		"units on their way":  {pass("1", "1", transfer{}), pass("1", "1"), false},
		"they left meanwhile": {pass("1", "1"), pass("2", "1", transfer{}), false},
	} {
		if got := unchanged(c.before, c.now); got != c.proof {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A read that units overtake at every try says so, and adds up all the same.
func TestS12_ReadsThatAreOvertaken(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 10}, partitions: 2})
		if s := w.mustRead(); s.Consistent == nil || !*s.Consistent {
			t.Errorf("nothing moves: %+v", s)
		}
		parts, err := w.partitionsOf(t.Context(), w.sale)
		storetest.Must(t, err)
		mover, answers := w.another(Options{}), atomic.Int64{}
		reader := w.faulty(Options{}, func(script string, answered bool) error {
			if script != "partition_read" || !answered || answers.Add(1)%2 > 0 {
				return nil // both partitions are to be read first
			}
			to := parts[answers.Load()/2%2]
			_, err := mover.gather(context.Background(), parts, gathering{to: to, want: map[string]int64{"s": 10}})
			return err
		})
		s := reader.mustRead()
		reads := answers.Load() / 2
		if s.Consistent == nil || *s.Consistent || s.Items[0].Available != 10 || reads != 1+saleReads {
			t.Errorf("%+v after %d reads", s, reads)
		}
	})
}
