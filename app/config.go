package app

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"reflect"
	"slices"
	"strings"
	"time"

	"fanfare/console"
	"fanfare/handlers/web"

	"github.com/caarlos0/env/v11"
)

// config is the whole environment. Each field is one variable; its tags are the one source of
// the name, the default and the sentence that `fanfare --help` and docs/configuration.md show.
// `shown` replaces the default in those tables where the real one says little, `secret` marks
// values that must never be printed as they are, `least` and `most` are bounds, and `group` begins a
// group of variables.
type config struct {
	Addr            string        `group:"Server" env:"FANFARE_ADDR" envDefault:"127.0.0.1:8080" desc:"address where HTTP listens; an address that is not loopback needs at least one API key"`
	MetricsAddr     string        `env:"FANFARE_METRICS_ADDR" shown:"none: at FANFARE_ADDR" desc:"private address, such as 127.0.0.1:9090, that serves /metrics, /readyz and pprof (/debug/pprof/) without a key, in plain HTTP; /metrics is then nowhere else, and /readyz at FANFARE_ADDR tells no details. pprof is never at FANFARE_ADDR"`
	TLSCertFile     string        `env:"FANFARE_TLS_CERT_FILE" shown:"none" desc:"PEM certificate chain: serve HTTPS (HTTP/2); read again on SIGHUP"`
	TLSKeyFile      string        `env:"FANFARE_TLS_KEY_FILE" shown:"none" desc:"PEM key of that certificate"`
	AdminKey        string        `env:"FANFARE_ADMIN_KEY_FILE" shown:"none" desc:"file with the first API key, ff_<id>_<secret> of a-z 0-9, which has every scope; it is read only as long as no key was ever made"`
	TrustedProxies  web.Proxies   `env:"FANFARE_TRUSTED_PROXIES" shown:"none" desc:"networks of the proxies in front, such as 10.0.0.0/8,192.0.2.7/32. Only their X-Forwarded-For is believed: fanfare counts wrong keys and tokens by the address that it names, and logs that address"`
	Roles           []string      `env:"FANFARE_ROLES" envDefault:"api,push,jobs" desc:"what this process does; health, readiness and metrics are served in every role"`
	Shards          int           `env:"FANFARE_SHARDS" envDefault:"8" least:"1" most:"256" desc:"shards per queue, 1 to 256; fixed at first start, another number is refused"`
	ShardSet        shardSet      `env:"FANFARE_SHARD_SET" shown:"all" desc:"which shards this process serves, such as 0-7,12"`
	RequestTimeout  time.Duration `env:"FANFARE_REQUEST_TIMEOUT" envDefault:"5s" least:"1ms" desc:"deadline of a request other than a stream or long poll"`
	ShutdownTimeout time.Duration `env:"FANFARE_SHUTDOWN_TIMEOUT" envDefault:"20s" least:"1ms" desc:"how long a process drains after SIGTERM"`
	LogLevel        logLevel      `env:"FANFARE_LOG_LEVEL" envDefault:"info" desc:"debug, info, warn or error"`
	TracesURL       string        `env:"FANFARE_TRACES_URL" shown:"none" secret:"url" desc:"collector that gets spans by OTLP over HTTP, http[s]://[user:password@]host:port[/path], such as http://127.0.0.1:4318: calls, targeting, requests to push services and background jobs, below the traceparent of the caller. Without it nothing is recorded"`
	TracesShare     float64       `env:"FANFARE_TRACES_SHARE" envDefault:"1" least:"0" most:"1" desc:"share of the calls without a traceparent, and of the jobs, whose spans are recorded. With a traceparent the caller has decided"`
	LogFormat       string        `env:"FANFARE_LOG_FORMAT" shown:"text on a terminal, else json" desc:"text or json; messages of commands (not their answers) are text unless this is json"`

	RedisURL    string       `group:"Redis" env:"FANFARE_REDIS_URL" shown:"empty: embedded" secret:"url" desc:"redis://[user:password@]host:port[/db], redis+sentinel://[user:password@]h:p,h:p/<master>[/db] or redis+cluster://[user:password@]h:p,h:p; rediss... for TLS. The embedded Redis serves one process, see FANFARE_EMBEDDED. On an address that is not loopback it must be asked for as 'embedded'"`
	Embedded    embeddedKind `env:"FANFARE_EMBEDDED" envDefault:"auto" desc:"which Redis is embedded: redis is redis-server or valkey-server 7 or newer on PATH, started as a child, whose data survives crashes; memory is an imitation inside this process, whose data survives only clean stops; auto is redis if it can be had, else memory. Both keep their data in fanfare-data/ beside the SQLite file (fanfare.db), and the start says which one it is"`
	ContactsURL string       `env:"FANFARE_CONTACTS_REDIS_URL" shown:"the Redis of FANFARE_REDIS_URL" secret:"url" desc:"a Redis of its own for the index of recent contacts, whose snapshots then do not slow down the others"`

	DatabaseURL      string        `group:"SQL" env:"FANFARE_DATABASE_URL" envDefault:"sqlite:fanfare.db" secret:"url" desc:"sqlite:<file> (several processes on one machine may share it when Redis is a real one), mysql://user:password@host:port/name or postgres://user:password@host:port/name"`
	DeletedRetention time.Duration `env:"FANFARE_DELETED_RETENTION" envDefault:"720h" least:"1ms" desc:"how long SQL remembers deleted contacts and uploads; an upload id that is posted again after that is a new upload"`

	APNsURL     string `group:"APNs" env:"FANFARE_APNS_URL" shown:"Apple's host by the device's environment" desc:"base URL of APNs, https://host[:port]"`
	APNsManage  string `env:"FANFARE_APNS_MANAGE_URL" shown:"Apple's host by the app's environment" desc:"base URL of the host that makes and deletes channels of broadcasts, https://host[:port]"`
	APNsCAFile  string `env:"FANFARE_APNS_CA_FILE" shown:"system roots" desc:"PEM file of the certificate authorities that fanfare trusts for APNs"`
	APNsKeyFile string `env:"FANFARE_APNS_KEY_FILE" shown:"none: log sender" desc:".p8 key that signs for every topic and both environments; without it and without an apps file notifications are only logged"`
	APNsKeyID   string `env:"FANFARE_APNS_KEY_ID" shown:"none" desc:"id of that key"`
	APNsTeamID  string `env:"FANFARE_APNS_TEAM_ID" shown:"none" desc:"team that the key belongs to"`

	AppsFile           string        `group:"Push" env:"FANFARE_APPS_FILE" shown:"none" desc:"several apps: JSON {\"apps\": [{\"topic\", \"environment\", \"url\"?, \"manage_url\"?, \"key_file\", \"key_id\", \"team_id\" or \"cert_file\", \"cert_password\"?}, {\"platform\": \"fcm\", \"topic\", \"service_account_file\", \"url\"?, \"token_url\"?, \"ca_file\"?}, {\"platform\": \"webpush\", \"topic\", \"public_key\", \"private_key_file\", \"subject\", \"ca_file\"?, \"connect_to\"?}]}; goes before FANFARE_APNS_KEY_FILE, read again on SIGHUP, all of it or nothing"`
	WebPushOrigins     []string      `env:"FANFARE_WEBPUSH_ORIGINS" shown:"those of Chrome, Edge, Firefox and Safari" desc:"hosts of further push services of browsers, such as push.example.com,*.push.example.com; * for all: then users choose which public hosts fanfare connects to"`
	WebPushAllowNets   web.Proxies   `env:"FANFARE_WEBPUSH_ALLOW_NETS" shown:"none" desc:"for tests: networks, such as 127.0.0.0/8, that fanfare connects to for Web Push although their addresses are not public"`
	WebhookNets        web.Proxies   `env:"FANFARE_WEBHOOK_NETS" shown:"none" desc:"networks, such as 10.0.0.0/8, in which webhooks may be although their addresses are not public; there a webhook may also be without TLS (http://)"`
	MaxInFlight        int           `env:"FANFARE_MAX_IN_FLIGHT" envDefault:"16000" least:"1" desc:"requests to push services that this process has under way at once, at most eight ninths of them for one app; a killed process may cause that many to be sent a second time. About 3 KB of memory each"`
	NotificationLease  time.Duration `env:"FANFARE_NOTIFICATION_LEASE" envDefault:"10s" least:"1s" desc:"another process takes over an event or a notification whose process did not renew its lease for this long; at least 1s"`
	JobLease           time.Duration `env:"FANFARE_JOB_LEASE" envDefault:"30s" least:"1s" desc:"the same for background jobs"`
	MaxAttempts        int           `env:"FANFARE_MAX_ATTEMPTS" envDefault:"8" least:"1" desc:"failures of a job before it becomes a dead letter; failures of a dependency do not count"`
	RetryBase          time.Duration `env:"FANFARE_RETRY_BASE" envDefault:"500ms" least:"1ms" desc:"first backoff, doubled at each failure, with full jitter"`
	RetryMax           time.Duration `env:"FANFARE_RETRY_MAX" envDefault:"5m" least:"1ms" desc:"longest backoff"`
	MaxAge             time.Duration `env:"FANFARE_MAX_AGE" envDefault:"24h" least:"1ms" desc:"how long work waits for a dependency that is away"`
	AppProbeInterval   time.Duration `env:"FANFARE_APP_PROBE_INTERVAL" envDefault:"30s" least:"1ms" desc:"how often a paused app tries one notification; it also does on SIGHUP, at start and on POST /v1/apps/{topic}/probe"`
	PausedBytes        int64         `env:"FANFARE_PAUSED_BYTES" envDefault:"0" least:"0" shown:"0: 30 % of Redis' maxmemory" desc:"bytes of Redis that the notifications of all paused apps may take together; beyond that the newest fail with app_paused. Without maxmemory there is no bound by default"`
	EventRetention     time.Duration `env:"FANFARE_EVENT_RETENTION" envDefault:"24h" least:"1ms" desc:"how long the report of an event is kept after the event's end"`
	TombstoneRetention time.Duration `env:"FANFARE_TOMBSTONE_RETENTION" envDefault:"1h" least:"1ms" desc:"how long fanfare remembers that a notification is done, and how notifications of events to several devices ended. An event that resumes a started page later than that (after an outage of SQL, or as a dead letter that is tried again) may repeat notifications of that page"`

	ContactsMax int `group:"Contacts" env:"FANFARE_CONTACTS_MAX" envDefault:"120" desc:"entries per user in the index of recent contacts, at most 127: from the 129th entry on Redis needs ten times the memory"`
	ContactsMin int `env:"FANFARE_CONTACTS_MIN" envDefault:"10" desc:"a user's index with fewer entries than this is filled again from SQL"`

	ChatMaxMessages int           `group:"Chat" env:"FANFARE_CHAT_MAX_MESSAGES" envDefault:"10000" least:"1" most:"1000000" desc:"messages that a chat keeps for members who have not read them; a message that every member has read is removed at once"`
	ChatMaxBytes    int64         `env:"FANFARE_CHAT_MAX_BYTES" envDefault:"8388608" least:"65536" most:"1073741824" desc:"bytes of texts and data that a chat keeps for members who have not read them; beyond that its oldest messages leave, at most 100 for each new one"`
	ChatMaxAge      time.Duration `env:"FANFARE_CHAT_MAX_AGE" envDefault:"720h" least:"1s" desc:"how long a chat keeps a message for members who have not read it"`

	SaleMinReplicas int   `group:"Sales" env:"FANFARE_SALE_MIN_REPLICAS" envDefault:"0" least:"0" most:"100" desc:"how many replicas of Redis must have a reservation, confirmation or release before it is answered; if too few have it in time, the answer is 503 unknown_outcome"`
	SaleMaxInFlight int   `env:"FANFARE_SALE_MAX_IN_FLIGHT" envDefault:"1024" least:"1" desc:"reservations under way at once in this process, and as many more that wait until their sale has been read from the record; further ones are answered 503 at once"`
	SaleLocal       onOff `env:"FANFARE_SALE_LOCAL" envDefault:"on" desc:"on: refusals as sold_out and reads of a sale may come from memory, at most 100 ms old; off: every answer comes from Redis"`

	UserKeysFile   string   `group:"Users and pages" env:"FANFARE_USER_KEYS_FILE" shown:"none" desc:"JWKS file of the keys with which your backend signs user tokens: ES256, EdDSA, RS256 (2048 bits or more) or HS256 (32 bytes or more), each with its kid; read again on SIGHUP"`
	UserConfirm    onOff    `env:"FANFARE_USER_CONFIRM" envDefault:"off" desc:"on: users may confirm their own reservations with a user token; off: only an API key confirms, after the payment"`
	AllowedOrigins []string `env:"FANFARE_ALLOWED_ORIGINS" shown:"none" desc:"origins of pages that may make the calls that user tokens allow, such as https://app.example.com,https://www.example.com; * for all"`

	Console         console.Mode `group:"Console" env:"FANFARE_CONSOLE" envDefault:"on" desc:"on: processes with the role api serve the operators' console at /console/; read: it shows everything and changes nothing; off: there is none"`
	PublicURL       string       `env:"FANFARE_PUBLIC_URL" shown:"none" desc:"where browsers find this server, such as https://ops.example.com/fanfare, if a proxy in front ends TLS or changes the Host header; it decides whether the console's cookie is Secure, and from which origin its forms may come"`
	ConsolePayloads onOff        `env:"FANFARE_CONSOLE_PAYLOADS" envDefault:"on" desc:"off: the console does not show what dead letters and jobs contain"`

	RateLimit            web.RateLimit `group:"Limits" env:"FANFARE_RATE_LIMIT" envDefault:"off" desc:"requests per API key, such as 500/s, 1000/m or 20000/h; each process counts for itself, so n processes together allow n times as many"`
	UserRateLimit        web.RateLimit `env:"FANFARE_USER_RATE_LIMIT" envDefault:"20/s:100" desc:"requests per user with a user token, as requests per window and, after the colon, how many may come at once after a pause; off: no limit. Each process counts for itself"`
	UserMessageRateLimit web.RateLimit `env:"FANFARE_USER_MESSAGE_RATE_LIMIT" envDefault:"5/s:20" desc:"messages that a user sends to chats with a user token, in the same form. They count as requests, too"`
	UserMessageBytes     web.RateLimit `env:"FANFARE_USER_MESSAGE_BYTES" envDefault:"16777216/h" desc:"bytes of the messages that a user sends to chats with a user token, as the requests' bodies have them, and 4 KiB for each Idempotency-Key, in the same form; off: no limit"`
	MaxStreams           int64         `env:"FANFARE_MAX_STREAMS" envDefault:"20000" least:"1" desc:"streams and long polls that this process keeps open; one more is answered 503"`
	KeyMaxStreams        int64         `env:"FANFARE_KEY_MAX_STREAMS" envDefault:"0" least:"0" desc:"streams and long polls that one API key may keep open in this process; one more is answered 429. 0: no bound of its own"`
	UserMaxStreams       int64         `env:"FANFARE_USER_MAX_STREAMS" envDefault:"32" least:"1" desc:"streams that one user may keep open in this process, whichever keys and tokens opened them; one more is answered 429. User tokens together have at most 80 % of FANFARE_MAX_STREAMS"`
	UserMaxPolls         int64         `env:"FANFARE_USER_MAX_POLLS" envDefault:"8" least:"1" desc:"the same for one user's long polls"`
	UserMaxInFlight      int64         `env:"FANFARE_USER_MAX_IN_FLIGHT" envDefault:"32" least:"1" desc:"requests of one user that this process answers at once; it counts calls that a user token can make, whether a token or an API key makes them. One more is answered 429. User tokens together have at most 80 % of the 4,096 requests that a process answers at once"`
	// Whether Go's own variables GOGC and GOMEMLIMIT are set.
	ownGC, ownMemory bool

	documents fs.FS // what Program.Documents has
}

// The roles that FANFARE_ROLES knows.
const (
	roleAPI  = "api"
	rolePush = "push"
	roleJobs = "jobs"
)

// allRoles lists every role.
func allRoles() []string { return []string{roleAPI, rolePush, roleJobs} }

// has reports whether this process plays a role.
func (c *config) has(role string) bool { return slices.Contains(c.Roles, role) }

// embedded reports whether Redis is for this process alone, and ends with it.
func (c *config) embedded() bool { return c.RedisURL == "" || c.RedisURL == "embedded" }

// sends reports whether there are credentials. Without them, notifications are only logged.
func (c *config) sends() bool { return c.APNsKeyFile != "" || c.AppsFile != "" }

// appsFileVariable names the apps file.
const appsFileVariable = "FANFARE_APPS_FILE"

// problems are all errors of a configuration, one sentence each, beginning with the variable's
// name.
type problems []string

// Error lists the problems, one a line.
func (p problems) Error() string {
	if len(p) == 1 {
		return "configuration: " + p[0]
	}
	return fmt.Sprintf("configuration, %d problems:\n  %s", len(p), strings.Join(p, "\n  "))
}

// parseConfig reads an environment in the form of os.Environ. Its error contains all problems at
// once, without values that may be secret.
func parseConfig(environ []string) (*config, error) {
	vars := env.ToMap(environ)
	found := unknownVariables(vars)
	c := &config{ownGC: vars["GOGC"] != "", ownMemory: vars["GOMEMLIMIT"] != ""}
	err := env.ParseWithOptions(c, env.Options{Environment: trimmed(vars)})
	bad, parsed := parseProblems(err, vars)
	found = append(found, parsed...)
	for _, list := range [][]string{c.Roles, c.AllowedOrigins, c.WebPushOrigins} {
		for i, one := range list {
			list[i] = strings.TrimSpace(one)
		}
	}
	for _, p := range c.check() {
		if !bad[variableOf(p)] { // a variable that cannot be read is reported only once
			found = append(found, p)
		}
	}
	if len(found) > 0 {
		return nil, found
	}
	return c, nil
}

// trimmed removes the blanks around values, which env files leave behind.
func trimmed(vars map[string]string) map[string]string {
	out := make(map[string]string, len(vars))
	for name, value := range vars {
		out[name] = strings.TrimSpace(value)
	}
	return out
}

// parseProblems describes the values that env could not read, and names their variables.
func parseProblems(err error, vars map[string]string) (map[string]bool, problems) {
	var all env.AggregateError
	if err == nil || !errors.As(err, &all) {
		return nil, nil
	}
	bad, found := map[string]bool{}, problems{}
	for _, one := range all.Errors {
		var failed env.ParseError
		if !errors.As(one, &failed) {
			found = append(found, one.Error())
			continue
		}
		field, _ := reflect.TypeFor[config]().FieldByName(failed.Name)
		name := field.Tag.Get("env")
		bad[name] = true
		found = append(found, fmt.Sprintf("%s: %q %s", name, vars[name], expected(field.Type, failed.Err)))
	}
	return bad, found
}

// expected describes the values that a type of variable takes.
func expected(t reflect.Type, err error) string {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return "is not a duration such as 500ms, 10s or 24h"
	case reflect.TypeFor[int](), reflect.TypeFor[int64]():
		return "is not a whole number"
	case reflect.TypeFor[web.RateLimit]():
		return "is not a rate such as 500/s, 100/m, 5000/h, 20/s:100 or off"
	}
	return err.Error()
}

// variableOf is the name that a problem begins with.
func variableOf(problem string) string {
	name, _, _ := strings.Cut(problem, ":")
	return name
}

// unknownVariables reports FANFARE_ names that have no meaning here: a typing error would
// otherwise quietly leave a default in force. It ignores the variables that Kubernetes sets for
// a Service named fanfare, and those of the tests.
func unknownVariables(vars map[string]string) problems {
	var known []string
	for _, v := range variables() {
		known = append(known, v.Name)
	}
	var found problems
	for name := range vars {
		if strings.HasPrefix(name, "FANFARE_") && !slices.Contains(known, name) && !foreignVariable(name) {
			found = append(found, name+": is not a variable of fanfare"+nearest(name, slices.Values(known)))
		}
	}
	slices.Sort(found)
	return found
}

func foreignVariable(name string) bool {
	for _, prefix := range []string{"FANFARE_SERVICE_", "FANFARE_PORT_", "FANFARE_TEST_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	// The latter two are how the documents and the clients call a server: they may be exported in the same shell.
	return name == "FANFARE_PORT" || name == "FANFARE_URL" || name == "FANFARE_KEY"
}

// nearest suggests the known name that is closest to an unknown one.
func nearest(name string, known iter.Seq[string]) string {
	best, distance := "", min(4, len(name)/2+1)
	for candidate := range known {
		if d := editDistance(name, candidate); d < distance || (d == distance && candidate < best) {
			best, distance = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// editDistance is the number of single-byte edits between two names.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
