package e2e

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

// mustGivePostgresRights runs block n of the SQL of docs/configuration.md for a user with the name limited, and returns
// the URL of the database with that name.
func mustGivePostgresRights(t testing.TB, server *storetest.PostgresServer, n int, database string) string {
	t.Helper()
	blocks := regexp.MustCompile("(?ms)^```sql\n(.*?)^```$").FindAllStringSubmatch(storetest.RepositoryFile(t, "docs/configuration.md"), -1)
	for statement := range strings.SplitSeq(strings.TrimSpace(strings.ReplaceAll(blocks[n][1], "fanfare", "limited")), ";\n") {
		server.Exec(strings.TrimSuffix(statement, ";"))
	}
	u, err := url.Parse(server.URL())
	storetest.Must(t, err)
	u.User, u.Path = url.UserPassword("limited", "PASSWORD"), "/"+database
	return u.String()
}

// The README's tour runs to its end on PostgreSQL, with a user who has only the rights of docs/configuration.md.
func TestLimitedUserOfPostgresTakesTheTour(t *testing.T) {
	t.Parallel()
	server := storetest.PrivatePostgres(t)
	database := mustGivePostgresRights(t, server, 2, "limited")
	p := mustTakeTour(t, t.TempDir(), "FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+database)
	if code, _ := p.terminate(); code != 0 {
		t.Errorf("the server ended with %d", code)
	}
}

// A server whose user of PostgreSQL can change no table works on tables that `fanfare migrate` made with another user.
// Variables for other programs of PostgreSQL make no difference.
func TestServersNeedNotChangeTablesOfPostgres(t *testing.T) {
	t.Parallel()
	server := storetest.PrivatePostgres(t)
	if code, _, said := mustRun(t, t.TempDir(), []string{"migrate"}, "FANFARE_DATABASE_URL="+server.URL()); code != 0 {
		t.Fatalf("migrate: %d %s", code, said)
	}
	database := mustGivePostgresRights(t, server, 3, "fanfare")
	p := mustServe(t, t.TempDir(), "FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+database, "PGHOST=192.0.2.1", "PGPASSWORD=other",
		"PGSSLMODE=verify-full", "PGSSLROOTCERT=/none", "PGOPTIONS=-c search_path=nowhere", "PGTARGETSESSIONATTRS=standby", "PGAPPNAME=other", "PGCONNECT_TIMEOUT=x", "PGSERVICE=none", "PGSERVICEFILE=/none", "PGPORT=x", "PGDATABASE=other", "PGUSER=other",
		"PGPASSFILE=/none", "PGSSLKEY=/none", "PGSSLCERT=/none", "PGSSLCERTMODE=require", "PGSSLSNI=x", "PGSSLPASSWORD=other", "PGSSLNEGOTIATION=direct", "PGTZ=nowhere",
		"PGMINPROTOCOLVERSION=x", "PGMAXPROTOCOLVERSION=x", "PGCHANNELBINDING=require", "PGREQUIREAUTH=none")
	p.must(201, nil, "PUT", "/v1/users/bob/devices/"+deviceToken(1), phone)
}

// Failure table, SQL fails over: changes are answered 503 until the new server takes them, soon after it does;
// everything else continues, and /readyz says that SQL is degraded. A server of PostgreSQL that is killed is "away".
func TestPostgresFailsOver(t *testing.T) {
	t.Parallel()
	apns, pair := apnstest.Start(t, apnstest.Options{}), storetest.NewPostgresPair(t)
	p := mustServe(t, t.TempDir(), append(apns.Env(), "FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+pair.URL())...)
	p.mustRegister(2)
	p.must(202, nil, "POST", "/v1/events", greeting("user-0"))
	apns.MustWait(t, 1, 30*time.Second)

	pair.Demote()
	storetest.Eventually(t, 30*time.Second, "readyz says that SQL takes no changes", func() bool { return sqlState(p) == "degraded" })
	p.must(503, nil, "PUT", "/v1/users/user-1/opt-outs/noise", nil)
	p.must(200, nil, "GET", "/v1/users/user-1/notification-settings", nil)
	p.must(202, nil, "POST", "/v1/events", greeting("user-0"))
	apns.MustWait(t, 2, 30*time.Second)
	pair.Redirect()
	storetest.Eventually(t, 30*time.Second, "changes are taken", func() bool {
		status, _, err := p.try("PUT", "/v1/users/user-1/opt-outs/noise", nil)
		return err == nil && status == 204
	})
	storetest.Eventually(t, 30*time.Second, "readyz says that SQL is back", func() bool { return sqlState(p) == "ok" })

	pair.Kill()
	storetest.Eventually(t, 30*time.Second, "readyz says that SQL is down", func() bool { return sqlState(p) == "down" })
	p.must(503, nil, "PUT", "/v1/users/user-1/opt-outs/more", nil)
	p.must(202, nil, "POST", "/v1/events", greeting("user-0"))
	apns.MustWait(t, 3, 30*time.Second)
	pair.Restart()
	storetest.Eventually(t, 30*time.Second, "changes are taken", func() bool {
		status, _, err := p.try("PUT", "/v1/users/user-1/opt-outs/more", nil)
		return err == nil && status == 204
	})
}

// S4, S13 on PostgreSQL that crashes while reservations are confirmed, with fanfare killed as well: each confirmed
// reservation has exactly one order on record, and what was answered is there.
func TestOrdersSurviveCrashesOfPostgres(t *testing.T) {
	t.Parallel()
	server, redis := storetest.PrivatePostgres(t), storetest.Redis(t, keepsAnswered...)
	vars := quick("FANFARE_REDIS_URL="+redis.URL(), "FANFARE_DATABASE_URL="+server.URL())
	p := mustServe(t, t.TempDir(), vars...)
	p.must(201, nil, "PUT", "/v1/sales/spring", map[string]any{
		"items": []any{map[string]any{"sku": "shoe", "stock": 10_000}}, "starts_at": "2026-01-01T00:00:00Z", "ends_at": "2099-01-01T00:00:00Z",
	})
	var sold atomic.Int64
	buy := func(p *program, rounds int) {
		storetest.AtOnce(t, 8, func(_ context.Context, i int) error {
			for n := range rounds {
				id := p.reserve(fmt.Sprintf("user-%d-%d", i, n), 1)
				if status, _, err := p.try("POST", "/v1/sales/spring/reservations/"+id+"/confirm", nil); err == nil && status == 200 {
					sold.Add(1)
				}
			}
			return nil
		})
	}
	done := make(chan struct{})
	go func() { defer close(done); buy(p, 40) }()
	for range 3 {
		before := sold.Load()
		storetest.Eventually(t, time.Minute, "reservations are sold", func() bool {
			select {
			case <-done:
				return true
			default:
				return sold.Load() > before+20
			}
		})
		server.Restart()
	}
	<-done
	p.kill()
	server.Restart()
	p = mustServe(t, t.TempDir(), vars...)
	storetest.Eventually(t, time.Minute, fmt.Sprint(sold.Load(), " orders are on record"), func() bool {
		var orders struct{ Items []any }
		p.must(200, &orders, "GET", "/v1/sales/spring/orders?limit=500", nil)
		return len(orders.Items) == int(sold.Load())
	})
	if got := p.mustSpring(); got.Sold != int(sold.Load()) || got.Held != 0 {
		t.Errorf("the sale: %+v, %d sold", got, sold.Load())
	}
}

// The lines of docs/operations.md for PostgreSQL make a backup, and load it.
func TestBackupOfPostgres(t *testing.T) {
	t.Parallel()
	_, text, _ := strings.Cut(storetest.RepositoryFile(t, "docs/operations.md"), "- With PostgreSQL ")
	lines := regexp.MustCompile("`([^`]+fanfare.sql)`").FindAllStringSubmatch(text, 2)
	s, database := &scene{T: t}, storetest.EmptyPostgres(t)
	redis := s.serve("FANFARE_DATABASE_URL=" + database)
	s.server.fillForBackup()
	s.server.kill()
	s.mustRunLines("FANFARE_DATABASE_URL=" + database + "\n" + lines[0][1] + "\n")
	other := storetest.EmptyPostgres(t)
	s.mustRunLines("FANFARE_DATABASE_URL=" + other + "\n" + lines[1][1] + "\n")
	if _, err := os.Stat(filepath.Join(s.server.dir, "fanfare.sql")); err != nil {
		t.Error(err)
	}
	s.serveOn(redis.URL(), "FANFARE_DATABASE_URL="+other)
	s.server.mustOrders(1)
	s.server.checkReached(map[string]any{"topic": "news"})
}
