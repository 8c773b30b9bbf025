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

// snapshotTimeout bounds both reads.
const snapshotTimeout = 5 * time.Second

// takeSnapshots gives snapshots that begin after the call.
func (l *Live) takeSnapshots(ctx context.Context, parts []*partition) (*snapshots, error) {
	group, ok := l.snapshots.Load(parts[0].sale)
	if !ok {
		group, _ = l.snapshots.LoadOrStore(parts[0].sale, batch.New(batch.Options{Timeout: snapshotTimeout}, l.readTwice))
	}
	s, err := group.(*snapshotGroup).Do(ctx, parts)
	return s, l.db.Err(err, redisdb.Read)
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
