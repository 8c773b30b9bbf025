package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"fanfare/store/storetest"
)

// postgres starts a PostgreSQL server with an empty database, and returns the URL. It answers before its log is on the disk,
// as Redis does whose append-only file is synced each second.
func (w *world) postgres() string {
	folder := got(os.MkdirTemp("", "fanfare-bench-postgres-")) // another user has to reach it
	w.Cleanup(func() { _ = os.RemoveAll(folder) })
	as := &syscall.SysProcAttr{}
	if os.Geteuid() == 0 { // as whom PostgreSQL does not run
		as.Credential = somebody()
		must(os.Chown(folder, int(as.Credential.Uid), int(as.Credential.Gid)))
	}
	programs, port := postgresPrograms(), strconv.Itoa(storetest.FreePort(w))
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(w.ctx, filepath.Join(programs, name), args...)
		cmd.Dir, cmd.Env, cmd.SysProcAttr = folder, []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}, as
		return cmd
	}
	data := filepath.Join(folder, "data")
	if out, err := command("initdb", "-D", data, "-U", "fanfare", "-A", "trust", "-E", "UTF8", "--no-sync").CombinedOutput(); err != nil {
		failf("initdb: %w\n%s", err, out)
	}
	args := []string{"-D", data, "-p", port}
	for _, setting := range []string{"listen_addresses=127.0.0.1", "unix_socket_directories=", "synchronous_commit=off", "max_connections=200",
		"shared_buffers=256MB", "max_wal_size=4GB", "log_min_messages=fatal"} {
		args = append(args, "-c", setting)
	}
	server := command("postgres", args...)
	server.Stderr = os.Stderr
	must(server.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Wait()
	}()
	w.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGQUIT) // at once, and its children with it
		<-ended
	})
	eventually(w.ctx, "PostgreSQL to be ready", func() bool {
		select {
		case <-ended:
			failf("PostgreSQL ended by itself (%v)", server.ProcessState)
		default:
		}
		status, _ := os.ReadFile(filepath.Join(data, "postmaster.pid")) // its last line says how far the server is
		return strings.Contains(string(status), "ready")
	})
	return fmt.Sprintf("postgres://fanfare@127.0.0.1:%s/postgres?sslmode=disable", port)
}

// postgresPrograms is the folder with the programs of the newest PostgreSQL on this machine.
func postgresPrograms() string {
	if found, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(found)
	}
	all := got(filepath.Glob("/usr/lib/postgresql/*/bin"))
	if len(all) == 0 {
		must(errors.New("PostgreSQL is not installed (apt-get install postgresql)"))
	}
	return all[len(all)-1]
}

// somebody is a user without rights.
func somebody() *syscall.Credential {
	found, err := user.Lookup("postgres")
	if err != nil {
		found = got(user.Lookup("nobody"))
	}
	return &syscall.Credential{Uid: uint32(got(strconv.ParseUint(found.Uid, 10, 32))), Gid: uint32(got(strconv.ParseUint(found.Gid, 10, 32)))}
}
