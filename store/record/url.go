package record

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
)

// CheckURL refuses a URL that cannot mean a database. Its errors do not show the password.
func CheckURL(raw string) error {
	_, err := parseURL(raw)
	return err
}

// ServerDatabase is address and name of the database on a server that a URL names, such as "db.example:3306/shop". So URLs
// that differ in user, password and options have the same one. It is empty for an SQLite file.
func ServerDatabase(raw string) string {
	named, _ := parseURL(raw)
	switch {
	case named.mysql != nil:
		return strings.ToLower(named.mysql.Addr) + "/" + named.mysql.DBName
	case named.postgres != nil:
		return strings.ToLower(net.JoinHostPort(named.postgres.Host, strconv.Itoa(int(named.postgres.Port)))) + "/" + named.postgres.Database
	}
	return ""
}

// namedDatabase is what a URL names: one of the three.
type namedDatabase struct {
	file     string
	mysql    *mysql.Config
	postgres *pgx.ConnConfig
}

// parseURL reads sqlite:<file>, and mysql:// and postgres://user:password@host:port/name with their options. An option
// that is not known is refused: a misspelt one must not leave the traffic without TLS.
func parseURL(raw string) (named namedDatabase, err error) {
	if file, ok := strings.CutPrefix(raw, "sqlite:"); ok {
		return namedDatabase{file: file}, checkFile(file)
	}
	u, err := url.Parse(raw)
	if err != nil || defaultPort(u.Scheme) == "" || u.Hostname() == "" || strings.Trim(u.Path, "/") == "" {
		return named, errors.New("want sqlite:<file>, mysql://user:password@host:port/name or postgres://user:password@host:port/name")
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), defaultPort(u.Scheme))
	}
	u.Path = strings.Trim(u.Path, "/")
	if err := checkAddress(u, raw); err != nil {
		return named, err
	}
	if u.Scheme == "mysql" {
		named.mysql, err = mysqlConfig(u)
	} else {
		named.postgres, err = postgresConfig(u)
	}
	return named, err
}

// defaultPort is the port of a scheme; "" if it is none of a database.
func defaultPort(scheme string) string {
	switch scheme {
	case "mysql":
		return "3306"
	case "postgres", "postgresql":
		return "5432"
	}
	return ""
}

// checkAddress checks a server's address and the name of the database, which is the path.
func checkAddress(u *url.URL, raw string) error {
	_, port, err := net.SplitHostPort(u.Host)
	n, bad := strconv.ParseUint(port, 10, 16)
	switch {
	case strings.Contains(u.Host, ","):
		return errors.New("names several hosts; use the one address that leads to the primary")
	case err != nil || bad != nil || n == 0:
		return errors.New("the port is not a number of 1 to 65535")
	case strings.Contains(raw, "#"):
		return errors.New("must not contain #: what follows it would be ignored")
	case strings.ContainsAny(u.Path, "/?;="):
		return errors.New("the name of the database must not contain / ? ; =; options begin with ?")
	}
	return nil
}

func mysqlConfig(u *url.URL) (*mysql.Config, error) {
	options, err := onlyOptions(u, "tls")
	if err != nil {
		return nil, err
	}
	c := mysql.NewConfig()
	c.User = u.User.Username()
	c.Passwd, _ = u.User.Password()
	c.Net, c.Addr, c.DBName, c.TLSConfig = "tcp", u.Host, u.Path, options.Get("tls")
	return c, oneOf(options, "tls", "true", "false", "skip-verify", "preferred")
}

// postgresConfig reads a URL with pgx. What pgx would take from the environment and from files in the home directory
// is given here, so that it does not count.
func postgresConfig(u *url.URL) (*pgx.ConnConfig, error) {
	options, err := onlyOptions(u, "sslmode", "sslrootcert", "channel_binding")
	if err == nil {
		err = oneOf(options, "sslmode", "disable", "allow", "prefer", "require", "verify-ca", "verify-full")
	}
	if err == nil {
		err = oneOf(options, "channel_binding", "disable", "prefer", "require")
	}
	if err == nil && u.User.Username() == "" {
		err = errors.New("names no user")
	}
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"sslmode": "prefer", "sslrootcert": "", "channel_binding": "prefer", "sslcert": "", "sslkey": "", "sslpassword": "", "sslcertmode": "allow",
		"sslsni": "1", "sslnegotiation": "postgres", "passfile": "", "require_auth": "", "connect_timeout": "2", "target_session_attrs": "any",
		"min_protocol_version": "3.0", "max_protocol_version": "3.0",
	} {
		if !options.Has(name) {
			options.Set(name, value)
		}
	}
	_ = os.Unsetenv("PGSERVICE") // no option says that there is no service
	full := url.URL{Scheme: "postgres", User: u.User, Host: u.Host, Path: "/" + u.Path, RawQuery: strings.ReplaceAll(options.Encode(), "+", "%20")}
	c, err := pgx.ParseConfig(full.String())
	if err != nil {
		return nil, fmt.Errorf("its options: %w", reasonOf(err))
	}
	c.Password, _ = u.User.Password()
	// These are passed on by PgBouncer; it refuses others. goose reads a time.
	c.RuntimeParams = map[string]string{"application_name": "fanfare", "client_encoding": "UTF8", "DateStyle": "ISO"}
	return c, nil
}

// reasonOf is the reason of an error that quotes the URL.
func reasonOf(err error) error {
	if reason := errors.Unwrap(err); reason != nil {
		return reason
	}
	return errors.New("they do not go together")
}

// onlyOptions reads the options of a URL, which are some of those that are known, each once.
func onlyOptions(u *url.URL, known ...string) (url.Values, error) {
	options, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("the options cannot be read")
	}
	for _, name := range slices.Sorted(maps.Keys(options)) {
		if !slices.Contains(known, name) || len(options[name]) != 1 {
			return nil, fmt.Errorf("there is no option %s; known, once each: %s", name, strings.Join(known, ", "))
		}
	}
	return options, nil
}

// oneOf refuses another value of an option.
func oneOf(options url.Values, name string, values ...string) error {
	if options.Has(name) && !slices.Contains(values, options.Get(name)) {
		return fmt.Errorf("the option %s is one of %s, not %q", name, strings.Join(values, ", "), options.Get(name))
	}
	return nil
}

func checkFile(file string) error {
	switch {
	case file == "":
		return errors.New("names no file")
	case file == ":memory:":
		return errors.New("must be a file: a database in memory would be another one for each connection")
	case strings.HasPrefix(file, "//") && !strings.HasPrefix(file, "///"):
		return errors.New("want sqlite:<file>, such as sqlite:fanfare.db or sqlite:/var/lib/fanfare.db, without //")
	case strings.Contains(file, "?"):
		return errors.New("an SQLite file has no options; the name of the file must not contain ?")
	}
	return nil
}
