package stock

import (
	"context"
	"slices"
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

// OrdersRecorded records that these orders of a sale are in SQL, and returns how many of their
// reservations are sold in Redis. After Redis lost writes some may be missing there, and have
// to be restored. The error may be ErrAbsent. Orders that were not recorded before are told.
func (x *outbox) OrdersRecorded(ctx context.Context, sale string, orders ...Order) (known int, err error) {
	parts, err := x.partitionsOf(ctx, sale)
	if err != nil {
		return 0, err
	}
	byPartition := map[*partition][]Order{}
	for _, o := range orders {
		if p, ok := partitionWith(parts, o.Reservation); ok {
			byPartition[p] = append(byPartition[p], o)
		}
	}
	if x.told(tellsOrders) != "" {
		return x.recordTold(ctx, byPartition)
	}
	var cmds, reads []redis.Cmder
	for p, orders := range byPartition {
		for some := range slices.Chunk(orders, ordersAtOnce) {
			drop, read := []any{"zrem", p.orders}, []any{"hmget", p.reservations}
			for _, o := range some {
				drop, read = append(drop, o.Reservation), append(read, o.Reservation)
			}
			cmds, reads = append(cmds, redis.NewIntCmd(ctx, drop...)), append(reads, redis.NewSliceCmd(ctx, read...))
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
