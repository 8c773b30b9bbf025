package record

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// sqliteLocker lets one of several processes migrate an SQLite file. The lock is a row with a lease
// that its owner renews, so that a killed process blocks the others only for one lease. (goose has
// such a lock only for MySQL.)
type sqliteLocker struct {
	owner string
	stop  context.CancelFunc
	done  chan struct{}
}

const (
	migrateLease = 10 * time.Second
	migrateRenew = 2 * time.Second
)

const (
	lockTable = `CREATE TABLE IF NOT EXISTS goose_lock (id INTEGER PRIMARY KEY, owner TEXT NOT NULL, until INTEGER NOT NULL)`
	lockTake  = `INSERT INTO goose_lock (id, owner, until) VALUES (1, ?, unixepoch() + ?)
		ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, until = excluded.until
		WHERE goose_lock.until <= unixepoch() OR goose_lock.owner = excluded.owner`
	lockDrop = `DELETE FROM goose_lock WHERE id = 1 AND owner = ?`
)

// Lock waits for its turn and keeps it until Unlock.
func (l *sqliteLocker) Lock(ctx context.Context, db *sql.DB) error {
	l.owner = uuid.NewString()
	for range migrateTries {
		got, err := l.take(ctx, db)
		if err != nil {
			return err
		}
		if got {
			l.keep(ctx, db)
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(migrateRest / 5):
		}
	}
	return errors.New("another process has been migrating for too long")
}

// take tries once; a busy database counts as a taken lock.
func (l *sqliteLocker) take(ctx context.Context, db *sql.DB) (bool, error) {
	if _, err := db.ExecContext(ctx, lockTable); err != nil {
		return false, ignoreContention(err)
	}
	res, err := db.ExecContext(ctx, lockTake, l.owner, int(migrateLease.Seconds()))
	if err != nil {
		return false, ignoreContention(err)
	}
	n, err := res.RowsAffected()
	return n == 1, err
}

// keep renews the lease in the background until Unlock.
func (l *sqliteLocker) keep(ctx context.Context, db *sql.DB) {
	ctx, l.stop = context.WithCancel(ctx)
	l.done = make(chan struct{})
	go func() {
		defer close(l.done)
		tick := time.NewTicker(migrateRenew)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				// If a renewal fails, the next one extends the lease.
				_, _ = l.take(ctx, db)
			}
		}
	}()
}

// Unlock releases the lock for the next process.
func (l *sqliteLocker) Unlock(ctx context.Context, db *sql.DB) error {
	l.stop()
	<-l.done
	return again(ctx, func() error {
		_, err := db.ExecContext(ctx, lockDrop, l.owner)
		return err
	})
}

func ignoreContention(err error) error {
	if contention(err) {
		return nil
	}
	return fmt.Errorf("take migration lock: %w", err)
}
