package stock

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/lock"
	"fanfare/store/redisdb"
)

const (
	// moveLease ends the right to move units of a process that died.
	moveLease = 2 * time.Second
	// moveAttempts is a number of attempts that is never used up.
	moveAttempts = 1 << 30
	// collectRounds bounds how often one reservation collects units: other users of the
	// same home partition may take them first.
	collectRounds = 100
	// sweptAtOnce is how many due holds a sweep returns in one script.
	sweptAtOnce = 100
)

func newMover(b *base) *mover {
	o := lock.Options{Name: moveLock, Lease: moveLease, MaxAttempts: moveAttempts, Retention: time.Minute}
	return &mover{b, lock.New(b.db, o)}
}

// lockMoves takes the right to move units of a sale, which one caller in one process has at
// a time, by a lease. It spares processes useless work: each step of a transfer is safe
// without it.
func (m *mover) lockMoves(ctx context.Context, parts []*partition) (release func(), err error) {
	sale, turn := parts[0].sale, parts[0].turn
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return nil, m.db.Err(ctx.Err(), redisdb.Read)
	}
	a, err := m.leases.Acquire(ctx, sale)
	if err == nil && a.Status != lock.Acquired {
		err = errMoving()
	}
	if err != nil {
		<-turn
		return nil, m.db.Err(err, redisdb.Read)
	}
	return func() {
		// The lease ends by itself if this fails.
		_, _ = a.Lease.Release(context.WithoutCancel(ctx))
		<-turn
	}, nil
}

// collect brings units of other partitions to the user's home and reserves. It
// refuses only when it is proven that all partitions together had too little.
func (rs *reservations) collect(ctx context.Context, a *attempt, short reserveAnswer) (Reserved, error) {
	g := gathering{to: a.home, want: map[string]int64{}}
	for _, line := range a.Request.Lines {
		g.want[line.SKU] = line.Quantity
	}
	refused, err := rs.mover.provenShort(ctx, a.parts, g)
	if err != nil || refused != nil {
		return a.refuse(refused, short, err)
	}
	release, err := rs.mover.lockMoves(ctx, a.parts)
	if err != nil {
		return Reserved{}, err
	}
	defer release()
	for range collectRounds {
		answer, err := rs.tryReserve(ctx, a)
		if err != nil {
			return Reserved{}, err
		}
		switch answer.status {
		case answerAgain:
			continue
		case reserveShort:
			short = answer
		default:
			return rs.reserved(a, answer)
		}
		got, err := rs.mover.gather(ctx, a.parts, g)
		if err != nil || got.short != nil {
			return a.refuse(got.short, short, err)
		}
	}
	return Reserved{}, errMoving()
}

// refuse answers sold_out with the units that all partitions together have available.
func (a *attempt) refuse(proof *shortage, answer reserveAnswer, err error) (Reserved, error) {
	if err != nil {
		return Reserved{}, err
	}
	out := &SoldOut{Available: proof.available, NextDue: proof.nextDue, Version: answer.version}
	return Reserved{SoldOut: out}, out.refusal()
}

// gathering names a partition, and the units that it should have available.
type gathering struct {
	to   *partition
	want map[string]int64
}

// shortage is the proof that all partitions together had too little.
type shortage struct {
	available map[string]int64
	nextDue   time.Duration
}

// gathered is the result of a gathering: the units are there (reached), all partitions have
// too few (short), or units moved meanwhile (neither).
type gathered struct {
	reached bool
	short   *shortage
}

// gather brings the wanted units to one partition, if all partitions together have them. The
// caller has the right to move. A shortage needs proof: two passes over all partitions with
// nothing on its way, between which no unit moved or was put back on sale.
func (m *mover) gather(ctx context.Context, parts []*partition, g gathering) (gathered, error) {
	var before []*partitionState
	for range collectRounds {
		now, err := m.pass(ctx, parts)
		if err != nil {
			return gathered{}, err
		}
		if under := underway(now); len(under) > 0 {
			if err := m.finishTransfers(ctx, parts, under); err != nil {
				return gathered{}, err
			}
			before = nil
			continue
		}
		debits, enough := plan(parts, now, g)
		switch {
		case !enough && unchanged(before, now):
			return gathered{short: shortageOf(now, g.want)}, nil
		case !enough:
			before = now
			continue
		case len(debits) == 0:
			return gathered{reached: true}, nil
		}
		if moved, err := m.move(ctx, parts, debits, false); err != nil || moved {
			return gathered{reached: moved}, err
		}
	}
	return gathered{}, errMoving()
}

// provenShort looks for the same proof of a shortage without the right to move, which a crowd
// at a sold-out sale would have to wait for; nil: there is no proof. If nothing was put back
// on sale and nothing moved between two reads, then no partition had more units at the end of
// the first read than that read shows.
func (m *mover) provenShort(ctx context.Context, parts []*partition, g gathering) (*shortage, error) {
	s, err := m.takeSnapshots(ctx, parts)
	if err != nil {
		return nil, err
	}
	if len(s.before) != len(parts) {
		return nil, nil // another caller's snapshots, of another number of partitions
	}
	if _, enough := plan(parts, s.before, g); enough || !unchanged(s.before, s.now) {
		return nil, nil
	}
	return shortageOf(s.now, g.want), nil
}

// unchanged reports whether between two passes nothing was put back on sale and nothing moved, and
// nothing was on its way.
func unchanged(before, now []*partitionState) bool {
	if before == nil || len(underway(before)) > 0 {
		return false
	}
	for i := range now {
		if before[i].moves != now[i].moves || before[i].returns != now[i].returns {
			return false
		}
	}
	return true
}

// pass returns the due holds of all partitions and reads them.
func (m *mover) pass(ctx context.Context, parts []*partition) ([]*partitionState, error) {
	for range reserveTries {
		found, more, err := m.passOnce(ctx, parts)
		if err != nil {
			return nil, err
		}
		if !more {
			return found, nil
		}
	}
	return nil, errMoving()
}

func (m *mover) passOnce(ctx context.Context, parts []*partition) (found []*partitionState, more bool, err error) {
	cmds, told := make([]redis.Cmder, 0, 2*len(parts)), m.told(tellsExpired)
	for _, p := range parts {
		cmds = append(cmds, m.sweepCmd(ctx, p, told), m.stateCmd(ctx, p))
	}
	if err := m.db.Share(ctx, redisdb.Write, cmds...); err != nil {
		return nil, false, err
	}
	found = make([]*partitionState, len(parts))
	for i, p := range parts {
		swept, err := readSweep(cmds[2*i], told)
		if err != nil {
			return nil, false, err
		}
		more = more || swept.more()
		if found[i], err = m.readState(p, cmds[2*i+1].(*redis.Cmd)); err != nil {
			return nil, false, err
		}
	}
	return found, more, m.allUsable(parts, found)
}

// allUsable is nil if all partitions may be worked on. A partition that has not been made yet is
// allowed, because it has no units to give.
func (m *mover) allUsable(parts []*partition, found []*partitionState) error {
	for i, k := range found {
		if k.status == answerAbsent && i > 0 {
			continue
		}
		if err := m.usable(parts[i].sale, k.status); err != nil {
			return err
		}
	}
	return nil
}

// plan decides how many units each partition gives, and whether all have enough together. The
// partition with the most units gives first, and adds half of what it has left, so that a home
// partition that runs empty does not collect unit by unit.
func plan(parts []*partition, found []*partitionState, g gathering) (debits []debit, enough bool) {
	to := g.to
	give := make([]map[string]int64, len(found))
	for sku, n := range g.want {
		lack := n - found[to.index].stock[sku].available
		for rank, i := range byWealth(found, to.index, sku) {
			has := found[i].stock[sku].available
			part := min(has, lack)
			if lack <= 0 || part <= 0 {
				break
			}
			lack -= part
			if rank == 0 {
				part += (has - part) / 2
			}
			if give[i] == nil {
				give[i] = map[string]int64{}
			}
			give[i][sku] = part
		}
		if lack > 0 {
			return nil, false
		}
	}
	for i, want := range give {
		if want != nil {
			debits = append(debits, debit{from: parts[i], moves: cmp.Or(found[i].moves, "0"), to: to.index, want: want})
		}
	}
	return debits, true
}

// byWealth orders the other partitions by their available units of a sku, largest first.
func byWealth(found []*partitionState, but int, sku string) []int {
	order := make([]int, 0, len(found))
	for i := range found {
		if i != but {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(found[b].stock[sku].available, found[a].stock[sku].available)
	})
	return order
}

func shortageOf(found []*partitionState, want map[string]int64) *shortage {
	s := &shortage{available: make(map[string]int64, len(want))}
	for sku := range want {
		s.available[sku] = 0
		for _, k := range found {
			s.available[sku] += k.stock[sku].available
		}
	}
	for _, k := range found {
		if due := max(time.Duration(k.nextDue)*time.Millisecond, time.Nanosecond); k.status == answerDone && k.nextDue >= 0 && (s.nextDue == 0 || due < s.nextDue) {
			s.nextDue = due
		}
	}
	return s
}
