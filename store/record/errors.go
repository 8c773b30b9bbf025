package record

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"

	"fanfare/api"
)

// fail gives an error its meaning: an *api.Error stays, a database out of
// reach is api.CodeUnavailable, any other error is wrapped with the name of the attempt.
func fail(verb string, err error) error {
	var known *api.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return err
	case away(err):
		return api.Errorf(api.CodeUnavailable, "the database is out of reach").Because(fmt.Errorf("%s: %w", verb, err))
	}
	return fmt.Errorf("%s: %w", verb, err)
}

// unknown is the error when a commit was sent and its reply was lost.
func unknown(err error) error {
	return api.Errorf(api.CodeUnknownOutcome, "the database did not confirm the change").Because(fmt.Errorf("commit: %w", err))
}

// away reports whether err means that the database could not be asked.
func away(err error) bool {
	var netErr net.Error
	switch {
	case errors.As(err, new(*connectError)), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled),
		errors.Is(err, driver.ErrBadConn), errors.Is(err, mysql.ErrInvalidConn),
		errors.Is(err, sql.ErrConnDone), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.As(err, &netErr), pgconn.SafeToRetry(err):
		return true
	}
	var my *mysql.MySQLError
	if errors.As(err, &my) {
		return slices.Contains(mysqlAway(), my.Number) || string(my.SQLState[:2]) == "08" || contention(err)
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return postgresAway(pg.Code) || contention(err)
	}
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		return slices.Contains(sqliteAway(), lite.Code()&0xff)
	}
	return false
}

// rolledBack reports whether the error of a COMMIT says that nothing was committed: PostgreSQL refused it, or had ended
// the session or the transaction before, or it was not sent.
func rolledBack(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.SeverityUnlocalized == "ERROR" || pg.Code == idleState // PgBouncer's own errors have no such severity
	}
	return contention(err) || errors.Is(err, pgx.ErrTxCommitRollback) || pgconn.SafeToRetry(err)
}

// postgresAway reports errors after which the same statement may work later: the classes of the connection, which
// PgBouncer uses for its own refusals, of resources, of an operator who intervenes, and of the system below;
// read-only; in use; idle or too long in a transaction.
func postgresAway(code string) bool {
	switch code[:min(2, len(code))] {
	case "08", "53", "57", "58":
		return true
	}
	return slices.Contains([]string{readOnlyState, "55006", idleState, "25P04"}, code)
}

const (
	// readOnlyState is the state of a change that a PostgreSQL server refuses because it takes none.
	readOnlyState = "25006"
	// idleState is the state of a session that PostgreSQL ended because it was idle in a transaction.
	idleState = "25P03"
)

// mysqlAway lists server errors after which the same statement may work later, beside those of class 08 (the
// connection): out of memory, of disk, of locks or of other resources; too many connections, also of one user, or
// statements; the host blocked; access or the database gone; starting, shutting down, not yet a member of its
// cluster, read-only; a failing disk; the connection or the statement ended by the server; a table that has just
// been changed; and what a proxy says about the server behind it.
func mysqlAway() []uint16 {
	return []uint16{
		1021, 1030, 1037, 1038, 1040, 1041, 1042, 1044, 1045, 1047, 1049, 1053, 1077, 1114, 1129, 1130, 1135, 1152, 1158, 1159, 1160, 1161,
		1180, 1203, 1205, 1206, 1213, 1226, 1290, 1297, 1317, 1412, 1461, 1615, 1637, 1689, 1698, 1792, 1836, 1927, 1969, 2002, 2003, 2006, 2013, 3024, 3100, 3101, 3168, 3169, 4031, 9001,
	}
}

// Refused reports whether a server is there but refuses the connection: the user, the password, or
// the name of the database is wrong, the host or a connection without TLS is not admitted, or the account is locked or
// its password has expired.
func Refused(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return errors.As(err, new(*connectError)) && (slices.Contains([]string{"28000", "28P01", "3D000", "42501"}, pg.Code) || bouncerRefused(pg))
	}
	var my *mysql.MySQLError
	return errors.As(err, &my) && slices.Contains([]uint16{1044, 1045, 1049, 1130, 1698, 1862, 3118, 3159, 4151}, my.Number)
}

// bouncerRefused tells PgBouncer's refusals of a user or a database from its others, which have the same state in some of
// its versions.
func bouncerRefused(pg *pgconn.PgError) bool {
	return pg.Code == "08P01" && (strings.Contains(pg.Message, "authentication failed") || strings.HasPrefix(pg.Message, "no such "))
}

// sqliteAway: BUSY, LOCKED, NOMEM, READONLY, INTERRUPT, IOERR, FULL, CANTOPEN.
func sqliteAway() []int { return []int{5, 6, 7, 8, 9, 10, 13, 14} }

// contention reports whether another transaction was in the way, so that the whole transaction may
// be run again: a deadlock, a lock wait, a changed record (MariaDB's snapshot isolation), another member's change
// (group replication), a serialization failure, SQLITE_BUSY and SQLITE_LOCKED.
func contention(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return slices.Contains([]string{"40001", "40P01", "55P03"}, pg.Code)
	}
	var my *mysql.MySQLError
	if errors.As(err, &my) {
		return slices.Contains([]uint16{1213, 1205, 1020, 3101}, my.Number)
	}
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		code := lite.Code() & 0xff
		return code == 5 || code == 6
	}
	return false
}

// unusable reports whether the driver gave up a connection before anything was done for good, such as one to a
// server that has become read-only. The error of a commit is an *api.Error.
func unusable(err error) bool {
	return errors.Is(err, driver.ErrBadConn) && !errors.As(err, new(*api.Error))
}

// duplicate reports whether a row with this key exists: ER_DUP_ENTRY, unique_violation, or SQLite's
// constraints on a primary key or a unique index.
func duplicate(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == "23505"
	}
	var my *mysql.MySQLError
	if errors.As(err, &my) {
		return my.Number == 1062
	}
	var lite *sqlite.Error
	return errors.As(err, &lite) && (lite.Code() == 1555 || lite.Code() == 2067)
}
