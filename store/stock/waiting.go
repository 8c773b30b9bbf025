package stock

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// Ref names a partition of a sale.
type Ref struct {
	Sale      string
	Partition int
}

// WaitingOrders lists orders of a partition that are not on record yet, oldest
// first, at most limit, beginning after one (the zero Order for the first page).
func (x *outbox) WaitingOrders(ctx context.Context, ref Ref, after Order, limit int) ([]Order, error) {
	p := newPartition(ref.Sale, ref.Partition)
	found, _, err := x.page(ctx, p, p.orders, place{after.CreatedAt, after.Reservation}, limit)
	orders := make([]Order, len(found))
	for i := range found {
		orders[i] = found[i].order(ref.Sale)
	}
	return orders, err
}

// ordersAtOnce is how many reservations one command names.
const ordersAtOnce = 500

// OrdersRecorded records that the orders of these reservations are in SQL, and returns how many of
// the reservations are sold in Redis. After Redis lost writes some may be missing there, and have
// to be restored. The error may be ErrAbsent.
func (x *outbox) OrdersRecorded(ctx context.Context, sale string, reservations ...string) (known int, err error) {
	parts, err := x.partitionsOf(ctx, sale)
	if err != nil {
		return 0, err
	}
	byPartition := map[*partition][]any{}
	for _, id := range reservations {
		if p, ok := partitionWith(parts, id); ok {
			byPartition[p] = append(byPartition[p], id)
		}
	}
	var cmds, reads []redis.Cmder
	for p, ids := range byPartition {
		for len(ids) > 0 {
			some := ids[:min(len(ids), ordersAtOnce)]
			ids = ids[len(some):]
			cmds = append(cmds, redis.NewIntCmd(ctx, append([]any{"zrem", p.orders}, some...)...))
			reads = append(reads, redis.NewSliceCmd(ctx, append([]any{"hmget", p.reservations}, some...)...))
		}
	}
	cmds = append(cmds, reads...)
	if err := x.db.Do(ctx, redisdb.Write, cmds...); err != nil {
		return 0, err
	}
	for _, cmd := range reads {
		texts := cmd.(*redis.SliceCmd).Val()
		for i := range texts {
			if strings.HasPrefix(redisdb.TextAt(texts, i), "s|") {
				known++
			}
		}
	}
	return known, nil
}
