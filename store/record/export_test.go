package record

import "github.com/jmoiron/sqlx"

// SQL lets tests read behind the record.
func (db *DB) SQL() *sqlx.DB { return db.sql }

// ActivitySelect is the query behind Activities, to examine its plan.
func ActivitySelect() string { return activitySelect() }

// PageQueries are the queries that read lists page by page, each with the names
// it takes before the page's beginning and its length.
func PageQueries(user string) map[string][]any {
	return map[string][]any{
		"SELECT owner FROM contacts" + whereContactIs(): {user, user},
		calledSelect():                    {user},
		activitySelect() + activityPage(): {user},
	}
}
