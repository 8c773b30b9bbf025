package sales

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/stock"
	"fanfare/store/storetest"
)

// S17: the master dies and takes sales with it that are on record: before
// anything is sold on the new one, the sale has them; a restock that the record
// has is there too; and what cannot be covered is shown as oversold until units
// come back.
func TestS17_AFailOverIsReconciled(t *testing.T) {
	t.Parallel()
	for name, partitions := range map[string]int64{"One": 1, "Three": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sentinel := storetest.Sentinel(t)
			s := setup(t)
			s.redisURL = sentinel.URL()
			p, other := s.mustStart(Options{}), s.mustStart(Options{})
			p.mustPut(s.sale, request(10, 60_000, partitions))
			p.work(p.Run, p.write)
			p.mustConfirm(s.sale, p.mustBuy(s.sale, "early", 3).ID)
			held := p.mustBuy(s.sale, "holder", 4)
			p.awaitRows(s.sale, 1)
			p.awaitReplicated(sentinel)

			replica := sentinel.Second
			replica.Pause() // from here on nothing reaches it, nor waits in its connection
			storetest.Must(t, sentinel.First.Client().ClientKillByFilter(t.Context(), "TYPE", "replica").Err())
			_, _, err := p.End(t.Context(), stock.EndHold{Sale: s.sale, ID: held.ID})
			storetest.Must(t, err)
			p.mustRestock(s.sale, 2)
			for i := range 3 {
				p.mustConfirm(s.sale, p.mustBuy(s.sale, fmt.Sprint("late", i), 3).ID)
			}
			p.wantItem(s.sale, 0, 0, 12)
			p.awaitRows(s.sale, 4)
			sentinel.First.Kill()
			replica.Resume()

			// On the new master 4 are held and 9 sold that it does not know of: of 12
			// units none may be sold, by whatever process, first thing.
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() { []*process{p, other}[i%2].refusedFirst(s.sale, fmt.Sprint("x", i)) })
			}
			all.Wait()
			stats, err := p.Stats(t.Context())
			storetest.Must(t, err)
			if stats.Oversold[s.sale]["s"] != 4 {
				t.Errorf("4 units are held that were sold: %+v", stats)
			}
			now, err := p.read(t.Context(), s.sale)
			storetest.Must(t, err)
			if now.Items[0].Sold != 12 || now.Items[0].Available != 0 || now.Version != 2 {
				t.Errorf("%+v", now)
			}
			// The hold ends: its units cover what was oversold.
			_, _, err = other.End(t.Context(), stock.EndHold{Sale: s.sale, ID: held.ID})
			storetest.Must(t, err)
			p.wantItem(s.sale, 0, 0, 12)
			p.work(p.Sweep) // of several partitions the one that owes may be another
			storetest.Eventually(t, patience, "nothing is owed", func() bool {
				stats, err = p.Stats(t.Context())
				return err == nil && len(stats.Oversold) == 0
			})
			p.mustRestock(s.sale, 1)
			mustEventuallyBuy(t, p, s.sale)
			p.wantItem(s.sale, 0, 1, 12)
		})
	}
}

// S17: a replica leads for a while, then the first server again, which is still in the
// same run but has lost what the replica never had. The sale is compared with the record
// on both, once each, though nobody calls while the replica leads.
func TestS17_ThereAndBack(t *testing.T) {
	t.Parallel()
	sentinel := storetest.Sentinel(t)
	s := setup(t)
	s.redisURL = sentinel.URL()
	read, log := countReadBacks()
	p := s.mustStart(Options{Logger: log})
	p.mustPut(s.sale, request(10, 60_000, 1))
	p.work(p.Run, p.write, p.Sweep)
	p.mustConfirm(s.sale, p.mustBuy(s.sale, "early", 3).ID)
	p.awaitRows(s.sale, 1)
	p.awaitReplicated(sentinel)

	first, second := sentinel.First, sentinel.Second
	second.Pause()
	storetest.Must(t, first.Client().ClientKillByFilter(t.Context(), "TYPE", "replica").Err())
	p.mustConfirm(s.sale, p.mustBuy(s.sale, "late", 4).ID)
	p.awaitRows(s.sale, 2)
	settings := "ff:{sale:" + s.sale + ":0}:sale"
	leads := func(server *storetest.RedisServer) {
		t.Helper()
		storetest.Eventually(t, 2*patience, "the sale was compared on the server that leads", func() bool {
			info, err := server.Client().InfoMap(t.Context(), "server", "replication").Result()
			if err != nil || info["Replication"]["role"] != "master" {
				return false
			}
			made, err := server.Client().HMGet(t.Context(), settings, "run_id", "closed").Result()
			return err == nil && made[0] == info["Server"]["run_id"] && made[1] == nil
		})
	}
	first.Pause()
	second.Resume()
	leads(second)
	first.Resume()
	storetest.Eventually(t, 2*patience, "the first server follows", func() bool {
		info, err := first.Client().InfoMap(t.Context(), "replication").Result()
		return err == nil && info["Replication"]["role"] == "slave" && info["Replication"]["master_link_status"] == "up"
	})
	second.Pause()
	defer second.Resume()
	leads(first)
	storetest.Eventually(t, patience, "it has all orders", func() bool {
		sale, err := p.read(t.Context(), s.sale)
		return err == nil && sale.Items[0].Sold == 7 && sale.Items[0].Available == 3
	})
	if n := read.n.Load(); n != 2 {
		t.Errorf("read back %d times after two promotions", n)
	}
}

// awaitReplicated waits until the replica has what the master has.
func (p *process) awaitReplicated(s *storetest.RedisSentinel) {
	p.t.Helper()
	storetest.Eventually(p.t, patience, "the replica has everything", func() bool {
		n, err := s.First.Wait(p.t.Context(), 1, time.Second)
		return err == nil && n == 1
	})
}

// refusedFirst tries until Redis answers: that must be a refusal.
func (p *process) refusedFirst(sale, user string) {
	deadline := time.Now().Add(patience)
	for try := 0; ; try++ {
		_, err := p.buy(sale, fmt.Sprint(user, ".", try), 1)
		code := api.CodeOf(err)
		if code == api.CodeSoldOut {
			return
		}
		if code != api.CodeUnavailable && code != api.CodeUnknownOutcome || time.Now().After(deadline) {
			p.t.Errorf("after the fail-over: %v", err)
			return
		}
		redisdb.Sleep(p.t.Context(), 50*time.Millisecond)
	}
}

func mustEventuallyBuy(t testing.TB, p *process, sale string) {
	t.Helper()
	storetest.Eventually(t, patience, "a unit is sold", func() bool { _, err := p.buy(sale, unused(), 1); return err == nil })
}

// S17: a restart is another run as well: what the append-only file kept is there,
// holds go on, and a sweep brings them back also when nobody calls.
func TestS17_ARestart(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	s := setup(t)
	s.redisURL = server.URL()
	p := s.mustStart(Options{})
	p.mustPut(s.sale, request(5, 1500, 1))
	p.work(p.Run, p.write, p.Sweep)
	p.mustConfirm(s.sale, p.mustBuy(s.sale, "u", 2).ID)
	p.mustBuy(s.sale, "v", 1)
	p.awaitRows(s.sale, 1)
	server.Restart()
	storetest.Eventually(t, patience, "the hold has ended by itself", func() bool {
		text, err := server.Client().HGet(t.Context(), "ff:{sale:"+s.sale+":0}:stock", "s").Result()
		sale, e := p.read(t.Context(), s.sale)
		return err == nil && text != "" && e == nil && sale.Items[0] == api.SaleItem{SKU: "s", Total: 5, Available: 3, Held: 0, Sold: 2}
	})
}

// readBacks is a log that counts how often a sale was read back from the record.
type readBacks struct {
	slog.Handler
	n    atomic.Int64
	lost atomic.Int64 // how often Redis is said to have lost something
	then func()       // what is done when one begins, if anything
}

func countReadBacks() (*readBacks, *slog.Logger) {
	r := &readBacks{Handler: slog.DiscardHandler}
	return r, slog.New(r)
}

// Enabled is for everything.
func (*readBacks) Enabled(context.Context, slog.Level) bool { return true }

// Handle counts.
func (r *readBacks) Handle(_ context.Context, line slog.Record) error {
	if line.Level >= slog.LevelWarn && line.Message == "Redis had lost a sale or orders of it" {
		r.lost.Add(1)
	}
	if line.Message == "a sale is brought in line with the record" {
		r.n.Add(1)
		if r.then != nil {
			r.then()
		}
	}
	return nil
}

// S17: a sale is read back from its orders when Redis began another run, once for
// all processes and callers; not when callers hang up, connections are lost, or
// Redis does not answer for a while.
func TestS17_ReadBackOnceAndOnlyAfterAnotherRun(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	s := setup(t)
	s.redisURL = server.URL()
	read, log := countReadBacks()
	open := func() *process {
		return s.mustStartOn(storetest.OpenWith(t, redisdb.Options{URL: s.redisURL, Timeout: time.Second}), Options{Logger: log})
	}
	processes := []*process{open(), open()}
	processes[0].mustPut(s.sale, request(1_000_000, 60_000, 1))
	for _, p := range processes {
		p.work(p.Run, p.Sweep)
	}
	begin := make(chan struct{})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			<-begin
			for n := range 100 {
				ctx, hangUp := context.WithTimeout(t.Context(), time.Duration(n%10)*100*time.Microsecond)
				_, _, _ = processes[i%2].Reserve(ctx, s.sale, &api.ReservationRequest{User: fmt.Sprint("h", i, ".", n), Lines: []api.Line{{SKU: "s", Quantity: 1}}}, api.Idempotency{})
				hangUp()
			}
		})
		all.Go(func() {
			<-begin
			for n := range 50 {
				if _, err := processes[i%2].buy(s.sale, fmt.Sprint("u", i, ".", n), 1); err != nil {
					t.Errorf("beside callers that hang up: %v", err)
				}
			}
		})
	}
	close(begin)
	all.Wait()
	storetest.Must(t, server.Client().ClientKillByFilter(t.Context(), "TYPE", "normal").Err())
	mustEventuallyBuy(t, processes[0], s.sale)
	server.Pause()
	_, err := processes[1].buy(s.sale, "waits", 1)
	server.Resume()
	if err == nil {
		t.Error("Redis answered while it was stopped")
	}
	mustEventuallyBuy(t, processes[1], s.sale)
	if n := read.n.Load(); n != 0 {
		t.Fatalf("read back %d times in one run of Redis", n)
	}
	server.Restart()
	for i := range 16 {
		all.Go(func() { mustEventuallyBuy(t, processes[i%2], s.sale) })
	}
	all.Wait()
	if n, lost := read.n.Load(), read.lost.Load(); n != 1 || lost != 0 {
		t.Errorf("read back %d times after a restart, and told %d times of a loss", n, lost)
	}
	storetest.Must(t, server.Client().FlushAll(t.Context()).Err())
	mustEventuallyBuy(t, processes[0], s.sale)
	if lost := read.lost.Load(); lost != 1 {
		t.Errorf("told %d times of a loss when Redis was emptied", lost)
	}
}

// S17: a sale of which nobody could say how it stands is not read back for that.
func TestS17_AFailedReadIsNoReasonToReadBack(t *testing.T) {
	t.Parallel()
	s := setup(t)
	var redis *storetest.Proxy
	redis, s.redisURL = storetest.ProxyTo(t, storetest.Redis(t).URL())
	read, log := countReadBacks()
	p := s.mustStart(Options{Logger: log})
	p.mustPut(s.sale, request(5, 60_000, 1))
	redis.Cut()
	storetest.WantCode(t, p.reload(t.Context(), s.sale), api.CodeUnavailable)
	if n := read.n.Load(); n != 0 {
		t.Errorf("read back %d times", n)
	}
}

// TestS7_WhoLooksLaterReadsBackOnce: a sale that is over for so long that its keys are gone
// is read back for whoever looks at it, and stays a while: not once for each look.
func TestS7_WhoLooksLaterReadsBackOnce(t *testing.T) {
	t.Parallel()
	s := setup(t)
	read, log := countReadBacks()
	p := s.mustStart(Options{Logger: log})
	p.mustPut(s.sale, request(10, 60_000, 2))
	p.mustConfirm(s.sale, p.mustBuy(s.sale, "u", 3).ID)
	p.work(p.Run, p.write)
	p.awaitRows(s.sale, 1)
	row, err := p.rec.Sale(t.Context(), s.sale)
	storetest.Must(t, err)
	const longAgo = int64(9 * 24 * time.Hour / time.Millisecond)
	row.Version, row.StartsAt, row.EndsAt = row.Version+1, row.StartsAt-longAgo, row.EndsAt-longAgo
	storetest.Must(t, p.rec.PutSale(t.Context(), *row))
	storetest.Must(t, p.db.Client().FlushAll(t.Context()).Err())
	p.work(p.Sweep)
	began := time.Now()
	storetest.Eventually(t, patience, "it is looked at for a while", func() bool {
		now, err := p.read(t.Context(), s.sale)
		if err != nil || now.Items[0].Sold != 3 {
			t.Errorf("%+v, %v", now, err)
		}
		return time.Since(began) > 2*time.Second
	})
	if n := read.n.Load(); n != 1 {
		t.Errorf("read back %d times", n)
	}
}

// S17: a process changes a sale and stands still before it writes the record; meanwhile the
// sale is read from there by another Redis, or by the next run of this one. What the process
// writes before that reading is in it. What it writes afterwards is refused.
func TestS17_SettingsThatAreRecordedBesideALoad(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		when    func(p *process, load, write func())
		version int64
	}{
		"Before": {func(_ *process, load, write func()) { write(); load() }, 2},
		"In": {func(p *process, load, write func()) {
			p.o.Logger = slog.New(&readBacks{Handler: slog.DiscardHandler, then: write})
			load()
		}, 1},
		"After": {func(_ *process, load, write func()) { load(); write() }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			p := s.mustStart(Options{})
			p.t = t
			p.mustPut(s.sale, request(10, 60_000, 2))
			p.mustBuy(s.sale, "u", 3)
			row, err := p.rec.Sale(t.Context(), s.sale)
			storetest.Must(t, err)
			late := settingsOf(row)
			late.Version, late.Items = 2, []stock.Item{{SKU: "s", Total: 5}} // on a master that is lost
			storetest.Must(t, p.db.Client().HSet(t.Context(), "ff:{sale:"+s.sale+":0}:sale", "run_id", "another").Err())
			var wrote error
			c.when(p, func() { storetest.Must(t, p.reload(t.Context(), s.sale)) }, func() { wrote = p.recordSale(t.Context(), late) })
			if c.version == 1 {
				storetest.WantCode(t, wrote, api.CodeUnknownOutcome)
			} else {
				storetest.Must(t, wrote)
			}
			now, err := p.read(t.Context(), s.sale)
			storetest.Must(t, err)
			row, err = p.rec.Sale(t.Context(), s.sale)
			storetest.Must(t, err)
			if total := []int64{0, 10, 5}[c.version]; now.Version != c.version || now.Items[0].Total != total ||
				row.Version != c.version || row.Items[0].Total != total {
				t.Errorf("the sale is %+v, on record is %+v", now, row)
			}
		})
	}
}
