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

	"github.com/go-sql-driver/mysql"
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

// away tells whether err means that the database could not be asked.
func away(err error) bool {
	var netErr net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled),
		errors.Is(err, driver.ErrBadConn), errors.Is(err, mysql.ErrInvalidConn),
		errors.Is(err, sql.ErrConnDone), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.As(err, &netErr):
		return true
	}
	var my *mysql.MySQLError
	if errors.As(err, &my) {
		return slices.Contains(mysqlAway(), my.Number) || contention(err)
	}
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		return slices.Contains(sqliteAway(), lite.Code()&0xff)
	}
	return false
}

// mysqlAway lists server errors after which the same statement may work later:
// too many connections, shutting down, access or database gone, read only,
// out of memory or disk, connection killed, query interrupted or timed out.
func mysqlAway() []uint16 {
	return []uint16{1021, 1040, 1041, 1042, 1044, 1045, 1049, 1053, 1077, 1152, 1158, 1159, 1160, 1161, 1203, 1205, 1213, 1290, 1317, 1836, 1927, 1969, 3024}
}

// Refused tells whether a server is there but refuses the connection: the user, the password, or
// the name of the database is wrong.
func Refused(err error) bool {
	var my *mysql.MySQLError
	return errors.As(err, &my) && slices.Contains([]uint16{1044, 1045, 1049}, my.Number)
}

// sqliteAway: BUSY, LOCKED, NOMEM, READONLY, INTERRUPT, IOERR, FULL, CANTOPEN.
func sqliteAway() []int { return []int{5, 6, 7, 8, 9, 10, 13, 14} }

// contention tells whether another transaction was in the way, so that the whole transaction may
// be run again: a deadlock, a lock wait, a changed record (MariaDB's snapshot isolation),
// SQLITE_BUSY and SQLITE_LOCKED.
func contention(err error) bool {
	var my *mysql.MySQLError
	if errors.As(err, &my) {
		return my.Number == 1213 || my.Number == 1205 || my.Number == 1020
	}
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		code := lite.Code() & 0xff
		return code == 5 || code == 6
	}
	return false
}

// duplicate tells whether a row with this key exists: ER_DUP_ENTRY, or SQLite's
// constraints on a primary key or a unique index.
func duplicate(err error) bool {
	var my *mysql.MySQLError
	if errors.As(err, &my) {
		return my.Number == 1062
	}
	var lite *sqlite.Error
	return errors.As(err, &lite) && (lite.Code() == 1555 || lite.Code() == 2067)
}
