package record

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"syscall"
	"time"
)

// fileLocker lets one of several processes migrate an SQLite file. It locks a file beside it, and the
// system frees the lock of a process that was killed. (goose has locks only for servers.)
type fileLocker struct {
	path string
	log  *slog.Logger
	file *os.File // the lock lasts until it is closed
}

// Lock waits for its turn and keeps it until Unlock.
func (l *fileLocker) Lock(ctx context.Context, _ *sql.DB) (err error) {
	// On NFS only a file that is open for writing can be locked. Elsewhere it may belong to another user, who
	// migrated before.
	l.file, err = os.OpenFile(l.path, os.O_RDWR|os.O_CREATE, 0o644)
	if errors.Is(err, fs.ErrPermission) {
		l.file, err = os.Open(l.path)
	}
	if err != nil {
		return fmt.Errorf("open migration lock: %w", err)
	}
	for try := range migrateTries {
		err = syscall.Flock(int(l.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("take migration lock: %w", errors.Join(err, l.file.Close()))
		}
		if try == 0 {
			l.log.Info(otherMigrates)
		}
		select {
		case <-time.After(migrateRest):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), l.file.Close())
		}
	}
	return errors.Join(errors.New("another process has been migrating for too long"), l.file.Close())
}

// Unlock releases the lock for the next process.
func (l *fileLocker) Unlock(context.Context, *sql.DB) error { return l.file.Close() }
