package storetest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/store/record"

	"github.com/go-sql-driver/mysql"
)

// mysqlEnv names a MariaDB or MySQL server for tests, as
// mysql://user:password@host:port/; its user may create databases.
const mysqlEnv = "FANFARE_TEST_MYSQL_URL"

// sharedMySQL is the server of this test binary, which the first test that needs it starts. A
// second server would take seconds and a hundred megabytes.
var sharedMySQL struct {
	sync.Mutex
	url string
}

// SQLite is the URL of a fresh SQLite database that has fanfare's tables.
func SQLite(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fanfare.db")
	Must(t, os.WriteFile(file, sqliteTables(t), 0o600))
	return "sqlite:" + file
}

// EmptySQLite is the URL of a SQLite database that is still to be made.
func EmptySQLite(t testing.TB) string {
	t.Helper()
	return "sqlite:" + filepath.Join(t.TempDir(), "fanfare.db")
}

// LockSQLite makes every write to an SQLite database wait until it is unlocked, while reads go on.
// The test must import the driver "sqlite" (store/record).
func LockSQLite(t testing.TB, url string) (unlock func()) {
	t.Helper()
	db, err := sql.Open("sqlite", strings.TrimPrefix(url, "sqlite:"))
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	Eventually(t, startTimeout, "SQLite is locked", func() bool {
		_, err := db.Exec("BEGIN IMMEDIATE") // another write may be under way
		return err == nil
	})
	unlock = sync.OnceFunc(func() { _ = db.Close() })
	t.Cleanup(unlock)
	return unlock
}

// ExecSQLite runs a statement in an SQLite database, on a connection of its own.
func ExecSQLite(t testing.TB, url, statement string, args ...any) {
	t.Helper()
	db, err := sql.Open("sqlite", strings.TrimPrefix(url, "sqlite:")+"?_pragma=busy_timeout(10000)")
	Must(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), statement, args...)
	Must(t, err)
}

// MySQL is the URL of a fresh MariaDB database that has fanfare's tables. It is dropped when the test
// ends. The server is the one in FANFARE_TEST_MYSQL_URL, or else one of this test binary.
func MySQL(t testing.TB) string {
	t.Helper()
	SkipShort(t, "a MariaDB")
	return mustMySQL(t, mysqlTables(t))
}

// EmptyMySQL is MySQL without tables.
func EmptyMySQL(t testing.TB) string {
	t.Helper()
	SkipShort(t, "a MariaDB")
	return mustMySQL(t, "")
}

// mustMySQL makes a database and runs the statements in it.
func mustMySQL(t testing.TB, statements string) string {
	t.Helper()
	server := os.Getenv(mysqlEnv)
	if server == "" {
		server = mustSharedMySQL(t)
	}
	name := "fanfare_" + strings.ToLower(rand.Text()[:16])
	mustExecSQL(t, server, "CREATE DATABASE "+name+"; USE "+name+";"+statements)
	t.Cleanup(func() { mustExecSQL(t, server, "DROP DATABASE IF EXISTS "+name) })
	return strings.TrimSuffix(server, "/") + "/" + name
}

// EachSQL runs a test on two kinds of database, as parallel subtests "mysql"
// and "sqlite". EachDialect has the third.
func EachSQL(t *testing.T, fn func(t *testing.T, url string)) {
	t.Helper()
	t.Run("mysql", func(t *testing.T) {
		t.Parallel()
		fn(t, MySQL(t))
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		fn(t, SQLite(t))
	})
}

func mustExecSQL(t testing.TB, server, statements string) {
	t.Helper()
	if err := execSQL(server, statements); err != nil {
		t.Errorf("%s: %v", statements, err)
	}
}

// execSQL runs statements on a new connection.
func execSQL(server, statements string) error {
	db, err := openMySQL(server)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	_, err = db.ExecContext(ctx, statements)
	return err
}

// openMySQL opens a database, or a server if the URL names no database.
func openMySQL(at string) (*sql.DB, error) {
	u, err := url.Parse(at)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", mysqlEnv, err)
	}
	c := mysql.NewConfig()
	c.User = u.User.Username()
	c.Passwd, _ = u.User.Password()
	c.DBName, c.MultiStatements = strings.TrimPrefix(u.Path, "/"), true
	c.Net, c.Addr, c.Timeout = "tcp", u.Host, 5*time.Second
	return sql.Open("mysql", c.FormatDSN())
}

func mustSharedMySQL(t testing.TB) string {
	t.Helper()
	sharedMySQL.Lock()
	defer sharedMySQL.Unlock()
	if sharedMySQL.url == "" {
		sharedMySQL.url = mustStartMySQL(t)
	}
	return sharedMySQL.url
}

// mustStartMySQL starts a small MariaDB that does not sync to disk.
func mustStartMySQL(t testing.TB) string {
	t.Helper()
	dir := mustTempDir(t, "fanfare-mysql-")
	init, password := mustWriteUser(t, dir)
	port := FreePort(t)
	if err := installMySQL(t, dir); err != nil {
		t.Fatal(err)
	}
	args := append(mysqlArgs(dir), "--port="+strconv.Itoa(port), "--init-file="+init)
	if err := launchForBinary(dir, "KILL", mustFind(t, "mariadbd", "mysqld"), args...); err != nil {
		t.Fatal(err)
	}
	server := fmt.Sprintf("mysql://fanfare:%s@127.0.0.1:%d/", password, port)
	Eventually(t, startTimeout, "MariaDB answers (its log: "+dir+"/error.log)", func() bool {
		return execSQL(server, "DO 1") == nil
	})
	return server
}

// mustWriteUser writes the file that makes the user fanfare, with a fresh password.
func mustWriteUser(t testing.TB, dir string) (file, password string) {
	t.Helper()
	file, password = filepath.Join(dir, "init.sql"), rand.Text()
	text := "CREATE USER 'fanfare'@'127.0.0.1' IDENTIFIED BY '" + password + "';\n" +
		"GRANT ALL ON *.* TO 'fanfare'@'127.0.0.1' WITH GRANT OPTION;\n"
	Must(t, os.WriteFile(file, []byte(text), 0o600))
	return file, password
}

func installMySQL(t testing.TB, dir string) error {
	args := []string{"--no-defaults", "--datadir=" + filepath.Join(dir, "data"), "--auth-root-authentication-method=normal", "--skip-test-db"}
	cmd := exec.Command(mustFind(t, "mariadb-install-db", "mysql_install_db"), append(args, userArg()...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir) // two servers disturb each other in a shared directory
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("install the tables of MariaDB: %w: %s", err, out)
	}
	return nil
}

// mysqlArgs are options for small memory, no fsync, and loopback only.
func mysqlArgs(dir string) []string {
	args := []string{
		"--no-defaults", "--datadir=" + filepath.Join(dir, "data"), "--socket=" + filepath.Join(dir, "s"),
		"--pid-file=" + filepath.Join(dir, "pid"), "--log-error=" + filepath.Join(dir, "error.log"),
		"--bind-address=127.0.0.1", "--skip-name-resolve", "--skip-log-bin", "--performance-schema=OFF",
		"--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M", "--innodb-flush-log-at-trx-commit=0",
		"--innodb-flush-method=nosync", "--innodb-doublewrite=OFF", "--sync-binlog=0", "--key-buffer-size=1M",
		"--max-connections=500",
	}
	return append(args, userArg()...)
}

// userArg lets root run MariaDB, which it refuses by default.
func userArg() []string {
	me, err := user.Current()
	if err != nil || os.Geteuid() != 0 {
		return nil
	}
	return []string{"--user=" + me.Username}
}

// Record opens the record of a database URL, until the test ends. It makes no tables.
func Record(t testing.TB, url string) *record.DB {
	t.Helper()
	rec, err := record.Open(t.Context(), record.Options{URL: url})
	Must(t, err)
	t.Cleanup(func() { _ = rec.Close() })
	return rec
}
