package stock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// A sale that begins in a week, one in which nothing is held, one that is over, and one with
// a hold that ends in ten minutes cost a sweeper no script each time it sweeps.
func TestQuietSalesRest(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	db := storetest.Open(t, server.URL())
	for name, o := range map[string]offer{
		"far":   {starts: 7 * 24 * time.Hour, ends: 8 * 24 * time.Hour},
		"quiet": {},
		"over":  {starts: -2 * time.Hour, ends: -time.Hour},
		"held":  {hold: 600_000},
	} {
		w := newLiveWorld(t, db)
		o.stock, o.partitions = map[string]int64{"s": 50}, 8
		w.mustOpen(o)
		storetest.Must(t, w.SettingsRecorded(t.Context(), w.sale, 1))
		if name == "held" {
			w.mustReserve("u", units("s", 1))
		}
	}
	w := newLiveWorld(t, db).another(Options{SweepEvery: 10 * time.Millisecond})
	c := server.Client()
	storetest.Must(t, c.ConfigResetStat(t.Context()).Err())
	began := time.Now()
	w.sweepOn()
	storetest.Eventually(t, patience, "it sweeps again and again", func() bool { return storetest.Calls(t, c, "hscan") >= 50 })
	// Each partition once at first, and once more in every openRest.
	most := 4 * 8 * (2 + int(time.Since(began)/openRest))
	if n := storetest.Calls(t, c, "evalsha"); n < 4*8 || n > most {
		t.Errorf("%d scripts in %d sweeps, want at most %d", n, storetest.Calls(t, c, "hscan"), most)
	}
}

// S6: a sale that rests in one process is changed in another: one that was to begin in a
// week begins at once, with holds of a second; and the holds of another become shorter.
// Their units are available again a second after their end.
func TestS6_ASaleThatRestedIsChanged(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]offer{
		"Begins":       {starts: 7 * 24 * time.Hour, ends: 8 * 24 * time.Hour, hold: 600_000},
		"ShorterHolds": {hold: 600_000},
		"Reopened":     {starts: -2 * time.Hour, ends: -time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := storetest.Redis(t)
			w := newLiveWorld(t, storetest.Open(t, server.URL()))
			before.stock, before.partitions = map[string]int64{"s": 30}, 3
			w.mustOpen(before)
			storetest.Must(t, w.SettingsRecorded(t.Context(), w.sale, 1))
			w.another(Options{}).sweepOn()
			storetest.Eventually(t, patience, "all rest", func() bool { return storetest.Calls(t, server.Client(), "hscan") >= 3 })

			c, err := w.Put(t.Context(), PutSale{
				Sale: w.sale, Request: w.request(offer{stock: before.stock, partitions: 3, hold: 1000}), Match: Match{Version: 1},
			})
			storetest.Must(t, err)
			storetest.Must(t, w.SettingsRecorded(t.Context(), w.sale, c.Version))
			var ends time.Time
			for n := range 12 {
				ends = w.mustReserve(fmt.Sprint("u", n), units("s", 1)).ExpiresAt.Time
			}
			storetest.Eventually(t, patience, "the units are back", func() bool { return w.numbers("s") == "30 0 0 30" })
			if late := w.now().Sub(ends); late > time.Second {
				t.Errorf("%v after the last hold's end", late)
			}
		})
	}
}

// S6, S9: the master with the registry is away, and that of the sale is not. The sale is changed all the same, and
// a sweeper that let it rest finds the change, though nothing could tell it.
func TestS6_ASaleThatRestedIsChangedWhileTheRegistryIsAway(t *testing.T) {
	t.Parallel()
	w := newLiveWorld(t, storetest.Open(t, storetest.Redis(t).URL()))
	before := offer{starts: 7 * 24 * time.Hour, ends: 8 * 24 * time.Hour, stock: map[string]int64{"s": 30}, partitions: 3}
	w.mustOpen(before)
	storetest.Must(t, w.SettingsRecorded(t.Context(), w.sale, 1))
	var away atomic.Bool
	var sweeps atomic.Int64
	registry := func(name string, answered bool) error {
		if name != "hscan" && name != "hset" {
			return nil
		}
		if name == "hscan" && answered {
			sweeps.Add(1)
		}
		if away.Load() {
			return storetest.ErrCut
		}
		return nil
	}
	w.faulty(Options{SweepEvery: 10 * time.Millisecond}, registry).sweepOn()
	storetest.Eventually(t, patience, "all rest", func() bool { return sweeps.Load() >= 3 })
	away.Store(true)
	changer := w.faulty(Options{}, registry)
	c, err := changer.Put(t.Context(), PutSale{
		Sale: w.sale, Request: w.request(offer{stock: before.stock, partitions: 3, hold: 1000}), Match: Match{Version: 1},
	})
	storetest.Must(t, err)
	if !c.Changed || c.Record.Version != 2 || c.Sale.Version != 2 {
		t.Errorf("changed: %+v", c)
	}
	if _, c, err = changer.Restock(t.Context(), AddStock{Sale: w.sale, Request: restock("s", 1)}); err != nil || c.Record.Version != 3 {
		t.Errorf("restocked: %+v, %v", c, err)
	}
	storetest.Must(t, w.SettingsRecorded(t.Context(), w.sale, 3))
	for n := range 12 {
		w.mustReserve(fmt.Sprint("u", n), units("s", 1))
	}
	storetest.Eventually(t, patience, "the units are back", func() bool { return w.numbers("s") == "31 0 0 31" })
}

// logged is what a logger wrote.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// An outage of Redis makes one line of the log, and its end another, however many sweeps
// fail; and what comes due after it is returned in time, also in a sale that rested.
func TestOneLineForAnOutage(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	w := newLiveWorld(t, storetest.Open(t, server.URL()))
	w.mustOpen(offer{stock: map[string]int64{"s": 5}})
	var log logged
	tries := make(chan struct{}, 1000)
	o := Options{SweepEvery: 5 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	sweeper := w.faulty(o, func(name string, answered bool) error {
		if name == "hscan" && !answered {
			select {
			case tries <- struct{}{}:
			default:
			}
		}
		return nil
	})
	sweeper.sweepOn()
	<-tries
	for round := 1; round <= 2; round++ {
		server.Kill()
		storetest.Eventually(t, patience, "it is said", func() bool { return log.count("sales are not swept for now") == round })
		for len(tries) > 0 {
			<-tries
		}
		for range 3 {
			<-tries
		}
		server.Restart()
		storetest.Eventually(t, patience, "it is over", func() bool { return log.count("sales are swept again") == round })
	}
	if n := log.count("sales are not swept for now"); n != 2 {
		t.Errorf("%d lines for two outages", n)
	}
}

// What a rest is, by what a sweep found.
func TestRestOfASale(t *testing.T) {
	t.Parallel()
	const day = 24 * 3600 * 1000
	open := sweepAnswer{status: answerDone, now: 10 * day, starts: 9 * day, ends: 11 * day, hold: 600_000, nextDue: -1, version: 3}
	with := func(change func(*sweepAnswer)) sweepAnswer {
		a := open
		change(&a)
		return a
	}
	for name, c := range map[string]struct {
		want time.Duration
		of   []sweepAnswer
	}{
		"Open":         {openRest, []sweepAnswer{open, open}},
		"ShortHolds":   {300 * time.Millisecond, []sweepAnswer{with(func(a *sweepAnswer) { a.hold = 300 })}},
		"SoldAtOnce":   {openRest, []sweepAnswer{with(func(a *sweepAnswer) { a.hold = 0 })}},
		"DueSoon":      {40 * time.Millisecond, []sweepAnswer{open, with(func(a *sweepAnswer) { a.nextDue = 40 })}},
		"Due":          {0, []sweepAnswer{open, with(func(a *sweepAnswer) { a.nextDue = 0 })}},
		"Far":          {farRest, []sweepAnswer{with(func(a *sweepAnswer) { a.now = day })}},
		"BeginsSoon":   {2*time.Second + openRest, []sweepAnswer{with(func(a *sweepAnswer) { a.now = 9*day - 2000 })}},
		"Over":         {farRest, []sweepAnswer{with(func(a *sweepAnswer) { a.now = 11 * day })}},
		"OverWithHold": {time.Second, []sweepAnswer{with(func(a *sweepAnswer) { a.now, a.nextDue = 11*day, 1000 })}},
		"Told":         {toldRest, []sweepAnswer{with(func(a *sweepAnswer) { a.told = "o" })}},
		"ToldOver":     {farRest, []sweepAnswer{with(func(a *sweepAnswer) { a.now, a.told = 11*day, "o" })}},
		"ToldHold":     {toldRest, []sweepAnswer{with(func(a *sweepAnswer) { a.now, a.told, a.nextDue, a.held = 11*day, "o", 5000, true })}},
		"ToldEnded":    {5 * time.Second, []sweepAnswer{with(func(a *sweepAnswer) { a.now, a.told, a.nextDue = 11*day, "o", 5000 })}},
		"Left":         {openRest, []sweepAnswer{with(func(a *sweepAnswer) { a.now, a.left = 11*day, 1 })}},
		"Behind":       {0, []sweepAnswer{open, with(func(a *sweepAnswer) { a.version = 2 })}},
		"Closed":       {0, []sweepAnswer{open, {status: answerLoading}}},
	} {
		parts := make([]finding, len(c.of))
		for i, a := range c.of {
			parts[i] = finding{answer: a}
		}
		if got := restOf(parts); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		parts[0].owes = true
		if got := restOf(parts); got != 0 {
			t.Errorf("%s and something is owed: %v", name, got)
		}
	}
}

// H1: facts that were not moved bound the rest of a sale that has not begun, that sells, and that is over.
func TestASaleWithFactsDoesNotRest(t *testing.T) {
	t.Parallel()
	const day = 24 * 3_600_000
	for name, a := range map[string]sweepAnswer{
		"far":  {now: 10 * day, starts: 20 * day, ends: 30 * day},
		"open": {now: 10 * day, starts: 0, ends: 30 * day},
		"over": {now: 10 * day, starts: 0, ends: 9 * day},
	} {
		a.status, a.nextDue, a.told = answerDone, -1, "o"
		if d := a.rest(); name != "open" && d < time.Minute {
			t.Errorf("%s: without facts the rest is %v", name, d)
		}
		if a.left = 1; a.rest() != toldRest {
			t.Errorf("%s: with facts the rest is %v", name, a.rest())
		}
	}
}

// H1: a sale that is over is swept often while a hold lives, whose end is to be told, but not for what has ended.
func TestH1_ASaleThatIsOverRestsWithoutHolds(t *testing.T) {
	t.Parallel()
	eachOwnLive(t, func(t *testing.T, plain *liveWorld) {
		w, _ := plain.telling(api.FactOrderCreated)
		r := w.mustOpen(offer{stock: map[string]int64{"s": 9}, hold: 600_000})
		wants := func(want time.Duration) {
			t.Helper()
			found, err := w.sweepAll(t.Context(), []*partition{newPartition(w.sale, 0)})
			storetest.Must(t, err)
			if d := found[0].answer.rest(); d != want {
				t.Errorf("the rest is %v, want %v", d, want)
			}
		}
		first, second := w.mustReserve("u", units("s", 2)), w.mustReserve("v", units("s", 1))
		r.EndsAt = new(api.At(w.now()))
		w.put(r)
		wants(toldRest)
		for _, e := range []EndHold{{Sale: w.sale, ID: first.ID}, {Sale: w.sale, ID: second.ID, Sell: true}} {
			wants(toldRest)
			_, err := w.End(t.Context(), e)
			storetest.Must(t, err)
		}
		wants(farRest)
	})
}

// H1: looks for skus that are low take no place of what is owed. A sale for which there is no place, or whose look failed, does not
// rest.
func TestLooksHavePlacesOfTheirOwn(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		plain := newLiveWorld(t, db)
		plain.mustOpen(offer{stock: map[string]int64{"s": 9}, partitions: 2})
		swept, away := make(chan Swept, 1), errors.New("away")
		w := plain.faulty(Options{OnSwept: func(_ context.Context, s Swept) { swept <- s }}, func(name string, answered bool) error {
			if name == "partition_read" {
				return away
			}
			return nil
		})
		found := finding{newPartition(w.sale, 0), sweepAnswer{status: answerDone, orders: 1}, true, true}
		wakes := func(m *maintenance) bool {
			r := rests{w.sale: rest{}, "another": rest{}}
			m.wake(r)
			if _, ok := r["another"]; !ok {
				t.Error("another sale does not rest")
			}
			return len(r) == 1
		}
		m, release := newMaintenance(w.sweeper), make(chan struct{})
		for n := range maintainedAtOnce {
			if !m.startIn(m.looks, finding{partition: newPartition("other", n)}, func() { <-release }) {
				t.Fatalf("there are %d places", n)
			}
		}
		m.start(t.Context(), found)
		if s := <-swept; s.Sale != w.sale || s.Orders != 1 {
			t.Errorf("swept: %+v", s)
		}
		if !wakes(m) || wakes(m) {
			t.Error("a sale that was not looked at rests, or never does again")
		}
		close(release)
		m.running.Wait()
		found.owes = false
		m.start(t.Context(), found)
		m.running.Wait()
		if !wakes(m) {
			t.Error("a sale rests whose look failed")
		}
		m = newMaintenance(plain.sweeper)
		m.start(t.Context(), found)
		m.running.Wait()
		if wakes(m) {
			t.Error("a sale does not rest after a look")
		}
	})
}
