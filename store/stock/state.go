package stock

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// numbers are the units of one sku in one partition. Available + held + sold -
// oversold changes only by transfers and by changes of the total.
type numbers struct{ available, held, sold, oversold int64 }

func (n numbers) sum() int64 { return n.available + n.held + n.sold - n.oversold }

func (n *numbers) add(o numbers) {
	n.available += o.available
	n.held += o.held
	n.sold += o.sold
	n.oversold += o.oversold
}

// partitionState is the state of one partition at one moment, as a script read it.
type partitionState struct {
	status       int64
	disowned     bool
	now, nextDue int64 // ms; nextDue is how long from now, -1: no hold
	settings     Settings
	made         bool
	used         int64 // when somebody reserved last, in ms
	// moves counts transfers, returns the times units were put back on sale, balances the
	// corrections by Load.
	moves, returns, balances string
	recorded, spread         int64 // versions
	stock                    map[string]numbers
	totals                   map[string]int64
	out                      []transfer
	low                      string // the field low of the first partition
}

// version is the settings' version.
func (p *partitionState) version() int64 { return p.settings.Version }

// The values of lua/part_state.lua's answer, in its order.
const (
	stateStatus = iota
	stateNow
	stateNextDue
	stateSettings
	stateStock
	stateTotals
	stateTransfers
	stateValues // how many there are
)

// The fields of the settings in the answer of lua/part_state.lua, in its order.
const (
	fieldVersion = iota
	_            // closed
	fieldRun
	fieldPartitions
	fieldStarts
	fieldEnds
	fieldLimit
	fieldHold
	fieldIdle
	fieldUsed
	fieldSKUs
	fieldMoves
	fieldReturns
	fieldRecorded
	fieldSpread
	fieldBalances
	fieldMade
	fieldLoading
	fieldMaxHold
	fieldLows
	fieldLow
)

func (b *base) stateCmd(ctx context.Context, p *partition) *redis.Cmd {
	return b.scripts.read.Cmd(ctx, p.core(p.totals, p.out), b.o.RunID)
}

// readStates reads partitions, each by one script, all at the same time. A partition that does
// not exist has the status answerAbsent.
func (b *base) readStates(ctx context.Context, parts ...*partition) ([]*partitionState, error) {
	cmds := make([]redis.Cmder, len(parts))
	for i, p := range parts {
		cmds[i] = b.stateCmd(ctx, p)
	}
	if err := b.db.Share(ctx, redisdb.Read, cmds...); err != nil {
		return nil, err
	}
	found := make([]*partitionState, len(parts))
	for i, p := range parts {
		k, err := b.readState(p, cmds[i].(*redis.Cmd))
		if err != nil {
			return nil, err
		}
		found[i] = k
	}
	return found, nil
}

func (b *base) readState(p *partition, cmd *redis.Cmd) (*partitionState, error) {
	answer, err := redisdb.ListOf(cmd)
	if err != nil {
		return nil, err
	}
	return parseState(p, b.scripts.read, answer)
}

// parseState reads the answer of lua/part_state.lua, which several scripts include.
func parseState(p *partition, script *redisdb.Script, answer []any) (*partitionState, error) {
	k := &partitionState{status: redisdb.NumberAt(answer, stateStatus)}
	if k.status == answerAbsent {
		return k, nil
	}
	if len(answer) < stateValues {
		return nil, unexpected(script, answer)
	}
	s := redisdb.ListAt(answer, stateSettings)
	k.now, k.nextDue = redisdb.NumberAt(answer, stateNow), redisdb.NumberAt(answer, stateNextDue)
	k.disowned = redisdb.TextAt(s, fieldRun) == disowned
	k.made = redisdb.TextAt(s, fieldMade) != ""
	k.used, k.recorded, k.spread = integer(s, fieldUsed), integer(s, fieldRecorded), integer(s, fieldSpread)
	k.moves, k.returns, k.balances = redisdb.TextAt(s, fieldMoves), redisdb.TextAt(s, fieldReturns), redisdb.TextAt(s, fieldBalances)
	k.settings = Settings{
		ID: p.sale, Version: integer(s, fieldVersion), StartsAt: integer(s, fieldStarts), EndsAt: integer(s, fieldEnds),
		PerUserLimit: integer(s, fieldLimit), HoldMS: integer(s, fieldHold), IdleMS: integer(s, fieldIdle), Partitions: int(integer(s, fieldPartitions)),
		Loading: redisdb.TextAt(s, fieldLoading), MaxHoldMS: integer(s, fieldMaxHold),
	}
	k.readNumbers(answer, strings.Split(redisdb.TextAt(s, fieldSKUs), ","), parseLows(redisdb.TextAt(s, fieldLows)))
	k.low = redisdb.TextAt(s, fieldLow)
	k.out = readTransfers(p, k.settings.Loading, redisdb.ListAt(answer, stateTransfers))
	return k, nil
}

func (p *partitionState) readNumbers(answer []any, skus []string, lows map[string]*int64) {
	stock := redisdb.ListAt(answer, stateStock)
	p.stock = make(map[string]numbers, len(stock)/2)
	for i := 0; i+1 < len(stock); i += 2 {
		p.stock[redisdb.TextAt(stock, i)] = parseNumbers(redisdb.TextAt(stock, i+1))
	}
	totals := redisdb.ListAt(answer, stateTotals)
	p.totals = make(map[string]int64, len(totals)/2)
	for i := 0; i+1 < len(totals); i += 2 {
		p.totals[redisdb.TextAt(totals, i)] = integer(totals, i+1)
	}
	for _, sku := range skus {
		p.settings.Items = append(p.settings.Items, Item{sku, p.totals[sku], lows[sku]})
	}
}

// parseNumbers reads "<available> <held> <sold> <oversold>".
func parseNumbers(text string) (n numbers) {
	f := strings.Fields(text)
	for i, v := range []*int64{&n.available, &n.held, &n.sold, &n.oversold} {
		if i < len(f) {
			*v, _ = strconv.ParseInt(f[i], 10, 64)
		}
	}
	return n
}

// saleReads is how often Sale reads a sale of several partitions whose units
// move meanwhile.
const saleReads = 3

// Sale reads a sale. In every answer, available + held + sold = total. For a sale of several
// partitions the answer says whether the numbers are from one moment. The error may be ErrAbsent.
func (ps *partitions) Sale(ctx context.Context, sale string) (*api.Sale, error) {
	parts, err := ps.partitionsOf(ctx, sale)
	if err != nil {
		return nil, err
	}
	now, err := ps.readOpen(ctx, parts)
	if err != nil {
		return nil, err
	}
	if len(parts) == 1 {
		return saleOf(now), nil
	}
	consistent := false
	for again := 0; again < saleReads && !consistent; again++ {
		before := now
		if now, err = ps.readOpen(ctx, parts); err != nil {
			return nil, err
		}
		consistent = sameMoves(before, now)
	}
	out := saleOf(now)
	out.Consistent = &consistent
	return out, nil
}

// saleAt is the sale with the settings and totals of its first partition as the caller read
// it. The numbers of other partitions may be of a later moment.
func (ps *partitions) saleAt(ctx context.Context, first *partitionState) (*api.Sale, error) {
	s := first.settings
	if s.Partitions == 1 {
		return saleOf([]*partitionState{first}), nil
	}
	now, err := ps.Sale(ctx, s.ID)
	if err != nil || now.Version == s.Version {
		return now, err
	}
	parts, err := ps.partitionsOf(ctx, s.ID)
	if err != nil {
		return nil, err
	}
	found, err := ps.readOpen(ctx, parts)
	if err != nil {
		return nil, err
	}
	found[0] = first
	out := saleOf(found)
	out.Consistent = new(bool)
	return out, nil
}

// readOpen is readStates for an open sale: a partition that cannot be worked on is an error. A
// partition that has not been made yet is made.
func (ps *partitions) readOpen(ctx context.Context, parts []*partition) ([]*partitionState, error) {
	for range repairs {
		found, err := ps.readStates(ctx, parts...)
		if err != nil {
			return nil, err
		}
		missing := false
		for i, k := range found {
			if k.status == answerAbsent && i > 0 && found[0].status == answerDone {
				missing = true
				continue
			}
			if err := ps.usable(parts[0].sale, k.status); err != nil {
				return nil, err
			}
		}
		if found[0].settings.Partitions != len(parts) {
			ps.Forget(parts[0].sale) // it was deleted and made anew
			return nil, ErrStaleRun
		}
		if !missing {
			return found, nil
		}
		if err := ps.spread(ctx, parts, found[0]); err != nil {
			return nil, err
		}
	}
	return nil, errMoving()
}

func sameMoves(a, b []*partitionState) bool {
	for i := range a {
		if a[i].moves != b[i].moves {
			return false
		}
	}
	return true
}

// saleOf adds the partitions up. Units that are neither held nor sold count as available, also
// while they are on their way from one partition to another.
func saleOf(found []*partitionState) *api.Sale {
	first := found[0]
	s := first.settings
	out := &api.Sale{
		ID: s.ID, StartsAt: api.AtMillis(s.StartsAt), EndsAt: api.AtMillis(s.EndsAt), HoldMS: s.HoldMS, Partitions: int64(s.Partitions),
		Version: s.Version, Items: make([]api.SaleItem, len(s.Items)), PerUserLimit: unlessZero(s.PerUserLimit), IdleMS: unlessZero(s.IdleMS), MaxHoldMS: unlessZero(s.MaxHoldMS),
	}
	left := int64(0)
	for i, item := range s.Items {
		out.Items[i] = itemOf(found, item)
		left += out.Items[i].Available
	}
	out.State = stateAt(found, left)
	return out
}

// unlessZero is nil for a setting that is not set.
func unlessZero(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

// itemOf adds one sku up over all partitions. The total does not contain oversold units: they
// show in Figures.Oversold, and here as nothing available.
func itemOf(found []*partitionState, item Item) api.SaleItem {
	var n numbers
	for _, k := range found {
		n.add(k.stock[item.SKU])
	}
	return api.SaleItem{
		SKU: item.SKU, Total: item.Total, Held: n.held, Sold: n.sold,
		Available: max(item.Total-n.held-n.sold, 0), LowAt: item.LowAt,
	}
}

func stateAt(found []*partitionState, left int64) api.SaleState {
	s, now, used := found[0].settings, int64(0), found[0].settings.StartsAt
	for _, k := range found {
		now, used = max(now, k.now), max(used, k.used)
	}
	switch {
	case now < s.StartsAt:
		return api.SaleUpcoming
	case now >= s.EndsAt, s.IdleMS > 0 && now >= used+s.IdleMS:
		return api.SaleEnded
	case left == 0:
		return api.SaleSoldOut
	}
	return api.SaleOpen
}
