package record_test

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pressly/goose/v3/lock"

	"fanfare/api"
	"fanfare/migrations"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

// eachEmpty runs a test on an empty database of each dialect.
func eachEmpty(t *testing.T, fn func(t *testing.T, url string)) {
	t.Helper()
	for name, empty := range map[string]func(testing.TB) string{
		"mysql": storetest.EmptyMySQL, "postgres": storetest.EmptyPostgres, "sqlite": storetest.EmptySQLite,
		"pgbouncer": func(t testing.TB) string { return storetest.PgBouncer(t, storetest.EmptyPostgres(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn(t, empty(t))
		})
	}
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	t.Run("EightStartersAtOnce", func(t *testing.T) {
		t.Parallel()
		eachEmpty(t, func(t *testing.T, url string) {
			starters := make([]*record.DB, 8)
			for i := range starters {
				starters[i] = mustOpen(t, record.Options{URL: url})
			}
			storetest.AtOnce(t, len(starters), func(ctx context.Context, i int) error { return starters[i].Migrate(ctx) })
			for _, db := range starters {
				have, want, err := db.SchemaVersion(t.Context())
				if err != nil || have != want || want == 0 {
					t.Fatalf("schema %d of %d, %v", have, want, err)
				}
			}
			if v := mustVersion(t, starters[0], record.VersionEventTypes); v != 0 {
				t.Fatalf("version %d in a fresh database", v)
			}
		})
	})
	t.Run("AgainChangesNothing", func(t *testing.T) {
		t.Parallel()
		eachRecord(t, func(t *testing.T, db *record.DB) { storetest.Must(t, db.Migrate(t.Context())) })
	})
	t.Run("AfterAStarterThatDiedInTheMiddle", func(t *testing.T) {
		t.Parallel()
		eachConnection(t, func(t *testing.T, db *record.DB) {
			for _, half := range []string{"DELETE FROM goose_db_version WHERE version_id > 0", "DROP TABLE operations", "DELETE FROM versions WHERE name = 'api_keys'"} {
				_, err := db.SQL().Exec(half)
				storetest.Must(t, err)
			}
			storetest.Must(t, db.Migrate(t.Context()))
			mustVersion(t, db, record.VersionKeys)
			_, err := db.SQL().Exec("SELECT id FROM operations")
			storetest.Must(t, err)
		})
	})
	t.Run("AnEarlierVersionStartsOnALaterSchema", func(t *testing.T) {
		t.Parallel()
		eachRecord(t, func(t *testing.T, db *record.DB) {
			for _, step := range []string{
				"INSERT INTO goose_db_version (version_id, is_applied) VALUES (99998, TRUE), (99999, TRUE)",
				"CREATE TABLE later (id INTEGER PRIMARY KEY)",
				"ALTER TABLE event_types ADD COLUMN later INTEGER NOT NULL DEFAULT 7",
				"ALTER TABLE devices ADD COLUMN later INTEGER NOT NULL DEFAULT 7",
			} {
				_, err := db.SQL().Exec(step)
				storetest.Must(t, err)
			}
			storetest.Must(t, db.Migrate(t.Context()))
			_, _, err := db.PutEventType(t.Context(), "photo.shared", &api.EventTypeRequest{Title: "x"}, api.Match{})
			storetest.Must(t, err)
			_, err = db.EventType(t.Context(), "photo.shared")
			storetest.Must(t, err)
			if have, want, err := db.SchemaVersion(t.Context()); err != nil || have != 99999 || want >= have {
				t.Errorf("schema %d of %d, %v", have, want, err)
			}
		})
	})
	t.Run("OneStarterWaitsForAnotherAndNotForADeadOne", func(t *testing.T) {
		t.Parallel()
		url := storetest.EmptySQLite(t)
		other, err := os.Create(strings.TrimPrefix(url, "sqlite:") + "-migrate")
		storetest.Must(t, err)
		storetest.Must(t, syscall.Flock(int(other.Fd()), syscall.LOCK_EX))
		db, done := mustOpen(t, record.Options{URL: url}), make(chan error, 1)
		go func() { done <- db.Migrate(t.Context()) }()
		select {
		case err := <-done:
			t.Fatalf("two migrate at once: %v", err)
		case <-time.After(300 * time.Millisecond):
		}
		storetest.Must(t, other.Close()) // as the end of its process does
		storetest.Must(t, <-done)
	})
}

// Another process writes again and again, for longer than SQLite makes a step wait: that
// ends no start.
func TestMigrateBesideAWriter(t *testing.T) {
	t.Parallel()
	url := storetest.EmptySQLite(t)
	db, other := mustOpen(t, record.Options{URL: url}), mustOpen(t, record.Options{URL: url})
	migrated := make(chan error, 1)
	go func() { migrated <- db.Migrate(t.Context()) }()
	for range 5 {
		<-time.After(5 * time.Millisecond) // some steps
		unlock := storetest.LockSQLite(t, url)
		<-time.After(200 * time.Millisecond) // twice as long as a step waits
		unlock()
	}
	storetest.Must(t, <-migrated)
	have, want, err := other.SchemaVersion(t.Context())
	if err != nil || have != want {
		t.Errorf("schema %d of %d, %v", have, want, err)
	}
}

// A starter that dies between making goose's table and filling it must not keep
// every later one from starting. (SQLite does both in one transaction.)
func TestMigrateAfterAStarterThatDiedAtItsFirstStep(t *testing.T) {
	t.Parallel()
	url := storetest.EmptyMySQL(t)
	starters := []*record.DB{mustOpen(t, record.Options{URL: url}), mustOpen(t, record.Options{URL: url})}
	_, err := starters[0].SQL().Exec("CREATE TABLE goose_db_version (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY," +
		" version_id BIGINT NOT NULL, is_applied BOOLEAN NOT NULL, tstamp TIMESTAMP NULL DEFAULT NOW())")
	storetest.Must(t, err)
	storetest.AtOnce(t, 2, func(ctx context.Context, i int) error { return starters[i].Migrate(ctx) })
	have, want, err := starters[1].SchemaVersion(t.Context())
	if err != nil || have != want {
		t.Fatalf("schema %d of %d, %v", have, want, err)
	}
}

// A table of schema versions that cannot be made because something is in the way is made later, by the same start.
func TestMigrateMakesTheTableOfVersionsLater(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, record.Options{URL: storetest.EmptyPostgres(t)})
	for _, statement := range []string{
		"CREATE SEQUENCE tried",
		"CREATE FUNCTION refuse() RETURNS EVENT_TRIGGER LANGUAGE plpgsql AS $$ BEGIN IF EXISTS (SELECT 1 FROM pg_event_trigger_ddl_commands()" +
			" WHERE object_identity = 'public.goose_db_version') AND nextval('tried') <= 5 THEN RAISE EXCEPTION 'no' USING ERRCODE = '40001'; END IF; END $$",
		"CREATE EVENT TRIGGER refuse ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION refuse()",
	} {
		_, err := db.SQL().ExecContext(t.Context(), statement)
		storetest.Must(t, err)
	}
	storetest.Must(t, db.Migrate(t.Context()))
	if n := mustCountRows(t, db, "tried WHERE last_value > 5"); n != 1 {
		t.Error("the table was made at once: this test shows nothing")
	}
}

func TestMigrationFiles(t *testing.T) {
	t.Parallel()
	names := map[string][]string{}
	for _, dialect := range []string{"mysql", "postgres", "sqlite"} {
		entries, err := fs.ReadDir(migrations.FS, dialect)
		storetest.Must(t, err)
		for _, e := range entries {
			names[dialect] = append(names[dialect], e.Name())
		}
	}
	if fmt.Sprint(names["mysql"]) != fmt.Sprint(names["sqlite"]) || fmt.Sprint(names["mysql"]) != fmt.Sprint(names["postgres"]) {
		t.Fatalf("the dialects have different steps: %v", names)
	}
	for _, name := range names["mysql"] {
		text, err := fs.ReadFile(migrations.FS, path.Join("mysql", name))
		storetest.Must(t, err)
		if n := strings.Count(string(text), ";"); n != 1 && n != strings.Count(string(text), " IF NOT EXISTS ")+strings.Count(string(text), "INSERT IGNORE ") {
			t.Errorf("%s: of %d statements some cannot be repeated", name, n)
		}
	}
}

// What the lock of the migrations waits for is in the log at once, and once: it may be waited for in vain for
// minutes.
func TestMigrateTellsWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	tells := func(t *testing.T, url, want string) {
		t.Helper()
		lines := &storetest.Lines{}
		db := mustOpen(t, record.Options{URL: url, Logger: slog.New(slog.NewTextHandler(lines, nil))})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := db.Migrate(ctx); err == nil {
			t.Fatal("migrated")
		}
		if n := strings.Count(lines.String(), want); n != 1 {
			t.Errorf("%d lines with %q:\n%s", n, want, lines)
		}
	}
	t.Run("AMissingRight", func(t *testing.T) {
		t.Parallel()
		server := storetest.PrivateMySQL(t)
		root := mustOpen(t, record.Options{URL: server.URL()})
		url := mustLimit(t, root, server.URL())
		for _, statement := range []string{"REVOKE ALL ON fanfare.* FROM app@'127.0.0.1'", "GRANT SELECT, CREATE ON fanfare.* TO app@'127.0.0.1'"} {
			_, err := root.SQL().ExecContext(t.Context(), statement)
			storetest.Must(t, err)
		}
		tells(t, url, "denied")
	})
	t.Run("AnotherProcess", func(t *testing.T) {
		t.Parallel()
		url := storetest.EmptySQLite(t)
		file, err := os.Create(strings.TrimPrefix(url, "sqlite:") + "-migrate")
		storetest.Must(t, err)
		defer file.Close()
		storetest.Must(t, syscall.Flock(int(file.Fd()), syscall.LOCK_EX))
		tells(t, url, "another process")
	})
	for name, server := range map[string]struct {
		url        func(testing.TB) string
		when, hour string
	}{
		"AnotherProcessOnMySQL":    {storetest.EmptyMySQL, "DATETIME(6)", "INTERVAL 1 HOUR"},
		"AnotherProcessOnPostgres": {storetest.EmptyPostgres, "TIMESTAMPTZ", "INTERVAL '1 hour'"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := server.url(t)
			root := mustOpen(t, record.Options{URL: url})
			for _, statement := range []string{
				strings.ReplaceAll("CREATE TABLE goose_lock (lock_id BIGINT NOT NULL PRIMARY KEY, locked BOOLEAN NOT NULL DEFAULT FALSE, locked_at WHEN NULL,"+
					" locked_by TEXT NULL, lease_expires_at WHEN NULL, updated_at WHEN NULL)", "WHEN", server.when),
				fmt.Sprintf("INSERT INTO goose_lock VALUES (%d, TRUE, NOW(), 'another', NOW() + %s, NOW())", lock.DefaultLockID, server.hour),
			} {
				_, err := root.SQL().ExecContext(t.Context(), statement)
				storetest.Must(t, err)
			}
			tells(t, url, "another process")
		})
	}
	t.Run("AMissingRightOnPostgres", func(t *testing.T) {
		t.Parallel()
		server := storetest.PrivatePostgres(t)
		url := mustLimitPostgres(t, server)
		setup(t, url)
		server.Exec("DELETE FROM goose_db_version WHERE version_id > 0")
		server.Exec("REVOKE UPDATE ON goose_lock FROM app")
		tells(t, url, "denied")
	})
}
