package app

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// mustParse reads an environment that must be right.
func mustParse(t testing.TB, environ ...string) *config {
	t.Helper()
	c, err := parseConfig(environ)
	if err != nil {
		t.Fatalf("parse %v: %v", environ, err)
	}
	return c
}

func TestConfigDefaults(t *testing.T) {
	t.Parallel()
	c := mustParse(t)
	if c.Addr != "127.0.0.1:8080" || !c.embedded() || c.DatabaseURL != "sqlite:fanfare.db" {
		t.Errorf("addr %q, redis %q, database %q", c.Addr, c.RedisURL, c.DatabaseURL)
	}
	for _, role := range allRoles() {
		if !c.has(role) {
			t.Errorf("role %s is missing", role)
		}
	}
	if c.NotificationLease != 10*time.Second || c.JobLease != 30*time.Second || c.MaxAttempts != 8 || c.EventRetention != 24*time.Hour {
		t.Errorf("%+v", c)
	}
	if empty := mustParse(t, "FANFARE_ALLOWED_ORIGINS="); len(empty.AllowedOrigins) != 0 {
		t.Errorf("origins %q", empty.AllowedOrigins)
	}
	if c.showsProfiles() {
		t.Error("pprof is shown by default")
	}
	if len(c.settings()) != 0 {
		t.Errorf("defaults count as set: %v", c.settings())
	}
}

func TestConfigReadsEveryVariable(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file.pem")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	environ := []string{
		"FANFARE_ADDR=0.0.0.0:80", "FANFARE_METRICS_ADDR=127.0.0.1:81", "FANFARE_ADMIN_KEY_FILE=" + file, "FANFARE_REDIS_URL=rediss+sentinel://u:p@a:1,b:2/main/3", "FANFARE_DATABASE_URL=mysql://u:p@h:3306/n",
		"FANFARE_CONTACTS_REDIS_URL=redis://i:1", "FANFARE_CONTACTS_MAX=100", "FANFARE_CONTACTS_MIN=5",
		"FANFARE_SALE_MIN_REPLICAS=1", "FANFARE_SALE_MAX_IN_FLIGHT=64", "FANFARE_SALE_LOCAL=off",
		"FANFARE_ROLES= api , jobs", "FANFARE_SHARDS=16", "FANFARE_SHARD_SET=0-3, 7,3", "FANFARE_APNS_URL=https://127.0.0.1:2197", "FANFARE_APNS_MANAGE_URL=https://127.0.0.1:2198",
		"FANFARE_APNS_CA_FILE=" + file, "FANFARE_APNS_KEY_FILE=" + file, "FANFARE_APNS_KEY_ID=K", "FANFARE_APNS_TEAM_ID=T",
		"FANFARE_WEBPUSH_ORIGINS=push.example.com, *", "FANFARE_WEBPUSH_ALLOW_NETS=127.0.0.0/8", "FANFARE_WEBHOOK_NETS=10.0.0.0/8", "FANFARE_MAX_IN_FLIGHT=700", "FANFARE_NOTIFICATION_LEASE=1s", "FANFARE_JOB_LEASE=2s", "FANFARE_MAX_ATTEMPTS=3", "FANFARE_RETRY_BASE=1ms", "FANFARE_RETRY_MAX=1m",
		"FANFARE_MAX_AGE=1h", "FANFARE_APP_PROBE_INTERVAL=5s", "FANFARE_PAUSED_BYTES=1000000", "FANFARE_EVENT_RETENTION=10m", "FANFARE_TOMBSTONE_RETENTION=20m",
		"FANFARE_DELETED_RETENTION=48h",
		"FANFARE_CHAT_MAX_MESSAGES=500", "FANFARE_CHAT_MAX_BYTES=1000000", "FANFARE_CHAT_MAX_AGE=48h", "FANFARE_MAX_STREAMS=100", "FANFARE_KEY_MAX_STREAMS=50",
		"FANFARE_USER_MAX_STREAMS=4", "FANFARE_USER_MAX_POLLS=2", "FANFARE_USER_MAX_IN_FLIGHT=3",
		"FANFARE_RATE_LIMIT=500/s", "FANFARE_REQUEST_TIMEOUT=3s", "FANFARE_SHUTDOWN_TIMEOUT=9s", "FANFARE_LOG_LEVEL=WARN", "FANFARE_LOG_FORMAT=json",
		"FANFARE_USER_KEYS_FILE=" + file, "FANFARE_USER_CONFIRM=on", "FANFARE_USER_RATE_LIMIT=20/s", "FANFARE_USER_MESSAGE_RATE_LIMIT=1/s:3", "FANFARE_USER_MESSAGE_BYTES=1000000/h",
		"FANFARE_ALLOWED_ORIGINS=https://a.example, capacitor://localhost", "FANFARE_TRUSTED_PROXIES=10.0.0.0/8, ::1/128",
		"FANFARE_TLS_CERT_FILE=" + file, "FANFARE_TLS_KEY_FILE=" + file,
		"FANFARE_TRACES_URL=http://collector.example:4318", "FANFARE_TRACES_SHARE=0.5", "FANFARE_CONSOLE=read", "FANFARE_PUBLIC_URL=https://ops.example.com/fanfare", "FANFARE_CONSOLE_PAYLOADS=off",
	}
	c := mustParse(t, environ...)
	if got := c.ShardSet.String(); got != "0,1,2,3,7" {
		t.Errorf("shard set %s", got)
	}
	if c.RateLimit.String() != "500/s" || c.LogLevel.String() != "warn" || !slices.Equal(c.Roles, []string{"api", "jobs"}) ||
		!slices.Equal(c.AllowedOrigins, []string{"https://a.example", "capacitor://localhost"}) {
		t.Errorf("%+v", c)
	}
	// Everything was set above, except the apps file, which replaces the key, and the kind of an embedded Redis.
	if got, want := len(c.settings()), len(variables())-2; got != want || len(environ) != want {
		t.Errorf("%d variables were set and %d read, want %d: %v", len(environ), got, want, c.settings())
	}
}

// Every problem is reported at once, with the variable's name.
func TestConfigReportsEveryProblemAtOnce(t *testing.T) {
	t.Parallel()
	_, err := parseConfig([]string{
		"FANFARE_ADDR=8080", "FANFARE_REDIS_URL=http://x", "FANFARE_DATABASE_URL=postgres://x", "FANFARE_ROLES=api,cook", "FANFARE_SHARDS=many",
		"FANFARE_SHARD_SET=7-0", "FANFARE_APNS_KEY_ID=K", "FANFARE_MAX_ATTEMPTS=0", "FANFARE_RETRY_BASE=soon", "FANFARE_MAX_AGE=-1s",
		"FANFARE_RATE_LIMIT=fast", "FANFARE_LOG_LEVEL=loud", "FANFARE_LOG_FORMAT=xml", "FANFARE_TLS_CERT_FILE=/does/not/exist", "FANFARE_SHARD=8",
	})
	if err == nil {
		t.Fatal("no problem was found")
	}
	for _, want := range []string{
		`FANFARE_ADDR: "8080" is not host:port`, "FANFARE_REDIS_URL: the scheme must be", "FANFARE_DATABASE_URL: want sqlite:<file>, mysql://",
		`FANFARE_ROLES: "cook" is none of`, `FANFARE_SHARDS: "many" is not a whole number`, `FANFARE_SHARD_SET: "7-0" is not a list of shards`,
		"FANFARE_APNS_KEY_FILE: is needed", "FANFARE_APNS_TEAM_ID: is needed", "FANFARE_MAX_ATTEMPTS: 0", `FANFARE_RETRY_BASE: "soon" is not a duration`,
		"FANFARE_MAX_AGE: -1s", `FANFARE_RATE_LIMIT: "fast" is not a rate`, `FANFARE_LOG_LEVEL: "loud" is none of`, `FANFARE_LOG_FORMAT: "xml"`,
		"FANFARE_TLS_CERT_FILE: open /does/not/exist", "FANFARE_TLS_CERT_FILE: goes together with", "FANFARE_SHARD: is not a variable of fanfare; did you mean FANFARE_SHARDS?",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("missing %q in:\n%v", want, err)
		}
	}
}

// What the specification has refused at start (R4, S14) is among these.
func TestConfigProblems(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ environ, want string }{
		"ConsoleMode":            {"FANFARE_CONSOLE=yes", "FANFARE_CONSOLE: \"yes\" is none of on, read, off"},
		"TracesWithoutScheme":    {"FANFARE_TRACES_URL=collector:4318 FANFARE_CONSOLE=yes", "FANFARE_TRACES_URL: must be the http or https URL of a collector"},
		"PublicURLWithoutScheme": {"FANFARE_PUBLIC_URL=ops.example.com", "FANFARE_PUBLIC_URL: is not https://host"},
		"PublicURLWithQuery":     {"FANFARE_PUBLIC_URL=https://ops.example.com/?a=b", "FANFARE_PUBLIC_URL: is not https://host"},
		"PortOutOfRange":         {"FANFARE_ADDR=127.0.0.1:70000", "FANFARE_ADDR: \"70000\" is not a port"},
		"EmbeddedInTheOpen":      {"FANFARE_ADDR=:8080", "FANFARE_REDIS_URL: is needed when FANFARE_ADDR is not loopback"},
		"NameIsNotLoopback":      {"FANFARE_ADDR=db.example:8080", "FANFARE_REDIS_URL: is needed"},
		"RedisWithoutHost":       {"FANFARE_REDIS_URL=redis://", "FANFARE_REDIS_URL: a host is missing"},
		"ShardsReportedOnce":     {"FANFARE_SHARDS=0 FANFARE_SHARD_SET=0-3", "configuration: FANFARE_SHARDS: 0 is not within 1 to 256"},
		"RedisDatabase":          {"FANFARE_REDIS_URL=redis://h/x FANFARE_SHARDS=0", "2 problems"},
		"ContactsRedis":          {"FANFARE_CONTACTS_REDIS_URL=http://x", "FANFARE_CONTACTS_REDIS_URL: the scheme must be"},
		"ContactsBeyondTheCap":   {"FANFARE_CONTACTS_MAX=128", "FANFARE_CONTACTS_MAX: 128 is not within 1 to 127"},
		"ContactsMinAboveMax":    {"FANFARE_CONTACTS_MIN=121", "FANFARE_CONTACTS_MIN: 121 is not within 1 and FANFARE_CONTACTS_MAX (120)"},
		"ChatKeepsNothing":       {"FANFARE_CHAT_MAX_MESSAGES=0", "FANFARE_CHAT_MAX_MESSAGES: 0 is not within 1 to 1000000"},
		"ChatWithoutRoom":        {"FANFARE_CHAT_MAX_BYTES=65535", "FANFARE_CHAT_MAX_BYTES: 65535 is not within 65536 to 1073741824"},
		"ChatOfAnySize":          {"FANFARE_CHAT_MAX_BYTES=8MiB", "FANFARE_CHAT_MAX_BYTES: \"8MiB\" is not a whole number"},
		"ChatForgetsAtOnce":      {"FANFARE_CHAT_MAX_AGE=10ms", "FANFARE_CHAT_MAX_AGE: 10ms is not at least 1s"},
		"NoTimeForAnEvent":       {"FANFARE_NOTIFICATION_LEASE=1ms", "FANFARE_NOTIFICATION_LEASE: 1ms is not at least 1s"},
		"NoTimeForAJob":          {"FANFARE_JOB_LEASE=999ms", "FANFARE_JOB_LEASE: 999ms is not at least 1s"},
		"NoStreams":              {"FANFARE_MAX_STREAMS=0", "FANFARE_MAX_STREAMS: 0 is not at least 1"},
		"NegativeStreamsOfKeys":  {"FANFARE_KEY_MAX_STREAMS=-1", "FANFARE_KEY_MAX_STREAMS: -1 is not at least 0"},
		"NoStreamsOfUsers":       {"FANFARE_USER_MAX_STREAMS=0", "FANFARE_USER_MAX_STREAMS: 0 is not at least 1"},
		"NoPollsOfUsers":         {"FANFARE_USER_MAX_POLLS=0", "FANFARE_USER_MAX_POLLS: 0 is not at least 1"},
		"NoRequestsOfUsers":      {"FANFARE_USER_MAX_IN_FLIGHT=0", "FANFARE_USER_MAX_IN_FLIGHT: 0 is not at least 1"},
		"StreamsThatAreNoNumber": {"FANFARE_MAX_STREAMS=many", "FANFARE_MAX_STREAMS: \"many\" is not a whole number"},
		"EmbeddedKind":           {"FANFARE_EMBEDDED=disk", "FANFARE_EMBEDDED: \"disk\" is none of auto, redis, memory"},
		"EmbeddedBesideRedis":    {"FANFARE_REDIS_URL=redis://h FANFARE_EMBEDDED=memory", "FANFARE_EMBEDDED: means nothing with FANFARE_REDIS_URL"},
		"SaleReplicasEmbedded":   {"FANFARE_SALE_MIN_REPLICAS=1", "FANFARE_SALE_MIN_REPLICAS: an embedded Redis has no replicas"},
		"SaleReplicasBelowZero":  {"FANFARE_SALE_MIN_REPLICAS=-1", "FANFARE_SALE_MIN_REPLICAS: -1 is not within 0 to 100"},
		"SaleWithoutRoom":        {"FANFARE_SALE_MAX_IN_FLIGHT=0", "FANFARE_SALE_MAX_IN_FLIGHT: 0 is not at least 1"},
		"SaleLocalMaybe":         {"FANFARE_SALE_LOCAL=maybe", "FANFARE_SALE_LOCAL: \"maybe\" is neither on nor off"},
		"SQLiteWithoutFile":      {"FANFARE_DATABASE_URL=sqlite:", "FANFARE_DATABASE_URL: names no file"},
		"NoSuchFolder":           {"FANFARE_DATABASE_URL=sqlite:/does/not/exist.db", "FANFARE_DATABASE_URL: the folder of /does/not/exist.db: stat /does/not: no such"},
		"MySQLWithoutName":       {"FANFARE_DATABASE_URL=mysql://u:p@h:3306", "FANFARE_DATABASE_URL: want sqlite:<file>, mysql://user:password@host:port/name or postgres://user:password@host:port/name"},
		"PostgresOption":         {"FANFARE_DATABASE_URL=postgres://u:p@h/n?ssl=true", "FANFARE_DATABASE_URL: there is no option ssl; known, once each: sslmode, sslrootcert, channel_binding"},
		"RoleTwice":              {"FANFARE_ROLES=api,api,push,jobs", "FANFARE_ROLES: api is named twice"},
		"FormerRoles":            {"FANFARE_ROLES=api,targeting,delivery,jobs", "FANFARE_ROLES: there is no delivery any more; write push"},
		"EmbeddedNeedsAllRoles":  {"FANFARE_ROLES=api", "FANFARE_ROLES: with an embedded Redis"},
		"EmbeddedNeedsAllShards": {"FANFARE_SHARD_SET=0-3", "FANFARE_SHARD_SET: with an embedded Redis"},
		"ShardBeyondTheLast":     {"FANFARE_REDIS_URL=redis://h FANFARE_SHARD_SET=0-8", "FANFARE_SHARD_SET: 8 is not below FANFARE_SHARDS (8)"},
		"TooManyShards":          {"FANFARE_SHARDS=257", "FANFARE_SHARDS: 257 is not within 1 to 256"},
		"APNsURLAlone":           {"FANFARE_APNS_URL=https://h", "FANFARE_APNS_URL: means nothing without"},
		"APNsManagementAlone":    {"FANFARE_APNS_MANAGE_URL=https://h", "FANFARE_APNS_MANAGE_URL: means nothing without"},
		"APNsManagementPlain":    {"FANFARE_APNS_MANAGE_URL=http://h", "FANFARE_APNS_MANAGE_URL: is not https://"},
		"APNsURLPlain":           {"FANFARE_APNS_URL=http://h", "FANFARE_APNS_URL: is not https://"},
		"RetryMaxBelowBase":      {"FANFARE_RETRY_MAX=1ms", "FANFARE_RETRY_MAX: 1ms is below FANFARE_RETRY_BASE"},
		"PausedBelowZero":        {"FANFARE_PAUSED_BYTES=-1", "FANFARE_PAUSED_BYTES: -1 is not at least 0"},
		"TombstoneTooShort":      {"FANFARE_TOMBSTONE_RETENTION=1m", "FANFARE_TOMBSTONE_RETENTION: 1m0s is below 5m0s"},
		"OriginWithPath":         {"FANFARE_ALLOWED_ORIGINS=https://a.example/", "FANFARE_ALLOWED_ORIGINS: \"https://a.example/\" is not an origin such as"},
		"OriginWithoutScheme":    {"FANFARE_ALLOWED_ORIGINS=a.example", "FANFARE_ALLOWED_ORIGINS: \"a.example\" is not"},
		"OriginInCapitals":       {"FANFARE_ALLOWED_ORIGINS=https://A.example", "FANFARE_ALLOWED_ORIGINS: \"https://A.example\" is not"},
		"OriginNull":             {"FANFARE_ALLOWED_ORIGINS=null", "FANFARE_ALLOWED_ORIGINS: \"null\" is not"},
		"OriginsOfADomain":       {"FANFARE_ALLOWED_ORIGINS=https://*.example.com", "FANFARE_ALLOWED_ORIGINS: \"https://*.example.com\" is not"},
		"AllOriginsAndOne":       {"FANFARE_ALLOWED_ORIGINS=*,https://a.example", "FANFARE_ALLOWED_ORIGINS: \"*\" is not"},
		"ProxyByName":            {"FANFARE_TRUSTED_PROXIES=10.0.0.0/8,proxy", "FANFARE_TRUSTED_PROXIES: \"10.0.0.0/8,proxy\" is not a list of networks such as"},
		"UserKeysNowhere":        {"FANFARE_USER_KEYS_FILE=/does/not/exist", "FANFARE_USER_KEYS_FILE: open /does/not/exist"},
		"UserRateBurst":          {"FANFARE_USER_RATE_LIMIT=20/s:0", "FANFARE_USER_RATE_LIMIT: \"20/s:0\" is not a rate"},
		"UserRateWithoutUnit":    {"FANFARE_USER_RATE_LIMIT=20", "FANFARE_USER_RATE_LIMIT: \"20\" is not a rate"},
		"UserBytesWithoutWindow": {"FANFARE_USER_MESSAGE_BYTES=16777216", "FANFARE_USER_MESSAGE_BYTES: \"16777216\" is not a rate"},
		"PushOriginWithScheme":   {"FANFARE_WEBPUSH_ORIGINS=push.example.com,https://a.example", "FANFARE_WEBPUSH_ORIGINS: \"https://a.example\" is no host such as"},
		"PushOriginInCapitals":   {"FANFARE_WEBPUSH_ORIGINS=*.A.example", "FANFARE_WEBPUSH_ORIGINS: \"*.A.example\" is no host"},
		"PushOriginIsAnAddress":  {"FANFARE_WEBPUSH_ORIGINS=127.0.0.1", "FANFARE_WEBPUSH_ORIGINS: \"127.0.0.1\" is no host"},
		"PushOriginWithPort":     {"FANFARE_WEBPUSH_ORIGINS=a.example:443", "FANFARE_WEBPUSH_ORIGINS: \"a.example:443\" is no host"},
		"HookNetByName":          {"FANFARE_WEBHOOK_NETS=localhost", "FANFARE_WEBHOOK_NETS: \"localhost\" is not a list of networks such as"},
		"PushNetByName":          {"FANFARE_WEBPUSH_ALLOW_NETS=localhost", "FANFARE_WEBPUSH_ALLOW_NETS: \"localhost\" is not a list of networks such as"},
		"RateWithoutUnit":        {"FANFARE_RATE_LIMIT=500", "FANFARE_RATE_LIMIT: \"500\" is not a rate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parseConfig(strings.Fields(tc.environ))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestConfigLeavesForeignVariablesAlone(t *testing.T) {
	t.Parallel()
	mustParse(t, "FANFARE_PORT=tcp://10.0.0.1:80", "FANFARE_PORT_8080_TCP=x", "FANFARE_SERVICE_HOST=10.0.0.1", "FANFARE_TEST_MYSQL_URL=x", "PATH=/bin")
}

func TestConfigLoopback(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]bool{
		"127.0.0.1:1": true, "[::1]:1": true, "localhost:1": true, "127.9.9.9:1": true,
		":1": false, "0.0.0.0:1": false, "[::]:1": false, "10.0.0.1:1": false, "example.com:1": false,
	} {
		if c := (&config{Addr: addr}); c.loopback() != want {
			t.Errorf("loopback(%s) = %v", addr, !want)
		}
		if c := (&config{MetricsAddr: addr}); c.showsProfiles() == want {
			t.Errorf("pprof at %s is shown to others: %v", addr, want)
		}
	}
}

// Secrets are masked.
func TestConfigMasksSecrets(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"redis://:hunter2@h:1/0":                 "redis://:***@h:1/0",
		"redis+sentinel://u:hun@ter2@a:1,b:2/m":  "redis+sentinel://u:***@a:1,b:2/m",
		"mysql://user:hunter2@h:3306/n?tls=true": "mysql://user:***@h:3306/n?***",
		"sqlite:fanfare.db":                      "sqlite:fanfare.db",
		"redis://h:1":                            "redis://h:1",
	} {
		if got := maskURL(raw); got != want {
			t.Errorf("maskURL(%s) = %s, want %s", raw, got, want)
		}
	}
	c := mustParse(t, "FANFARE_REDIS_URL=redis://:hunter2@h:1", "FANFARE_CONTACTS_REDIS_URL=redis://:hunter4%2Fx@h:2",
		"FANFARE_DATABASE_URL=mysql://u:hunter3@h:1/n")
	text := strings.Join(c.settings(), " ") +
		c.scrub("dial redis://:hunter2@h:1: password hunter2; mysql hunter3; dial redis://:hunter4%2Fx@h:2: hunter4/x")
	if strings.Contains(text, "hunter") {
		t.Errorf("a password is shown: %s", text)
	}
	_, err := parseConfig([]string{"FANFARE_REDIS_URL=http://:hunter2@h", "FANFARE_DATABASE_URL=pg://:hunter3@h"})
	if err == nil || strings.Contains(err.Error(), "hunter") {
		t.Errorf("a password is shown: %v", err)
	}
}

// The tables of docs/configuration.md are equal to those that the binary prints.
func TestConfigTableInDocuments(t *testing.T) {
	t.Parallel()
	text := storetest.RepositoryFile(t, "docs/configuration.md")
	if !strings.Contains(text, markdownTable()) {
		t.Errorf("docs/configuration.md does not hold these tables:\n%s", markdownTable())
	}
}

func TestConfigTableInHelp(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	writeTable(&out)
	flat := strings.Join(strings.Fields(out.String()), " ")
	for _, v := range variables() {
		want := strings.Join(strings.Fields(v.Name+" ("+v.Default+") "+v.Meaning), " ")
		if !strings.Contains(flat, want) {
			t.Errorf("help lacks %q", want)
		}
	}
}

// The help lists the scopes that a key may have, and no others.
func TestHelpListsTheScopes(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := help(outputs{out: &out}); err != nil {
		t.Fatal(err)
	}
	flat := strings.Join(strings.Fields(out.String()), " ")
	if want := "Scopes of keys: " + strings.ReplaceAll(join(api.Scopes), ",", ", ") + ". Configuration"; !strings.Contains(flat, want) {
		t.Errorf("help lacks %q:\n%s", want, flat)
	}
}

// markdownTable makes the tables in the form of docs/configuration.md.
func markdownTable() string {
	var b strings.Builder
	for _, v := range variables() {
		if v.Group != "" {
			fmt.Fprintf(&b, "\n### %s\n\n| variable | default | meaning |\n|---|---|---|\n", v.Group)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", v.Name, markdownCode(v), strings.ReplaceAll(v.Meaning, "|", "\\|"))
	}
	return b.String()
}

// markdownCode quotes a default if it is a value, and not if it is words.
func markdownCode(v variable) string {
	if reflect.TypeFor[config]().Field(v.field).Tag.Get("shown") != "" {
		return v.Default
	}
	return "`" + v.Default + "`"
}

// The bounds of variables can be read, and their defaults are within them.
func TestBoundsOfVariables(t *testing.T) {
	t.Parallel()
	c, err := parseConfig(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range variables() {
		field := reflect.TypeFor[config]().Field(v.field)
		for _, bound := range []string{field.Tag.Get("least"), field.Tag.Get("most")} {
			_, notNumber := strconv.ParseInt(bound, 10, 64)
			_, notTime := time.ParseDuration(bound)
			if isTime := field.Type == reflect.TypeFor[time.Duration](); bound != "" && (isTime && notTime != nil || !isTime && notNumber != nil) {
				t.Errorf("%s: bound %q", v.Name, bound)
			}
		}
	}
	if p := c.checkBounds(); len(p) > 0 {
		t.Error(p)
	}
}
