package record

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"fanfare/migrations"
)

const (
	// migrateRest and migrateTries bound how long a process waits for another one that is
	// migrating: 5 minutes.
	migrateRest  = 250 * time.Millisecond
	migrateTries = 1200
)

// Migrate brings the schema up to date. Any number of processes may call it at once: one does
// the work, and the others wait for it. Only ctx bounds its duration.
func (db *DB) Migrate(ctx context.Context) error {
	if err := db.checkServer(ctx); err != nil {
		return err
	}
	var done []*goose.MigrationResult
	// Other processes may write meanwhile. On a slow disk that keeps SQLite busy for longer than a
	// step waits. A provider tries only once to make its table, so each try has a provider of its own.
	up := func() error {
		return again(ctx, func() error {
			p, err := db.provider()
			if err == nil {
				done, err = p.Up(ctx)
			}
			return err
		})
	}
	err := up()
	if err != nil && strings.Contains(err.Error(), noZeroVersion) {
		if err = db.mendVersions(ctx); err == nil {
			err = up()
		}
	}
	if err != nil {
		return fail("migrate", err)
	}
	for _, r := range done {
		db.log.Debug("migrated", "step", r.Source.Path, "took", r.Duration)
	}
	if len(done) > 0 {
		db.log.Info("the schema is up to date", "steps", len(done), "version", done[len(done)-1].Source.Version)
	}
	return nil
}

// noZeroVersion is how goose's error reads when its table is there without the
// row it begins with.
const noZeroVersion = "missing zero version"

// mendVersions writes the row that goose's table begins with. MySQL makes a table and fills it
// in two steps. A process that was killed, or lost its connection, between them leaves a table
// that goose refuses for good.
func (db *DB) mendVersions(ctx context.Context) error {
	db.log.Warn("the table of schema versions was begun and not finished; finishing it")
	_, err := db.sql.ExecContext(ctx, "INSERT INTO goose_db_version (version_id, is_applied) "+
		"SELECT 0, TRUE FROM (SELECT COUNT(*) AS n FROM goose_db_version) AS t WHERE t.n = 0")
	if err != nil {
		return fmt.Errorf("finish the table of schema versions: %w", err)
	}
	return nil
}

// minPacket is more than the bytes of any statement that fanfare sends: a batch of browsers has the longest.
const minPacket = 4 << 20

// checkServer refuses a server that could not take what fanfare writes, however often it is sent.
func (db *DB) checkServer(ctx context.Context) error {
	switch {
	case db.d.mysql:
		return db.checkMySQL(ctx)
	case db.d.postgres:
		return db.checkPostgres(ctx)
	}
	return nil
}

// checkMySQL: the binary log needs another format than STATEMENT, which MySQL's manual, "Setting The Binary Log
// Format", excludes with READ COMMITTED: the lock of the migrations would try in vain for minutes.
func (db *DB) checkMySQL(ctx context.Context) error {
	var server struct{ Statements, Packet int }
	err := db.get(ctx, &server, "SELECT @@global.log_bin = 1 AND @@global.binlog_format = 'STATEMENT' AS statements, "+
		"@@global.max_allowed_packet AS packet")
	switch {
	case err != nil:
		return err
	case server.Statements == 1:
		return errors.New("the server's binlog_format is STATEMENT; fanfare needs ROW or MIXED")
	case server.Packet < minPacket:
		return fmt.Errorf("the server's max_allowed_packet is %d bytes; fanfare needs at least %d", server.Packet, minPacket)
	}
	return nil
}

// SchemaVersion is the number of the newest step that was applied, and the
// newest that this program knows.
func (db *DB) SchemaVersion(ctx context.Context) (have, want int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, db.timeout)
	defer cancel()
	p, err := db.provider()
	if err != nil {
		return 0, 0, err
	}
	have, want, err = p.GetVersions(ctx)
	return have, want, fail("read schema version", err)
}

func (db *DB) provider() (*goose.Provider, error) {
	steps, err := fs.Sub(migrations.FS, db.d.name)
	if err != nil {
		return nil, fmt.Errorf("open migrations: %w", err)
	}
	locker, err := db.locker()
	if err != nil {
		return nil, fmt.Errorf("make migration lock: %w", err)
	}
	p, err := goose.NewProvider(db.d.goose, db.sql.DB, steps,
		goose.WithLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	return p, nil
}

// locker locks a file beside that of SQLite, or a row in a table of the server. A row needs no session, which behind
// PgBouncer may be another one for each statement.
func (db *DB) locker() (lock.Locker, error) {
	options := []lock.TableLockerOption{lock.WithTableLockTimeout(migrateRest, migrateTries), lock.WithTableRetryPolicy(db.tellLock())}
	switch {
	case db.d.mysql:
		return lock.NewMySQLTableLocker(options...)
	case db.d.postgres:
		return lock.NewPostgresTableLocker(options...)
	}
	return &fileLocker{path: db.file + "-migrate", log: db.log}, nil
}

// tellLock tries to take the lock again whatever the error is, and logs the first error: what it waits for may
// never come, such as a missing right.
func (db *DB) tellLock() func(error) bool {
	var held, failed sync.Once
	return func(err error) bool {
		if strings.Contains(err.Error(), "already held") {
			held.Do(func() { db.log.Info(otherMigrates) })
		} else {
			failed.Do(func() { db.log.Warn("the lock of the migrations cannot be taken; it is tried again", "error", err) })
		}
		return true
	}
}

// otherMigrates is logged when the start waits for another process.
const otherMigrates = "another process is migrating the database: the start waits for it"
