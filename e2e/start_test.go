package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

// Every problem is reported at once, at start. The exit code is 2 for a usage error and 1 for a
// failed start.
func TestStartRefusals(t *testing.T) {
	t.Parallel()
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	wrongApps := filepath.Join(t.TempDir(), "apps.json")
	storetest.Must(t, os.WriteFile(wrongApps, []byte(`{"apps": [{"topic": "{}"}, {"platform": "pigeon"}, {"platform": 7}]}`), 0o600))
	guarded := storetest.Redis(t)
	if err := guarded.Client().ConfigSet(t.Context(), "requirepass", "right").Err(); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args, vars []string
		code       int
		want       []string
	}{
		"TwoProblems":    {nil, []string{"FANFARE_SHARDS=0", "FANFARE_ADR=x"}, 1, []string{"2 problems", "FANFARE_SHARDS: 0", "did you mean FANFARE_ADDR?"}},
		"UnknownCommand": {[]string{"dance"}, nil, 2, []string{`"dance"`, "fanfare --help"}},
		"MisspeltCmd":    {[]string{"migrat"}, nil, 2, []string{`"migrat"; did you mean migrate?`}},
		"NoSuchFolder":   {nil, []string{"FANFARE_DATABASE_URL=sqlite:/nonexistent/x.db"}, 1, []string{"FANFARE_DATABASE_URL", "/nonexistent/x.db"}},
		"UnknownKeysCmd": {[]string{"keys", "eat"}, nil, 2, []string{`"eat"`}},
		"UnknownFlag":    {[]string{"keys", "create", "--nam", "x"}, nil, 2, []string{"-nam"}},
		"NoName":         {[]string{"keys", "create", "--scopes", "push"}, nil, 2, []string{"--name"}},
		"UnknownScope":   {[]string{"keys", "create", "--name", "x", "--scopes", "push,fly"}, nil, 2, []string{`"fly"`, "admin"}},
		"RevokeNothing":  {[]string{"keys", "revoke"}, nil, 2, []string{"keys revoke <id>"}},
		"PortTaken":      {nil, []string{"FANFARE_ADDR=" + taken.Addr().String()}, 1, []string{"FANFARE_ADDR", "in use", "lsof -nP -iTCP:"}},
		"KeyCannotSign":  {nil, []string{"FANFARE_APNS_KEY_FILE=" + broken, "FANFARE_APNS_KEY_ID=K", "FANFARE_APNS_TEAM_ID=T"}, 1, []string{"FANFARE_APNS_KEY_FILE"}},
		"BrokenAppsFile": {nil, []string{"FANFARE_APPS_FILE=" + broken}, 1, []string{"FANFARE_APPS_FILE: " + broken}},
		"BrokenApps": {
			nil, []string{"FANFARE_APPS_FILE=" + wrongApps}, 1, []string{"FANFARE_APPS_FILE", "apps[0]: topic:", "apps[0]: environment:", "apps[1]: platform:", "apps[2]: json:"},
		},
		"BrokenUserKeys": {nil, []string{"FANFARE_USER_KEYS_FILE=" + broken}, 1, []string{"FANFARE_USER_KEYS_FILE: is not a JSON Web Key Set"}},
		"BrokenCert":     {nil, []string{"FANFARE_TLS_CERT_FILE=" + broken, "FANFARE_TLS_KEY_FILE=" + broken}, 1, []string{"FANFARE_TLS_CERT_FILE"}},
		"OpenToTheWorld": {nil, []string{"FANFARE_ADDR=0.0.0.0:0", "FANFARE_REDIS_URL=embedded"}, 1, []string{"no API key", "fanfare keys create"}},
		"WrongPassword":  {nil, []string{"FANFARE_REDIS_URL=" + strings.Replace(guarded.URL(), "://", "://:wrong@", 1)}, 1, []string{"FANFARE_REDIS_URL", "WRONGPASS"}},
		"NoDatabase":     {nil, []string{"FANFARE_DATABASE_URL=" + storetest.MySQL(t) + "x"}, 1, []string{"FANFARE_DATABASE_URL", "Unknown database"}},
		"NoSuchPostgres": {nil, []string{"FANFARE_DATABASE_URL=" + storetest.Postgres(t) + "x"}, 1, []string{"FANFARE_DATABASE_URL", "does not exist"}},
		"OptionOfURL":    {nil, []string{"FANFARE_DATABASE_URL=postgres://u:p@h/n?sslmod=require"}, 1, []string{"FANFARE_DATABASE_URL", "no option sslmod"}},
		"EmbeddedInOpen": {nil, []string{"FANFARE_ADDR=0.0.0.0:0"}, 1, []string{"FANFARE_REDIS_URL", "'embedded'"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vars := append([]string{"FANFARE_ADDR=127.0.0.1:0"}, tc.vars...)
			code, out, errs := mustRun(t, t.TempDir(), tc.args, vars...)
			if code != tc.code || out != "" {
				t.Errorf("exit code %d, want %d; stdout %q", code, tc.code, out)
			}
			for _, want := range tc.want {
				if !strings.Contains(errs, want) {
					t.Errorf("stderr lacks %q:\n%s", want, errs)
				}
			}
		})
	}
}

// A start does not need Redis or the database: the server listens at once, answers that it is alive
// and what it waits for, and refuses everything else. When both are there, it serves. It never
// gives up.
func TestStartBeforeRedisAndTheDatabase(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func(testing.TB) string{"MariaDB": storetest.EmptyMySQL, "PostgreSQL": storetest.EmptyPostgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testStartBefore(t, database(t))
		})
	}
}

func testStartBefore(t *testing.T, database string) {
	t.Helper()
	redis, redisURL := storetest.ProxyTo(t, storetest.Redis(t).URL())
	sql, database := storetest.ProxyTo(t, database)
	redis.Cut()
	sql.Cut()
	p := launchServer(t, t.TempDir(), "FANFARE_REDIS_URL="+redisURL, "FANFARE_DATABASE_URL="+database)
	storetest.Eventually(t, 30*time.Second, "it lives", func() bool {
		status, _, err := p.try("GET", "/healthz", nil)
		return err == nil && status == 200
	})
	p.mustWaitFor("FANFARE_DATABASE_URL")
	var problem api.Problem
	p.must(503, &problem, "POST", "/v1/events", greeting("bob"))
	if problem.Code != api.CodeUnavailable || problem.RetryAfterMS <= 0 || !strings.Contains(problem.Detail, "starting") {
		t.Errorf("%+v", problem)
	}
	p.must(503, nil, "GET", "/v1/event-types", nil)
	sql.Mend()
	p.mustWaitFor("FANFARE_REDIS_URL")
	redis.Mend()
	p.awaitReady()
	p.must(202, nil, "POST", "/v1/events", greeting("bob"))
	if n := strings.Count(p.stderr.String(), "the start waits"); n != 2 {
		t.Errorf("%d lines say that it waits, want one of each:\n%s", n, p.stderr.String())
	}
	if code, _ := p.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// SIGHUP ends no server: neither one that waits for a dependency, nor one that stops.
func TestSIGHUPWhileItStartsAndStops(t *testing.T) {
	t.Parallel()
	redis, redisURL := storetest.ProxyTo(t, storetest.Redis(t).URL())
	redis.Cut()
	p := launchServer(t, t.TempDir(), "FANFARE_REDIS_URL="+redisURL)
	p.mustWaitFor("FANFARE_REDIS_URL")
	storetest.Must(t, p.cmd.Process.Signal(syscall.SIGHUP))
	p.mustWaitFor("FANFARE_REDIS_URL")
	redis.Mend()
	p.awaitReady()
	storetest.Must(t, p.cmd.Process.Signal(syscall.SIGTERM))
	storetest.Eventually(t, 30*time.Second, "it stops", func() bool {
		_ = p.cmd.Process.Signal(syscall.SIGHUP)
		select {
		case <-p.exited:
			return true
		default:
			return false
		}
	})
	if code := p.exitCode(time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// Eight processes may start at the same time on a new database and a new Redis. One of them
// migrates, all of them serve, and each reads what the others write.
func TestEightProcessesStartTogether(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func(testing.TB) string{"SQLite": storetest.EmptySQLite, "MariaDB": storetest.EmptyMySQL, "PostgreSQL": storetest.EmptyPostgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := mustBuildShipped(t) // first, so that all of them start at once
			vars := []string{"FANFARE_REDIS_URL=" + storetest.Redis(t).URL(), "FANFARE_DATABASE_URL=" + database(t), "FANFARE_LOG_LEVEL=warn"}
			processes := make([]*program, 8)
			for i := range processes {
				addr := fmt.Sprintf("127.0.0.1:%d", storetest.FreePort(t))
				processes[i] = launchPath(t, path, t.TempDir(), nil, append(vars, "FANFARE_ADDR="+addr)...)
				processes[i].base = "http://" + addr
			}
			for i, p := range processes {
				p.awaitReady()
				p.must(201, nil, "PUT", fmt.Sprintf("/v1/event-types/of-%d", i), map[string]any{"title": "x"})
			}
			for _, p := range processes {
				var types struct{ Items []api.EventType }
				p.must(200, &types, "GET", "/v1/event-types", nil)
				if len(types.Items) != len(processes) {
					t.Errorf("%d event types, want %d", len(types.Items), len(processes))
				}
				if text := p.stderr.String(); strings.Contains(text, "level=ERROR") || strings.Contains(text, "locked") {
					t.Errorf("it said:\n%s", text)
				}
			}
		})
	}
}

// mustWaitFor waits until readyz names the dependency for which the start waits.
func (p *program) mustWaitFor(variable string) {
	p.t.Helper()
	storetest.Eventually(p.t, 20*time.Second, "it says what it waits for: "+variable, func() bool {
		status, answer, err := p.try("GET", "/readyz", nil)
		return err == nil && status == 503 && strings.Contains(string(answer), "starting: it waits for what "+variable)
	})
}

// A start that waits ends at SIGTERM.
func TestStopBeforeTheStartIsOver(t *testing.T) {
	t.Parallel()
	p := launchServer(t, t.TempDir(), fmt.Sprintf("FANFARE_REDIS_URL=redis://127.0.0.1:%d", storetest.FreePort(t)))
	p.mustWaitFor("FANFARE_REDIS_URL")
	if code, took := p.terminate(); code != 0 || took > 10*time.Second {
		t.Errorf("exit code %d after %v:\n%s", code, took, p.stderr.String())
	}
}

// Configuration: the number of shards is fixed at the first start. Another number is refused, with
// the steps to change it.
func TestAnotherNumberOfShardsIsRefused(t *testing.T) {
	t.Parallel()
	dir, redis := t.TempDir(), "FANFARE_REDIS_URL="+storetest.Redis(t).URL()
	if code, _ := mustServe(t, dir, redis).terminate(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	code, _, errs := mustRun(t, dir, nil, redis, "FANFARE_SHARDS=4", "FANFARE_ADDR=127.0.0.1:0")
	if code != 1 || !strings.Contains(errs, "FANFARE_SHARDS") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// A start with nothing configured says where it listens, where the
// documents are, what is embedded, and gives a curl to paste.
func TestBanner(t *testing.T) {
	t.Parallel()
	p := mustServe(t, t.TempDir(), "FANFARE_LOG_FORMAT=text")
	storetest.Eventually(t, 30*time.Second, "the banner", func() bool {
		said := p.stdout.String()
		for _, want := range []string{p.base, p.base + "/docs/", "curl ", "embedded", "log sender", "fanfare.db", "no API key"} {
			if !strings.Contains(said, want) {
				return false
			}
		}
		return true
	})
}

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--help"}, {"help"}, {"-h"}, {"keys", "--help"}} {
		code, out, errs := mustRun(t, t.TempDir(), args)
		if code != 0 || errs != "" || !strings.Contains(out, "fanfare keys create --name") {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", args, code, out, errs)
		}
	}
	_, out, _ := mustRun(t, t.TempDir(), []string{"--help"})
	rows := regexp.MustCompile("(?m)^\\| `(FANFARE_[A-Z_]+)`").FindAllStringSubmatch(storetest.RepositoryFile(t, "docs/configuration.md"), -1)
	if len(rows) < 20 {
		t.Fatalf("only %d variables are documented", len(rows))
	}
	for _, row := range rows {
		if !strings.Contains(out, row[1]) {
			t.Errorf("--help lacks %s", row[1])
		}
	}
	for _, arg := range []string{"version", "--version"} {
		code, out, _ := mustRun(t, t.TempDir(), []string{arg})
		if code != 0 || !strings.HasPrefix(out, "fanfare ") {
			t.Errorf("%s: exit code %d, %q", arg, code, out)
		}
	}
}

func TestMigrateTwice(t *testing.T) {
	t.Parallel()
	dir, database := t.TempDir(), "FANFARE_DATABASE_URL="+storetest.EmptyMySQL(t)
	for range 2 {
		if code, _, errs := mustRun(t, dir, []string{"migrate"}, database); code != 0 {
			t.Errorf("exit code %d: %s", code, errs)
		}
	}
}

// HTTP contract, keys and scopes: a running server knows keys that are made or revoked on the
// command line within 10 s. Once a first key exists, the server is never open again.
func TestKeysOnTheCommandLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := mustServe(t, dir)
	p.must(200, nil, "GET", "/v1/event-types", nil) // open
	key := mustCreateKey(t, dir, "push,ops")
	storetest.Eventually(t, 10*time.Second, "the server asks for a key", func() bool {
		status, _, err := p.try("GET", "/v1/event-types", nil)
		return err == nil && status == 401
	})
	p.key = key
	p.must(200, nil, "GET", "/v1/event-types", nil)
	code, list, _ := mustRun(t, dir, []string{"keys", "list"})
	id := strings.Split(key, "_")[1]
	if code != 0 || !strings.Contains(list, id) || !strings.Contains(list, "push,ops") || strings.Contains(list, key) {
		t.Errorf("keys list: exit code %d\n%s", code, list)
	}
	if code, out, errs := mustRun(t, dir, []string{"keys", "revoke", id}); code != 0 || out != "" || !strings.Contains(errs, "key "+id+" (test, for push,ops) is ended") {
		t.Fatalf("keys revoke: exit code %d: %s%s", code, out, errs)
	}
	if code, _, errs := mustRun(t, dir, []string{"keys", "revoke", id}); code != 0 || !strings.Contains(errs, "was ended before") {
		t.Fatalf("keys revoke again: exit code %d: %s", code, errs)
	}
	storetest.Eventually(t, 10*time.Second, "the revoked key is refused", func() bool {
		status, _, err := p.try("GET", "/v1/event-types", nil)
		return err == nil && status == 401
	})
	if code, _, errs := mustRun(t, dir, []string{"keys", "revoke", "nobody"}); code != 1 || !strings.Contains(errs, "nobody") {
		t.Errorf("revoke of an unknown key: exit code %d: %s", code, errs)
	}
}

// HTTP contract, keys and scopes: an open server answers loopback names and same-origin callers,
// and no proxies.
func TestOpenServerRules(t *testing.T) {
	t.Parallel()
	p := mustServe(t, t.TempDir())
	for name, tc := range map[string]struct {
		header []string
		want   int
	}{
		"Loopback":    {nil, 200},
		"Localhost":   {[]string{"Host", "localhost"}, 200},
		"OtherHost":   {[]string{"Host", "evil.example"}, 421},
		"SameOrigin":  {[]string{"Origin", p.base}, 200},
		"OtherOrigin": {[]string{"Origin", "http://evil.example"}, 403},
		"NullOrigin":  {[]string{"Origin", "null"}, 403},
		"Forwarded":   {[]string{"Forwarded", "for=10.0.0.1"}, 403},
		"XForwarded":  {[]string{"X-Forwarded-For", "10.0.0.1"}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			p.must(tc.want, nil, "GET", "/v1/event-types", nil, tc.header...)
		})
	}
}

// Configuration: embedded Redis allows only one process, by a lock file. The lock ends with the
// process, however the process ends.
func TestSecondEmbeddedProcessIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := mustServe(t, dir)
	code, _, errs := mustRun(t, dir, nil, "FANFARE_ADDR=127.0.0.1:0")
	if code != 1 || !strings.Contains(errs, "fanfare.db.lock") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	first.kill()
	mustServe(t, dir)
}

// A process that other machines can reach starts only if a key exists, and requires a key.
func TestReachableServerWithAKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key := mustCreateKey(t, dir, "admin")
	port := storetest.FreePort(t)
	vars := []string{fmt.Sprintf("FANFARE_ADDR=0.0.0.0:%d", port), "FANFARE_REDIS_URL=embedded"}
	p := launch(t, dir, nil, vars...)
	p.base = fmt.Sprintf("http://127.0.0.1:%d", port)
	p.awaitReady()
	p.must(401, nil, "GET", "/v1/event-types", nil)
	p.key = key
	p.must(200, nil, "GET", "/v1/event-types", nil)
	if code, out, errs := mustRun(t, dir, []string{"healthcheck"}, vars...); code != 0 {
		t.Errorf("healthcheck: exit code %d: %s%s", code, out, errs)
	}
	p.kill()
	if code, _, errs := mustRun(t, dir, []string{"healthcheck"}, vars...); code != 1 || errs == "" {
		t.Errorf("healthcheck of nobody: exit code %d: %s", code, errs)
	}
}

// A13: the apps file is read again on SIGHUP. If it is broken, the old configuration stays and the
// error is logged.
func TestSIGHUPReadsTheAppsFileAgain(t *testing.T) {
	t.Parallel()
	apns, dir := apnstest.Start(t, apnstest.Options{}), t.TempDir()
	file := filepath.Join(dir, "apps.json")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	app := func(topic string) string {
		return fmt.Sprintf(`{"topic":%q,"environment":"production","url":%q,"key_file":%q,"key_id":%q,"team_id":"TEAMID1234"}`,
			topic, apns.URL(), apns.KeyFile(), apns.KeyID())
	}
	write(`{"apps":[` + app("com.example.other") + `]}`)
	p := mustServe(t, dir, "FANFARE_APPS_FILE="+file, "FANFARE_APNS_CA_FILE="+apns.CAFile())
	p.mustRegister(1)
	failed := func() int {
		var accepted struct{ ID string }
		var got report
		p.must(202, &accepted, "POST", "/v1/events", greeting("user-0"))
		storetest.Eventually(t, 30*time.Second, "the event is done", func() bool {
			p.must(200, &got, "GET", "/v1/events/"+accepted.ID, nil)
			return got.State == "done"
		})
		return got.Failed
	}
	if failed() != 1 {
		t.Error("a topic without an app did not fail")
	}
	write(`{"apps":[`)
	_ = p.cmd.Process.Signal(syscall.SIGHUP)
	storetest.Eventually(t, 30*time.Second, "a word about the broken file", func() bool { return strings.Contains(p.stderr.String(), file) })
	write(`{"apps":[` + app("com.example.app") + `,` + app("com.example.other") + `]}`)
	_ = p.cmd.Process.Signal(syscall.SIGHUP)
	storetest.Eventually(t, 30*time.Second, "the new app works", func() bool { return failed() == 0 })
}
