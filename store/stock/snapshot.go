package stock

import (
	"context"
	"time"

	"fanfare/store/batch"
	"fanfare/store/redisdb"
)

// snapshots are two reads of all partitions of a sale, one after the other.
type snapshots struct{ before, now []*partitionState }

// snapshotGroup makes the snapshots of one sale, which callers that find their partitions empty
// at the same time share.
type snapshotGroup = batch.Group[[]*partition, *snapshots]

const (
	// snapshotTimeout bounds both reads.
	snapshotTimeout = 5 * time.Second
	// snapshotRest is the least time between two snapshots of a sale in this process: each
	// costs Redis three scripts for every partition, and many callers that find the sale
	// sold out would cause one after the other.
	snapshotRest = 10 * time.Millisecond
)

// takeSnapshots returns snapshots whose first read began after this call.
func (m *mover) takeSnapshots(ctx context.Context, parts []*partition) (*snapshots, error) {
	first := parts[0]
	first.snapshotsOnce.Do(func() {
		first.snapshots = batch.New(batch.Options{Timeout: snapshotTimeout, Rest: snapshotRest}, m.readTwice)
	})
	s, err := first.snapshots.Do(ctx, parts)
	return s, m.db.Err(err, redisdb.Read)
}

// readTwice reads all partitions twice, using the newest waiting caller's list of partitions.
func (m *mover) readTwice(ctx context.Context, waiting [][]*partition) (*snapshots, error) {
	parts := waiting[len(waiting)-1]
	before, err := m.pass(ctx, parts)
	if err != nil {
		return nil, err
	}
	now, err := m.readStates(ctx, parts...)
	if err != nil {
		return nil, err
	}
	return &snapshots{before, now}, m.allUsable(parts, now)
}
