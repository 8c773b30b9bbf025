package record_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

// eachRecord runs a test on a fresh, migrated record of each dialect.
func eachRecord(t *testing.T, fn func(t *testing.T, db *record.DB)) {
	t.Helper()
	storetest.EachDialect(t, func(t *testing.T, url string) { fn(t, setup(t, url)) })
}

// eachConnection is eachRecord, and runs the test through PgBouncer, too. Its tests have each kind of statement once.
func eachConnection(t *testing.T, fn func(t *testing.T, db *record.DB)) {
	t.Helper()
	eachRecord(t, fn)
	t.Run("pgbouncer", func(t *testing.T) {
		t.Parallel()
		fn(t, setup(t, storetest.PgBouncer(t, storetest.Postgres(t))))
	})
}

func setup(t testing.TB, url string) *record.DB {
	t.Helper()
	db := mustOpen(t, record.Options{URL: url})
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatalf("migrate: %v", err)
	}
	return db
}

func mustOpen(t testing.TB, o record.Options) *record.DB {
	t.Helper()
	db, err := record.Open(t.Context(), o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func mustVersion(t testing.TB, db *record.DB, name string) int64 {
	t.Helper()
	v, err := db.Version(t.Context(), name)
	storetest.Must(t, err)
	return v
}

func token(i int) string { return fmt.Sprintf("%064x", i) }

func TestOpen(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "sqlite:", "postgres://x/y", "postgres://u:hush@h:1", "postgres://u:hush@h:notaport/x", "mysql://", "mysql://u:hush@h:1", "mysql://u:hush@h:notaport/x"} {
		t.Run("Refuses "+url, func(t *testing.T) {
			t.Parallel()
			_, err := record.Open(t.Context(), record.Options{URL: url})
			if err == nil || strings.Contains(err.Error(), "hush") {
				t.Fatalf("want an error without the password, got %v", err)
			}
		})
	}
	eachConnection(t, func(t *testing.T, db *record.DB) {
		took, err := db.Ping(t.Context())
		if err != nil || took <= 0 {
			t.Fatalf("ping: %v, %v", took, err)
		}
	})
}

func TestEventTypes(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		ctx, before := t.Context(), mustVersion(t, db, record.VersionEventTypes)
		ttl := int64(60)
		r := &api.EventTypeRequest{Title: "Grüße 🎉", Body: "{{.actor}}", TTLSeconds: &ttl, APS: []byte(`{"badge":1}`)}
		made, created, err := db.PutEventType(ctx, "photo.shared", r, api.Match{})
		storetest.Must(t, err)
		if !created || made.Revision != 1 || made.Title != r.Title || string(made.APS) != string(r.APS) || *made.TTLSeconds != 60 {
			t.Fatalf("created %v: %+v", created, made)
		}
		if age := time.Since(made.CreatedAt.Time); age < -time.Minute || age > time.Minute {
			t.Fatalf("created_at is off by %v", age)
		}
		if v := mustVersion(t, db, record.VersionEventTypes); v != before+1 {
			t.Fatalf("version %d, want %d", v, before+1)
		}
		t.Run("SameAgainChangesNothing", func(t *testing.T) {
			again, created, err := db.PutEventType(ctx, "photo.shared", r, api.Match{})
			storetest.Must(t, err)
			if created || again.Revision != 1 || mustVersion(t, db, record.VersionEventTypes) != before+1 {
				t.Fatalf("created %v: %+v", created, again)
			}
		})
		t.Run("ReplacingRaisesTheRevision", func(t *testing.T) {
			next, created, err := db.PutEventType(ctx, "photo.shared", &api.EventTypeRequest{Title: "x"}, api.Match{})
			storetest.Must(t, err)
			if created || next.Revision != 2 || !next.CreatedAt.Equal(made.CreatedAt.Time) || next.TTLSeconds != nil {
				t.Fatalf("created %v: %+v", created, next)
			}
		})
		t.Run("NamesAreCaseSensitiveAndListedInOrder", func(t *testing.T) {
			_, created, err := db.PutEventType(ctx, "Photo.shared", r, api.Match{})
			storetest.Must(t, err)
			all, err := db.EventTypes(ctx)
			storetest.Must(t, err)
			if !created || len(all) != 2 || all[0].Type != "Photo.shared" || all[1].Type != "photo.shared" {
				t.Fatalf("created %v: %+v", created, all)
			}
		})
		t.Run("DeletedIsGoneAndItsRevisionNeverComesBack", func(t *testing.T) {
			before := mustVersion(t, db, record.VersionEventTypes)
			storetest.Must(t, db.DeleteEventType(ctx, "photo.shared", api.Match{}))
			storetest.Must(t, db.DeleteEventType(ctx, "photo.shared", api.Match{}))
			_, err := db.EventType(ctx, "photo.shared")
			storetest.WantCode(t, err, api.CodeNotFound)
			if v := mustVersion(t, db, record.VersionEventTypes); v != before+1 {
				t.Fatalf("two deletions raised the version from %d to %d", before, v)
			}
			back, created, err := db.PutEventType(ctx, "photo.shared", &api.EventTypeRequest{Title: "x"}, api.Match{})
			storetest.Must(t, err)
			if !created || back.Revision != 3 {
				t.Fatalf("created %v: %+v", created, back)
			}
		})
	})
}

func TestContactsOf(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		ctx := t.Context()
		var all []record.Contact
		for i := range 1203 {
			all = append(all, record.Contact{Owner: fmt.Sprintf("u%04d", i), Contact: "star", Relationship: "contact"})
		}
		all = append(all, record.Contact{Owner: "Z", Contact: "star", Relationship: "friend"}, record.Contact{Owner: "star", Contact: "u0000", Relationship: "family"})
		storetest.Must(t, db.PutContacts(ctx, all...))
		storetest.Must(t, db.DeleteContact(ctx, "u0700", "star"))
		storetest.Must(t, db.DeleteContact(ctx, "nobody", "star"))
		t.Run("PagesByNameWithoutGapOrRepeat", func(t *testing.T) {
			var got []string
			for after := ""; ; {
				page, err := db.ContactsOf(ctx, "star", after, 500)
				storetest.Must(t, err)
				if len(page) == 0 {
					break
				}
				got, after = append(got, page...), page[len(page)-1]
			}
			if len(got) != 1203 || got[0] != "Z" || got[1] != "u0000" || got[1202] != "u1202" {
				t.Fatalf("%d owners, from %v", len(got), got[:2])
			}
		})
		t.Run("ComesBackWithAHigherVersion", func(t *testing.T) {
			storetest.Must(t, db.PutContacts(ctx, record.Contact{Owner: "u0700", Contact: "star", Relationship: "family"}))
			var v int
			storetest.Must(t, db.SQL().Get(&v, "SELECT version FROM contacts WHERE owner = 'u0700'"))
			if v != 3 {
				t.Fatalf("version %d after add, remove, add", v)
			}
		})
	})
}

// mustPlan is how SQLite would run a query, as one line.
func mustPlan(t testing.TB, db *record.DB, query string, args ...any) string {
	t.Helper()
	rows, err := db.SQL().Queryx("EXPLAIN QUERY PLAN "+query, args...)
	storetest.Must(t, err)
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		columns, err := rows.SliceScan()
		storetest.Must(t, err)
		for _, c := range columns {
			if b, ok := c.([]byte); ok {
				c = string(b)
			}
			fmt.Fprintf(&plan, "%v ", c)
		}
	}
	storetest.Must(t, rows.Err())
	return plan.String()
}
