package record

import (
	"strings"

	"github.com/pressly/goose/v3"
)

// dialect holds all differences between the three databases. Queries are written once and use it
// where they must differ.
type dialect struct {
	name   string // also the folder of its migrations
	goose  goose.Dialect
	driver string
	// maxOpen is how many connections a process has by default. For a file it is small: each
	// connection has a cache of its own, and few read at once.
	maxOpen int
	// readOnly asks whether the database refuses changes: 0 or OFF if it does not.
	readOnly string
	// now is an expression: the database's clock in ms since the Unix epoch.
	now string
	// forUpdate ends a SELECT that locks the rows it reads. SQLite needs none:
	// its transactions begin by taking the only write lock.
	forUpdate string
	// forShare does the same, and lets others read the rows with it, too.
	forShare string
	greatest string // a function: the largest of its arguments
	position string // a function: where its second argument begins in the first, 0 if it does not occur
	// pageFrom compares the first column of an index with a single value, in addition to a <=, so
	// that the database begins to read at the page and not at the first row. With = MariaDB reads
	// all rows before the page, and with >= SQLite does.
	pageFrom string
	names    namesForm
	mysql    bool
	postgres bool
}

// namesForm is how many viewers with the names of contacts are passed to a statement. They form
// one document, whatever their number, so that the statement is prepared once and its values
// need no analysis. from reads the document, and the contacts c in it. With arrays there are two documents: the names
// of contacts, and for each of them its viewer. PostgreSQL plans with the length of an array. Of JSON it expects a
// hundred names, and would spend more time on compiling the query than the query takes.
type namesForm struct {
	from                 string
	arrays               bool
	begin, end           string
	viewer, contacts, to string // the text around a viewer's name and the names of the contacts
}

// jsonName is the type of a name in a document. It must be the type of the columns with which the
// name is compared, because otherwise no index would be used.
const jsonName = "VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin PATH "

func mysqlDialect() dialect {
	return dialect{
		name: "mysql", goose: goose.DialectMySQL, driver: "mysql", mysql: true, maxOpen: 32,
		readOnly:  "SELECT @@global.read_only",
		now:       "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)",
		forUpdate: " FOR UPDATE",
		forShare:  " LOCK IN SHARE MODE",
		greatest:  "GREATEST",
		position:  "INSTR",
		pageFrom:  ">=",
		names: namesForm{
			from: "JSON_TABLE(?, '$[*]' COLUMNS (viewer " + jsonName + "'$.v', NESTED PATH '$.c[*]' COLUMNS (contact " + jsonName + "'$'))) names " +
				"STRAIGHT_JOIN contacts c ON c.owner = names.viewer AND c.contact = names.contact AND c.deleted = FALSE",
			begin: "[", viewer: `{"v":`, contacts: `,"c":[`, to: "]}", end: "]",
		},
	}
}

func sqliteDialect() dialect {
	return dialect{
		name: "sqlite", goose: goose.DialectSQLite3, driver: "sqlite", maxOpen: 8,
		readOnly: "SELECT '0'",
		now:      "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
		greatest: "max",
		position: "INSTR",
		pageFrom: "=",
		names: namesForm{
			from: "json_each(?) viewers CROSS JOIN json_each(viewers.value) names " +
				"CROSS JOIN contacts c ON c.owner = viewers.key AND c.contact = names.value AND c.deleted = FALSE",
			begin: "{", contacts: ":[", to: "]", end: "}",
		},
	}
}

// postgresDialect: the clock says when the statement began, not when the transaction did, and is stable, so that an
// index can be searched by it. Each contact is looked up by itself (relationship), however many the planner expects.
func postgresDialect() dialect {
	return dialect{
		name: "postgres", goose: goose.DialectPostgres, driver: "pgx", postgres: true, maxOpen: 32,
		readOnly:  "SELECT CASE current_setting('transaction_read_only') WHEN 'on' THEN '1' ELSE '0' END",
		now:       "CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp()) * 1000) AS BIGINT)",
		forUpdate: " FOR UPDATE",
		forShare:  " FOR SHARE",
		greatest:  "GREATEST",
		position:  "STRPOS",
		pageFrom:  "=",
		names: namesForm{
			arrays: true,
			from: "UNNEST(CAST(? AS TEXT[]), CAST(? AS TEXT[])) names (viewer, contact) " +
				"JOIN " + lateralRelationship("c", "names.viewer", "names.contact"),
		},
	}
}

// relationship ends a JOIN: alias is the row with the relationship of an owner to a contact, if there is one. Each is
// one look-up in an index.
func (d dialect) relationship(alias, owner, contact string) string {
	if d.postgres {
		return lateralRelationship(alias, owner, contact)
	}
	return "contacts " + alias + " ON " + alias + ".owner = " + owner + " AND " + alias + ".contact = " + contact + " AND " + alias + ".deleted = FALSE"
}

func lateralRelationship(alias, owner, contact string) string {
	return "LATERAL (SELECT * FROM contacts WHERE owner = " + owner + " AND contact = " + contact + " AND deleted = FALSE LIMIT 1) " + alias + " ON TRUE"
}

// onConflict is the end of an INSERT into a table: if a row with this key exists, the columns in set take the
// values of the INSERT, and the columns in raise go up by one. Names of tables and columns come only from the code
// of this package.
func (d dialect) onConflict(table, key string, set []string, raise ...string) string {
	parts := make([]string, 0, len(set)+len(raise))
	for _, c := range set {
		parts = append(parts, c+" = "+d.inserted(c))
	}
	for _, c := range raise {
		parts = append(parts, c+" = "+table+"."+c+" + 1")
	}
	list := strings.Join(parts, ", ")
	if d.mysql {
		return " ON DUPLICATE KEY UPDATE " + list
	}
	return " ON CONFLICT (" + key + ") DO UPDATE SET " + list
}

// is compares the first column of an index with one value, which is given twice. See pageFrom.
func (d dialect) is(column string) string {
	return column + " " + d.pageFrom + " ? AND " + column + " <= ?"
}

// inserted is, in the text after onConflict, the value of a column in the INSERT.
func (d dialect) inserted(column string) string {
	if d.mysql {
		return "VALUES(" + column + ")"
	}
	return "excluded." + column
}
