package stock

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// Deletion is a sale that was closed in order to be deleted.
type Deletion struct {
	Sale string
	// Name names this deletion: see NewLoading.
	Name string
	// Loading is the load that the sale comes from.
	Loading string
	// Used: a reservation was made in the sale, or may have been before Redis lost it.
	Used bool
}

// nameLength is how many hex digits name a deletion: half of those that name a loading.
const nameLength = 16

// The statuses of sale_close.lua, in addition to the common ones.
const (
	closeMismatch = 7
	closeSells    = 8
	closeOwes     = 9
)

// BeginDelete closes a sale so that it can be deleted. Until FinishDelete or CancelDelete, calls fail
// with ErrLoading. The caller has the right to load the sale; a load ends the deletion. Refusals are
// version_mismatch with the present sale, sale_open while the sale sells, and owed while a hold lives
// or an order is not on record. A refused sale goes on.
func (e *editor) BeginDelete(ctx context.Context, sale string, m Match) (Deletion, error) {
	parts, err := e.partitionsOf(ctx, sale)
	if err != nil {
		return Deletion{}, err
	}
	found, err := e.partitions.readOpen(ctx, parts)
	if err != nil {
		return Deletion{}, err
	}
	d, used := Deletion{Sale: sale, Name: newRequest()[:nameLength]}, int64(0)
	for _, k := range found {
		used = max(used, k.used)
	}
	for _, p := range parts {
		status, err := e.closePartition(ctx, p, &d, m, used)
		if err == nil && status == answerDone {
			continue
		}
		// An error may have come after the partition was closed.
		if opened := e.CancelDelete(ctx, d); err == nil {
			err = opened
		}
		if err == nil {
			err = e.refusedDelete(ctx, sale, status)
		}
		return Deletion{}, err
	}
	return d, nil
}

// closePartition closes one partition, and notes in d what its script answers.
func (e *editor) closePartition(ctx context.Context, p *partition, d *Deletion, m Match, used int64) (status int64, err error) {
	for range changeTries {
		cmd := e.scripts.close.Cmd(ctx, p.telling(p.core(p.orders)), e.o.RunID, d.Name, flag(p.index == 0), redisdb.MatchText(m), used, sweptAtOnce, e.told(tellsExpired))
		v, err := e.db.List(ctx, redisdb.Write, cmd)
		if err != nil {
			return 0, err
		}
		switch status = redisdb.NumberAt(v, 0); status {
		case answerAgain:
			continue
		case answerDone:
			if p.index == 0 {
				d.Loading = redisdb.TextAt(v, 1)
			}
			d.Used = d.Used || redisdb.NumberAt(v, 2) == 1
		}
		return status, nil
	}
	return 0, errMoving()
}

// refusedDelete turns a refusal into its error.
func (e *editor) refusedDelete(ctx context.Context, sale string, status int64) error {
	switch status {
	case closeMismatch:
		present, err := e.partitions.Sale(ctx, sale)
		if err != nil {
			return err
		}
		return errMismatch(present)
	case closeSells:
		return api.Errorf(api.CodeSaleOpen, "the sale sells; it can be deleted before it starts and after it has ended")
	case closeOwes:
		return api.Errorf(api.CodeOwed, "a hold has not ended yet, or an order is not on record yet")
	}
	if err := e.usable(sale, status); err != nil {
		return err
	}
	return unexpected(e.scripts.close, status)
}

// CancelDelete opens a sale again that is not deleted after all.
func (e *editor) CancelDelete(ctx context.Context, d Deletion) error {
	_, err := e.remove(ctx, d.Sale, false, d.Name)
	return err
}

// FinishDelete removes what Redis has of a sale that is not on record any more, unless it comes from
// another load. ChangesChannel gets Deleted. Facts that its steps have left are moved before.
func (e *editor) FinishDelete(ctx context.Context, sale, loading string) error {
	defer e.known.Delete(sale)
	return e.leaveAfter(ctx, sale, func() (bool, error) { return e.remove(ctx, sale, true, loading) })
}

// remove removes the partitions of a sale, or opens them again. The first one goes last: as long as
// it is there, the others are found. It reports whether the first one is gone.
func (e *editor) remove(ctx context.Context, sale string, remove bool, from string) (gone bool, err error) {
	parts, err := e.partitionsOf(ctx, sale)
	if errors.Is(err, ErrAbsent) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	channel := ""
	if remove {
		channel = ChangesChannel(sale)
	}
	if err := e.removeAll(ctx, parts[1:], flag(remove), from, ""); err != nil {
		return false, err
	}
	if err := e.removeAll(ctx, parts[:1], flag(remove), from, channel); err != nil {
		return false, err
	}
	return e.absent(ctx, parts[0])
}

const (
	// removeFacts is sale_remove.lua's answer while facts are left.
	removeFacts = 2
	// removeTries bounds how often facts are moved before a partition is removed. Each move takes thousands, and no step of a
	// deleted sale leaves more.
	removeTries = 1000
)

// removeAll runs lua/sale_remove.lua in some partitions, and moves the facts that were left there.
func (e *editor) removeAll(ctx context.Context, parts []*partition, args ...any) error {
	for range removeTries {
		cmds := make([]redis.Cmder, len(parts))
		for i, p := range parts {
			cmds[i] = e.scripts.remove.Cmd(ctx, p.all(), args...)
		}
		if err := e.db.Do(ctx, redisdb.Write, cmds...); err != nil {
			return err
		}
		var left []*partition
		for i, p := range parts {
			if n, _ := cmds[i].(*redis.Cmd).Int64(); n == removeFacts {
				left = append(left, p)
			}
		}
		for _, p := range left {
			if err := e.o.Facts.Move(ctx, p.factOutbox()); err != nil {
				return fmt.Errorf("move the facts of sale %s: %w", p.sale, err)
			}
		}
		if parts = left; len(parts) == 0 {
			return nil
		}
	}
	return errMoving()
}

// absent reports whether a partition has no keys.
func (b *base) absent(ctx context.Context, p *partition) (bool, error) {
	n, err := redisdb.Value(ctx, b.db, redisdb.Read, redis.NewIntCmd(ctx, "exists", p.settings))
	return n == 0, err
}

// Deleted is what ChangesChannel gets in place of a version when a sale was deleted.
const Deleted = "deleted"

// Forget forgets what this process knows of a sale that was deleted: another with the same id may
// have other partitions.
func (b *base) Forget(sale string) { b.known.Delete(sale) }
