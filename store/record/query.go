package record

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"

	"fanfare/api"
)

// chunk is the most values one IN list or INSERT carries.
const chunk = 500

// maxTries is how often transactions and reads that met another transaction are tried.
const maxTries = 10

// errUnchanged ends a transaction that found nothing to do: it is rolled back, and inTx returns nil.
var errUnchanged = errors.New("nothing to change")

// get reads one row; sql.ErrNoRows when there is none.
func (db *DB) get(ctx context.Context, dest any, query string, args ...any) error {
	return db.read(ctx, query, func(ctx context.Context) error {
		return db.sql.GetContext(ctx, dest, query, args...)
	})
}

// list reads all rows into a slice. A list among the arguments is for an IN (?).
func (db *DB) list(ctx context.Context, dest any, query string, args ...any) error {
	query, args, err := sqlx.In(query, args...)
	if err != nil {
		return err
	}
	return db.read(ctx, query, func(ctx context.Context) error {
		return db.sql.SelectContext(ctx, dest, query, args...)
	})
}

// read runs a query within the deadline, again while it meets contention.
func (db *DB) read(ctx context.Context, query string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, db.timeout)
	defer cancel()
	err := again(ctx, func() error { return f(ctx) })
	if errors.Is(err, sql.ErrNoRows) {
		return err
	}
	return fail("run "+query, err)
}

// inTx runs f in a transaction and commits it. f may run several times, so it
// must set its results, not add to them.
func (db *DB) inTx(ctx context.Context, f func(context.Context, *sqlx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, db.timeout)
	defer cancel()
	if err := db.lockWriter(ctx); err != nil {
		return fail("wait for the writer", err)
	}
	defer db.unlockWriter()
	err := again(ctx, func() error { return db.try(ctx, f) })
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return fail("write", err)
}

// exec runs one statement that is a transaction of its own. Its effect must be
// the same when it runs twice. A list among the arguments is for an IN (?).
func (db *DB) exec(ctx context.Context, query string, args ...any) error {
	query, args, err := sqlx.In(query, args...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, db.timeout)
	defer cancel()
	if err := db.lockWriter(ctx); err != nil {
		return fail("wait for the writer", err)
	}
	defer db.unlockWriter()
	return fail("run "+query, again(ctx, func() error {
		_, err := db.sql.ExecContext(ctx, query, args...)
		return err
	}))
}

func (db *DB) try(ctx context.Context, f func(context.Context, *sqlx.Tx) error) error {
	tx, err := db.sql.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(ctx, tx); err != nil {
		_ = tx.Rollback()
		return err
	}
	if err := ctx.Err(); err != nil {
		_ = tx.Rollback()
		return err
	}
	return commit(ctx, tx)
}

// commit sends COMMIT. Some errors say that the transaction was rolled back (rolledBack). Any other leaves the outcome
// unknown.
func commit(ctx context.Context, tx *sqlx.Tx) error {
	err := within(ctx, tx.Commit)
	if err == nil {
		return nil
	}
	if rolledBack(err) {
		_ = tx.Rollback()
		return err
	}
	return unknown(err)
}

// within runs f but returns no later than ctx ends: a COMMIT takes no context and may sit in a
// dead connection until the driver's own time-out.
func within(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// again repeats f while it meets contention, or a connection that cannot be used, with growing, jittered rests.
func again(ctx context.Context, f func() error) error {
	for try := 1; ; try++ {
		err := f()
		if err == nil || !contention(err) && !unusable(err) || try == maxTries {
			return err
		}
		rest := time.Millisecond << min(try, 7)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(rest/2 + rand.N(rest)):
		}
	}
}

// lockWriter waits until nobody else writes; only SQLite needs it.
func (db *DB) lockWriter(ctx context.Context) error {
	if db.writer == nil {
		return nil
	}
	select {
	case db.writer <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (db *DB) unlockWriter() {
	if db.writer != nil {
		<-db.writer
	}
}

// statement is a query that is prepared once on each connection that runs it. It is not prepared if it is unstable:
// behind PgBouncer a connection may lead to another session a moment later.
type statement struct {
	query    string
	unstable bool
	made     atomic.Pointer[sql.Stmt]
}

// rows runs the query.
func (s *statement) rows(ctx context.Context, pool *sqlx.DB, args ...any) (*sql.Rows, error) {
	if s.unstable {
		return pool.QueryContext(ctx, s.query, args...)
	}
	made, err := s.on(ctx, pool) //nolint:sqlclosecheck // it is kept for all readers
	if err != nil {
		return nil, err
	}
	return made.QueryContext(ctx, args...)
}

// on returns the statement. It is prepared at its first use, because the database need not be up
// before.
func (s *statement) on(ctx context.Context, pool *sqlx.DB) (*sql.Stmt, error) {
	if made := s.made.Load(); made != nil {
		return made, nil
	}
	made, err := pool.PrepareContext(ctx, s.query)
	if err == nil && !s.made.CompareAndSwap(nil, made) {
		_ = made.Close() //nolint:sqlclosecheck // another goroutine was faster; nothing else uses this one
		made = s.made.Load()
	}
	return made, err
}

// timeOf is a time that a row may lack, in ms.
func timeOf(ms *int64) *api.Time {
	if ms == nil {
		return nil
	}
	return new(api.AtMillis(*ms))
}

// affected is how many rows a statement changed.
func affected(res sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// changed returns the error, or errUnchanged if no row was changed.
func changed(res sql.Result, err error) error {
	n, err := affected(res, err)
	if err == nil && n == 0 {
		return errUnchanged
	}
	return err
}

// selectIn reads all rows into a slice, in a transaction. A list among the arguments is for an IN (?).
func selectIn(ctx context.Context, tx *sqlx.Tx, dest any, query string, args ...any) error {
	query, args, err := sqlx.In(query, args...)
	if err != nil {
		return err
	}
	return tx.SelectContext(ctx, dest, query, args...)
}

// execIn runs a statement in a transaction. A list among the arguments is for an IN (?).
func execIn(ctx context.Context, tx *sqlx.Tx, query string, args ...any) (sql.Result, error) {
	query, args, err := sqlx.In(query, args...)
	if err != nil {
		return nil, err
	}
	return tx.ExecContext(ctx, query, args...)
}

// rows repeats a VALUES group n times: rows("(?, 1)", 2) is "(?, 1), (?, 1)".
func rows(group string, n int) string {
	return strings.TrimSuffix(strings.Repeat(group+", ", n), ", ")
}
