package main

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"time"

	_ "github.com/go-sql-driver/mysql" // to wait for it, and to fill its tables
)

// mariadb is a server of our own, with an empty database.
type mariadb struct{ url, dsn string }

// mariadb installs and starts one that does not care for the disk.
func (w *world) mariadb(ctx context.Context) (*mariadb, error) {
	dir, err := os.MkdirTemp(w.dir, "mariadb-")
	if err != nil {
		return nil, err
	}
	const password = "loopback-only"
	init := filepath.Join(dir, "init.sql")
	text := "CREATE DATABASE bench;\nCREATE USER 'bench'@'127.0.0.1' IDENTIFIED BY '" + password + "';\nGRANT ALL ON *.* TO 'bench'@'127.0.0.1';\n"
	if err := os.WriteFile(init, []byte(text), 0o600); err != nil {
		return nil, err
	}
	install := append([]string{"--no-defaults", "--datadir=" + dir + "/data", "--auth-root-authentication-method=normal", "--skip-test-db"}, asUser()...)
	if out, err := exec.CommandContext(ctx, "mariadb-install-db", install...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("install MariaDB: %w\n%s", err, out)
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	args := append([]string{
		"--no-defaults", "--datadir=" + dir + "/data", "--socket=" + dir + "/s", "--pid-file=" + dir + "/pid",
		"--bind-address=127.0.0.1", "--port=" + port, "--init-file=" + init, "--skip-name-resolve", "--skip-log-bin",
		"--innodb-flush-log-at-trx-commit=0", "--max-connections=500",
	}, asUser()...)
	if _, err := w.start("MariaDB", addr, nil, "mariadbd", args...); err != nil {
		return nil, err
	}
	m := &mariadb{"mysql://bench:" + password + "@" + addr + "/bench", "bench:" + password + "@tcp(" + addr + ")/bench"}
	return m, m.await(ctx)
}

// await waits until the server has made the user.
func (m *mariadb) await(ctx context.Context) error {
	db, err := sql.Open("mysql", m.dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	return eventually(ctx, time.Minute, "MariaDB", func() (bool, error) { return db.PingContext(ctx) == nil, nil })
}

// asUser lets root run MariaDB, which it refuses by default.
func asUser() []string {
	me, err := user.Current()
	if err != nil || os.Geteuid() != 0 {
		return nil
	}
	return []string{"--user=" + me.Username}
}
