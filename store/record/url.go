package record

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// CheckURL refuses a URL that cannot mean a database. Its errors do not show the password.
func CheckURL(raw string) error {
	_, _, err := parseURL(raw)
	return err
}

// parseURL reads sqlite:<file>, and mysql://user:password@host:port/name, perhaps with ?tls=. An option that is not
// known is refused: a misspelt one must not leave the traffic without TLS.
func parseURL(raw string) (file string, server *mysql.Config, err error) {
	if file, ok := strings.CutPrefix(raw, "sqlite:"); ok {
		return file, nil, checkFile(file)
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "mysql" || u.Hostname() == "" || strings.Trim(u.Path, "/") == "" {
		return "", nil, errors.New("want sqlite:<file> or mysql://user:password@host:port/name")
	}
	c := mysql.NewConfig()
	c.User = u.User.Username()
	c.Passwd, _ = u.User.Password()
	c.Net, c.Addr, c.DBName = "tcp", u.Host, strings.Trim(u.Path, "/")
	if u.Port() == "" {
		c.Addr = net.JoinHostPort(u.Hostname(), "3306")
	}
	_, port, err := net.SplitHostPort(c.Addr)
	n, bad := strconv.ParseUint(port, 10, 16)
	switch {
	case strings.Contains(u.Host, ","):
		return "", nil, errors.New("names several hosts; use the one address that leads to the primary")
	case err != nil || bad != nil || n == 0:
		return "", nil, errors.New("the port is not a number of 1 to 65535")
	case strings.Contains(raw, "#"):
		return "", nil, errors.New("must not contain #: what follows it would be ignored")
	case strings.ContainsAny(c.DBName, "/?;="):
		return "", nil, errors.New("the name of the database must not contain / ? ; =; options begin with ?")
	}
	c.TLSConfig, err = tlsMode(u)
	return "", c, err
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

// tlsMode reads the only option that there is.
func tlsMode(u *url.URL) (string, error) {
	options, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", errors.New("the options cannot be read")
	}
	for _, name := range slices.Sorted(maps.Keys(options)) {
		if name != "tls" || len(options[name]) != 1 {
			return "", fmt.Errorf("there is no option %s; the only one is tls, once", name)
		}
	}
	mode := options.Get("tls")
	if options.Has("tls") && !slices.Contains([]string{"true", "false", "skip-verify", "preferred"}, mode) {
		return "", fmt.Errorf("the option tls is one of true, false, skip-verify and preferred, not %q", mode)
	}
	return mode, nil
}
