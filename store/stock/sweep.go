package stock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// Swept tells which orders and settings of a partition are not on record.
type Swept struct {
	Sale      string
	Partition int
	// Orders is how many orders wait, and OldestOrderMS how long the oldest has waited.
	Orders        int64
	OldestOrderMS int64
	// Settings: the sale's present version is not on record (first partition only).
	Settings bool
}

const (
	// sweepBatch is how many partitions one round trip sweeps.
	sweepBatch = 200
	// transferPatience is how long a transfer may be under way before the sweeper
	// finishes it.
	transferPatience = time.Second
	// sweepTimeout bounds one sweep of all sales.
	sweepTimeout = 10 * time.Second
)

// sweepCmd sweeps a partition, and tells some kinds of facts.
func (b *base) sweepCmd(ctx context.Context, p *partition, what string) *redis.Cmd {
	keys := p.core(p.orders, p.out)
	if what != "" {
		keys = p.telling(keys)
	}
	return b.scripts.sweep.Cmd(ctx, keys, b.o.RunID, sweptAtOnce, what)
}

// Run sweeps all live sales until ctx ends. It returns holds that are due, finishes transfers and
// changes that crashes left undone, calls OnSwept with data that is not on record, and removes the
// keys of sales that ended long ago. Any number of processes may run it. Due holds never wait for
// the other work. A sale in which nothing can be due before a known time is not swept until then.
func (sw *sweeper) Run(ctx context.Context) error {
	w := newMaintenance(sw)
	defer w.running.Wait()
	r, o := rests{}, new(redisdb.Outage)
	for {
		w.wake(r)
		found, err := sw.sweep(ctx, r)
		if ctx.Err() == nil {
			sw.swept(o, err)
		}
		for _, f := range found {
			w.start(ctx, f)
		}
		if !sw.pause(ctx) {
			return nil
		}
	}
}

// idleSweep is how long a sweeper rests while it knows of no sale. The first sale of its own
// process wakes it; holds of the first sale of another process are still returned within a
// second.
const idleSweep = 500 * time.Millisecond

// pause waits for the next sweep, and says whether there is one.
func (sw *sweeper) pause(ctx context.Context) bool {
	rest := max(idleSweep, sw.o.SweepEvery)
	sw.known.Range(func(any, any) bool { rest = sw.o.SweepEvery; return false })
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-sw.wake:
	case <-ctx.Done():
		return false
	}
	return true
}

// sweepAnswer is the answer of lua/sale_sweep.lua for a partition.
type sweepAnswer struct {
	status                    int64
	returned                  int64 // holds
	now                       int64 // ms
	orders, oldestOrder       int64 // orders not on record; when the oldest was sold, ms
	version, recorded, spread int64 // of the settings
	starts, ends, hold        int64 // ms
	nextDue                   int64 // ms until the next hold is over; -1: there is none
	opened, compared          int64 // when it was read back, and last compared after that, ms; 0: never
	transfers                 int64 // on their way
	oversold                  bool
	left                      int64  // facts that were left and not moved
	lows                      bool   // some sku has a low_at
	held                      bool   // the sale is over, and a hold lives
	told                      string // the kinds of facts that are told (base.told)
}

// readSweep reads the answer of a sweep that tells some kinds of facts, in the order of the script's RETURNS.
func readSweep(cmd redis.Cmder, told string) (sweepAnswer, error) {
	v, err := redisdb.ListOf(cmd)
	if err != nil || redisdb.NumberAt(v, 0) != answerDone {
		return sweepAnswer{status: redisdb.NumberAt(v, 0), left: redisdb.NumberAt(v, 1)}, err
	}
	return sweepAnswer{
		status: answerDone, returned: redisdb.NumberAt(v, 1), now: redisdb.NumberAt(v, 2),
		orders: redisdb.NumberAt(v, 3), oldestOrder: redisdb.NumberAt(v, 4),
		version: integer(v, 5), recorded: integer(v, 6), spread: integer(v, 7), ends: redisdb.NumberAt(v, 8),
		transfers: redisdb.NumberAt(v, 9), oversold: redisdb.NumberAt(v, 10) == 1,
		starts: redisdb.NumberAt(v, 11), hold: redisdb.NumberAt(v, 12), nextDue: redisdb.NumberAt(v, 13),
		opened: redisdb.NumberAt(v, 14), compared: redisdb.NumberAt(v, 15), left: redisdb.NumberAt(v, 16), lows: redisdb.NumberAt(v, 17) == 1,
		held: redisdb.NumberAt(v, 18) == 1, told: told,
	}, nil
}

// more reports whether more holds may be due than one sweep returns.
func (a sweepAnswer) more() bool { return a.status == answerDone && a.returned == sweptAtOnce }

// unrecorded reports whether the present settings are not on record.
func (a sweepAnswer) unrecorded() bool { return a.recorded < a.version }

const (
	// comparedFor is for how long the orders of a sale that was read back are read from SQL
	// again, and compareEvery how often: a master that was cut off may still sell.
	comparedFor  = 10 * time.Minute
	compareEvery = 30 * time.Second
	// recordedLate is how long after it was sold an order may go on record.
	recordedLate = 2 * time.Minute
)

// compareIn is how long until the sale's orders are to be read again, in ms. 0 or less: now;
// farRest: never.
func (a sweepAnswer) compareIn() int64 {
	next := max(a.opened, a.compared) + compareEvery.Milliseconds()
	if a.opened == 0 || next > a.opened+comparedFor.Milliseconds() {
		return farRest.Milliseconds()
	}
	return next - a.now
}

// compareFrom is the time, in ms, from which on orders may have been sold that went on record
// after the last comparison.
func (a sweepAnswer) compareFrom() int64 {
	if a.compared < a.opened {
		return a.opened - comparedFor.Milliseconds()
	}
	return a.compared - recordedLate.Milliseconds()
}

// retirable reports whether the sale ended so long ago that its keys may be removed.
func (a sweepAnswer) retirable() bool {
	return a.now > max(a.ends+keptAfterEnd.Milliseconds(), a.opened+keptAfterOpening.Milliseconds())
}

// sweep returns the due holds of all sales but those that rest, and tells which partitions need
// maintenance. A partition that cannot be swept does not keep the others from being swept.
func (sw *sweeper) sweep(ctx context.Context, r rests) (found []finding, err error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	asked := time.Now()
	sales, err := sw.registered(ctx) // beside an error: the sales that this process knows
	var parts []*partition
	for _, sale := range r.awake(sales, asked) {
		parts = append(parts, sw.remember(sale, sales[sale].partitions)...)
	}
	for batch := range slices.Chunk(parts, sweepBatch) {
		some, e := sw.sweepAll(ctx, batch)
		found, err = append(found, some...), errors.Join(err, e)
	}
	if err == nil {
		err = sw.registerAgain(ctx, sales, found)
		sw.forgetUnusable(sales)
	}
	r.note(sales, found, asked)
	if sw.db.Away(err) {
		clear(r) // the findings may be lost with a master
	}
	return slices.DeleteFunc(found, func(f finding) bool { return !f.owes && !f.looks }), err
}

// sweepAll sweeps some partitions, and again those where more holds are due.
func (sw *sweeper) sweepAll(ctx context.Context, parts []*partition) (found []finding, err error) {
	told := sw.told(tellsAll)
	for len(parts) > 0 {
		cmds := make([]redis.Cmder, len(parts))
		for i, p := range parts {
			cmds[i] = sw.sweepCmd(ctx, p, told)
		}
		// On a Cluster some of them are answered although a master is away.
		err = errors.Join(err, sw.db.Pipeline(ctx, redisdb.Write, cmds...))
		var more []*partition
		for i, p := range parts {
			answer, e := readSweep(cmds[i], told)
			sw.left(p, answer.left)
			switch {
			case e != nil:
				err = errors.Join(err, e)
			case answer.more():
				more = append(more, p)
			default:
				found = append(found, finding{p, answer, sw.needsMaintenance(p, answer), sw.looksForLow(p, answer)})
			}
		}
		parts = more
	}
	return found, err
}
