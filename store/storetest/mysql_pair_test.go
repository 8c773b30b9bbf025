package storetest_test

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"fanfare/store/storetest"
)

// A pair keeps what was written across switches and kills, and a connection that stays at the old primary
// cannot write any more.
func TestMySQLPair(t *testing.T) {
	t.Parallel()
	p := storetest.NewMySQLPair(t)
	open := func() *sql.DB {
		u, err := url.Parse(p.URL())
		storetest.Must(t, err)
		db, err := sql.Open("mysql", fmt.Sprintf("%s@tcp(%s)%s", u.User, u.Host, u.Path))
		storetest.Must(t, err)
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	old := open()
	_, err := old.ExecContext(t.Context(), "CREATE TABLE seen (n INT PRIMARY KEY)")
	storetest.Must(t, err)
	for n := range 4 {
		if n == 2 {
			p.Kill()
			p.Restart()
		}
		p.Switch()
		if _, err := old.ExecContext(t.Context(), "INSERT INTO seen VALUES (?)", n); n == 0 && !isReadOnly(err) {
			t.Errorf("a connection to the old primary writes: %v", err)
		}
		old = open()
		storetest.Eventually(t, time.Minute, "the new primary takes writes", func() bool {
			_, err := old.ExecContext(t.Context(), "INSERT INTO seen VALUES (?)", 10+n)
			return err == nil
		})
	}
	var rows int
	storetest.Must(t, open().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM seen WHERE n >= 10").Scan(&rows))
	if rows != 4 {
		t.Errorf("%d rows of 4 are there", rows)
	}
}

func isReadOnly(err error) bool {
	refused, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && refused.Number == 1290
}
