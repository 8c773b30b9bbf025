package record

import "github.com/jmoiron/sqlx"

// SQL lets tests read behind the record.
func (db *DB) SQL() *sqlx.DB { return db.sql }

// ActivitySelect is the query behind Activities, to examine its plan.
func (db *DB) ActivitySelect() string { return db.activities.query }

// PageQueries are the queries that read lists page by page, each with the names
// it takes before the page's beginning and its length.
func (db *DB) PageQueries(user string) map[string][]any {
	return map[string][]any{
		"SELECT owner FROM contacts" + db.d.whereContactIs(): {user, user},
		calledSelect():      {user},
		db.d.activityPage(): {user},
	}
}
