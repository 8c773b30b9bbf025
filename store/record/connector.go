package record

import (
	"context"
	"database/sql/driver"
	"fmt"
	"os"
)

// collation compares bytes, as Go does.
const collation = "utf8mb4_bin"

// connector prepares each new MySQL connection: it sets what the queries rely on, whatever the server's
// defaults are.
type connector struct{ driver.Connector }

// Connect opens one connection and sets its session.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, &connectError{err}
	}
	for _, q := range sessionSettings() {
		if _, err := conn.(driver.ExecerContext).ExecContext(ctx, q, nil); err != nil {
			_ = conn.Close()
			return nil, &connectError{fmt.Errorf("set up session: %w", err)}
		}
	}
	return conn, nil
}

// connectError says that there is no connection, for whatever reason: nothing was asked.
type connectError struct{ error }

// Unwrap returns the reason.
func (e *connectError) Unwrap() error { return e.error }

// sessionSettings are the settings of a connection. READ COMMITTED, because gap locks of the default level
// deadlock concurrent inserts, and because the settings cache needs a query to see what was committed before it
// began. A short lock wait, so that a stuck transaction is retried within the deadline. autocommit, because a
// statement alone is a transaction, and completion_type, because a chained one is not committed. UTC, because a local time that comes twice in autumn is not one moment.
// Strict mode, so that a value that does not fit is refused and not cut.
func sessionSettings() []string {
	return []string{
		"SET NAMES utf8mb4 COLLATE " + collation,
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE",
		fmt.Sprintf("SET SESSION autocommit = 1, time_zone = '+00:00', sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION', "+
			"innodb_lock_wait_timeout = %d, sql_safe_updates = 0, sql_select_limit = DEFAULT, "+
			"completion_type = 'NO_CHAIN', sql_big_selects = 1", int(lockWait.Seconds())),
	}
}

// patientConnector opens connections to SQLite. The first connections to a new file all switch
// it to WAL, which turns a read lock into a write lock. SQLite answers every connection but the
// first at once that it is busy, whatever busy_timeout says, because two that waited for each
// other's read lock would wait for ever.
type patientConnector struct {
	driver.Connector
	file string
}

// Connect opens one connection, and tries again while other connections switch the file. A new file is for its
// owner alone: it has the keys that sign user tokens.
func (c *patientConnector) Connect(ctx context.Context) (conn driver.Conn, err error) {
	if f, err := os.OpenFile(c.file, os.O_CREATE|os.O_EXCL, 0o600); err == nil {
		_ = f.Close()
	}
	err = again(ctx, func() error {
		conn, err = c.Connector.Connect(ctx)
		return err
	})
	return conn, err
}
