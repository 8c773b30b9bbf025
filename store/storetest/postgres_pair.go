package storetest

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// PostgresPair is two PostgreSQLs behind one address: a primary and its hot standby, which change places. It is what a
// switch-over behind a name or a balancer looks like to a client.
type PostgresPair struct {
	t       testing.TB
	servers [2]*PostgresServer
	proxy   *Proxy

	mu      sync.Mutex
	primary int
}

// NewPostgresPair starts two PostgreSQLs for one test.
func NewPostgresPair(t testing.TB) *PostgresPair {
	t.Helper()
	first := PrivatePostgres(t)
	u, err := url.Parse(first.server)
	Must(t, err)
	password, _ := u.User.Password()
	dir := mustTempDir(t, "fanfare-postgres-")
	mustGive(t, dir)
	mustRunPostgres(t, "pg_basebackup", "--dbname="+first.server, "--pgdata="+filepath.Join(dir, "data"), "--checkpoint=fast", "--no-sync")
	p := &PostgresPair{t: t, servers: [2]*PostgresServer{first, newPostgresServer(t, dir, password, nil)}}
	p.follow(1)
	p.proxy = NewProxy(t, first.Addr())
	return p
}

// follow starts a server as the standby of the other one.
func (p *PostgresPair) follow(n int) {
	s, other := p.servers[n], p.servers[1-n]
	u, err := url.Parse(other.server)
	Must(p.t, err)
	password, _ := u.User.Password()
	s.settings = []string{fmt.Sprintf("primary_conninfo=host=127.0.0.1 port=%d user=fanfare password=%s", other.port, password)}
	signal := filepath.Join(s.dir, "data", "standby.signal")
	Must(p.t, os.WriteFile(signal, nil, 0o600))
	mustGive(p.t, signal)
	s.mustStart()
}

// URL is the URL of the database, at whichever server is the primary.
func (p *PostgresPair) URL() string {
	u, err := url.Parse(p.servers[0].URL())
	Must(p.t, err)
	u.Host = p.proxy.Addr()
	return u.String()
}

// Demote makes the other server the primary, and loses nothing: the old one stops when the standby has all, and starts
// again as the standby of the new one. New connections still lead to the old one, which takes no changes.
func (p *PostgresPair) Demote() {
	p.mu.Lock()
	defer p.mu.Unlock()
	from, to := p.servers[p.primary], p.servers[1-p.primary]
	Eventually(p.t, startTimeout, "the standby follows the primary", func() bool {
		var following bool
		err := withPostgres(from.server, func(ctx context.Context, db *sql.DB) error {
			return db.QueryRowContext(ctx, "SELECT COUNT(*) > 0 FROM pg_stat_replication WHERE state = 'streaming'").Scan(&following)
		})
		return err == nil && following
	})
	from.Stop()
	mustExecPostgres(p.t, to.server, "SELECT pg_promote(TRUE, 60)")
	p.follow(p.primary)
	p.primary = 1 - p.primary
}

// Redirect leads new connections to the primary. Open ones stay where they are.
func (p *PostgresPair) Redirect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.proxy.Redirect(p.servers[p.primary].Addr())
}

// Kill ends the primary at once.
func (p *PostgresPair) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.servers[p.primary].Kill()
}

// Restart starts the primary again.
func (p *PostgresPair) Restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.servers[p.primary].Restart()
}
