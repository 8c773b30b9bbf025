package record

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// fileLocker lets one of several processes migrate an SQLite file. It locks a file beside it, and the
// system frees the lock of a process that was killed. (goose has a lock only for MySQL.)
type fileLocker struct {
	path string
	file *os.File // the lock lasts until it is closed
}

// Lock waits for its turn and keeps it until Unlock.
func (l *fileLocker) Lock(ctx context.Context, _ *sql.DB) (err error) {
	ctx, cancel := context.WithTimeout(ctx, migrateTries*migrateRest)
	defer cancel()
	// Nobody reads or writes it, and it may belong to another user who migrated before.
	if l.file, err = os.OpenFile(l.path, os.O_RDONLY|os.O_CREATE, 0o644); err != nil {
		return fmt.Errorf("open migration lock: %w", err)
	}
	for {
		if err = syscall.Flock(int(l.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			return nil
		}
		select {
		case <-time.After(migrateRest / 5):
			if errors.Is(err, syscall.EWOULDBLOCK) {
				continue
			}
		case <-ctx.Done():
			err = ctx.Err()
		}
		return fmt.Errorf("take migration lock: %w", errors.Join(err, l.file.Close()))
	}
}

// Unlock releases the lock for the next process.
func (l *fileLocker) Unlock(context.Context, *sql.DB) error { return l.file.Close() }
