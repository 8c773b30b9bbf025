package storetest

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// sharedPgBouncer is the PgBouncer of this test binary, in front of its PostgreSQL.
var sharedPgBouncer struct {
	sync.Mutex
	host string
}

// PgBouncer is the URL of a database of the shared PostgreSQL through PgBouncer in transaction mode, with its own
// defaults for everything else. There are fewer connections to the server than clients have, so that transactions of
// one client run on several of them.
func PgBouncer(t testing.TB, database string) string {
	t.Helper()
	u, err := url.Parse(database)
	Must(t, err)
	u.Host = mustSharedPgBouncer(t, u)
	return u.String()
}

func mustSharedPgBouncer(t testing.TB, server *url.URL) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if program = "/usr/sbin/pgbouncer"; exec.Command(program, "--version").Run() != nil {
			t.Fatal("pgbouncer is needed (make test installs it on Debian)")
		}
	}
	sharedPgBouncer.Lock()
	defer sharedPgBouncer.Unlock()
	if sharedPgBouncer.host == "" {
		dir, port := mustTempDir(t, "fanfare-pgbouncer-"), FreePort(t)
		users, settings := filepath.Join(dir, "users"), filepath.Join(dir, "settings")
		password, _ := server.User.Password()
		Must(t, os.WriteFile(users, fmt.Appendf(nil, "%q %q\n", server.User.Username(), password), 0o600))
		Must(t, os.WriteFile(settings, fmt.Appendf(nil, "[databases]\n* = host=%s port=%s\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\n"+
			"unix_socket_dir =\nauth_type = scram-sha-256\nauth_file = %s\npool_mode = transaction\ndefault_pool_size = 5\nmax_client_conn = 1000\nlogfile = %s\n",
			server.Hostname(), server.Port(), port, users, filepath.Join(dir, "log")), 0o600))
		mustGive(t, dir, users, settings)
		command := asPostgres(t, "KILL", program, "-q", settings)
		Must(t, launchForBinary(dir, "KILL", command[0], command[1:]...))
		host := fmt.Sprintf("127.0.0.1:%d", port)
		through := *server
		through.Host = host
		mustAnswer(t, through.String(), dir)
		sharedPgBouncer.host = host
	}
	return sharedPgBouncer.host
}
