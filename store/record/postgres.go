package record

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"
)

// postgresPool opens connections of which nothing is kept from one transaction to the next, because PgBouncer in
// transaction mode may give each of them to another session of the server: no SET, and no statement that was prepared.
// A query and its values go in one message and one round trip (QueryExecModeExec).
func postgresPool(c *pgx.ConnConfig, timeout time.Duration) *sql.DB {
	c.ConnectTimeout = min(dialTimeout, timeout)
	c.DialFunc = (&net.Dialer{Timeout: c.ConnectTimeout}).DialContext
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	c.StatementCacheCapacity, c.DescriptionCacheCapacity = 0, 0
	pool := sql.OpenDB(&postgresConnector{stdlib.GetConnector(*c)})
	pool.SetConnMaxLifetime(lifetime)
	return pool
}

// postgresConnector opens connections that number the placeholders of queries.
type postgresConnector struct{ driver.Connector }

// Connect opens one connection.
func (c *postgresConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, &connectError{err}
	}
	return &postgresConn{Conn: conn.(*stdlib.Conn), opened: time.Now()}, nil
}

// postgresConn is a connection to PostgreSQL that is given up when the server takes no changes: after a fail-over
// behind its address the next one leads to the new primary.
type postgresConn struct {
	*stdlib.Conn
	opened  time.Time
	useless bool
}

// youth is the age below which a connection leads to where the server's address leads now.
const youth = time.Second

// IsValid reports whether the pool may keep the connection.
func (c *postgresConn) IsValid() bool { return !c.useless && !c.Conn.Conn().IsClosed() }

// ExecContext runs a statement.
func (c *postgresConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	alone := c.alone()
	res, err := c.Conn.ExecContext(ctx, sqlx.Rebind(sqlx.DOLLAR, query), args)
	return res, c.judge(ctx, err, alone)
}

// QueryContext runs a query.
func (c *postgresConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	alone := c.alone()
	rows, err := c.Conn.QueryContext(ctx, sqlx.Rebind(sqlx.DOLLAR, query), args)
	return rows, c.judge(ctx, err, alone)
}

// BeginTx begins a transaction in READ COMMITTED, whatever the server's default is: the settings cache needs a query
// to see what was committed before it began. When it fails, nothing was done.
func (c *postgresConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	o.Isolation = driver.IsolationLevel(sql.LevelReadCommitted)
	tx, err := c.Conn.BeginTx(ctx, o)
	if err != nil && ctx.Err() == nil {
		return nil, c.giveUp(err)
	}
	return tx, err
}

// alone reports whether the connection is in no transaction, so that the next statement is one by itself.
func (c *postgresConn) alone() bool { return c.Conn.Conn().PgConn().TxStatus() == 'I' }

// judge gives the connection up if err says that the server takes no changes. It does the same if the connection broke
// under a statement outside a transaction, as when the server restarts: the pool then runs the statement again, which
// may run twice (exec). A young connection to a server that takes no changes is not replaced for the same call, because
// the next one would lead there, too.
func (c *postgresConn) judge(ctx context.Context, err error, alone bool) error {
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && pg.Code == readOnlyState && time.Since(c.opened) < youth:
		c.useless = true
		return err
	case errors.As(err, &pg) && pg.Code == readOnlyState, err != nil && alone && ctx.Err() == nil && c.Conn.Conn().IsClosed():
		return c.giveUp(err)
	}
	return err
}

// giveUp makes the pool close the connection.
func (c *postgresConn) giveUp(err error) error {
	c.useless = true
	return fmt.Errorf("%w: %w", driver.ErrBadConn, err)
}

// leastPostgres is the oldest version that fanfare runs on, as the server counts them.
const leastPostgres = 14_00_00

// postgresServer is how a server and its database are set.
type postgresServer struct {
	Version           int
	Number, Encoding  string
	Commits, Standbys string
}

// checkPostgres refuses a server that fanfare cannot use. It warns of one that answers before a change is on its disk,
// or on the standbys that it has for that.
func (db *DB) checkPostgres(ctx context.Context) error {
	var s postgresServer
	err := db.get(ctx, &s, "SELECT CAST(current_setting('server_version_num') AS INTEGER) AS version, current_setting('server_version') AS number, "+
		"current_setting('server_encoding') AS encoding, current_setting('synchronous_commit') AS commits, current_setting('synchronous_standby_names') AS standbys")
	switch {
	case err != nil:
		return err
	case s.Commits == "off":
		db.log.Warn("the database answers before a change is on its disk: synchronous_commit is off")
	case s.Commits == "local" && s.Standbys != "":
		db.log.Warn("the database answers before a change is on its standbys: synchronous_commit is local")
	}
	return s.problem()
}

// problem is why fanfare cannot use the server: it is too old, or its database cannot hold every text.
func (s postgresServer) problem() error {
	switch {
	case s.Version < leastPostgres:
		return fmt.Errorf("the server is PostgreSQL %s; fanfare needs 14 or newer", s.Number)
	case s.Encoding != "UTF8":
		return fmt.Errorf("the database's encoding is %s; fanfare needs UTF8", s.Encoding)
	}
	return nil
}
