package stock

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// finding is the result of one partition's sweep.
type finding struct {
	*partition
	answer sweepAnswer
	owes   bool // maintain has something to do
	looks  bool // look looks for skus that are low
}

// maintainedAtOnce is how many partitions are maintained at the same time, and in how many sales skus that are low are looked for.
const maintainedAtOnce = 16

// maintenance maintains the partitions that sweeps found, while the sweeps go on. If too many wait
// already, the next sweep finds the partition again. Looks, of which there may be one after each sweep, have places of their own.
type maintenance struct {
	sweeper *sweeper
	running sync.WaitGroup

	mu          sync.Mutex
	busy, looks map[*partition]bool
	undone      map[string]bool // sales that need another look
}

func newMaintenance(sw *sweeper) *maintenance {
	return &maintenance{sweeper: sw, busy: map[*partition]bool{}, looks: map[*partition]bool{}, undone: map[string]bool{}}
}

// start begins what a finding needs.
func (m *maintenance) start(ctx context.Context, f finding) {
	if f.owes {
		m.startIn(m.busy, f, func() { m.note(ctx, f, m.sweeper.maintain(ctx, f)) })
	}
	if f.looks && !m.startIn(m.looks, f, func() { m.look(ctx, f) }) {
		m.again(f.sale)
	}
}

// startIn begins to do something if there is a place, and it is not being done in the partition.
func (m *maintenance) startIn(places map[*partition]bool, f finding, do func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if places[f.partition] || len(places) >= maintainedAtOnce {
		return false
	}
	places[f.partition] = true
	m.running.Go(func() {
		defer func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			delete(places, f.partition)
		}()
		do()
	})
	return true
}

// note logs what went wrong.
func (m *maintenance) note(ctx context.Context, f finding, err error) {
	if err != nil && ctx.Err() == nil {
		m.sweeper.o.Logger.Warn("maintain sale", "sale", f.sale, "partition", f.index, "error", err)
	}
}

func (m *maintenance) look(ctx context.Context, f finding) {
	done, err := m.sweeper.look(ctx, f)
	if m.note(ctx, f, err); !done {
		m.again(f.sale)
	}
}

// again notes that a sale needs another look.
func (m *maintenance) again(sale string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.undone[sale] = true
}

// wake ends the rest of the sales that need another look.
func (m *maintenance) wake(r rests) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for sale := range m.undone {
		delete(r, sale)
	}
	clear(m.undone)
}

// loadingPatience is how long a sale may stay closed before the process that loads it is
// taken for dead.
const loadingPatience = 2 * time.Second

// absentPatience is how long a sale may be in the registry without keys: a PUT registers a
// new sale before it makes the keys.
const absentPatience = 10 * time.Second

// needsMaintenance reports whether a partition needs more than its sweep.
func (sw *sweeper) needsMaintenance(p *partition, a sweepAnswer) bool {
	switch a.status {
	case answerStaleRun:
		return true
	case answerLoading:
		return sw.unusableFor(p) > loadingPatience
	case answerAbsent:
		return p.index > 0 || sw.unusableFor(p) > absentPatience
	}
	sw.unusable.Delete(p.ref())
	many := sw.isPartitioned(p.sale)
	owes := a.orders > 0 || a.transfers > 0 || many && a.oversold
	behind := a.unrecorded() || a.compareIn() <= 0 || many && a.spread < a.version
	return owes || p.index == 0 && (behind || a.retirable())
}

// unusableFor tells how long ago the sweeper first found a partition unusable.
func (sw *sweeper) unusableFor(p *partition) time.Duration {
	since, _ := sw.unusable.LoadOrStore(p.ref(), time.Now())
	return time.Since(since.(time.Time))
}

// forgetUnusable forgets the partitions of sales that are not live any more, however they went.
func (sw *sweeper) forgetUnusable(live map[string]registration) {
	sw.unusable.Range(func(ref, _ any) bool {
		if _, ok := live[ref.(Ref).Sale]; !ok {
			sw.unusable.Delete(ref)
		}
		return true
	})
}

func (sw *sweeper) isPartitioned(sale string) bool {
	known, ok := sw.known.Load(sale)
	return ok && len(known.([]*partition)) > 1
}

// maintain does the work for a partition that its sweep could not do in one script.
func (sw *sweeper) maintain(ctx context.Context, f finding) error {
	switch f.answer.status {
	case answerStaleRun, answerLoading:
		sw.o.OnStale(ctx, f.sale)
		return nil
	case answerAbsent:
		return sw.maintainAbsent(ctx, f.partition)
	}
	sw.reportSwept(ctx, f)
	parts, err := sw.partitionsOf(ctx, f.sale)
	if err != nil {
		return err
	}
	if f.answer.transfers > 0 {
		if err := sw.finishOld(ctx, parts, f.partition); err != nil {
			return err
		}
	}
	if f.answer.oversold && len(parts) > 1 {
		if err := sw.mover.coverOwed(ctx, parts, false); err != nil {
			return err
		}
	}
	if f.index > 0 {
		return nil
	}
	if len(parts) > 1 && f.answer.spread < f.answer.version {
		return sw.editor.finishChange(ctx, f.sale, len(parts), false)
	}
	if f.answer.retirable() && !f.answer.unrecorded() {
		return sw.retire(ctx, parts)
	}
	if f.answer.compareIn() > 0 {
		return nil
	}
	if err := sw.o.OnCompare(ctx, f.sale, f.answer.compareFrom()); err != nil {
		return err
	}
	return sw.raise(ctx, parts[0], map[string]string{"compared": strconv.FormatInt(f.answer.now, 10)})
}

// look looks for skus of a sale that are low, and reports whether that is done.
func (sw *sweeper) look(ctx context.Context, f finding) (done bool, err error) {
	parts, err := sw.partitionsOf(ctx, f.sale)
	if err != nil {
		return false, err
	}
	return sw.mover.tellLow(ctx, parts)
}

// reportSwept tells OnSwept which orders and settings of a partition are not on record.
func (sw *sweeper) reportSwept(ctx context.Context, f finding) {
	a := f.answer
	s := Swept{Sale: f.sale, Partition: f.index, Orders: a.orders, Settings: f.index == 0 && a.unrecorded()}
	if s.Orders > 0 {
		s.OldestOrderMS = max(a.now-a.oldestOrder, 0)
	}
	if s.Orders > 0 || s.Settings {
		sw.o.OnSwept(ctx, s)
	}
}

// maintainAbsent makes a partition that its sale has not reached yet. A sale that lost a
// partition is stale, and a sale without any keys leaves the registry.
func (sw *sweeper) maintainAbsent(ctx context.Context, p *partition) error {
	if p.index == 0 {
		return sw.leaveAfter(ctx, p.sale, func() (bool, error) { return sw.absent(ctx, p) })
	}
	parts, err := sw.partitionsOf(ctx, p.sale)
	if errors.Is(err, ErrAbsent) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = sw.partitions.readOpen(ctx, parts)
	switch {
	case errors.Is(err, ErrStaleRun):
		sw.o.OnStale(ctx, p.sale)
		return nil
	case errors.Is(err, ErrAbsent), errors.Is(err, ErrLoading):
		return nil // it is restored when it is needed, or the sweep of the first partition looks after it
	}
	return err
}

// finishOld finishes the transfers out of a partition that are under way for too long.
func (sw *sweeper) finishOld(ctx context.Context, parts []*partition, p *partition) error {
	found, err := sw.readStates(ctx, p)
	if err != nil {
		return err
	}
	limit := found[0].now - transferPatience.Milliseconds()
	old := slices.DeleteFunc(found[0].out, func(t transfer) bool { return t.at > limit })
	return sw.mover.finishTransfers(ctx, parts, old)
}

// retire removes a sale's keys in all its partitions, if none of them has anything left to do.
// The first partition goes last: as long as it is there, the others are found.
func (sw *sweeper) retire(ctx context.Context, parts []*partition) error {
	if over, err := sw.retireAll(ctx, parts, false); err != nil || !over {
		return err
	}
	return sw.leaveAfter(ctx, parts[0].sale, func() (bool, error) {
		if gone, err := sw.retireAll(ctx, parts[1:], true); err != nil || !gone {
			return false, err
		}
		return sw.retireAll(ctx, parts[:1], true)
	})
}

// retireAll reports whether all partitions may go, or removes those that may.
func (sw *sweeper) retireAll(ctx context.Context, parts []*partition, remove bool) (bool, error) {
	cmds := make([]redis.Cmder, len(parts))
	for i, p := range parts {
		cmds[i] = sw.scripts.retire.Cmd(ctx, p.all(), keptAfterEnd.Milliseconds(), keptAfterOpening.Milliseconds(), flag(remove))
	}
	if err := sw.db.Share(ctx, redisdb.Write, cmds...); err != nil {
		return false, err
	}
	all := true
	for i := range cmds {
		n, err := single(sw.scripts.retire, cmds[i].(*redis.Cmd))
		if err != nil {
			return false, err
		}
		all = all && n == 1
	}
	return all, nil
}
