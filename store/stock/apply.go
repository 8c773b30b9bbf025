package stock

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// settingsArgs writes settings as lua/part_settings.lua reads them.
func settingsArgs(s Settings) []any {
	args := []any{s.StartsAt, s.EndsAt, s.PerUserLimit, s.HoldMS, s.IdleMS, s.Partitions, s.MaxHoldMS, lowsText(s.Items)}
	for _, item := range s.Items {
		args = append(args, item.SKU, item.Total)
	}
	return args
}

// finishChange applies a change of the first partition to the others, and spreads new stock over
// them. If the process dies in between, a sweeper finishes the change, or a call that finds a
// partition behind.
func (e *editor) finishChange(ctx context.Context, sale string, partitions int, changed bool) error {
	parts := e.remember(sale, partitions)
	if changed {
		err := e.register(ctx, sale, partitions)
		if err != nil && !e.db.Away(err) {
			return err
		}
		if err != nil { // a sweeper that cannot read the registry either lets no sale rest, so it finds the change
			e.o.Logger.DebugContext(ctx, "a sale was changed while the registry is away", "sale", sale, "error", err)
		}
	}
	if partitions == 1 {
		return nil
	}
	found, err := e.readStates(ctx, parts[0])
	if err != nil {
		return err
	}
	if err := e.usable(sale, found[0].status); err != nil {
		return err
	}
	if found[0].spread < found[0].version() {
		if err := e.partitions.spread(ctx, parts, found[0]); err != nil {
			return err
		}
	}
	if !changed {
		return nil
	}
	release, err := e.mover.lockMoves(ctx, parts)
	if err != nil {
		return err
	}
	defer release()
	return e.mover.shareOut(ctx, parts, false)
}

// spread writes the settings of the first partition, as the caller read them, to the others, and
// records in the first one that they have them.
func (ps *partitions) spread(ctx context.Context, parts []*partition, first *partitionState) error {
	if first.made {
		found, err := ps.readStates(ctx, parts...)
		if err != nil {
			return err
		}
		for _, k := range found {
			if k.status == answerAbsent {
				return ErrStaleRun // a partition is lost
			}
		}
	}
	var cmds []redis.Cmder
	for _, p := range parts[1:] {
		cmds = append(cmds, ps.applyCmd(ctx, p, first.settings, false))
	}
	if err := ps.db.Do(ctx, redisdb.Write, cmds...); err != nil {
		return err
	}
	version := strconv.FormatInt(first.version(), 10)
	return ps.raise(ctx, parts[0], map[string]string{"spread": version, "made": "1"})
}

func (ps *partitions) applyCmd(ctx context.Context, p *partition, s Settings, closed bool) *redis.Cmd {
	keys := []string{p.settings, p.stock, p.totals}
	args := append([]any{ps.o.RunID, flag(closed), flag(p.index == 0), s.Loading, s.Version}, settingsArgs(s)...)
	return ps.scripts.apply.Cmd(ctx, keys, args...)
}

// flag is a bool in the form for scripts.
func flag(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// raise raises numbers in a partition's settings. None of them ever falls.
func (b *base) raise(ctx context.Context, p *partition, values map[string]string) error {
	var cmds []redis.Cmder
	for _, field := range slices.Sorted(maps.Keys(values)) {
		cmds = append(cmds, b.scripts.raise.Cmd(ctx, []string{p.settings}, field, values[field]))
	}
	return b.db.Do(ctx, redisdb.Write, cmds...)
}

// catchUp repairs a partition that may have refused wrongly: because its settings are behind
// the first partition's, or because it takes the sale for idle while users reserve in other
// partitions. version is the sale's version in the refusal. again: try once more.
func (ps *partitions) catchUp(ctx context.Context, p *partition, version int64, idle bool) (again bool, err error) {
	if behind, err := ps.isBehind(ctx, p.sale, version); err != nil || !behind && !idle {
		return false, err
	}
	parts, err := ps.partitionsOf(ctx, p.sale)
	if err != nil || p.index >= len(parts) {
		return false, err
	}
	found, err := ps.readOpen(ctx, parts)
	if err != nil {
		return false, err
	}
	if found[p.index].version() < found[0].version() {
		return true, ps.spread(ctx, parts, found[0])
	}
	used := int64(0)
	for _, k := range found {
		used = max(used, k.used)
	}
	if !idle || used <= found[p.index].used {
		return found[p.index].version() > version, nil
	}
	return true, ps.raise(ctx, p, map[string]string{"used": strconv.FormatInt(used, 10)})
}

// isBehind reports whether the first partition has a higher version than this.
func (ps *partitions) isBehind(ctx context.Context, sale string, version int64) (bool, error) {
	cmd := redis.NewStringCmd(ctx, "hget", newPartition(sale, 0).settings, "version")
	if err := ps.db.Share(ctx, redisdb.Read, cmd); err != nil {
		return false, err
	}
	now, err := cmd.Int64()
	if errors.Is(err, redis.Nil) {
		return false, nil // a call that works on the first partition reports it
	}
	return now > version, err
}
