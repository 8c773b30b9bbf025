package stock

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// transfer is units on their way from one partition to another. One script debits the giver
// and writes a record of the transfer there, one credits the receiver and leaves a mark, and
// then the record is deleted. Any process may do each step any number of times, so a crash at
// any point neither loses nor doubles a unit.
type transfer struct {
	id    string
	from  *partition
	to    int
	at    int64 // ms by Redis' clock
	lines string
	// loading is the giver's when the record was read. After another load the giver may
	// have the units again, so the receiver refuses the credit.
	loading string
}

// readTransfers reads ids and "<at>|<to>|<lines>" in turn.
func readTransfers(from *partition, loading string, list []any) (out []transfer) {
	for i := 0; i+1 < len(list); i += 2 {
		if t, ok := parseTransfer(from, loading, redisdb.TextAt(list, i), redisdb.TextAt(list, i+1)); ok {
			out = append(out, t)
		}
	}
	return out
}

func parseTransfer(from *partition, loading, id, text string) (transfer, bool) {
	f := strings.SplitN(text, "|", 3)
	if len(f) != 3 {
		return transfer{}, false
	}
	at, err := strconv.ParseInt(f[0], 10, 64)
	to, err2 := strconv.Atoi(f[1])
	return transfer{id: id, from: from, to: to, at: at, lines: f[2], loading: loading}, err == nil && err2 == nil
}

// debit asks one partition for units.
type debit struct {
	from  *partition
	moves string // the giver's counter when it was read; the debit is refused after any other move
	to    int
	want  map[string]int64
}

// move takes units out of partitions and brings them to others, and reports whether any moved.
func (m *mover) move(ctx context.Context, parts []*partition, debits []debit, closed bool) (bool, error) {
	cmds := make([]redis.Cmder, len(debits))
	ids := make([]string, len(debits))
	for i, d := range debits {
		ids[i] = newRequest()
		args := []any{m.o.RunID, flag(closed), d.moves, ids[i], d.to}
		for sku, n := range d.want {
			args = append(args, sku, n)
		}
		cmds[i] = m.scripts.debit.Cmd(ctx, d.from.core(d.from.out), args...)
	}
	if err := m.db.Share(ctx, redisdb.Write, cmds...); err != nil {
		return false, err
	}
	var under []transfer
	for i, d := range debits {
		answer, err := redisdb.ListOf(cmds[i])
		if err != nil {
			return false, err
		}
		if redisdb.NumberAt(answer, 0) != answerDone {
			continue // refused, as units moved since it was read: the caller reads again
		}
		if t, ok := parseTransfer(d.from, redisdb.TextAt(answer, 2), ids[i], redisdb.TextAt(answer, 1)); ok {
			under = append(under, t)
		}
	}
	return len(under) > 0, m.finishTransfers(ctx, parts, under)
}

// finishTransfers credits transfers that are under way and deletes their records.
func (m *mover) finishTransfers(ctx context.Context, parts []*partition, under []transfer) error {
	under = slices.DeleteFunc(slices.Clone(under), func(t transfer) bool { return t.to < 0 || t.to >= len(parts) })
	if len(under) == 0 {
		return nil
	}
	credits, drops := make([]redis.Cmder, len(under)), make([]redis.Cmder, 0, len(under))
	for i, t := range under {
		to := parts[t.to]
		credits[i] = m.scripts.credit.Cmd(ctx, to.core(to.seen), t.id, t.loading, t.lines)
	}
	if err := m.db.Share(ctx, redisdb.Write, credits...); err != nil {
		return err
	}
	for i, t := range under {
		n, err := single(m.scripts.credit, credits[i].(*redis.Cmd))
		if err != nil {
			return err
		}
		if n == answerDone {
			drops = append(drops, redis.NewIntCmd(ctx, "hdel", t.from.out, t.id))
		}
	}
	return m.db.Do(ctx, redisdb.Write, drops...)
}

// underway lists the transfers that are on their way.
func underway(found []*partitionState) (all []transfer) {
	for _, k := range found {
		all = append(all, k.out...)
	}
	return all
}

// finishAllTransfers finishes all transfers of a sale and gives the states that show
// none.
func (m *mover) finishAllTransfers(ctx context.Context, parts []*partition) ([]*partitionState, error) {
	for range reserveTries {
		found, err := m.readStates(ctx, parts...)
		if err != nil {
			return nil, err
		}
		under := underway(found)
		if len(under) == 0 {
			return found, nil
		}
		if err := m.finishTransfers(ctx, parts, under); err != nil {
			return nil, err
		}
	}
	return nil, errMoving()
}

// shareOut spreads units available in the first partition over partitions that have less than
// their share. The caller has the right to move.
func (m *mover) shareOut(ctx context.Context, parts []*partition, closed bool) error {
	found, err := m.finishAllTransfers(ctx, parts)
	if err != nil {
		return err
	}
	moves, err := strconv.ParseInt("0"+found[0].moves, 10, 64)
	if err != nil {
		return err
	}
	var debits []debit
	for i := 1; i < len(parts); i++ {
		if found[i].status == answerAbsent {
			continue
		}
		want := map[string]int64{}
		for sku := range found[0].stock {
			if lack := fairShare(found, sku) - found[i].stock[sku].available; lack > 0 {
				want[sku] = lack
			}
		}
		if len(want) > 0 {
			debits = append(debits, debit{from: parts[0], moves: strconv.FormatInt(moves+int64(len(debits)), 10), to: i, want: want})
		}
	}
	if len(debits) == 0 {
		return nil
	}
	_, err = m.move(ctx, parts, debits, closed)
	return err
}

// fairShare is the units that each partition would have if all had the same. Quotients and
// remainders are added apart, because the sum itself might overflow.
func fairShare(found []*partitionState, sku string) int64 {
	sum := int64(0)
	for _, k := range found {
		sum += k.stock[sku].available / int64(len(found))
	}
	rest := int64(0)
	for _, k := range found {
		rest += k.stock[sku].available % int64(len(found))
	}
	return sum + rest/int64(len(found))
}
