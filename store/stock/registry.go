package stock

import (
	"context"
	"errors"
	"strconv"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// Partitions tells how many partitions a live sale has; ErrAbsent.
func (l *Live) Partitions(ctx context.Context, sale string) (int, error) {
	places, err := l.placesOf(ctx, sale)
	return len(places), err
}

// placesOf gives a sale's partitions. Their number never changes, so it is read
// once; where a script says that it differs (Redis was emptied), forget helps.
func (l *Live) placesOf(ctx context.Context, sale string) ([]*place, error) {
	if known, ok := l.places.Load(sale); ok {
		return known.([]*place), nil
	}
	cmd := redis.NewStringCmd(ctx, "hget", newPlace(sale, 0).settings, "partitions")
	if err := l.share(ctx, stepLook, redisdb.Read, cmd); err != nil {
		return nil, err
	}
	n, err := cmd.Int()
	if errors.Is(err, redis.Nil) {
		return nil, ErrAbsent
	}
	if err != nil {
		return nil, err
	}
	return l.remember(sale, n), nil
}

func (l *Live) remember(sale string, partitions int) []*place {
	if known, ok := l.places.Load(sale); ok && len(known.([]*place)) == partitions {
		return known.([]*place)
	}
	places := make([]*place, partitions)
	for i := range places {
		places[i] = newPlace(sale, i)
	}
	l.places.Store(sale, places)
	select {
	case l.awake <- struct{}{}:
	default:
	}
	return places
}

// register lets every process's sweeper know of a sale.
func (l *Live) register(ctx context.Context, sale string, partitions int) error {
	cmd := redis.NewIntCmd(ctx, "hset", saleRegistry, sale, partitions)
	if err := l.share(ctx, stepRegister, redisdb.Write, cmd); err != nil {
		return err
	}
	return cmd.Err()
}

// makeRoom prepares the making of a sale: sweepers know of it, and partitions that
// outlived another of the same name, whose first one a Cluster lost before it was
// on record, are put aside. They follow the new sale, closed, so that it is
// loaded, which makes their stock part of its totals.
func (l *Live) makeRoom(ctx context.Context, s Settings) error {
	if err := l.register(ctx, s.ID, s.Partitions); err != nil || s.Partitions == 1 {
		return err
	}
	places := make([]*place, s.Partitions)
	for i := range places {
		places[i] = newPlace(s.ID, i)
	}
	found, err := l.looks(ctx, places...)
	if err != nil || found[0].status != answerAbsent {
		return err
	}
	var cmds []redis.Cmder
	for i, k := range found {
		if k.status != answerAbsent {
			cmds = append(cmds, redis.NewIntCmd(ctx, "hset", places[i].settings, "closed", "1"),
				redis.NewIntCmd(ctx, "hdel", places[i].settings, "version"))
		}
	}
	if err := l.share(ctx, stepFollow, redisdb.Write, cmds...); err != nil {
		return err
	}
	return firstError(cmds)
}

// unregister lets sweepers forget a sale.
func (l *Live) unregister(ctx context.Context, sale string) error {
	l.places.Delete(sale)
	cmd := redis.NewIntCmd(ctx, "hdel", saleRegistry, sale)
	if err := l.share(ctx, stepRegister, redisdb.Write, cmd); err != nil {
		return err
	}
	return cmd.Err()
}

// registryPage is how many sales one command reads.
const registryPage = 1000

// LiveSales lists the sales that have live keys, with their partitions: those in
// the registry, and those that this process worked on; these are there beside an
// error too.
func (l *Live) LiveSales(ctx context.Context) (map[string]int, error) {
	sales := map[string]int{}
	l.places.Range(func(sale, places any) bool {
		sales[sale.(string)] = len(places.([]*place))
		return true
	})
	for cursor := uint64(0); ; {
		cmd := redis.NewScanCmd(ctx, nil, "hscan", saleRegistry, cursor, "count", registryPage)
		if err := l.share(ctx, stepLook, redisdb.Read, cmd); err != nil {
			return sales, err
		}
		page, next, err := cmd.Result()
		if err != nil {
			return sales, err
		}
		for i := 0; i+1 < len(page); i += 2 {
			if n, err := strconv.Atoi(page[i+1]); err == nil {
				sales[page[i]] = n
			}
		}
		if cursor = next; cursor == 0 {
			return sales, nil
		}
	}
}
