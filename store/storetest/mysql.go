package storetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// MySQLServer is a MariaDB of one test, which may kill it and start it again. Committed data
// survives that.
type MySQLServer struct {
	t      testing.TB
	dir    string
	port   int
	server string // its URL, without a database
	args   []string

	exited chan struct{}
	cmd    *exec.Cmd
}

// PrivateMySQL starts a MariaDB for one test, with an empty database and more options, or TZ=zone for its
// environment. It is killed when the test ends.
func PrivateMySQL(t testing.TB, args ...string) *MySQLServer {
	t.Helper()
	SkipShort(t, "a MariaDB")
	s := &MySQLServer{t: t, dir: t.TempDir(), port: FreePort(t), args: args}
	init, password := mustWriteUser(t, s.dir)
	Must(t, installMySQL(t, s.dir))
	s.server = fmt.Sprintf("mysql://fanfare:%s@127.0.0.1:%d/", password, s.port)
	t.Cleanup(s.Kill)
	s.mustStart("--init-file=" + init)
	mustExecSQL(t, s.server, "CREATE DATABASE fanfare")
	return s
}

// URL is the URL of the database.
func (s *MySQLServer) URL() string { return s.server + "fanfare" }

// Kill ends the server at once, as kill -9 does, and waits for its end.
func (s *MySQLServer) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		<-s.exited
	}
}

// Restart kills the server if it still lives, starts it again on the same port with
// the same data, and waits until it answers.
func (s *MySQLServer) Restart() {
	s.t.Helper()
	s.Kill()
	s.mustStart()
}

func (s *MySQLServer) mustStart(more ...string) {
	s.t.Helper()
	// With 2 the kernel has a commit before the commit is answered.
	args := append(mysqlArgs(s.dir), "--port="+strconv.Itoa(s.port), "--innodb-flush-log-at-trx-commit=2")
	cmd := exec.Command(mustFind(s.t, "mariadbd", "mysqld"), args...)
	cmd.Env = os.Environ()
	for _, arg := range append(more, s.args...) {
		if strings.HasPrefix(arg, "TZ=") {
			cmd.Env = append(cmd.Env, arg)
			continue
		}
		cmd.Args = append(cmd.Args, arg)
	}
	exited, err := launch(cmd)
	Must(s.t, err)
	s.cmd, s.exited = cmd, exited
	Eventually(s.t, startTimeout, "MariaDB answers (its log: "+filepath.Join(s.dir, "error.log")+")", func() bool {
		return execSQL(s.server, "DO 1") == nil
	})
}
