package storetest

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"
)

// MySQLPair is two MariaDBs behind one address. Each replicates the other, and one of them, the primary,
// takes writes. It is what a switch-over behind a name or a balancer looks like to a client.
type MySQLPair struct {
	t       testing.TB
	servers [2]*MySQLServer
	proxy   *Proxy
	url     string

	mu      sync.Mutex
	primary int
}

// pairUser is the user of the database, who may not write where read_only is set.
const pairUser = "app"

// NewMySQLPair starts two MariaDBs for one test.
func NewMySQLPair(t testing.TB) *MySQLPair {
	t.Helper()
	p := &MySQLPair{t: t}
	for n := range p.servers {
		s := PrivateMySQL(t, "--log-bin=binlog", fmt.Sprint("--server-id=", n+1), "--binlog-format=ROW", "--log-slave-updates")
		mustExecSQL(t, s.server, "CREATE USER "+pairUser+"@'127.0.0.1' IDENTIFIED BY '"+pairUser+"'; GRANT ALL ON fanfare.* TO "+pairUser+"@'127.0.0.1'; RESET MASTER")
		p.servers[n] = s
	}
	for n, s := range p.servers {
		other := p.servers[1-n]
		u, err := url.Parse(other.server)
		Must(t, err)
		password, _ := u.User.Password()
		mustExecSQL(t, s.server, fmt.Sprintf("CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=%d, MASTER_USER='fanfare', MASTER_PASSWORD='%s', "+
			"MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1; START SLAVE", other.port, password))
	}
	mustExecSQL(t, p.servers[1].server, "SET GLOBAL read_only = 1")
	p.proxy = NewProxy(t, p.servers[0].addr())
	p.url = "mysql://" + pairUser + ":" + pairUser + "@" + p.proxy.Addr() + "/fanfare"
	return p
}

func (s *MySQLServer) addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// URL is the URL of the database, at whichever server is the primary.
func (p *MySQLPair) URL() string { return p.url }

// Kill ends the primary at once, as kill -9 does.
func (p *MySQLPair) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.servers[p.primary].Kill()
}

// Restart starts the primary again.
func (p *MySQLPair) Restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.servers[p.primary].Restart()
}

// Switch makes the other server the primary, and loses nothing: the old one takes no writes any more, the new
// one is given the last of them, and then new connections lead to it. Connections that are open stay at the old
// one. Nothing happens if the primary is not there.
func (p *MySQLPair) Switch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	from, to := p.servers[p.primary], p.servers[1-p.primary]
	if execSQL(from.server, "SET GLOBAL read_only = 1") != nil {
		return
	}
	Eventually(p.t, startTimeout, "the new primary has all that the old one wrote", func() bool { return caughtUp(from, to) })
	mustExecSQL(p.t, to.server, "SET GLOBAL read_only = 0")
	p.primary = 1 - p.primary
	p.proxy.Redirect(to.addr())
}

// caughtUp waits for a moment, and reports whether a server has what another one wrote.
func caughtUp(from, to *MySQLServer) bool {
	var position string
	var timedOut int
	err := query(from, &position, "SELECT @@gtid_binlog_pos")
	if err == nil {
		err = query(to, &timedOut, "SELECT MASTER_GTID_WAIT('"+position+"', 1)")
	}
	return err == nil && timedOut == 0
}

func query(s *MySQLServer, out any, statement string) error {
	db, err := openMySQL(s.server)
	if err != nil {
		return err
	}
	defer func(db *sql.DB) { _ = db.Close() }(db)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return db.QueryRowContext(ctx, statement).Scan(out)
}
