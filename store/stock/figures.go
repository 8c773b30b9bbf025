package stock

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// Figures are numbers about the live sales for operators.
type Figures struct {
	// Waiting is how many orders are not on record yet, and Oldest the age of the oldest.
	Waiting int64
	Oldest  time.Duration
	// Oversold are the units sold beyond the total, by sale and sku: after a fail-over
	// that lost writes.
	Oversold map[string]map[string]int64
	// Open is how many sales have begun and not ended, including those sold out.
	Open int64
	// Unread is how many sales could not be read: they are missing from the other figures.
	Unread int64
}

// partitionFigures are the reads of one partition.
type partitionFigures struct {
	*partition
	times  *redis.SliceCmd // when the sale begins and ends
	stock  *redis.MapStringStringCmd
	orders *redis.IntCmd
	oldest *redis.ZSliceCmd
	clock  *redis.TimeCmd // of the partition's master; nil: that master is not known
}

// Figures reads all live sales, up to 200 partitions in a round trip. A sale that cannot be
// read is counted as unread. An error means that the sales cannot be listed.
func (x *outbox) Figures(ctx context.Context) (f Figures, err error) {
	sales, err := x.LiveSales(ctx)
	if err != nil {
		return f, err
	}
	var parts []*partition
	for sale, n := range sales {
		for i := range n {
			parts = append(parts, newPartition(sale, i))
		}
	}
	unread := map[string]bool{}
	for batch := range slices.Chunk(parts, sweepBatch) {
		x.addFigures(ctx, &f, batch, unread)
	}
	f.Unread = int64(len(unread))
	return f, nil
}

func (x *outbox) addFigures(ctx context.Context, f *Figures, parts []*partition, unread map[string]bool) {
	keys := make([]string, len(parts))
	for i, p := range parts {
		keys[i] = p.orders
	}
	reads := make([]partitionFigures, len(parts))
	cmds, clocks := x.db.Clocks(ctx, keys)
	for i, p := range parts {
		r := partitionFigures{
			p, redis.NewSliceCmd(ctx, "hmget", p.settings, "starts", "ends"), redis.NewMapStringStringCmd(ctx, "hgetall", p.stock), redis.NewIntCmd(ctx, "zcard", p.orders),
			redis.NewZSliceCmd(ctx, "zrange", p.orders, 0, 0, "withscores"), clocks[i],
		}
		reads[i], cmds = r, append(cmds, r.times, r.stock, r.orders, r.oldest)
	}
	// Each command without an answer has its own error.
	_ = x.db.Pipeline(ctx, redisdb.Read, cmds...)
	for _, r := range reads {
		if r.clock == nil || cmp.Or(r.times.Err(), r.stock.Err(), r.orders.Err(), r.oldest.Err(), r.clock.Err()) != nil {
			unread[r.sale] = true
			continue
		}
		r.addTo(f)
	}
}

func (r *partitionFigures) addTo(f *Figures) {
	f.Waiting += r.orders.Val()
	for _, z := range r.oldest.Val() {
		f.Oldest = max(f.Oldest, r.clock.Val().Sub(time.UnixMilli(int64(z.Score))))
	}
	if r.index == 0 && r.isOpen() {
		f.Open++
	}
	for sku, text := range r.stock.Val() {
		n := parseNumbers(text).oversold
		if n <= 0 {
			continue
		}
		if f.Oversold == nil {
			f.Oversold = map[string]map[string]int64{}
		}
		if f.Oversold[r.sale] == nil {
			f.Oversold[r.sale] = map[string]int64{}
		}
		f.Oversold[r.sale][sku] += n
	}
}

// isOpen reports whether the sale has begun and not ended.
func (r *partitionFigures) isOpen() bool {
	var times struct {
		Starts int64 `redis:"starts"`
		Ends   int64 `redis:"ends"`
	}
	now := r.clock.Val().UnixMilli()
	return r.times.Scan(&times) == nil && times.Starts <= now && now < times.Ends
}
