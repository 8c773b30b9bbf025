package record

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
	"modernc.org/sqlite"
)

// Options says which database to use, and how long to wait for it. Only URL is needed.
type Options struct {
	// URL is sqlite:<file>, mysql://user:password@host:port/name or postgres://user:password@host:port/name.
	URL string
	// Logger receives retries; nil: nothing is logged.
	Logger *slog.Logger
	// MaxOpen bounds the connections of this process; default 32, or 8 for a file.
	MaxOpen int
	// Timeout bounds each call, also one without a deadline; default 5 s.
	Timeout time.Duration
}

const (
	defaultTimeout = 5 * time.Second
	dialTimeout    = 2 * time.Second
	idleTime       = 5 * time.Minute
	// lifetime is how long a connection to a server is used: so long reads may come from a server that is no longer
	// behind its address.
	lifetime = 20 * time.Second
	// lockWait is how long one statement waits for another transaction's lock
	// before the whole transaction is tried again.
	lockWait = time.Second
	// batchesAtOnce is how many batches of devices or contacts a process writes at once.
	batchesAtOnce = 2
	// sqliteBusy is the same for SQLite, short because its wait cannot be
	// interrupted by a deadline.
	sqliteBusy = 100 * time.Millisecond
)

// DB is the record. It is safe for concurrent use.
type DB struct {
	sql     *sqlx.DB
	d       dialect
	file    string // of SQLite
	log     *slog.Logger
	timeout time.Duration
	// writer lets one transaction of this process at a time into SQLite, so
	// that waiting for a turn respects deadlines; nil for a server.
	writer chan struct{}
	// large has a slot for each batch of this process that may be written at once, so that a small
	// write does not wait for all batches that came before it.
	large      chan struct{}
	activities statement
}

// Open reads the URL and makes the pool. The database need not be up yet; a
// URL that cannot mean a database is refused, without showing its password.
func Open(_ context.Context, o Options) (*DB, error) {
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	db := &DB{log: o.Logger, timeout: o.Timeout, large: make(chan struct{}, batchesAtOnce)}
	pool, err := db.pool(o)
	if err != nil {
		return nil, err
	}
	o.MaxOpen = cmp.Or(o.MaxOpen, db.d.maxOpen)
	pool.SetMaxOpenConns(o.MaxOpen)
	pool.SetMaxIdleConns(o.MaxOpen)
	pool.SetConnMaxIdleTime(idleTime)
	db.sql = sqlx.NewDb(pool, db.d.driver)
	db.activities.query, db.activities.unstable = db.d.activitySelect(db.d.names.from), db.d.postgres
	return db, nil
}

func (db *DB) pool(o Options) (*sql.DB, error) {
	named, err := parseURL(o.URL)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	switch {
	case named.mysql != nil:
		db.d = mysqlDialect()
		return mysqlPool(named.mysql, o.Timeout)
	case named.postgres != nil:
		db.d = postgresDialect()
		return postgresPool(named.postgres, o.Timeout), nil
	}
	db.d, db.file = sqliteDialect(), named.file
	db.writer, db.large = make(chan struct{}, 1), make(chan struct{}, 1)
	return sqlitePool(named.file)
}

// Embedded reports whether the record is an SQLite file.
func (db *DB) Embedded() bool { return db.file != "" }

// Close waits for running queries and ends all connections.
func (db *DB) Close() error { return db.sql.Close() }

// ErrReadOnly is what Ping finds at a database that answers and refuses changes.
var ErrReadOnly = errors.New("the database is read-only: changes are refused")

// Ping asks the database for an answer and says how long it took.
func (db *DB) Ping(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	var readOnly string
	err := db.get(ctx, &readOnly, db.d.readOnly)
	if err == nil && readOnly != "0" && readOnly != "OFF" {
		err = ErrReadOnly
	}
	return time.Since(start), err
}

func sqlitePool(file string) (*sql.DB, error) {
	inner, err := sqlite.NewConnector(sqliteDSN(file))
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	return sql.OpenDB(&patientConnector{inner, file}), nil
}

// sqliteDSN: WAL lets readers go on beside the writer; FULL makes a commit
// survive a power cut; immediate transactions cannot deadlock each other.
func sqliteDSN(file string) string {
	q := url.Values{"_txlock": {"immediate"}}
	q.Add("_pragma", fmt.Sprintf("busy_timeout(%d)", sqliteBusy.Milliseconds()))
	q.Add("_pragma", "journal_mode(WAL)")
	q.Add("_pragma", "synchronous(FULL)")
	q.Add("_pragma", "cache_size(-1000)") // KiB; the system has the pages too
	return "file:" + (&url.URL{Path: file}).EscapedPath() + "?" + q.Encode()
}

func mysqlPool(c *mysql.Config, timeout time.Duration) (*sql.DB, error) {
	c.Timeout, c.ReadTimeout, c.WriteTimeout = min(dialTimeout, timeout), 2*timeout, timeout
	c.InterpolateParams = true // one round trip per query instead of three
	c.ClientFoundRows = true   // an UPDATE counts the rows it found, as SQLite does
	c.ParseTime = true         // goose reads the time of its lock
	c.Collation = collation
	c.RejectReadOnly = true // after a fail-over behind its address the next connection leads to the new primary
	c.Logger = &mysql.NopLogger{}
	inner, err := mysql.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	pool := sql.OpenDB(&connector{Connector: inner})
	pool.SetConnMaxLifetime(lifetime)
	return pool, nil
}

// Pool tells how the pool of connections is now.
func (db *DB) Pool() sql.DBStats { return db.sql.Stats() }
