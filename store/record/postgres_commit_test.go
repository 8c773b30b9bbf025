package record_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

// Nothing is answered before a synchronous standby has it, also when the row is there already: it may be of an earlier
// try, whose wait for the standby the deadline ended.
func TestWhatIsThereAlreadyIsOnTheStandby(t *testing.T) {
	t.Parallel()
	server := storetest.PrivatePostgres(t)
	setup(t, server.URL())
	db := mustOpen(t, record.Options{URL: server.URL(), Timeout: 500 * time.Millisecond})
	n := 0
	await := func(standby string) {
		server.Exec("ALTER SYSTEM SET synchronous_standby_names = '" + standby + "'")
		server.Exec("SELECT pg_reload_conf()")
		storetest.Eventually(t, 10*time.Second, "commits wait for "+standby, func() bool {
			n++
			return (db.PutContacts(t.Context(), record.Contact{Owner: fmt.Sprint("u", n), Contact: "x", Relationship: "friend"}) != nil) == (standby != "")
		})
	}
	await("away")
	calls := map[string]func(context.Context) error{
		"Orders": func(ctx context.Context) error {
			return db.PutOrders(ctx, []record.Order{anOrder("spring", 2, api.Line{SKU: "a", Quantity: 1}), anOrder("spring", 1, api.Line{SKU: "a", Quantity: 1})})
		},
		"Sale": func(ctx context.Context) error { return db.PutSale(ctx, aSale("spring", 1)) },
		"Upload": func(ctx context.Context) error {
			_, _, err := db.PutUpload(ctx, upload("u", "alice", "public", 1), api.Idempotency{})
			return err
		},
		"Operation": func(ctx context.Context) error {
			_, _, err := db.StartOperation(ctx, rebuild, api.Idempotency{})
			return err
		},
		"Replay": func(ctx context.Context) error {
			_, err := db.ChangeTopic(ctx, "news", change([]string{"bob"}, nil), api.Idempotency{Scope: "s", Key: "k"})
			return err
		},
		"Topic": func(ctx context.Context) error { return db.SetTopicOpen(ctx, "news", true) },
	}
	for name, call := range calls {
		for try := range 3 {
			if err := call(t.Context()); err == nil {
				t.Errorf("%s: try %d is answered", name, try)
			}
		}
	}
	storetest.Eventually(t, 10*time.Second, "the orders are there", func() bool {
		if calls["Orders"](t.Context()) == nil {
			t.Error("they are answered")
		}
		return mustCount(t, db, "orders") == 2
	})
	await("")
	for name, call := range calls {
		storetest.Eventually(t, 10*time.Second, name+" is answered", func() bool { return call(t.Context()) == nil })
	}
}

// A row that is in the way of an INSERT stays until it is read.
func TestARowInTheWayStays(t *testing.T) {
	t.Parallel()
	server := storetest.Postgres(t)
	p, at := storetest.ProxyTo(t, server)
	db, other := setup(t, at), mustOpen(t, record.Options{URL: server})
	// removes deletes the row once, when the statement is under way that reads it.
	removes := func(statement, deletion string) (removed chan error) {
		removed = make(chan error, 1)
		p.OnSent(func(_ *storetest.ProxyConn, sent []byte) storetest.Fate {
			if bytes.Contains(sent, []byte(statement)) {
				p.OnSent(nil)
				go func() { _, err := other.SQL().Exec(deletion); removed <- err }()
				select {
				case err := <-removed:
					removed <- err
				case <-time.After(300 * time.Millisecond): // it waits
				}
			}
			return storetest.Pass
		})
		return removed
	}
	t.Run("Upload", func(t *testing.T) {
		mustPutUpload(t, db, upload("u", "alice", "public", 1))
		removed := removes("FROM uploads WHERE id", "DELETE FROM uploads")
		if w := mustPutUpload(t, db, upload("u", "alice", "public", 1)); w.Created {
			t.Errorf("%+v", w)
		}
		storetest.Must(t, <-removed)
	})
	t.Run("Operation", func(t *testing.T) {
		first := mustStart(t, db, rebuild)
		removed := removes("FROM operations WHERE turn", "UPDATE operations SET turn = NULL")
		if second := mustStart(t, db, rebuild); second != first {
			t.Errorf("%s, not %s", second, first)
		}
		storetest.Must(t, <-removed)
	})
	t.Run("Answer", func(t *testing.T) {
		once := api.Idempotency{Scope: "s", Key: "k"}
		_, err := db.ChangeTopic(t.Context(), "news", change([]string{"bob"}, nil), once)
		storetest.Must(t, err)
		removed := removes("SELECT body_hash", "DELETE FROM idempotency")
		replayed, err := db.ChangeTopic(t.Context(), "news", change([]string{"bob"}, nil), once)
		if err != nil || !replayed {
			t.Error(replayed, err)
		}
		storetest.Must(t, <-removed)
	})
}

// mustWaitForRow waits until a transaction waits for a row that another one has locked.
func mustWaitForRow(t testing.TB, db *record.DB) {
	t.Helper()
	storetest.Eventually(t, 10*time.Second, "a transaction waits for the row", func() bool {
		var waiting bool
		return db.SQL().Get(&waiting, "SELECT COUNT(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == nil && waiting
	})
}

// A commit that PostgreSQL refuses has changed nothing, and says so: only one whose answer may have been lost is of
// unknown outcome.
func TestCommitsThatPostgresRefuses(t *testing.T) {
	t.Parallel()
	server := storetest.Postgres(t)
	db := setup(t, server)
	mustExec(t, server, "CREATE FUNCTION refuse() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN"+
		" IF NEW.type = 'end' THEN PERFORM pg_terminate_backend(pg_backend_pid()); ELSE RAISE EXCEPTION 'no' USING ERRCODE = NEW.type; END IF; RETURN NULL; END $$")
	mustExec(t, server, "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON opt_outs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()")
	for state, code := range map[string]api.Code{
		"53100": api.CodeUnavailable, "40001": api.CodeUnavailable, "57P01": api.CodeUnavailable, "23514": api.CodeInternal, "end": api.CodeUnknownOutcome,
	} {
		_, err := db.PutOptOut(t.Context(), "alice", state)
		if api.CodeOf(err) != code {
			t.Errorf("%s: %s %v", state, api.CodeOf(err), err)
		}
	}
	t.Run("ATransactionThatFailed", func(t *testing.T) {
		tx, err := db.SQL().BeginTxx(t.Context(), nil)
		storetest.Must(t, err)
		if _, err := tx.Exec("nonsense"); err == nil {
			t.Fatal("nonsense was done")
		}
		if err := record.Commit(t.Context(), tx); err == nil || api.CodeOf(err) == api.CodeUnknownOutcome {
			t.Errorf("%v", err)
		}
	})
	t.Run("AServerThatWaitedTooLong", func(t *testing.T) {
		mustExec(t, server, "DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET idle_in_transaction_session_timeout = 200'; END $$")
		p, at := storetest.ProxyTo(t, server)
		held := make(chan struct{})
		p.OnSent(func(_ *storetest.ProxyConn, sent []byte) storetest.Fate {
			if bytes.HasSuffix(bytes.TrimRight(sent, "\x00"), []byte("commit")) {
				p.OnSent(nil)
				defer close(held)
				storetest.Eventually(t, 10*time.Second, "the server ends the session", func() bool {
					var idle int
					return db.SQL().Get(&idle, "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'") == nil && idle == 0
				})
			}
			return storetest.Pass
		})
		slow := mustOpen(t, record.Options{URL: at})
		for tried := false; !tried; { // a slow machine may be idle for too long before the commit
			_, err := slow.PutOptOut(t.Context(), "bob", "53100")
			storetest.WantCode(t, err, api.CodeUnavailable)
			select {
			case <-held:
				tried = true
			default:
			}
		}
	})
	if n := mustCount(t, db, "opt_outs"); n != 0 {
		t.Errorf("%d rows are there", n)
	}
}

// mustBegin runs a statement in a transaction that is not committed yet.
func mustBegin(t testing.TB, db *record.DB, statement string) *sqlx.Tx {
	t.Helper()
	tx, err := db.SQL().BeginTxx(t.Context(), nil)
	storetest.Must(t, err)
	_, err = tx.ExecContext(t.Context(), statement)
	storetest.Must(t, err)
	return tx
}

// A user who gets a first setting while the user is erased is not forgotten.
func TestFirstSettingsBesideAnErasure(t *testing.T) {
	t.Parallel()
	db := setup(t, storetest.Postgres(t))
	tx := mustBegin(t, db, "WITH one AS (INSERT INTO user_settings (user_id, version) VALUES ('alice', 1)) INSERT INTO opt_outs (user_id, type, created_at) VALUES ('alice', 'x', 1)")
	forgot := make(chan bool, 1)
	go func() {
		gone, _, err := db.ForgetSettings(t.Context(), "alice")
		if err != nil {
			t.Error(err)
		}
		forgot <- gone
	}()
	mustWaitForRow(t, db)
	storetest.Must(t, tx.Commit())
	if <-forgot || mustCount(t, db, "user_settings") != 1 {
		t.Error("the settings are forgotten")
	}
}

// Contacts that change while an erasure waits for them are erased, whichever side the user is on.
func TestContactsChangeBesideAnErasure(t *testing.T) {
	t.Parallel()
	db := setup(t, storetest.Postgres(t))
	mustPutContact(t, db, "alice", "bob", "friend")
	mustPutContact(t, db, "carol", "alice", "friend")
	o := mustErase(t, db, "alice")
	tx := mustBegin(t, db, "UPDATE contacts SET deleted = TRUE")
	erased := make(chan int, 1)
	go func() {
		n, _, err := db.EraseContacts(t.Context(), o)
		if err != nil {
			t.Error(err)
		}
		erased <- n
	}()
	mustWaitForRow(t, db)
	storetest.Must(t, tx.Commit())
	if n := <-erased; n != 2 || mustCount(t, db, "contacts") != 0 {
		t.Errorf("%d of 2 relationships are erased", n)
	}
}

// A load that finds no sale to mark does not return one that was made since: its settings would be those of another
// load.
func TestASaleIsMadeBesideItsLoad(t *testing.T) {
	t.Parallel()
	server := storetest.Postgres(t)
	p, at := storetest.ProxyTo(t, server)
	db, other := setup(t, at), mustOpen(t, record.Options{URL: server})
	made := make(chan error, 1)
	p.OnSent(func(_ *storetest.ProxyConn, sent []byte) storetest.Fate {
		if bytes.Contains(sent, []byte("FROM sales WHERE id")) || bytes.HasSuffix(bytes.TrimRight(sent, "\x00"), []byte("commit")) {
			p.OnSent(nil)
			made <- other.PutSale(context.Background(), aSale("spring", 1))
		}
		return storetest.Pass
	})
	if s, err := db.LoadSale(t.Context(), "spring", "l1"); s != nil || err != nil {
		t.Errorf("%+v %v", s, err)
	}
	storetest.Must(t, <-made)
}
