package e2e

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"fanfare/api"
	"fanfare/store/storetest"
)

// mustLimitRedis makes the user of docs/configuration.md on a Redis and returns the user's URL.
func mustLimitRedis(t testing.TB, redis *storetest.RedisServer) string {
	t.Helper()
	mustMakeUser(t, redis, "")
	return "redis://fanfare:PASSWORD@" + redis.Addr()
}

// lessIn6 are the rights that -@dangerous, or the lack of a category, takes from the user in Redis 6.x, but not in 7: CLIENT is
// dangerous there, and the other commands are not in @connection.
const lessIn6 = " -client -asking -readonly -select"

// mustMakeUser makes the user of docs/configuration.md on a Redis. less are rights that its categories do not give.
func mustMakeUser(t testing.TB, redis *storetest.RedisServer, less string) {
	t.Helper()
	_, section, _ := strings.Cut(storetest.RepositoryFile(t, "docs/configuration.md"), "### A Redis user")
	lines := strings.Replace(shellBlock.FindStringSubmatch(section)[1], " -@dangerous", " -@dangerous"+less, 1)
	shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", lines)
	shell.Env = environment([]string{"REDIS=" + redis.URL()})
	if out, err := shell.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "OK" {
		t.Fatalf("%s: %v %s", lines, err, out)
	}
}

// mustLimitSQL makes the user of the n-th block of docs/configuration.md for a database, under a name
// of its own, and returns the user's URL.
func mustLimitSQL(t testing.TB, database string, n int) string {
	t.Helper()
	u, err := url.Parse(database)
	storetest.Must(t, err)
	admin := mustOpenSQL(t, database)
	// A fresh server may have users without a name on this host, who would be found first.
	var name string
	storetest.Must(t, admin.QueryRow("SELECT CONCAT(?, '@`', SUBSTRING_INDEX(USER(), '@', -1), '`')", "limited_"+strings.ToLower(rand.Text()[:12])).Scan(&name))
	t.Cleanup(func() {
		_, _ = admin.Exec("DROP USER IF EXISTS " + name)
		_ = admin.Close()
	})
	blocks := regexp.MustCompile("(?ms)^```sql\n(.*?)^```$").FindAllStringSubmatch(storetest.RepositoryFile(t, "docs/configuration.md"), -1)
	text := strings.NewReplacer(" fanfare.* ", " "+strings.TrimPrefix(u.Path, "/")+".* ", "USER fanfare ", "USER "+name+" ", "TO fanfare;", "TO "+name+";").Replace(blocks[n][1])
	for statement := range strings.SplitSeq(strings.TrimSpace(text), ";\n") {
		if _, err := admin.Exec(strings.TrimSuffix(statement, ";")); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	user, _, _ := strings.Cut(name, "@")
	return fmt.Sprintf("mysql://%s:PASSWORD@%s%s", user, u.Host, u.Path)
}

// The README's tour runs to its end with users of Redis and MariaDB that have only the rights of
// docs/configuration.md. Redis refuses fanfare nothing, and the users can do nothing else.
func TestLimitedUsersTakeTheTour(t *testing.T) {
	t.Parallel()
	redis, database := storetest.Redis(t), storetest.EmptyMySQL(t)
	limited := mustLimitSQL(t, database, 0)
	limitedRedis := mustLimitRedis(t, redis)
	p := mustTakeTour(t, t.TempDir(), "FANFARE_REDIS_URL="+limitedRedis, "FANFARE_DATABASE_URL="+limited)
	if code, _ := p.terminate(); code != 0 {
		t.Errorf("the server ended with %d", code)
	}
	checkRefusedNothing(t, redis)
	if strings.Contains(p.stderr.String(), "NOPERM") {
		t.Error("the log has refusals of Redis")
	}
	for _, call := range []string{"KEYS *", "FLUSHALL", "FLUSHDB", "CONFIG SET maxmemory 1", "SHUTDOWN", "GET other:key", "SET other:key 1", "DEBUG SLEEP 0", "ACL LIST"} {
		dry := append([]any{"ACL", "DRYRUN", "fanfare"}, anyOf(strings.Fields(call))...)
		if said, _ := redis.Client().Do(t.Context(), dry...).Text(); !strings.Contains(said, "no permissions") {
			t.Errorf("the user may %s: %s", call, said)
		}
	}
	db := mustOpenSQL(t, limited)
	defer db.Close()
	for _, statement := range []string{"CREATE DATABASE other", "CREATE USER other", "SELECT * FROM mysql.user", "SET GLOBAL max_connections = 1"} {
		if _, err := db.Exec(statement); err == nil {
			t.Errorf("the user may %s", statement)
		}
	}
}

// checkRefusedNothing requires that a Redis has refused no command, key or channel to any user.
func checkRefusedNothing(t testing.TB, redis *storetest.RedisServer) {
	t.Helper()
	refused, err := redis.Client().Do(t.Context(), "ACL", "LOG").Slice()
	if err != nil || len(refused) > 0 {
		t.Errorf("Redis refused %v: %v", refused, err)
	}
}

// A server whose user of a Redis Cluster has only the rights of docs/configuration.md is ready and sends, and no master refuses it
// anything.
func TestLimitedUserOfACluster(t *testing.T) {
	t.Parallel()
	c := storetest.PrivateCluster(t, 0)
	for _, node := range c.Nodes {
		mustMakeUser(t, node, "")
	}
	url := strings.Replace(c.URL(), "://", "://fanfare:PASSWORD@", 1)
	p := mustServe(t, t.TempDir(), "FANFARE_REDIS_URL="+url, "FANFARE_DATABASE_URL="+storetest.SQLite(t))
	p.must(201, nil, "PUT", "/v1/users/bob/devices/"+deviceToken(1), phone)
	var event api.EventReport
	p.must(202, &event, "POST", "/v1/events", greeting("bob"))
	p.mustAllBeDelivered([]string{event.ID})
	for _, node := range c.Nodes {
		checkRefusedNothing(t, node)
	}
}

func anyOf(words []string) (out []any) {
	for _, w := range words {
		out = append(out, w)
	}
	return out
}

// A server whose user of the database can change no table works on tables that `fanfare migrate`
// made with another user.
func TestServersNeedNotChangeTables(t *testing.T) {
	t.Parallel()
	redis, database := storetest.Redis(t), storetest.EmptyMySQL(t)
	if code, _, said := mustRun(t, t.TempDir(), []string{"migrate"}, "FANFARE_DATABASE_URL="+database); code != 0 {
		t.Fatalf("migrate: %d %s", code, said)
	}
	limited := mustLimitSQL(t, database, 1)
	p := mustServe(t, t.TempDir(), "FANFARE_REDIS_URL="+redis.URL(), "FANFARE_DATABASE_URL="+limited)
	p.must(201, nil, "PUT", "/v1/users/bob/devices/"+deviceToken(1), phone)
	db := mustOpenSQL(t, limited)
	defer db.Close()
	if _, err := db.Exec("ALTER TABLE devices ADD COLUMN other INT"); err == nil {
		t.Error("the user may change tables")
	}
}

var (
	// commandOfScript is a command that a script calls, with its subcommand.
	commandOfScript = regexp.MustCompile(`redis\.p?call\('([A-Z]+)'(?:, '([A-Z]+)')?`)
	// commandOfStore is a command that the store makes by name, with its subcommand.
	commandOfStore = regexp.MustCompile(`redis\.New\w*Cmd\(ctx, "([a-z]+)"(?:, "([a-z]+)")?`)
	// methodOfStore is a command that the store makes by a method of the client library.
	methodOfStore = regexp.MustCompile(`(?:[cC]lient|[bB]locking|node|nodes\[\w+\]|home|conn|pipe|\bc)(?:\(\))?\.([A-Z]\w+)\(ctx\b`)
	// namesOfMethods are the commands behind methods whose names are not those of the commands. "": it is no command of its own.
	namesOfMethods = map[string]string{
		"InfoMap": "info", "ClientID": "client id", "ClientUnblock": "client unblock", "ClusterInfo": "cluster info", "ClusterSlots": "cluster slots",
		"ConfigGet": "config get", "ScriptLoad": "script load",
		"Do": "", "Exec": "", "Process": "", "ForEachMaster": "", "MasterForKey": "", "ReloadState": "",
	}
)

// commandsOfStore lists what the scripts and the store send to a Redis of its own, with the subcommand if there is one. Some
// files are for the embedded Redis alone.
func commandsOfStore(t *testing.T) map[string]bool {
	t.Helper()
	calls := map[string]bool{"select 1": true} // the client library sends it for the database of a URL
	for _, name := range mustFind(t, "store", ".lua") {
		for _, found := range commandOfScript.FindAllStringSubmatch(storetest.RepositoryFile(t, name), -1) {
			calls[strings.ToLower(strings.TrimSpace(found[1]+" "+found[2]))] = true
		}
	}
	methods := 0
	for _, name := range mustFind(t, "store", ".go") {
		text := storetest.RepositoryFile(t, name)
		for _, found := range commandOfStore.FindAllStringSubmatch(text, -1) {
			calls[strings.TrimSpace(found[1]+" "+found[2])] = true
		}
		if strings.Contains(name, "redisdb/snapshot") || strings.Contains(name, "redisdb/child/") {
			continue
		}
		for _, found := range methodOfStore.FindAllStringSubmatch(text, -1) {
			call, known := namesOfMethods[found[1]]
			if !known {
				call = strings.ToLower(found[1])
			}
			calls[call] = true
			methods++
		}
	}
	delete(calls, "")
	if len(calls) < 50 || methods < 20 {
		t.Errorf("only %d commands were found, and %d calls of methods", len(calls), methods)
	}
	return calls
}

// The user of docs/configuration.md may call every command that the scripts and the store name, also
// those that the tour does not need, and also where the categories of Redis 6.x have less.
func TestLimitedRedisUserMayCallEverything(t *testing.T) {
	t.Parallel()
	redis, calls := storetest.Redis(t), commandsOfStore(t)
	for version, less := range map[string]string{"7": "", "6": lessIn6} {
		mustMakeUser(t, redis, less)
		for call := range calls {
			dry := append([]any{"ACL", "DRYRUN", "fanfare"}, anyOf(strings.Fields(call))...)
			said, err := redis.Client().Do(t.Context(), dry...).Text()
			for i := 0; i < 8 && err != nil && strings.Contains(err.Error(), "wrong number"); i++ {
				dry = append(dry, "ff:{a}:a")
				said, err = redis.Client().Do(t.Context(), dry...).Text()
			}
			if err != nil || strings.Contains(said, "no permissions to run") {
				t.Errorf("Redis %s: %s: %s %v", version, call, said, err)
			}
		}
	}
}

// mustFind lists the files below a folder whose names end in a way, tests excepted.
func mustFind(t testing.TB, folder, ending string) (names []string) {
	t.Helper()
	out, err := exec.Command("find", filepath.Join(storetest.Root(t), folder), "-name", "*"+ending, "-not", "-name", "*_test.go", "-not", "-path", "*/storetest/*", "-not", "-path", "*/queuetest/*").Output()
	storetest.Must(t, err)
	for line := range strings.Lines(string(out)) {
		name, _ := filepath.Rel(storetest.Root(t), strings.TrimSpace(line))
		names = append(names, name)
	}
	return names
}
