package storetest

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// tables are fanfare's tables, as the migrations make them for the first test that needs a database.
// Later tests get copies, because the migrations take most of a second under the race detector: goose
// needs 4 MiB of memory several times in each step.
var tables struct {
	sync.Mutex
	sqlite []byte // a database
	mysql  string // statements
}

// sqliteTables is a SQLite database with fanfare's tables.
func sqliteTables(t testing.TB) []byte {
	t.Helper()
	tables.Lock()
	defer tables.Unlock()
	if tables.sqlite == nil {
		url, file := EmptySQLite(t), filepath.Join(t.TempDir(), "tables.db")
		Must(t, Record(t, url).Migrate(t.Context()))
		db, err := sql.Open("sqlite", strings.TrimPrefix(url, "sqlite:"))
		Must(t, err)
		defer db.Close()
		_, err = db.ExecContext(t.Context(), "VACUUM INTO ?", file)
		Must(t, err)
		tables.sqlite, err = os.ReadFile(file)
		Must(t, err)
	}
	return tables.sqlite
}

// mysqlTables are the statements that make fanfare's tables in MariaDB.
func mysqlTables(t testing.TB) string {
	t.Helper()
	tables.Lock()
	defer tables.Unlock()
	if tables.mysql == "" {
		url := EmptyMySQL(t)
		Must(t, Record(t, url).Migrate(t.Context()))
		db, err := openMySQL(url)
		Must(t, err)
		defer db.Close()
		all := ""
		for _, table := range mustTexts(t, db, "SHOW TABLES") {
			name := *table[0]
			all += *mustTexts(t, db, "SHOW CREATE TABLE "+name)[0][1] + ";\n"
			for _, row := range mustTexts(t, db, "SELECT * FROM "+name) {
				values := make([]string, len(row))
				for i, text := range row {
					if values[i] = "NULL"; text != nil {
						values[i] = "'" + *text + "'"
					}
				}
				all += fmt.Sprintf("INSERT INTO %s VALUES (%s);\n", name, strings.Join(values, ","))
			}
		}
		tables.mysql = all
	}
	return tables.mysql
}

// mustTexts reads all rows as texts; nil is NULL.
func mustTexts(t testing.TB, db *sql.DB, query string) (all [][]*string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	Must(t, err)
	defer rows.Close()
	columns, err := rows.Columns()
	Must(t, err)
	for rows.Next() {
		row, into := make([]*string, len(columns)), make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		Must(t, rows.Scan(into...))
		all = append(all, row)
	}
	Must(t, rows.Err())
	return all
}
