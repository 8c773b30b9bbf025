package record

import (
	"context"

	"github.com/jmoiron/sqlx"
)

// SQL lets tests read behind the record.
func (db *DB) SQL() *sqlx.DB { return db.sql }

// NowQuery reads the clock of MySQL, in ms.
func NowQuery() string { return "SELECT " + mysqlDialect().now }

// PostgresNowQuery reads the clock of PostgreSQL, in ms.
func PostgresNowQuery() string { return "SELECT " + postgresDialect().now }

// PostgresProblem is why fanfare cannot use a server of a version.
func PostgresProblem(version int, number string) error {
	return postgresServer{Version: version, Number: number, Encoding: "UTF8"}.problem()
}

// Commit ends a transaction as the record's own end.
func Commit(ctx context.Context, tx *sqlx.Tx) error { return commit(ctx, tx) }

// ActivitySelect is the query behind Activities, to examine its plan.
func (db *DB) ActivitySelect() string { return db.activities.query }

// PageQueries are the queries that read lists page by page, each with the names
// it takes before the page's beginning and its length.
func (db *DB) PageQueries(user string) map[string][]any {
	return map[string][]any{
		"SELECT owner FROM contacts" + db.d.whereContactIs(): {user, user},
		db.d.calledSelect(): {user},
		db.d.activityPage(): {user},
		"SELECT user_id FROM topic_members" + db.d.whereTopicIs(): {user, user},
		db.d.usersWithState(): {"", "", "active"},
	}
}

// UsersWithDeviceQuery is the query behind UsersWithDevice, with the names that it takes.
func (db *DB) UsersWithDeviceQuery(after string, limit int) (string, []any) {
	return db.d.usersWithDevice(), []any{"", "", "active", after, limit, "", "", "suspect", after, limit, limit}
}

// PurgePlans are the selections of what is deleted, each with its index.
func (db *DB) PurgePlans() map[string]string {
	return map[string]string{
		db.d.deleteSome("uploads", "id", db.deletedBefore("kind = 'upload' AND subject = uploads.id")):                "uploads_deleted",
		db.d.deleteSome("contacts", "owner, contact", db.deletedBefore(contactKinds+" AND subject = contacts.owner")): "contacts_deleted",
	}
}

// EndedActivities is the selection of the activities that are removed because they have ended.
func (db *DB) EndedActivities() string { return db.d.endedActivities() }

// NewPurge makes a relay that only removes, and in place of what it would these.
func NewPurge(some ...func(context.Context) (bool, error)) func(context.Context) error {
	r := &Relay{}
	for _, f := range some {
		r.purges = append(r.purges, &purge{what: "things", some: f})
	}
	return r.purge
}
