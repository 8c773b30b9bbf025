package record_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

// A URL with an option that is not known is refused, by its name and without the password: the traffic must not
// be in plain text because of a misspelt option.
func TestURLsOfDatabases(t *testing.T) {
	t.Parallel()
	const server, postgres = "mysql://u:secret@127.0.0.1:3306/ff", "postgres://u:secret@127.0.0.1:5432/ff"
	for raw, want := range map[string]string{
		server: "", server + "?tls=true": "", server + "?tls=false": "", server + "?tls=skip-verify": "", server + "?tls=preferred": "", "sqlite:x.db": "",
		"mysql://u@[::1]/ff": "", "mysql://u@db/ff": "", "mysql://u@[::1]:3307/ff": "",
		server + "?ssl-mode=REQUIRED": "ssl-mode", server + "?sslmode=require": "sslmode", server + "?TLS=true": "TLS", server + "?ssl=true": "ssl",
		server + "?useSSL=true&requireSSL=true": "requireSSL", server + "?tls=true&charset=utf8": "charset", server + "?tls=true&tls=false": "tls", server + "?parseTime=true": "parseTime",
		server + "#tls=true": "#", server + "?tls=true#x": "#", server + ";tls=true": "name", server + "/tls=true": "name", server + "%3Ftls=true": "name",
		server + "?tls=REQUIRED": "REQUIRED", server + "?tls=": "tls", server + "?tls=1": `"1"`, server + "?%zz": "options", "mysql://root@h/db?tls=REQUIRED": `"REQUIRED"`,
		postgres: "", postgres + "?sslmode=require": "", postgres + "?sslmode=verify-full": "", postgres + "?sslmode=disable": "", "postgresql://u@db/ff": "", "postgres://u@[::1]/ff": "",
		postgres + "?sslmode=require&channel_binding=require": "", postgres + "?sslmode=REQUIRED": `"REQUIRED"`, postgres + "?ssl=true": "ssl", postgres + "?tls=true": "tls",
		postgres + "?sslmode=verify-full&sslrootcert=/no/such%20file": "/no/such file", postgres + "?sslcert=x": "sslcert", postgres + "?channel_binding=yes": "channel_binding",
		postgres + "?options=-c%20jit=off": "options", postgres + "?application_name=x": "application_name", postgres + "?host=/tmp": "host", postgres + "?sslmode=require&sslmode=disable": "sslmode",
		postgres + "?default_query_exec_mode=cache_statement": "default_query_exec_mode", "postgres://h/x": "user", "postgres://u:secret@h": "want", "postgres://u:secret@h1,h2/x": "several hosts",
		"postgres://u:secret@h:0/x": "port", postgres + "#sslmode=require": "#", "postgres:///x": "want", "postgres://u:secret@%2Ftmp/x": "want",
		"sqlite:x.db?mode=ro": "no options", "sqlite:": "file", "": "want", "oracle://u@h/x": "want", "mysql://u:secret@h": "want", "mysql:///x": "want", "mysql://u:secret@:3306/x": "want",
		"mysql://u:secret@h1,h2/x": "several hosts", "mysql://u:secret@h1:3306,h2:3306/x": "several hosts", "mysql://u:secret@h:99999/x": "port", "mysql://u:secret@h:0/x": "port",
		"sqlite::memory:": "memory", "sqlite://x.db": "without //",
	} {
		checked := record.CheckURL(raw)
		db, err := record.Open(t.Context(), record.Options{URL: raw})
		if err == nil {
			_ = db.Close()
		}
		for _, err := range []error{checked, err} {
			if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "***")) {
				t.Errorf("%s: %v, want %q", raw, err, want)
			}
		}
	}
}

// A server that listens on IPv6 is reached by its address without a port.
func TestDatabaseOnIPv6(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, record.Options{URL: "mysql://u:p@[::1]/x"})
	_, err := db.Ping(t.Context())
	if dial := new(net.OpError); !errors.As(err, &dial) || fmt.Sprint(dial.Addr) != "[::1]:3306" {
		t.Errorf("it dials another address: %v", err)
	}
}

// A new file is for its owner alone: it has the keys that sign user tokens.
func TestANewFileIsPrivate(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "x.db")
	setup(t, "sqlite:"+file)
	for _, name := range []string{file, file + "-wal", file + "-shm"} {
		info, err := os.Stat(name)
		if err == nil && info.Mode().Perm() != 0o600 || name == file && err != nil {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
}

// Failure table: the database switches over behind its address. Connections that are open stay at the old primary,
// which answers and takes no writes. Writes go to the new one at once, reads within the life of a connection.
func TestSQLSwitchesOverBehindItsAddress(t *testing.T) {
	t.Parallel()
	pair := storetest.NewMySQLPair(t)
	db := setup(t, pair.URL())
	write := func(ctx context.Context, i int) error {
		_, err := db.PutOptOut(ctx, fmt.Sprint("user", i), "x")
		return err
	}
	for round := range 2 {
		storetest.AtOnce(t, 30, write) // so that the pool has many connections to the primary
		pair.Switch()
		storetest.AtOnce(t, 30, write)
		storetest.Must(t, db.DeleteOutbox(t.Context(), "x"))
		storetest.Eventually(t, 30*time.Second, "no connection leads to the old primary", func() bool {
			_, err := db.Ping(t.Context())
			return err == nil && db.Pool().MaxLifetimeClosed >= int64(round)
		})
	}
}

// A database that refuses changes is told apart from one that works, and changes are unavailable.
func TestSQLIsReadOnly(t *testing.T) {
	t.Parallel()
	server := storetest.PrivateMySQL(t)
	db := setup(t, server.URL())
	app := mustOpen(t, record.Options{URL: mustLimit(t, db, server.URL())})
	_, err := db.SQL().ExecContext(t.Context(), "SET GLOBAL read_only = 1")
	storetest.Must(t, err)
	if _, err := app.Ping(t.Context()); !errors.Is(err, record.ErrReadOnly) {
		t.Errorf("ping: %v", err)
	}
	_, err = app.PutOptOut(t.Context(), "alice", "x")
	storetest.WantCode(t, err, api.CodeUnavailable)
	_, err = app.Settings(t.Context(), "alice")
	storetest.Must(t, err)
}

// mustLimit makes a user with all rights on the database and none beside it, and is the URL for that user.
func mustLimit(t testing.TB, root *record.DB, at string) string {
	t.Helper()
	for _, statement := range []string{"CREATE USER app@'127.0.0.1' IDENTIFIED BY 'app'", "GRANT ALL ON fanfare.* TO app@'127.0.0.1'"} {
		_, err := root.SQL().ExecContext(t.Context(), statement)
		storetest.Must(t, err)
	}
	u, err := url.Parse(at)
	storetest.Must(t, err)
	u.User = url.UserPassword("app", "app")
	return u.String()
}

// Whatever a server's defaults are, its clock is right in the hour that comes twice, and what was answered is
// there.
func TestStrangeDefaults(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC()
	// A zone whose summer time ends within the hour: until then its local times come for the first time, and after
	// it for the second.
	zone := func(ends time.Time) string {
		ends = ends.Add(time.Hour) // in local time, which is an hour ahead in summer
		return fmt.Sprintf("TZ=XST0XDT-1,J1/0:00:00,J%d/%d:%02d:%02d", dayOf(ends), ends.Hour(), ends.Minute(), ends.Second())
	}
	for name, args := range map[string][]string{
		"FirstPass":  {zone(now.Add(40 * time.Minute))},
		"SecondPass": {zone(now.Add(-20 * time.Minute))},
		"Autocommit": {"--autocommit=0"},
		"Modes": {"--sql-mode=ANSI,PAD_CHAR_TO_FULL_LENGTH,NO_BACKSLASH_ESCAPES", "--transaction-isolation=SERIALIZABLE",
			"--character-set-server=latin1", "--skip-character-set-client-handshake", "--init-connect=SET @begun=1, autocommit=0, sql_safe_updates=1, sql_select_limit=1"},
		"Lax":     {"--sql-mode=", "--lower-case-table-names=1"},
		"Chained": {"--completion-type=CHAIN", "--max-join-size=1"},
		"Closing": {"--completion-type=RELEASE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := storetest.PrivateMySQL(t, args...)
			at := mustLimit(t, mustOpen(t, record.Options{URL: server.URL()}), server.URL())
			db, other := setup(t, at), mustOpen(t, record.Options{URL: at})
			if name == "Modes" { // init-connect is not for users with all rights
				var begun int
				if err := db.SQL().GetContext(t.Context(), &begun, "SELECT COALESCE(@begun, 0)"); err != nil || begun != 1 {
					t.Fatalf("init-connect has not run: %d %v", begun, err)
				}
			}
			for _, user := range []string{"alice", "bob", "carol"} {
				_, err := db.PutOptOut(t.Context(), user, "it.is-a:b")
				storetest.Must(t, err)
			}
			order := record.Order{Reservation: strings.Repeat("1", 26), Sale: "spring", User: "alice", Lines: []api.Line{{SKU: "shoe", Quantity: 1}}, CreatedAt: now.UnixMilli()}
			storetest.Must(t, db.PutOrders(t.Context(), []record.Order{order}))
			server.Restart()
			if n := mustCount(t, other, "orders"); n != 1 {
				t.Errorf("%d orders of one are there", n)
			}
			s, err := other.Settings(t.Context(), "alice")
			if err != nil || len(s.OptOuts) != 1 || s.OptOuts[0] != "it.is-a:b" {
				t.Errorf("another connection reads %+v %v", s, err)
			}
			var clock int64
			storetest.Must(t, db.SQL().GetContext(t.Context(), &clock, record.NowQuery()))
			if ahead := time.Until(time.UnixMilli(clock)).Abs(); ahead > time.Minute {
				t.Errorf("its clock is %v off", ahead)
			}
		})
	}
}

// dayOf is the day of the year as zones count it, where 29 February does not count.
func dayOf(t time.Time) int {
	day := t.YearDay()
	if leap := time.Date(t.Year(), 12, 31, 0, 0, 0, 0, time.UTC).YearDay() == 366; leap && day > 59 {
		day--
	}
	return day
}

// A user who may have few connections, and whatever else the server refuses for now, is "unavailable" and may be
// tried again.
func TestRefusalsOfSQL(t *testing.T) {
	t.Parallel()
	server := storetest.PrivateMySQL(t)
	root := setup(t, server.URL())
	exec := func(statement string) {
		_, err := root.SQL().ExecContext(t.Context(), statement)
		storetest.Must(t, err)
	}
	exec("CREATE USER few@'127.0.0.1' IDENTIFIED BY 'few' WITH MAX_USER_CONNECTIONS 3")
	exec("GRANT ALL ON fanfare.* TO few@'127.0.0.1'")
	u, err := url.Parse(server.URL())
	storetest.Must(t, err)
	u.User = url.UserPassword("few", "few")
	few := mustOpen(t, record.Options{URL: u.String()})
	refused := make(chan error, 40)
	storetest.AtOnce(t, 40, func(ctx context.Context, i int) error {
		_, err := few.PutOptOut(ctx, fmt.Sprint("user", i), "x")
		refused <- err
		return nil
	})
	for range 40 {
		if err := <-refused; err != nil && api.CodeOf(err) != api.CodeUnavailable {
			t.Errorf("%v: %v", api.CodeOf(err), err)
		}
	}
	for number, state := range map[int]string{
		1021: "HY000", 1030: "HY000", 1047: "08S01", 1114: "HY000", 1129: "HY000", 1130: "HY000", 1135: "HY000", 1152: "08S01", 1180: "HY000", 1184: "08S01",
		1206: "HY000", 1226: "42000", 1461: "42000", 1615: "HY000", 1637: "HY000", 3100: "HY000", 4031: "HY000", 4009: "08007",
		2002: "HY000", 2003: "HY000", 2006: "HY000", 2013: "HY000", 3101: "HY000", 9001: "HY000",
	} {
		exec("DROP TRIGGER IF EXISTS refuse")
		exec(fmt.Sprintf("CREATE TRIGGER refuse BEFORE INSERT ON opt_outs FOR EACH ROW SIGNAL SQLSTATE '%s' SET MYSQL_ERRNO = %d", state, number))
		_, err := root.PutOptOut(t.Context(), "dora", fmt.Sprint("x", number))
		if api.CodeOf(err) != api.CodeUnavailable {
			t.Errorf("%d: %s %v", number, api.CodeOf(err), err)
		}
	}
}

// A server that will not admit this user, however often it is asked, is told from one that is away.
func TestUsersThatAreRefused(t *testing.T) {
	t.Parallel()
	server := storetest.PrivateMySQL(t)
	root := setup(t, server.URL())
	for user, how := range map[string]string{
		"locked": "IDENTIFIED BY 'x' ACCOUNT LOCK", "local": "IDENTIFIED VIA unix_socket", "late": "IDENTIFIED BY 'x' PASSWORD EXPIRE", "other": "IDENTIFIED BY 'y'",
	} {
		_, err := root.SQL().ExecContext(t.Context(), "CREATE USER "+user+"@'127.0.0.1' "+how)
		storetest.Must(t, err)
		u, err := url.Parse(server.URL())
		storetest.Must(t, err)
		u.User = url.UserPassword(user, "x")
		if _, err := mustOpen(t, record.Options{URL: u.String()}).Ping(t.Context()); !record.Refused(err) {
			t.Errorf("%s: %v", user, err)
		}
	}
}

// A server that refuses the statement of a large batch, however often it is sent, ends the start at once, and says
// why.
func TestSmallPackets(t *testing.T) {
	t.Parallel()
	for size, fits := range map[string]bool{"2M": false, "4M": true} {
		t.Run(size, func(t *testing.T) {
			t.Parallel()
			db := mustOpen(t, record.Options{URL: storetest.PrivateMySQL(t, "--max-allowed-packet="+size).URL()})
			err := db.Migrate(t.Context())
			if fits {
				storetest.Must(t, err)
				mustHandOver(t, db)
			} else if err == nil || api.Passing(err) || !strings.Contains(err.Error(), "max_allowed_packet") {
				t.Errorf("a server with %s: %v", size, err)
			}
		})
	}
}

// mustHandOver registers the longest batch of browsers, and then for other users.
func mustHandOver(t *testing.T, db *record.DB) {
	t.Helper()
	batch := record.DeviceBatch{Owners: map[string]string{}}
	for round := range 2 {
		batch.Devices = nil
		for i := range 1000 {
			endpoint := fmt.Sprintf("https://example.com/%s%04d", strings.Repeat("'", api.MaxEndpoint-24), i) // each ' is two bytes of SQL
			d := api.DeviceEntry{User: fmt.Sprintf("%0*d", api.MaxIdentifier, 2*i+round), Platform: "webpush", Topic: strings.Repeat("t", api.MaxIdentifier),
				Subscription: &api.Subscription{Endpoint: endpoint, Keys: api.SubscriptionKeys{P256dh: strings.Repeat("k", 87), Auth: strings.Repeat("a", 22)}}}
			d.Token = d.StoredToken()
			batch.Devices = append(batch.Devices, d)
		}
		_, _, err := db.PutDevices(t.Context(), batch, api.Idempotency{Scope: "k", Key: fmt.Sprint(round)})
		storetest.Must(t, err)
		for _, d := range batch.Devices {
			batch.Owners[d.Token] = d.User
		}
	}
}

// A server whose binary log cannot take what fanfare writes ends the start at once, and says why.
func TestABinaryLogOfStatements(t *testing.T) {
	t.Parallel()
	for format, fits := range map[string]bool{"STATEMENT": false, "MIXED": true} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			db := mustOpen(t, record.Options{URL: storetest.PrivateMySQL(t, "--log-bin=binlog", "--server-id=1", "--binlog-format="+format).URL()})
			began := time.Now()
			err := db.Migrate(t.Context())
			if fits && err != nil || !fits && (err == nil || api.Passing(err) || !strings.Contains(err.Error(), "binlog_format") || time.Since(began) > time.Minute) {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
		})
	}
}
