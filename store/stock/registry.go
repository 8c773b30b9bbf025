package stock

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// register tells the sweepers of all processes of a sale, or that it changed: each time it
// writes another text.
func (b *base) register(ctx context.Context, sale string, partitions int) error {
	cmd := redis.NewIntCmd(ctx, "hset", saleRegistry, sale, strconv.Itoa(partitions)+" "+newRequest()[:changeLength])
	return b.db.Do(ctx, redisdb.Write, cmd)
}

// registerAgain enters sales that this process knows and the registry does not have. On a
// Cluster the registry can be lost with its master while the sales are on others; without this
// a process that starts later would never sweep them.
func (sw *sweeper) registerAgain(ctx context.Context, sales map[string]registration, found []finding) (err error) {
	for _, f := range found {
		if s := sales[f.sale]; f.index == 0 && f.answer.status == answerDone && s.change == "" {
			err = errors.Join(err, sw.register(ctx, f.sale, s.partitions))
		}
	}
	return err
}

// makeRoom prepares the making of a sale: it registers the sale for the sweepers. On a Cluster,
// partitions of another sale of the same name may be left, if it lost its first partition before
// the sale was on record. Those are closed and lose their version. So they get the new settings,
// and the sale is loaded, which brings their stock in line with its totals.
func (e *editor) makeRoom(ctx context.Context, s Settings) error {
	if err := e.register(ctx, s.ID, s.Partitions); err != nil || s.Partitions == 1 {
		return err
	}
	parts := make([]*partition, s.Partitions)
	for i := range parts {
		parts[i] = newPartition(s.ID, i)
	}
	found, err := e.readStates(ctx, parts...)
	if err != nil || found[0].status != answerAbsent {
		return err
	}
	var cmds []redis.Cmder
	for i, k := range found {
		if k.status != answerAbsent {
			cmds = append(cmds, redis.NewIntCmd(ctx, "hset", parts[i].settings, "closed", "1"),
				redis.NewIntCmd(ctx, "hdel", parts[i].settings, "version"))
		}
	}
	return e.db.Do(ctx, redisdb.Write, cmds...)
}

// leaveAfter removes the keys of a sale, and then lets sweepers forget it if all of them are gone. Until
// then a sweeper of any process finds the sale, and finishes the removal if this process dies. A sale
// that is entered again meanwhile stays.
func (b *base) leaveAfter(ctx context.Context, sale string, remove func() (gone bool, err error)) error {
	entry, err := redisdb.Value(ctx, b.db, redisdb.Read, redis.NewStringCmd(ctx, "hget", saleRegistry, sale))
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	if gone, err := remove(); err != nil || !gone {
		return err
	}
	b.known.Delete(sale)
	return b.db.Do(ctx, redisdb.Write, b.scripts.leave.Cmd(ctx, []string{saleRegistry}, sale, entry))
}

const (
	// registryPage is how many sales one command reads.
	registryPage = 1000
	// changeLength is how many hex digits name a change in the registry.
	changeLength = 12
)

// registration is a sale's entry in the registry.
type registration struct {
	partitions int
	change     string // differs after each change of the sale
}

// LiveSales lists the sales that have live keys, with the number of their partitions: the sales
// in the registry, and those that this process has worked on. Beside an error it lists the
// latter, and as much of the registry as was read.
func (b *base) LiveSales(ctx context.Context) (map[string]int, error) {
	registered, err := b.registered(ctx)
	sales := make(map[string]int, len(registered))
	for sale, r := range registered {
		sales[sale] = r.partitions
	}
	return sales, err
}

func (b *base) registered(ctx context.Context) (map[string]registration, error) {
	sales := map[string]registration{}
	b.known.Range(func(sale, parts any) bool {
		sales[sale.(string)] = registration{partitions: len(parts.([]*partition))}
		return true
	})
	for cursor := uint64(0); ; {
		cmd := redis.NewScanCmd(ctx, nil, "hscan", saleRegistry, cursor, "count", registryPage)
		if err := b.db.Share(ctx, redisdb.Read, cmd); err != nil {
			return sales, err
		}
		page, next, err := cmd.Result()
		if err != nil {
			return sales, err
		}
		for i := 0; i+1 < len(page); i += 2 {
			partitions, change, _ := strings.Cut(page[i+1], " ")
			if n, err := strconv.Atoi(partitions); err == nil {
				sales[page[i]] = registration{n, change}
			}
		}
		if cursor = next; cursor == 0 {
			return sales, nil
		}
	}
}
