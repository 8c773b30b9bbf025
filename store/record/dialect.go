package record

import (
	"strings"

	"github.com/pressly/goose/v3"
)

// dialect is all that differs between the two databases. Queries are written
// once; where they must differ they ask here.
type dialect struct {
	name   string // also the folder of its migrations
	goose  goose.Dialect
	driver string
	// now is an expression: the database's clock in ms since the Unix epoch.
	now string
	// forUpdate ends a SELECT that locks the rows it reads. SQLite needs none:
	// its transactions begin by taking the only write lock.
	forUpdate string
	mysql     bool
}

func mysqlDialect() dialect {
	return dialect{
		name: "mysql", goose: goose.DialectMySQL, driver: "mysql", mysql: true,
		now:       "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)",
		forUpdate: " FOR UPDATE",
	}
}

func sqliteDialect() dialect {
	return dialect{
		name: "sqlite", goose: goose.DialectSQLite3, driver: "sqlite",
		now: "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
	}
}

// onConflict ends an INSERT: when a row with this key exists, the columns
// named in set take the values that the INSERT carried, and those named in
// raise go up by one. Column names come from this package's code alone.
func (d dialect) onConflict(key string, set []string, raise ...string) string {
	parts := make([]string, 0, len(set)+len(raise))
	for _, c := range set {
		if d.mysql {
			parts = append(parts, c+" = VALUES("+c+")")
		} else {
			parts = append(parts, c+" = excluded."+c)
		}
	}
	for _, c := range raise {
		parts = append(parts, c+" = "+c+" + 1")
	}
	list := strings.Join(parts, ", ")
	if d.mysql {
		return " ON DUPLICATE KEY UPDATE " + list
	}
	return " ON CONFLICT (" + key + ") DO UPDATE SET " + list
}
