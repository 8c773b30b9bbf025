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

// look is one partition as one script read it.
type look struct {
	status       int64
	now, nextDue int64 // ms; nextDue is how long from now, -1: no hold
	settings     Settings
	closed, made bool
	used         int64 // when somebody reserved last
	// moves counts transfers, returns what put units back on sale, balances
	// what Load corrected.
	moves, returns, balances string
	recorded, spread         int64 // versions
	stock                    map[string]numbers
	totals                   map[string]int64
	out                      []transfer
}

// version is the settings' version.
func (k *look) version() int64 { return k.settings.Version }

// The places of the settings in lua/part_look.lua's answer.
const (
	lookVersion = iota
	lookClosed
	lookRun
	lookPartitions
	lookStarts
	lookEnds
	lookLimit
	lookHold
	lookIdle
	lookUsed
	lookSKUs
	lookMoves
	lookReturns
	lookRecorded
	lookSpread
	lookBalances
	lookMade
)

func (l *Live) lookCmd(ctx context.Context, p *place) *redis.Cmd {
	return l.scripts.look.Cmd(ctx, p.core(p.totals, p.out), l.o.Run)
}

// looks reads partitions, in one trip each at the same time. A
// partition that is not there has the status answerAbsent.
func (l *Live) looks(ctx context.Context, places ...*place) ([]*look, error) {
	cmds := make([]redis.Cmder, len(places))
	for i, p := range places {
		cmds[i] = l.lookCmd(ctx, p)
	}
	if err := l.share(ctx, stepLook, redisdb.Read, cmds...); err != nil {
		return nil, err
	}
	found := make([]*look, len(places))
	for i, p := range places {
		k, err := l.readLook(p, cmds[i].(*redis.Cmd))
		if err != nil {
			return nil, err
		}
		found[i] = k
	}
	return found, nil
}

func (l *Live) readLook(p *place, cmd *redis.Cmd) (*look, error) {
	answer, err := reply(l.scripts.look, cmd)
	if err != nil {
		return nil, err
	}
	return parseLook(p, l.scripts.look, answer)
}

// parseLook reads what lua/part_look.lua gave in a script.
func parseLook(p *place, script *redisdb.Script, answer []any) (*look, error) {
	k := &look{status: redisdb.NumberAt(answer, 0)}
	if k.status == answerAbsent {
		return k, nil
	}
	if len(answer) < 7 {
		return nil, unexpected(script, answer)
	}
	s, _ := answer[3].([]any)
	k.now, k.nextDue = redisdb.NumberAt(answer, 1), redisdb.NumberAt(answer, 2)
	k.closed, k.made = redisdb.TextAt(s, lookClosed) != "", redisdb.TextAt(s, lookMade) != ""
	k.used, k.recorded, k.spread = integer(s, lookUsed), integer(s, lookRecorded), integer(s, lookSpread)
	k.moves, k.returns, k.balances = redisdb.TextAt(s, lookMoves), redisdb.TextAt(s, lookReturns), redisdb.TextAt(s, lookBalances)
	k.settings = Settings{
		ID: p.sale, Version: integer(s, lookVersion), StartsAt: integer(s, lookStarts), EndsAt: integer(s, lookEnds),
		PerUserLimit: integer(s, lookLimit), HoldMS: integer(s, lookHold), IdleMS: integer(s, lookIdle), Partitions: int(integer(s, lookPartitions)),
	}
	k.readNumbers(answer, strings.Split(redisdb.TextAt(s, lookSKUs), ","))
	k.out = readTransfers(p, answer[6])
	return k, nil
}

func (k *look) readNumbers(answer []any, skus []string) {
	stock, _ := answer[4].([]any)
	k.stock = make(map[string]numbers, len(stock)/2)
	for i := 0; i+1 < len(stock); i += 2 {
		k.stock[redisdb.TextAt(stock, i)] = parseNumbers(redisdb.TextAt(stock, i+1))
	}
	totals, _ := answer[5].([]any)
	k.totals = make(map[string]int64, len(totals)/2)
	for i := 0; i+1 < len(totals); i += 2 {
		k.totals[redisdb.TextAt(totals, i)] = integer(totals, i+1)
	}
	for _, sku := range skus {
		k.settings.Items = append(k.settings.Items, Item{SKU: sku, Total: k.totals[sku]})
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

// looksAgain is how often Sale reads a sale of several partitions whose units
// move meanwhile.
const looksAgain = 3

// Sale reads a sale. Available + held + sold = total in every answer; a sale of
// several partitions says whether the numbers are of one moment. ErrAbsent.
func (l *Live) Sale(ctx context.Context, sale string) (*api.Sale, error) {
	places, err := l.placesOf(ctx, sale)
	if err != nil {
		return nil, err
	}
	now, err := l.looksOpen(ctx, places)
	if err != nil {
		return nil, err
	}
	if len(places) == 1 {
		return saleOf(now), nil
	}
	consistent := false
	for again := 0; again < looksAgain && !consistent; again++ {
		before := now
		if now, err = l.looksOpen(ctx, places); err != nil {
			return nil, err
		}
		consistent = sameMoves(before, now)
	}
	out := saleOf(now)
	out.Consistent = &consistent
	return out, nil
}

// saleAt is the sale with settings and totals as a look at its first partition
// found them; of several partitions the rest may be of a later moment.
func (l *Live) saleAt(ctx context.Context, lead *look) (*api.Sale, error) {
	s := lead.settings
	if s.Partitions == 1 {
		return saleOf([]*look{lead}), nil
	}
	now, err := l.Sale(ctx, s.ID)
	if err != nil || now.Version == s.Version {
		return now, err
	}
	places, err := l.placesOf(ctx, s.ID)
	if err != nil {
		return nil, err
	}
	found, err := l.looksOpen(ctx, places)
	if err != nil {
		return nil, err
	}
	found[0] = lead
	out := saleOf(found)
	out.Consistent = new(bool)
	return out, nil
}

// looksOpen is looks, where a partition that is not open is an error. One that
// its sale has not reached yet is repaired.
func (l *Live) looksOpen(ctx context.Context, places []*place) ([]*look, error) {
	for range repairs {
		found, err := l.looks(ctx, places...)
		if err != nil {
			return nil, err
		}
		missing := false
		for i, k := range found {
			if k.status == answerAbsent && i > 0 && found[0].status == answerDone {
				missing = true
				continue
			}
			if err := l.isShut(places[0].sale, k.status); err != nil {
				return nil, err
			}
		}
		if !missing {
			return found, nil
		}
		if err := l.spread(ctx, places, found[0]); err != nil {
			return nil, err
		}
	}
	return nil, errMoving()
}

func sameMoves(a, b []*look) bool {
	for i := range a {
		if a[i].moves != b[i].moves {
			return false
		}
	}
	return true
}

// saleOf adds partitions up. What is neither held nor sold is available, also
// while it is on its way from one partition to another.
func saleOf(found []*look) *api.Sale {
	lead := found[0]
	s := lead.settings
	out := &api.Sale{
		ID: s.ID, StartsAt: api.AtMillis(s.StartsAt), EndsAt: api.AtMillis(s.EndsAt), HoldMS: s.HoldMS, IdleMS: s.IdleMS, Version: s.Version,
		Items: make([]api.SaleItem, len(s.Items)),
	}
	if s.PerUserLimit > 0 {
		out.PerUserLimit = &s.PerUserLimit
	}
	if s.Partitions > 1 {
		out.Partitions = int64(s.Partitions)
	}
	left := int64(0)
	for i, item := range s.Items {
		out.Items[i] = itemOf(found, item)
		left += out.Items[i].Available
	}
	out.State = stateAt(found, left)
	return out
}

// itemOf is one sku over all partitions. Of what is oversold the total knows
// nothing: it shows in Oversold, and here as nothing available.
func itemOf(found []*look, item Item) api.SaleItem {
	var n numbers
	for _, k := range found {
		n.add(k.stock[item.SKU])
	}
	return api.SaleItem{
		SKU: item.SKU, Total: item.Total, Held: n.held, Sold: n.sold,
		Available: max(item.Total-n.held-n.sold, 0),
	}
}

func stateAt(found []*look, left int64) api.SaleState {
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

// Oversold tells, by sku, the units sold beyond the total: after a fail-over
// that lost writes.
func (l *Live) Oversold(ctx context.Context, sale string) (map[string]int64, error) {
	places, err := l.placesOf(ctx, sale)
	if err != nil {
		return nil, err
	}
	found, err := l.looks(ctx, places...)
	if err != nil {
		return nil, err
	}
	owed := map[string]int64{}
	for _, k := range found {
		for sku, n := range k.stock {
			if n.oversold > 0 {
				owed[sku] += n.oversold
			}
		}
	}
	return owed, nil
}
