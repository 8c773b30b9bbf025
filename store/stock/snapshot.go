package stock

import (
	"context"
	"time"

	"fanfare/store/batch"
	"fanfare/store/redisdb"
)

// snapshots are two reads of all partitions of a sale, one after the other.
type snapshots struct{ before, now []*partitionState }

// snapshotGroup makes the snapshots of one sale. A crowd that finds its
// partitions empty shares them.
type snapshotGroup = batch.Group[[]*partition, *snapshots]

const (
	// snapshotTimeout bounds both reads.
	snapshotTimeout = 5 * time.Second
	// snapshotRest is the least time between the snapshots of a sale in this process: each
	// costs Redis three scripts for every partition, and a crowd that finds the sale sold
	// out would ask for one after the other.
	snapshotRest = 10 * time.Millisecond
)

// takeSnapshots gives snapshots that begin after the call.
func (l *Live) takeSnapshots(ctx context.Context, parts []*partition) (*snapshots, error) {
	group, ok := l.snapshots.Load(parts[0].sale)
	if !ok {
		group, _ = l.snapshots.LoadOrStore(parts[0].sale, batch.New(batch.Options{Timeout: snapshotTimeout}, l.readInTurn()))
	}
	s, err := group.(*snapshotGroup).Do(ctx, parts)
	return s, l.db.Err(err, redisdb.Read)
}

// readInTurn is readTwice with a rest after each.
func (l *Live) readInTurn() func(context.Context, [][]*partition) (*snapshots, error) {
	rested := make(chan struct{}, 1)
	rested <- struct{}{}
	return func(ctx context.Context, waiting [][]*partition) (*snapshots, error) {
		select {
		case <-rested:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		defer time.AfterFunc(snapshotRest, func() { rested <- struct{}{} })
		return l.readTwice(ctx, waiting)
	}
}

// readTwice makes the snapshots, of the partitions as the last who waits knows
// them.
func (l *Live) readTwice(ctx context.Context, waiting [][]*partition) (*snapshots, error) {
	parts := waiting[len(waiting)-1]
	before, err := l.pass(ctx, parts)
	if err != nil {
		return nil, err
	}
	now, err := l.readStates(ctx, parts...)
	if err != nil {
		return nil, err
	}
	return &snapshots{before, now}, l.allUsable(parts, now)
}
