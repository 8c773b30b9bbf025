package e2e

import (
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

// Failure table, SQL away: push goes on from the cache, calls that need SQL answer 503 unavailable,
// and the server recovers by itself.
func TestSQLGoesAwayAndComesBack(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func(testing.TB) string{"mysql": storetest.MySQL, "postgres": storetest.Postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testSQLAway(t, database(t))
		})
	}
}

func testSQLAway(t *testing.T, database string) {
	t.Helper()
	apns := apnstest.Start(t, apnstest.Options{})
	proxy, url := storetest.ProxyTo(t, database)
	p := mustServe(t, t.TempDir(), append(apns.Env(), "FANFARE_REDIS_URL="+storetest.Redis(t).URL(),
		"FANFARE_DATABASE_URL="+url)...)
	p.mustRegister(2)
	p.must(202, nil, "POST", "/v1/events", greeting("user-0")) // now user-0 is in the cache
	apns.MustWait(t, 1, 30*time.Second)

	proxy.Cut()
	storetest.Eventually(t, 30*time.Second, "readyz says that SQL is down", func() bool { return sqlState(p) == "down" })
	var problem struct{ Code string }
	p.must(503, &problem, "PUT", "/v1/users/user-2/opt-outs/greeting", nil)
	if problem.Code != "unavailable" {
		t.Errorf("code %q", problem.Code)
	}
	p.must(202, nil, "POST", "/v1/events", greeting("user-0"))
	apns.MustWait(t, 2, 30*time.Second)
	p.must(202, nil, "POST", "/v1/events", greeting("user-1")) // not in the cache: it waits

	proxy.Mend()
	storetest.Eventually(t, 20*time.Second, "readyz says that SQL is back", func() bool { return sqlState(p) == "ok" })
	p.must(204, nil, "PUT", "/v1/users/user-0/opt-outs/greeting", nil)
	apns.MustWait(t, 3, 30*time.Second)
}

// sqlState is the state of SQL in readyz, which stays 200.
func sqlState(p *program) string {
	p.t.Helper()
	var r api.Readiness
	p.must(200, &r, "GET", "/readyz", nil)
	for _, d := range r.Dependencies {
		if d.Name == "sql" {
			return d.State
		}
	}
	return ""
}
