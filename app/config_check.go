package app

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"fanfare/api"
	"fanfare/handlers/web"
	"fanfare/store/record"
	"fanfare/store/redisdb"
)

// check finds the errors of a configuration that could be read.
func (c *config) check() problems {
	var p problems
	p = append(p, c.checkBounds()...)
	p = append(p, c.checkAddress()...)
	p = append(p, c.checkStores()...)
	p = append(p, c.checkRoles()...)
	p = append(p, c.checkShards()...)
	p = append(p, c.checkAPNs()...)
	p = append(p, c.checkWebPush()...)
	p = append(p, c.checkTimes()...)
	p = append(p, c.checkContacts()...)
	p = append(p, c.checkSales()...)
	p = append(p, c.checkOrigins()...)
	p = append(p, c.checkPublicURL()...)
	p = append(p, c.checkTraces()...)
	p = append(p, c.checkFiles()...)
	if c.LogFormat != "" && c.LogFormat != "text" && c.LogFormat != "json" {
		p = append(p, fmt.Sprintf("FANFARE_LOG_FORMAT: %q is neither text nor json", c.LogFormat))
	}
	return p
}

// checkBounds finds numbers and times outside the bounds of their tags.
func (c *config) checkBounds() problems {
	var p problems
	value := reflect.ValueOf(c).Elem()
	for _, v := range variables() {
		field, tag := value.Field(v.field), value.Type().Field(v.field).Tag
		least, most := tag.Get("least"), tag.Get("most")
		switch {
		case least == "" || inBounds(field, least, most):
		case most == "":
			p = append(p, fmt.Sprintf("%s: %v is not at least %s", v.Name, field, least))
		default:
			p = append(p, fmt.Sprintf("%s: %v is not within %s to %s", v.Name, field, least, most))
		}
	}
	return p
}

// inBounds compares a number or a time with bounds in the form of the variable; most may be "".
func inBounds(field reflect.Value, least, most string) bool {
	if field.Kind() == reflect.Float64 {
		low, _ := strconv.ParseFloat(least, 64)
		high, err := strconv.ParseFloat(most, 64)
		return field.Float() >= low && (err != nil || field.Float() <= high) // NaN is neither
	}
	bound := func(text string) int64 {
		if field.Type() == reflect.TypeFor[time.Duration]() {
			d, _ := time.ParseDuration(text) // a bound of the program's own
			return int64(d)
		}
		n, _ := strconv.ParseInt(text, 10, 64)
		return n
	}
	return field.Int() >= bound(least) && (most == "" || field.Int() <= bound(most))
}

func (c *config) checkAddress() problems {
	p := checkHostPort(addrVariable, c.Addr)
	if c.MetricsAddr != "" {
		p = append(p, checkHostPort(metricsVariable, c.MetricsAddr)...)
	}
	switch _, port, _ := net.SplitHostPort(c.Addr); {
	case len(p) > 0:
		return p
	case c.MetricsAddr == c.Addr && port != "0":
		return problems{metricsVariable + ": is FANFARE_ADDR; it must be another address"}
	}
	if !c.loopback() && c.RedisURL == "" {
		return problems{"FANFARE_REDIS_URL: is needed when FANFARE_ADDR is not loopback; 'embedded' is for one process alone (see FANFARE_EMBEDDED)"}
	}
	return nil
}

// The variables of the addresses that this process listens on.
const (
	addrVariable    = "FANFARE_ADDR"
	metricsVariable = "FANFARE_METRICS_ADDR"
)

func checkHostPort(name, addr string) problems {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return problems{fmt.Sprintf("%s: %q is not host:port", name, addr)}
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return problems{fmt.Sprintf("%s: %q is not a port", name, port)}
	}
	return nil
}

// loopback reports whether only this machine can reach the server.
func (c *config) loopback() bool { return loopback(c.Addr) }

// showsProfiles reports whether pprof may be reachable from other machines.
func (c *config) showsProfiles() bool { return c.MetricsAddr != "" && !loopback(c.MetricsAddr) }

// loopback reports whether only this machine can reach an address. A name other than
// localhost counts as reachable from outside.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return true // another check reports this problem
	}
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// checkRedis checks the URL of one Redis.
func checkRedis(name, value string) problems {
	if err := redisdb.CheckURL(value); err != nil {
		return problems{fmt.Sprintf("%s: %v", name, err)}
	}
	return nil
}

func (c *config) checkStores() problems {
	var p problems
	if !c.embedded() {
		p = append(p, checkRedis("FANFARE_REDIS_URL", c.RedisURL)...)
		if c.Embedded != embeddedAuto {
			p = append(p, embeddedVariable+": means nothing with FANFARE_REDIS_URL")
		}
	}
	if c.ContactsURL != "" {
		p = append(p, checkRedis("FANFARE_CONTACTS_REDIS_URL", c.ContactsURL)...)
	}
	if err := record.CheckURL(c.DatabaseURL); err != nil {
		return append(p, fmt.Sprintf("FANFARE_DATABASE_URL: %v", err))
	}
	if file, ok := strings.CutPrefix(c.DatabaseURL, "sqlite:"); ok {
		if _, err := os.Stat(filepath.Dir(file)); errors.Is(err, os.ErrNotExist) {
			p = append(p, fmt.Sprintf("FANFARE_DATABASE_URL: the folder of %s: %v", file, err))
		}
	}
	return p
}

func (c *config) checkRoles() problems {
	var p problems
	for i, role := range c.Roles {
		if role == "targeting" || role == "delivery" {
			p = append(p, fmt.Sprintf("FANFARE_ROLES: there is no %s any more; write push, which finds the devices and sends", role))
		} else if !slices.Contains(allRoles(), role) {
			p = append(p, fmt.Sprintf("FANFARE_ROLES: %q is none of %s", role, strings.Join(allRoles(), ", ")))
		} else if slices.Contains(c.Roles[:i], role) {
			p = append(p, fmt.Sprintf("FANFARE_ROLES: %s is named twice", role))
		}
	}
	if len(p) == 0 && c.embedded() && len(c.Roles) != len(allRoles()) {
		p = append(p, "FANFARE_ROLES: with an embedded Redis one process plays every role")
	}
	return p
}

func (c *config) checkShards() problems {
	for _, shard := range c.ShardSet {
		if c.Shards > 0 && shard >= c.Shards { // 0 is refused by itself
			return problems{fmt.Sprintf("FANFARE_SHARD_SET: %d is not below FANFARE_SHARDS (%d)", shard, c.Shards)}
		}
	}
	if c.embedded() && len(c.ShardSet) > 0 && len(c.ShardSet) < c.Shards {
		return problems{"FANFARE_SHARD_SET: with an embedded Redis one process serves every shard"}
	}
	return nil
}

func (c *config) checkAPNs() problems {
	var p problems
	missing := func(name, value string) {
		if value == "" {
			p = append(p, name+": is needed with the other two of FANFARE_APNS_KEY_FILE, _KEY_ID and _TEAM_ID")
		}
	}
	keyed := c.APNsKeyFile != "" || c.APNsKeyID != "" || c.APNsTeamID != ""
	if keyed {
		missing("FANFARE_APNS_KEY_FILE", c.APNsKeyFile)
		missing("FANFARE_APNS_KEY_ID", c.APNsKeyID)
		missing("FANFARE_APNS_TEAM_ID", c.APNsTeamID)
	}
	if !keyed && c.AppsFile == "" {
		for name, value := range map[string]string{"FANFARE_APNS_URL": c.APNsURL, "FANFARE_APNS_MANAGE_URL": c.APNsManage, "FANFARE_APNS_CA_FILE": c.APNsCAFile} {
			if value != "" {
				p = append(p, name+": means nothing without FANFARE_APNS_KEY_FILE or "+appsFileVariable)
			}
		}
		slices.Sort(p)
	}
	for _, v := range [][2]string{{"FANFARE_APNS_URL", c.APNsURL}, {"FANFARE_APNS_MANAGE_URL", c.APNsManage}} {
		if u, err := url.Parse(v[1]); v[1] != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
			p = append(p, v[0]+": is not https://host[:port]")
		}
	}
	return p
}

func (c *config) checkWebPush() problems {
	var p problems
	for _, origin := range c.WebPushOrigins {
		name := strings.TrimPrefix(origin, "*.")
		host, _, ok := api.ParseEndpoint("https://" + name + "/")
		if origin != "*" && (!ok || host != name) {
			p = append(p, fmt.Sprintf("FANFARE_WEBPUSH_ORIGINS: %q is no host such as push.example.com, *.push.example.com or *", origin))
		}
	}
	return p
}

func (c *config) checkTimes() problems {
	var p problems
	if c.RetryMax < c.RetryBase {
		p = append(p, fmt.Sprintf("FANFARE_RETRY_MAX: %v is below FANFARE_RETRY_BASE (%v)", c.RetryMax, c.RetryBase))
	}
	if window := max(2*c.NotificationLease, 2*c.JobLease, c.RetryMax); c.TombstoneRetention < window {
		p = append(p, fmt.Sprintf("FANFARE_TOMBSTONE_RETENTION: %v is below %v, for which work may be redone (two leases, FANFARE_RETRY_MAX)", c.TombstoneRetention, window))
	}
	return p
}

func (c *config) checkSales() problems {
	if c.SaleMinReplicas > 0 && c.embedded() {
		return problems{"FANFARE_SALE_MIN_REPLICAS: an embedded Redis has no replicas"}
	}
	return nil
}

func (c *config) checkContacts() problems {
	if c.ContactsMax < 1 || c.ContactsMax > api.LargestIndexMax {
		return problems{fmt.Sprintf("FANFARE_CONTACTS_MAX: %d is not within 1 to %d", c.ContactsMax, api.LargestIndexMax)}
	}
	if c.ContactsMin < 1 || c.ContactsMin > c.ContactsMax {
		return problems{fmt.Sprintf("FANFARE_CONTACTS_MIN: %d is not within 1 and FANFARE_CONTACTS_MAX (%d)", c.ContactsMin, c.ContactsMax)}
	}
	return nil
}

func (c *config) checkOrigins() problems {
	var p problems
	for _, origin := range c.AllowedOrigins {
		if origin == web.AnyOrigin && len(c.AllowedOrigins) == 1 {
			continue
		}
		if err := web.CheckOrigin(origin); err != nil {
			p = append(p, fmt.Sprintf("FANFARE_ALLOWED_ORIGINS: %q %v", origin, err))
		}
	}
	return p
}

// checkFiles reports the named files that can't be read.
func (c *config) checkFiles() problems {
	var p problems
	for _, f := range []struct{ name, path string }{
		{"FANFARE_APNS_CA_FILE", c.APNsCAFile},
		{"FANFARE_APNS_KEY_FILE", c.APNsKeyFile},
		{appsFileVariable, c.AppsFile},
		{"FANFARE_USER_KEYS_FILE", c.UserKeysFile},
		{"FANFARE_TLS_CERT_FILE", c.TLSCertFile},
		{"FANFARE_TLS_KEY_FILE", c.TLSKeyFile},
	} {
		if f.path == "" {
			continue
		}
		file, err := os.Open(f.path)
		if err != nil {
			p = append(p, f.name+": "+err.Error())
			continue
		}
		_ = file.Close()
	}
	if (c.TLSCertFile == "") != (c.TLSKeyFile == "") {
		p = append(p, "FANFARE_TLS_CERT_FILE: goes together with FANFARE_TLS_KEY_FILE")
	}
	return p
}

// shardSet is a list of shards, read from the form 0-7,12. Empty means all.
type shardSet []int

// UnmarshalText reads the form.
func (s *shardSet) UnmarshalText(text []byte) error {
	*s = nil
	if len(text) == 0 {
		return nil
	}
	for part := range strings.SplitSeq(string(text), ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 8)
		to, err2 := strconv.ParseUint(last, 10, 8)
		if err != nil || err2 != nil || to < from {
			return fmt.Errorf("is not a list of shards such as 0-7,12")
		}
		for n := int(from); n <= int(to); n++ {
			*s = append(*s, n)
		}
	}
	slices.Sort(*s)
	*s = slices.Compact(*s)
	return nil
}

// String is the list, for the log.
func (s shardSet) String() string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint([]int(s)), "[]"), " ", ",")
}

// logLevel is a level of slog by its lower-case name.
type logLevel slog.Level

// UnmarshalText reads the name.
func (l *logLevel) UnmarshalText(text []byte) error {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	level, ok := levels[strings.ToLower(string(text))]
	if !ok {
		return fmt.Errorf("is none of debug, info, warn, error")
	}
	*l = logLevel(level)
	return nil
}

// String is the name, for the log.
func (l logLevel) String() string { return strings.ToLower(slog.Level(l).String()) }

// onOff is a switch.
type onOff bool

// UnmarshalText reads on or off.
func (o *onOff) UnmarshalText(text []byte) error {
	switch string(text) {
	case "on", "off":
		*o = string(text) == "on"
		return nil
	}
	return fmt.Errorf("is neither on nor off")
}

// String is how it is written, for the log.
func (o onOff) String() string {
	if o {
		return "on"
	}
	return "off"
}
