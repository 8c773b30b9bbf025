package record

import (
	"context"
	"database/sql/driver"
	"fmt"
)

// connector prepares each new MySQL connection. It sets READ COMMITTED, because gap locks of the
// default level deadlock concurrent inserts, and because the settings cache needs a query to see
// what was committed before it began. It also sets a short lock wait, so that a stuck
// transaction is retried within the deadline.
type connector struct{ driver.Connector }

// Connect opens one connection and sets its session.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	for _, q := range sessionSettings() {
		if _, err := conn.(driver.ExecerContext).ExecContext(ctx, q, nil); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("set up session: %w", err)
		}
	}
	return conn, nil
}

func sessionSettings() []string {
	return []string{
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
		fmt.Sprintf("SET SESSION innodb_lock_wait_timeout = %d", int(lockWait.Seconds())),
	}
}

// patientConnector opens connections to SQLite. The first connections to a new file all switch
// it to WAL, which turns a read lock into a write lock. SQLite answers every connection but the
// first at once that it is busy, whatever busy_timeout says, because two that waited for each
// other's read lock would wait for ever.
type patientConnector struct{ driver.Connector }

// Connect opens one connection, and tries again while other connections switch the file.
func (c *patientConnector) Connect(ctx context.Context) (conn driver.Conn, err error) {
	err = again(ctx, func() error {
		conn, err = c.Connector.Connect(ctx)
		return err
	})
	return conn, err
}
