package stock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// Swept is what a partition owes to the record.
type Swept struct {
	Sale      string
	Partition int
	// Orders is how many orders wait, OldestOrderMS for how long the oldest.
	Orders        int64
	OldestOrderMS int64
	// Settings: the sale's version is not on record (first partition only).
	Settings bool
}

const (
	// sweepBatch is how many partitions one trip sweeps.
	sweepBatch = 200
	// transferPatience is how long a transfer may be under way before the sweeper
	// finishes it.
	transferPatience = time.Second
	// sweepTimeout bounds one sweep of all sales.
	sweepTimeout = 10 * time.Second
)

func (l *Live) sweepCmd(ctx context.Context, p *place) *redis.Cmd {
	return l.scripts.sweep.Cmd(ctx, p.core(p.orders, p.out), l.o.Run, sweptAtOnce)
}

// Run sweeps all live sales until ctx ends: it returns holds that are due,
// finishes transfers and changes that a crash left, tells OnSwept what is owed to
// the record, and lets the keys of sales long over expire. Any number of
// processes may do so. However slow the rest is, due holds do not wait for it.
func (l *Live) Run(ctx context.Context) error {
	w := &tending{live: l, busy: map[*place]bool{}}
	defer w.running.Wait()
	away := false
	for {
		found, err := l.sweep(ctx)
		if err != nil && !away && ctx.Err() == nil {
			l.o.Logger.Warn("sales are not swept for now", "error", err)
		}
		away = err != nil
		for _, f := range found {
			w.start(ctx, f)
		}
		if !l.pause(ctx) {
			return nil
		}
	}
}

// idleSweep is how long a sweeper rests while it knows of no sale; this process's
// own first one wakes it. With it a hold in another's first sale is returned
// within the second.
const idleSweep = 500 * time.Millisecond

// pause waits for the next sweep, and says whether there is one.
func (l *Live) pause(ctx context.Context) bool {
	rest := max(idleSweep, l.o.SweepEvery)
	l.places.Range(func(any, any) bool { rest = l.o.SweepEvery; return false })
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.awake:
	case <-ctx.Done():
		return false
	}
	return true
}

// Sweep is one round of Run, which waits for all that it finds to do.
func (l *Live) Sweep(ctx context.Context) error {
	found, err := l.sweep(ctx)
	for _, f := range found {
		if e := l.tend(ctx, f); err == nil {
			err = e
		}
	}
	return err
}

// finding is what a sweep learned of one partition.
type finding struct {
	*place
	answer []any
}

// tendedAtOnce is how many partitions are tended at the same time.
const tendedAtOnce = 16

// tending does what sweeps found left to do, beside the sweeps; what it has no
// room for is found again.
type tending struct {
	live    *Live
	mu      sync.Mutex
	busy    map[*place]bool
	running sync.WaitGroup
}

func (w *tending) start(ctx context.Context, f finding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy[f.place] || len(w.busy) >= tendedAtOnce {
		return
	}
	w.busy[f.place] = true
	w.running.Go(func() {
		defer func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			delete(w.busy, f.place)
		}()
		if err := w.live.tend(ctx, f); err != nil && ctx.Err() == nil {
			w.live.o.Logger.Warn("tend sale", "sale", f.sale, "partition", f.partition, "error", err)
		}
	})
}

// sweep returns the due holds of all sales, and tells where more is to be done.
// What cannot be swept keeps nobody else from it.
func (l *Live) sweep(ctx context.Context) (found []finding, err error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	sales, err := l.LiveSales(ctx) // with an error: those that this process knows
	var places []*place
	for sale, n := range sales {
		places = append(places, l.remember(sale, n)...)
	}
	if len(places) == 0 {
		return nil, err
	}
	for batch := range slices.Chunk(places, sweepBatch) {
		some, e := l.sweepAll(ctx, batch)
		found, err = append(found, some...), errors.Join(err, e)
	}
	return found, err
}

// sweepAll sweeps some partitions, and again those where more holds are due.
func (l *Live) sweepAll(ctx context.Context, places []*place) (found []finding, err error) {
	for len(places) > 0 {
		cmds := make([]redis.Cmder, len(places))
		for i, p := range places {
			cmds[i] = l.sweepCmd(ctx, p)
		}
		if e := l.share(ctx, stepSweep, redisdb.Write, cmds...); e != nil {
			return found, errors.Join(err, e)
		}
		var more []*place
		for i, p := range places {
			answer, e := reply(l.scripts.sweep, cmds[i].(*redis.Cmd))
			switch {
			case e != nil:
				err = errors.Join(err, e)
			case redisdb.NumberAt(answer, 0) == answerDone && redisdb.NumberAt(answer, 1) == sweptAtOnce:
				more = append(more, p)
			case l.isLeft(p, answer):
				found = append(found, finding{p, answer})
			}
		}
		places = more
	}
	return found, err
}

// loadingPatience is how long a sale may be read from the record before the
// process that does so is taken for dead.
const loadingPatience = 2 * time.Second

// absentPatience is how long a sale may be in the registry without keys: a PUT
// that makes one enters it before and after.
const absentPatience = time.Minute

// isLeft tells whether a partition needs more than its sweep.
func (l *Live) isLeft(p *place, answer []any) bool {
	switch redisdb.NumberAt(answer, 0) {
	case answerStaleRun:
		return true
	case answerLoading:
		return l.lasts(p) > loadingPatience
	case answerAbsent:
		return p.partition > 0 || l.lasts(p) > absentPatience
	}
	l.shut.Delete(p.prefix)
	version, now := integer(answer, 5), redisdb.NumberAt(answer, 2)
	owed := redisdb.NumberAt(answer, 3) > 0 || redisdb.NumberAt(answer, 9) > 0
	many := l.isPartitioned(p.sale)
	behind := integer(answer, 6) < version || many && integer(answer, 7) < version
	over := now > redisdb.NumberAt(answer, 8)+retireGrace.Milliseconds()
	return owed || many && redisdb.NumberAt(answer, 10) == 1 || p.partition == 0 && (behind || over)
}

// lasts tells how long a partition has been found shut.
func (l *Live) lasts(p *place) time.Duration {
	since, _ := l.shut.LoadOrStore(p.prefix, time.Now())
	return time.Since(since.(time.Time))
}

func (l *Live) isPartitioned(sale string) bool {
	known, ok := l.places.Load(sale)
	return ok && len(known.([]*place)) > 1
}

// tend does what a sweep found left to do.
func (l *Live) tend(ctx context.Context, f finding) error {
	switch redisdb.NumberAt(f.answer, 0) {
	case answerStaleRun, answerLoading:
		l.o.OnStale(ctx, f.sale)
		return nil
	case answerAbsent:
		return l.tendAbsent(ctx, f.place)
	}
	now, version, recorded := redisdb.NumberAt(f.answer, 2), integer(f.answer, 5), integer(f.answer, 6)
	l.tellSwept(ctx, f, now, recorded < version)
	places, err := l.placesOf(ctx, f.sale)
	if err != nil {
		return err
	}
	if redisdb.NumberAt(f.answer, 9) > 0 {
		if err := l.finishOld(ctx, places, f.place); err != nil {
			return err
		}
	}
	if redisdb.NumberAt(f.answer, 10) == 1 && len(places) > 1 {
		if err := l.coverOwed(ctx, places, false); err != nil {
			return err
		}
	}
	if f.partition > 0 {
		return nil
	}
	if len(places) > 1 && integer(f.answer, 7) < version {
		return l.settle(ctx, f.sale, len(places), false)
	}
	if now > redisdb.NumberAt(f.answer, 8)+retireGrace.Milliseconds() && recorded >= version {
		return l.retire(ctx, places)
	}
	return nil
}

func (l *Live) tellSwept(ctx context.Context, f finding, now int64, settings bool) {
	s := Swept{Sale: f.sale, Partition: f.partition, Orders: redisdb.NumberAt(f.answer, 3), Settings: f.partition == 0 && settings}
	if s.Orders > 0 {
		s.OldestOrderMS = max(now-redisdb.NumberAt(f.answer, 4), 0)
	}
	if s.Orders > 0 || s.Settings {
		l.o.OnSwept(ctx, s)
	}
}

// tendAbsent repairs a sale that has not reached all its partitions; one that
// lost a partition is stale, and one that is nowhere leaves the registry.
func (l *Live) tendAbsent(ctx context.Context, p *place) error {
	if p.partition == 0 {
		l.shut.Delete(p.prefix)
		return l.unregister(ctx, p.sale)
	}
	places, err := l.placesOf(ctx, p.sale)
	if errors.Is(err, ErrAbsent) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = l.looksOpen(ctx, places)
	switch {
	case errors.Is(err, ErrStaleRun):
		l.o.OnStale(ctx, p.sale)
		return nil
	case errors.Is(err, ErrAbsent):
		return nil // it is brought back when somebody asks for it
	}
	return err
}

// finishOld finishes transfers out of a partition that took too long.
func (l *Live) finishOld(ctx context.Context, places []*place, p *place) error {
	found, err := l.looks(ctx, p)
	if err != nil {
		return err
	}
	limit := found[0].now - transferPatience.Milliseconds()
	old := slices.DeleteFunc(found[0].out, func(t transfer) bool { return t.at > limit })
	return l.finishTransfers(ctx, places, old)
}

// retire lets the keys of a sale expire. It leaves the registry first: a change
// that comes between puts it back.
func (l *Live) retire(ctx context.Context, places []*place) error {
	sale := places[0].sale
	if err := l.unregister(ctx, sale); err != nil {
		return err
	}
	cmds := make([]redis.Cmder, len(places))
	for i, p := range places {
		keys := []string{p.settings, p.due, p.orders, p.out, p.stock, p.book, p.totals, p.seen}
		cmds[i] = l.scripts.retire.Cmd(ctx, keys, retireGrace.Milliseconds(), keysLifetime.Milliseconds())
	}
	if err := l.share(ctx, stepRetire, redisdb.Write, cmds...); err != nil {
		return err
	}
	for i := range cmds {
		n, err := single(l.scripts.retire, cmds[i].(*redis.Cmd))
		if err != nil {
			return err
		}
		if n == 0 {
			return l.register(ctx, sale, len(places))
		}
	}
	return nil
}
