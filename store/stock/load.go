package stock

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// Load begins to make a sale's live keys from the record, or to compare them with it. After it
// the sale is closed (ErrLoading), has at least the settings on record, and its stock adds up
// to its totals. RestoreOrders and Open follow. Any process may begin again at any point; of
// several that load a sale at once, only the last to begin can open it. s.Loading, from
// NewLoading, names this load.
func (l *loader) Load(ctx context.Context, s Settings) error {
	parts := l.remember(s.ID, s.Partitions)
	if err := l.register(ctx, s.ID, s.Partitions); err != nil {
		return err
	}
	before, err := l.readStates(ctx, parts[0])
	if err != nil {
		return err
	}
	recorded := s.Version
	if before[0].disowned {
		s = s.over(before[0].settings)
	}
	cmds := make([]redis.Cmder, len(parts))
	for i, p := range parts {
		cmds[i] = l.partitions.applyCmd(ctx, p, s, true)
	}
	if err := l.db.Do(ctx, redisdb.Write, cmds...); err != nil {
		return err
	}
	if err := l.raise(ctx, parts[0], map[string]string{"recorded": strconv.FormatInt(recorded, 10)}); err != nil {
		return err
	}
	found, err := l.mover.finishAllTransfers(ctx, parts)
	if err != nil {
		return err
	}
	if err := l.partitions.spread(ctx, parts, found[0]); err != nil {
		return err
	}
	return l.balanceStock(ctx, parts)
}

// over gives the settings on record a version above those of a disowned sale, so that they
// replace them. A sku can't be removed: one that only the disowned sale has gets a total of 0.
func (s Settings) over(sale Settings) Settings {
	s.Version = max(s.Version, sale.Version) + 1
	for _, item := range sale.Items {
		if !slices.ContainsFunc(s.Items, func(i Item) bool { return i.SKU == item.SKU }) {
			s.Items = append(s.Items, Item{SKU: item.SKU})
		}
	}
	return s
}

// balanceStock makes the stock of a closed sale add up to its totals.
func (l *loader) balanceStock(ctx context.Context, parts []*partition) error {
	for range repairs * repairs {
		found, err := l.mover.finishAllTransfers(ctx, parts)
		if err != nil {
			return err
		}
		args, what := missingStock(found), l.told(tellsLow)
		if len(args) == 1 {
			return nil
		}
		cmd := l.scripts.balance.Cmd(ctx, parts[0].telling(parts[0].core()), slices.Insert(args, 1, any(what))...)
		if err := l.db.Share(ctx, redisdb.Write, cmd); err != nil {
			return err
		}
		if _, err := single(l.scripts.balance, cmd); err != nil {
			return err
		}
		l.mayHaveLeft(parts[0], what)
	}
	return errMoving()
}

// missingStock compares the totals with the units of all partitions. It gives the arguments of
// lua/stock_balance.lua: the number of corrections so far, then sku and missing units in turn.
func missingStock(found []*partitionState) []any {
	balances := found[0].balances
	if balances == "" {
		balances = "0"
	}
	args := []any{balances}
	for _, item := range found[0].settings.Items {
		sum := int64(0)
		for _, k := range found {
			sum += k.stock[item.SKU].sum()
		}
		if sum != item.Total {
			args = append(args, item.SKU, item.Total-sum)
		}
	}
	return args
}

// restoredAtOnce is how many orders one round trip restores.
const restoredAtOnce = 200

// RestoreOrders makes the reservations of orders on record sold, where they are not sold in
// Redis, and returns how many these were.
func (l *loader) RestoreOrders(ctx context.Context, sale string, orders []Order) (restored int, err error) {
	parts, err := l.partitionsOf(ctx, sale)
	if err != nil {
		return 0, err
	}
	what := l.told(tellsAll)
	for len(orders) > 0 {
		some := orders[:min(len(orders), restoredAtOnce)]
		orders = orders[len(some):]
		cmds, of := make([]redis.Cmder, 0, len(some)), make([]*partition, 0, len(some))
		for _, o := range some {
			if p, ok := partitionWith(parts, o.Reservation); ok {
				cmds, of = append(cmds, l.restoreCmd(ctx, p, o, what)), append(of, p)
			}
		}
		if err := l.db.Do(ctx, redisdb.Write, cmds...); err != nil {
			return restored, err
		}
		for i, cmd := range cmds {
			if status, _ := cmd.(*redis.Cmd).Int(); status == orderRestored {
				restored++
				l.mayHaveLeft(of[i], what)
			}
		}
	}
	return restored, nil
}

func (l *loader) restoreCmd(ctx context.Context, p *partition, o Order, what string) *redis.Cmd {
	data := []byte{}
	if strings.Contains(what, tellsOrders) {
		data = orderData(o)
	}
	return l.scripts.restore.Cmd(ctx, p.telling(p.core()), o.Reservation, o.User, o.CreatedAt, linesText(o.Lines), what, data)
}

// orderRestored is order_restore.lua's answer for a reservation that was not sold before.
const orderRestored = 1

// Open ends a load: units of one partition cover what another has oversold, the stock is
// spread, and the sale goes on. ErrStaleRun: the server is in another run by now, or another
// load has begun, so that the sale must be loaded again.
func (l *loader) Open(ctx context.Context, sale, loading string) error {
	parts, err := l.partitionsOf(ctx, sale)
	if err != nil {
		return err
	}
	if len(parts) > 1 {
		if err := l.mover.coverOwed(ctx, parts, true); err != nil {
			return err
		}
	}
	if err := l.mover.tellLowClosed(ctx, parts); err != nil {
		return err
	}
	// The first partition comes last: without it the sale stays closed, so neither of two
	// processes opens the sale of which each loaded some partitions.
	if err := l.open(ctx, parts[1:], loading); err != nil {
		return err
	}
	return l.open(ctx, parts[:1], loading)
}

func (l *loader) open(ctx context.Context, parts []*partition, loading string) error {
	cmds := make([]redis.Cmder, len(parts))
	for i, p := range parts {
		cmds[i] = l.scripts.open.Cmd(ctx, []string{p.settings}, l.o.RunID, loading)
	}
	if err := l.db.Share(ctx, redisdb.Write, cmds...); err != nil {
		return err
	}
	for i, p := range parts {
		status, err := single(l.scripts.open, cmds[i].(*redis.Cmd))
		if err != nil {
			return err
		}
		if err := l.usable(p.sale, status); err != nil {
			return err
		}
	}
	return nil
}

// coverOwed moves units to the partitions that sold more than they had. The stock of a closed
// sale is spread after that.
func (m *mover) coverOwed(ctx context.Context, parts []*partition, closed bool) error {
	release, err := m.lockMoves(ctx, parts)
	if err != nil {
		return err
	}
	defer release()
	for range collectRounds {
		found, err := m.finishAllTransfers(ctx, parts)
		if err != nil {
			return err
		}
		debits := cover(parts, found)
		if len(debits) == 0 && closed {
			return m.shareOut(ctx, parts, true)
		}
		if len(debits) == 0 {
			return nil
		}
		if _, err := m.move(ctx, parts, debits, closed); err != nil {
			return err
		}
	}
	return errMoving()
}

// cover plans the next transfers to partitions with oversold units. Each partition gives to at
// most one other: a second debit would be refused, because the first changes moves.
func cover(parts []*partition, found []*partitionState) (debits []debit) {
	for i, giver := range found {
		for j, owes := range found {
			want := map[string]int64{}
			for sku, n := range owes.stock {
				if units := min(n.oversold, giver.stock[sku].available); i != j && units > 0 {
					want[sku] = units
				}
			}
			if len(want) > 0 {
				moves := giver.moves
				if moves == "" {
					moves = "0"
				}
				debits = append(debits, debit{from: parts[i], moves: moves, to: j, want: want})
				break
			}
		}
	}
	return debits
}
