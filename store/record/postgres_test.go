package record_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

// mustLimitPostgres makes a user who owns the database and has no rights beside it, and is the URL for that user.
func mustLimitPostgres(t testing.TB, server *storetest.PostgresServer) string {
	t.Helper()
	server.Exec("CREATE ROLE app LOGIN PASSWORD 'app'")
	server.Exec("ALTER DATABASE fanfare OWNER TO app")
	return mustBe(t, server, "app", "app")
}

// mustBe is the URL of a server's database for another user.
func mustBe(t testing.TB, server *storetest.PostgresServer, user, password string) string {
	t.Helper()
	u, err := url.Parse(server.URL())
	storetest.Must(t, err)
	u.User = url.UserPassword(user, password)
	return u.String()
}

// Failure table: the database switches over behind its address. Writes go to the new primary as soon as the connections
// to the old one, which takes none, are a second old. Reads go there within the life of a connection.
func TestPostgresSwitchesOverBehindItsAddress(t *testing.T) {
	t.Parallel()
	pair := storetest.NewPostgresPair(t)
	db := setup(t, pair.URL())
	write := func(ctx context.Context, i int) error {
		_, err := db.PutOptOut(ctx, fmt.Sprint("user", i), "x")
		return err
	}
	for range 2 {
		storetest.AtOnce(t, 10, write)
		pair.Demote()
		storetest.Eventually(t, 30*time.Second, "the old primary answers, and is found to be read-only", func() bool {
			_, err := db.Ping(t.Context())
			return errors.Is(err, record.ErrReadOnly)
		})
		storetest.AtOnce(t, 10, func(ctx context.Context, i int) error { // so that the pool has many connections to it
			_, err := db.Settings(ctx, fmt.Sprint("user", i))
			return err
		})
		storetest.WantCode(t, write(t.Context(), 0), api.CodeUnavailable)
		pair.Redirect()
		redirected := time.Now()
		storetest.AtOnce(t, 10, func(ctx context.Context, i int) (err error) {
			for err = write(ctx, i); err != nil && time.Since(redirected) < 10*time.Second; err = write(ctx, i) {
				<-time.After(10 * time.Millisecond)
			}
			return err
		})
		storetest.Must(t, db.DeleteOutbox(t.Context(), "x"))
		storetest.Eventually(t, 30*time.Second, "no connection leads to the old primary", func() bool {
			_, err := db.Ping(t.Context())
			return err == nil
		})
	}
}

// A server that restarts costs the calls that it is in the way of, and no others: connections that it cut are not used.
func TestPostgresRestarts(t *testing.T) {
	t.Parallel()
	server := storetest.PrivatePostgres(t)
	db := setup(t, server.URL())
	write := func(ctx context.Context, i int) error {
		_, err := db.PutOptOut(ctx, fmt.Sprint("user", i), "x")
		return err
	}
	for range 2 {
		storetest.AtOnce(t, 10, write)
		server.Restart()
		storetest.AtOnce(t, 10, write)
	}
	if n := mustCount(t, db, "opt_outs"); n != 10 {
		t.Errorf("%d of 10 rows are there", n)
	}
}

// Whatever a database sets for its sessions, its clock is right, what was answered is there, and writes of the same
// thing do not hinder each other.
func TestStrangeDefaultsOfPostgres(t *testing.T) {
	t.Parallel()
	server := storetest.PrivatePostgres(t)
	for name, settings := range map[string][]string{
		"zone":   {"timezone = 'Europe/Berlin'", "datestyle = 'German'", "intervalstyle = 'sql_standard'"},
		"levels": {"default_transaction_isolation = 'serializable'", "default_transaction_deferrable = on"},
		"repeat": {"default_transaction_isolation = 'repeatable read'"},
		"texts": {"standard_conforming_strings = off", "client_encoding = 'LATIN1'", "bytea_output = 'escape'", "quote_all_identifiers = on", "transform_null_equals = on",
			"escape_string_warning = on", "lc_messages = 'C'", "array_nulls = off"},
		"plans": {"enable_indexscan = off", "plan_cache_mode = 'force_generic_plan'", "jit_above_cost = 0", "join_collapse_limit = 1"},
		"path":  {"search_path = 'other'"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server.Exec("CREATE DATABASE " + name + " TEMPLATE template0")
			at := strings.TrimSuffix(server.URL(), "fanfare") + name
			mustExec(t, at, "CREATE SCHEMA other")
			for _, setting := range settings {
				server.Exec("ALTER DATABASE " + name + " SET " + setting)
			}
			db, other := setup(t, at), mustOpen(t, record.Options{URL: at})
			for _, user := range []string{"alice", "bob", "carol"} {
				_, err := db.PutOptOut(t.Context(), user, "it.is-a:b")
				storetest.Must(t, err)
			}
			title := "Grüße 🎉 \\' \x00 \u2028"
			_, _, err := db.PutEventType(t.Context(), "x", &api.EventTypeRequest{Title: title}, api.Match{})
			storetest.Must(t, err)
			storetest.AtOnce(t, 20, func(ctx context.Context, _ int) error { _, err := db.PutOptOut(ctx, "dora", "x"); return err })
			s, err := other.Settings(t.Context(), "alice")
			if err != nil || len(s.OptOuts) != 1 || s.OptOuts[0] != "it.is-a:b" {
				t.Errorf("another connection reads %+v %v", s, err)
			}
			if typ, err := other.EventType(t.Context(), "x"); err != nil || typ.Title != title {
				t.Errorf("the title is %+v %v", typ, err)
			}
			tx, err := db.SQL().BeginTxx(t.Context(), nil)
			storetest.Must(t, err)
			var level string
			storetest.Must(t, errors.Join(tx.GetContext(t.Context(), &level, "SELECT current_setting('transaction_isolation')"), tx.Rollback()))
			if level != "read committed" {
				t.Errorf("a transaction is %s", level)
			}
			var clock int64
			storetest.Must(t, db.SQL().GetContext(t.Context(), &clock, record.PostgresNowQuery()))
			if ahead := time.Until(time.UnixMilli(clock)).Abs(); ahead > time.Minute {
				t.Errorf("its clock is %v off", ahead)
			}
			mustPutContact(t, db, "alice", "bob", "friend")
			wantActivities(t, db, record.ActivityQuery{Viewer: "alice", Contacts: []string{"bob", "carol"}}, "bob -")
		})
	}
}

func mustExec(t testing.TB, url, statement string) {
	t.Helper()
	_, err := mustOpen(t, record.Options{URL: url}).SQL().ExecContext(t.Context(), statement)
	storetest.Must(t, err)
}

// Names are told apart and ordered by their bytes, whatever the database's collation is.
func TestPostgresComparesBytes(t *testing.T) {
	t.Parallel()
	if storetest.PostgresVersion(t) < 15 {
		t.Skip("before 15 the tests' PostgreSQL compares bytes by itself")
	}
	db := setup(t, storetest.Postgres(t))
	var before bool
	storetest.Must(t, db.SQL().GetContext(t.Context(), &before, "SELECT 'a' < 'B'"))
	if !before {
		t.Fatal("the database compares bytes by itself: this test shows nothing")
	}
	var others []string
	storetest.Must(t, db.SQL().SelectContext(t.Context(), &others, "SELECT table_name || '.' || column_name FROM information_schema.columns"+
		" WHERE table_schema = 'public' AND data_type = 'text' AND table_name NOT LIKE 'goose%' AND COALESCE(collation_name, '') <> 'C'"))
	if len(others) != 0 {
		t.Errorf("these columns have another collation: %v", others)
	}
}

// A database that refuses changes is told apart from one that works, and changes are unavailable.
func TestPostgresIsReadOnly(t *testing.T) {
	t.Parallel()
	server := storetest.PrivatePostgres(t)
	db := setup(t, server.URL())
	server.Exec("ALTER DATABASE fanfare SET default_transaction_read_only = on")
	p, at := storetest.ProxyTo(t, server.URL())
	var connections sync.Map
	p.OnSent(func(c *storetest.ProxyConn, _ []byte) storetest.Fate {
		connections.Store(c, true)
		return storetest.Pass
	})
	app := mustOpen(t, record.Options{URL: at + "?sslmode=disable"})
	if _, err := app.Ping(t.Context()); !errors.Is(err, record.ErrReadOnly) {
		t.Errorf("ping: %v", err)
	}
	_, err := app.PutOptOut(t.Context(), "alice", "x")
	storetest.WantCode(t, err, api.CodeUnavailable)
	storetest.WantCode(t, app.DeleteOutbox(t.Context(), "x"), api.CodeUnavailable)
	opened := 0
	connections.Range(func(any, any) bool { opened++; return true })
	if opened > 4 {
		t.Errorf("two changes opened %d connections", opened)
	}
	_, err = app.Settings(t.Context(), "alice")
	storetest.Must(t, err)
	_, err = db.SQL().ExecContext(t.Context(), "ALTER DATABASE fanfare RESET default_transaction_read_only")
	storetest.Must(t, err)
	storetest.Eventually(t, 5*time.Second, "a change is made on a new connection", func() bool {
		_, err := app.PutOptOut(t.Context(), "alice", "x")
		return err == nil
	})
}

// A user who may have few connections, and whatever else the server refuses for now, is "unavailable" and may be
// tried again.
func TestRefusalsOfPostgres(t *testing.T) {
	t.Parallel()
	server := storetest.PrivatePostgres(t)
	db := setup(t, server.URL())
	server.Exec("CREATE ROLE few LOGIN PASSWORD 'few' CONNECTION LIMIT 3")
	server.Exec("GRANT ALL ON ALL TABLES IN SCHEMA public TO few")
	few, others := mustOpen(t, record.Options{URL: mustBe(t, server, "few", "few")}), mustOpen(t, record.Options{URL: mustBe(t, server, "few", "few")})
	var conns []*sql.Conn
	for range 3 {
		conn, err := others.SQL().Conn(t.Context())
		storetest.Must(t, err)
		conns = append(conns, conn)
	}
	_, err := few.PutOptOut(t.Context(), "alice", "x")
	storetest.WantCode(t, err, api.CodeUnavailable)
	if record.Refused(err) || !strings.Contains(err.Error(), "53300") {
		t.Errorf("one connection too many: %t %v", record.Refused(err), err)
	}
	for _, conn := range conns {
		storetest.Must(t, conn.Close())
	}
	storetest.Must(t, others.Close())
	storetest.Eventually(t, 10*time.Second, "the user may have a connection again", func() bool {
		_, err := few.PutOptOut(t.Context(), "alice", "x")
		return err == nil
	})
	server.Exec("CREATE FUNCTION refuse() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = NEW.type; END $$")
	server.Exec("CREATE TRIGGER refuse BEFORE INSERT ON opt_outs FOR EACH ROW EXECUTE FUNCTION refuse()")
	for _, state := range []string{
		"08000", "08003", "08006", "08P01", "53000", "53100", "53200", "53300", "53400", "55006", "55P03", "57014", "57P01", "57P02", "57P03", "57P05", "58000", "58030",
		"25006", "25P03", "40001", "40P01",
	} {
		_, err := db.PutOptOut(t.Context(), "dora", state)
		if api.CodeOf(err) != api.CodeUnavailable {
			t.Errorf("%s: %s %v", state, api.CodeOf(err), err)
		}
	}
	for _, state := range []string{"22001", "42501", "XX001"} { // these will never do
		_, err := db.PutOptOut(t.Context(), "dora", state)
		if err == nil || api.Passing(err) {
			t.Errorf("%s: %s %v", state, api.CodeOf(err), err)
		}
	}
}

// A server that will not admit this user, however often it is asked, is told from one that is away.
func TestUsersThatPostgresRefuses(t *testing.T) {
	t.Parallel()
	server := storetest.PrivatePostgres(t)
	server.Exec("REVOKE CONNECT ON DATABASE fanfare FROM PUBLIC")
	for user, how := range map[string]string{"other": "LOGIN PASSWORD 'y'", "nologin": "NOLOGIN PASSWORD 'x'", "late": "LOGIN PASSWORD 'x' VALID UNTIL '2000-01-01'", "stranger": "LOGIN PASSWORD 'x'"} {
		server.Exec("CREATE ROLE " + user + " " + how)
		if _, err := mustOpen(t, record.Options{URL: mustBe(t, server, user, "x")}).Ping(t.Context()); !record.Refused(err) {
			t.Errorf("%s: %v", user, err)
		}
	}
	for _, at := range []string{server.URL() + "x", mustBe(t, server, "nobody", "x")} {
		if _, err := mustOpen(t, record.Options{URL: at}).Ping(t.Context()); !record.Refused(err) {
			t.Errorf("%s: %v", at, err)
		}
	}
	server.Kill()
	if _, err := mustOpen(t, record.Options{URL: server.URL()}).Ping(t.Context()); record.Refused(err) || api.CodeOf(err) != api.CodeUnavailable {
		t.Errorf("a server that is away: %v", err)
	}
}

// A database that cannot hold every text ends the start at once, and says why. One that answers before a change is on
// its disk is warned of.
func TestDatabasesThatPostgresSetUpBadly(t *testing.T) {
	t.Parallel()
	server := storetest.PrivatePostgres(t)
	create := "CREATE DATABASE bytes TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'"
	if storetest.PostgresVersion(t) >= 15 {
		create += " LOCALE_PROVIDER libc"
	}
	server.Exec(create)
	db := mustOpen(t, record.Options{URL: strings.TrimSuffix(server.URL(), "fanfare") + "bytes"})
	if err := db.Migrate(t.Context()); err == nil || api.Passing(err) || !strings.Contains(err.Error(), "SQL_ASCII") {
		t.Errorf("another encoding: %v", err)
	}
	wantWarnings := func(what string, want int) {
		t.Helper()
		lines := &storetest.Lines{}
		storetest.Must(t, mustOpen(t, record.Options{URL: server.URL(), Logger: slog.New(slog.NewTextHandler(lines, nil))}).Migrate(t.Context()))
		if n := strings.Count(lines.String(), what); n != want {
			t.Errorf("%d warnings of %s, not %d:\n%s", n, what, want, lines)
		}
	}
	wantWarnings("synchronous_commit", 0)
	server.Exec("ALTER DATABASE fanfare SET synchronous_commit = off")
	wantWarnings("synchronous_commit is off", 1)
	server.Exec("ALTER DATABASE fanfare SET synchronous_commit = local")
	wantWarnings("synchronous_commit", 0) // there is no standby
	server.Exec("ALTER SYSTEM SET synchronous_standby_names = 'one'")
	server.Stop()
	server.Restart()
	wantWarnings("synchronous_commit is local", 1)
}

// PostgreSQL before 14 ends the start, and says why.
func TestTheOldestPostgres(t *testing.T) {
	t.Parallel()
	if err := record.PostgresProblem(13_00_14, "13.14"); err == nil || !strings.Contains(err.Error(), "13.14") || !strings.Contains(err.Error(), "14 or newer") {
		t.Errorf("13.14: %v", err)
	}
	for _, version := range []int{14_00_00, 15_00_07, 18_00_01} {
		storetest.Must(t, record.PostgresProblem(version, ""))
	}
}

// The longest batches of browsers are written.
func TestPostgresTakesTheLongestBatches(t *testing.T) {
	t.Parallel()
	mustHandOver(t, setup(t, storetest.PgBouncer(t, storetest.Postgres(t))))
}

// A contact that comes back while a purge is under way stays.
func TestAPurgeLeavesWhatComesBack(t *testing.T) {
	t.Parallel()
	db := setup(t, storetest.Postgres(t))
	mustPutContact(t, db, "alice", "bob", "friend")
	_, err := db.RemoveContact(t.Context(), "alice", "bob")
	storetest.Must(t, err)
	_, err = db.SQL().Exec("DELETE FROM outbox")
	storetest.Must(t, err)
	_, err = db.SQL().Exec("UPDATE contacts SET updated_at = 1")
	storetest.Must(t, err)
	tx, err := db.SQL().Beginx()
	storetest.Must(t, err)
	_, err = tx.Exec("UPDATE contacts SET deleted = FALSE")
	storetest.Must(t, err)
	purged := make(chan error, 1)
	go func() { _, err := db.PurgeContacts(t.Context(), month); purged <- err }()
	mustWaitForRow(t, db)
	storetest.Must(t, tx.Commit())
	storetest.Must(t, <-purged)
	if n := mustCount(t, db, "contacts"); n != 1 {
		t.Error("the contact is gone")
	}
}

// The server ends one of two transactions that wait for each other. If it is one of the store's, that is run again.
func TestDeadlocksOfPostgres(t *testing.T) {
	t.Parallel()
	db := setup(t, storetest.Postgres(t))
	one, two := record.Contact{Owner: "one", Contact: "x", Relationship: "friend"}, record.Contact{Owner: "two", Contact: "x", Relationship: "friend"}
	storetest.Must(t, db.PutContacts(t.Context(), one, two))
	storetest.Eventually(t, time.Minute, "the server ends the store's transaction", func() bool {
		tx := mustBegin(t, db, "UPDATE contacts SET version = version WHERE owner = 'two'")
		done := make(chan error, 1)
		go func() { done <- db.PutContacts(t.Context(), one, two) }()
		mustWaitForRow(t, db)
		_, lost := tx.ExecContext(t.Context(), "UPDATE contacts SET version = version WHERE owner = 'one'")
		_ = tx.Rollback() // the server may have done it
		storetest.Must(t, <-done)
		return lost == nil
	})
	storetest.Eventually(t, 30*time.Second, "the server counts the deadlock", func() bool { // it does not count at once
		var found int
		return db.SQL().Get(&found, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == nil && found > 0
	})
}

// P6, R10: a page at the end of a long list reads as few rows as one at its beginning, and so does a look at a few
// contacts.
func TestPostgresPagesCostTheSameAnywhere(t *testing.T) {
	t.Parallel()
	db := setup(t, storetest.Postgres(t))
	const n, limit = 10_000, 50
	mustPutStar(t, db, n)
	mustInsert(t, db, devicesInto, n, func(i int) string {
		if i > 1000 && i < 9000 {
			return deviceValues(i, api.DeviceDropped)
		}
		return deviceValues(i, []api.DeviceState{api.DeviceActive, api.DeviceSuspect}[i%2])
	})
	mustInsert(t, db, "uploads (id, owner, visibility, uploaded_at, created_at, updated_at)", n, func(i int) string { return fmt.Sprintf("('p%d', 'star', 'public', %d, 1, 1)", i, i) })
	queries := map[string][]any{
		db.ActivitySelect(): {"{" + strings.TrimSuffix(strings.Repeat("star,", limit), ",") + "}", "{" + strings.TrimSuffix(strings.Repeat("u00007,", limit), ",") + "}"},
	}
	for query, names := range db.PageQueries("star") {
		queries[query] = append(names, "u09000", limit)
	}
	all, args := db.UsersWithDeviceQuery("u00990", limit)
	queries[all] = args
	_, err := db.SQL().Exec("ANALYZE") // the server does it by itself when tables have grown
	storetest.Must(t, err)
	for query, args := range queries {
		if page, read := mustCountReadsOfPostgres(t, db, query, args...); page != limit || read > 20*limit {
			t.Errorf("%d rows read for a page of %d: %s", read, page, query)
		}
	}
}

// postgresPlan is how PostgreSQL ran a query.
type postgresPlan struct {
	Type    string  `json:"Node Type"`
	Rows    float64 `json:"Actual Rows"`
	Removed float64 `json:"Rows Removed by Filter"`
	Loops   float64 `json:"Actual Loops"`
	Plans   []postgresPlan
}

// read is how many rows of tables were read.
func (p postgresPlan) read() (n float64) {
	if strings.Contains(p.Type, "Scan") && !strings.Contains(p.Type, "Function") && !strings.Contains(p.Type, "Subquery") {
		n = (p.Rows + p.Removed) * p.Loops
	}
	for _, below := range p.Plans {
		n += below.read()
	}
	return n
}

// mustCountReadsOfPostgres runs a query, and counts its rows and the rows that it read.
func mustCountReadsOfPostgres(t testing.TB, db *record.DB, query string, args ...any) (rows, read int) {
	t.Helper()
	var text string
	storetest.Must(t, db.SQL().GetContext(t.Context(), &text, "EXPLAIN (ANALYZE, FORMAT JSON) "+query, args...))
	var all []struct {
		Plan postgresPlan
		JIT  *struct{ Functions int }
	}
	storetest.Must(t, json.Unmarshal([]byte(text), &all))
	if all[0].JIT != nil {
		t.Errorf("it is compiled: %s", query)
	}
	return int(all[0].Plan.Rows), int(all[0].Plan.read())
}

// When PgBouncer has no connection to the server left, or does not let a user in, nothing happened, and the call may be
// made again.
func TestRefusalsOfPgBouncer(t *testing.T) {
	t.Parallel()
	at := storetest.PgBouncer(t, storetest.Postgres(t))
	db := setup(t, at)
	for range 5 { // as many as it has for a database
		tx, err := db.SQL().BeginTxx(t.Context(), nil)
		storetest.Must(t, err)
		defer func() { storetest.Must(t, tx.Rollback()) }()
	}
	put := func(ctx context.Context, db *record.DB) error { _, err := db.PutOptOut(ctx, "alice", "x"); return err }
	mustFailInTime(t, mustOpen(t, record.Options{URL: at}), put)
	mustFailInTime(t, db, put)
	u, err := url.Parse(at)
	storetest.Must(t, err)
	for _, user := range []*url.Userinfo{url.UserPassword("fanfare", "other"), url.UserPassword("nobody", "x")} {
		u.User = user
		_, err := mustOpen(t, record.Options{URL: u.String()}).Ping(t.Context())
		if api.CodeOf(err) != api.CodeUnavailable || !record.Refused(err) {
			t.Errorf("%s: %t %v", user.Username(), record.Refused(err), err)
		}
	}
}

// The traffic is as the URL says: not in plain text if TLS is asked for, and not with a stranger if the server is to be
// known.
func TestTLSOfPostgres(t *testing.T) {
	t.Parallel()
	plain := storetest.Postgres(t)
	server := storetest.PrivatePostgres(t)
	authority := server.UseTLS()
	secure := strings.Replace(server.URL(), "127.0.0.1", "localhost", 1)
	for at, works := range map[string]bool{
		plain: true, plain + "?sslmode=disable": true, plain + "?sslmode=require": false, plain + "?sslmode=verify-full": false,
		secure: true, secure + "?sslmode=require": true, secure + "?sslmode=disable": false, secure + "?sslmode=verify-full": false,
		secure + "?sslmode=require&channel_binding=require": true, secure + "?sslmode=verify-full&sslrootcert=" + authority: true,
		server.URL() + "?sslmode=verify-full&sslrootcert=" + authority: false, server.URL() + "?sslmode=verify-ca&sslrootcert=" + authority: true,
	} {
		if _, err := mustOpen(t, record.Options{URL: at}).Ping(t.Context()); (err == nil) != works {
			t.Errorf("%s: %v", at, err)
		}
	}
}
