package storetest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"database/sql"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// sharedPostgres is the server of this test binary, which the first test that needs it starts, with a database that
// has fanfare's tables.
var sharedPostgres struct {
	sync.Mutex
	url      string
	dir      string // has the data before it was used, from which all servers of the test binary begin
	strategy string // how it makes databases
	tables   string // the database; "": not made yet
}

// EachDialect runs a test on all kinds of database, as parallel subtests "mysql", "postgres" and "sqlite".
func EachDialect(t *testing.T, fn func(t *testing.T, url string)) {
	t.Helper()
	EachSQL(t, fn)
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		fn(t, Postgres(t))
	})
}

// Postgres is the URL of a fresh PostgreSQL database that has fanfare's tables. It is dropped when the test ends. The
// server is one of this test binary.
func Postgres(t testing.TB) string {
	t.Helper()
	SkipShort(t, "a PostgreSQL")
	return mustPostgres(t, mustPostgresTables(t))
}

// EmptyPostgres is Postgres without tables.
func EmptyPostgres(t testing.TB) string {
	t.Helper()
	SkipShort(t, "a PostgreSQL")
	return mustPostgres(t, "template0")
}

// mustPostgres makes a database like another one.
func mustPostgres(t testing.TB, like string) string {
	t.Helper()
	server := mustSharedPostgres(t)
	name := "fanfare_" + strings.ToLower(rand.Text()[:16])
	mustExecPostgres(t, server, "CREATE DATABASE "+name+" TEMPLATE "+like+sharedPostgres.strategy)
	t.Cleanup(func() { mustExecPostgres(t, server, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") })
	return inDatabase(server, name)
}

// mustPostgresTables is the name of a database that has fanfare's tables, and which nobody uses.
func mustPostgresTables(t testing.TB) string {
	t.Helper()
	server := mustSharedPostgres(t)
	sharedPostgres.Lock()
	defer sharedPostgres.Unlock()
	if sharedPostgres.tables == "" {
		mustExecPostgres(t, server, "CREATE DATABASE tables TEMPLATE template0")
		rec := Record(t, inDatabase(server, "tables"))
		Must(t, rec.Migrate(t.Context()))
		Must(t, rec.Close())
		sharedPostgres.tables = "tables"
	}
	return sharedPostgres.tables
}

func mustSharedPostgres(t testing.TB) string {
	t.Helper()
	sharedPostgres.Lock()
	defer sharedPostgres.Unlock()
	if sharedPostgres.url == "" {
		dir, password := mustInitPostgres(t)
		mustCopyData(t, filepath.Join(dir, "new"), dir)
		port := FreePort(t)
		command := asPostgres(t, "QUIT", mustFindPostgres(t, "postgres"), postgresArgs(dir, port)...)
		Must(t, launchForBinary(dir, "QUIT", command[0], command[1:]...))
		server := postgresURL(password, port)
		mustAnswer(t, server, dir)
		sharedPostgres.url, sharedPostgres.dir = server, dir
		if PostgresVersion(t) >= 15 {
			sharedPostgres.strategy = " STRATEGY FILE_COPY" // by default it logs each page, which takes twice as long
		}
	}
	return sharedPostgres.url
}

func postgresURL(password string, port int) string {
	return fmt.Sprintf("postgres://fanfare:%s@127.0.0.1:%d/postgres", password, port)
}

// inDatabase is the URL of another database of a server.
func inDatabase(server, name string) string {
	return server[:strings.LastIndex(server, "/")+1] + name
}

// mustAnswer waits until a server answers.
func mustAnswer(t testing.TB, server, dir string) {
	t.Helper()
	Eventually(t, startTimeout, "PostgreSQL answers (its log: "+filepath.Join(dir, "log")+")", func() bool {
		return execPostgres(server, "SELECT 1") == nil
	})
}

// PostgresServer is a PostgreSQL of one test, which may kill it and start it again. Committed data survives that.
type PostgresServer struct {
	t        testing.TB
	dir      string
	port     int
	server   string // its URL, with the database postgres
	settings []string

	exited chan struct{}
	cmd    *exec.Cmd
}

// PrivatePostgres starts a PostgreSQL for one test, with an empty database and more settings, each name=value. It ends
// with the test.
func PrivatePostgres(t testing.TB, settings ...string) *PostgresServer {
	t.Helper()
	SkipShort(t, "a PostgreSQL")
	shared, err := url.Parse(mustSharedPostgres(t))
	Must(t, err)
	password, _ := shared.User.Password()
	dir := mustTempDir(t, "fanfare-postgres-")
	mustGive(t, dir)
	s := newPostgresServer(t, dir, password, settings)
	mustCopyData(t, filepath.Join(sharedPostgres.dir, "new"), dir)
	s.mustStart()
	mustExecPostgres(t, s.server, "CREATE DATABASE fanfare TEMPLATE template0")
	return s
}

func newPostgresServer(t testing.TB, dir, password string, settings []string) *PostgresServer {
	s := &PostgresServer{t: t, dir: dir, port: FreePort(t), settings: settings}
	s.server = postgresURL(password, s.port)
	t.Cleanup(func() {
		s.Kill()
		Must(t, os.RemoveAll(dir))
	})
	return s
}

// URL is the URL of the database, for a user who may do everything.
func (s *PostgresServer) URL() string { return inDatabase(s.server, "fanfare") }

// Addr is where the server listens, host:port.
func (s *PostgresServer) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// Exec runs statements in the database.
func (s *PostgresServer) Exec(statements string) { mustExecPostgres(s.t, s.URL(), statements) }

// Kill ends the server at once. It gives back its shared memory and cleans up nothing else, so that the next start
// recovers as after a crash.
func (s *PostgresServer) Kill() { s.end(syscall.SIGQUIT) }

// Stop ends the server cleanly: it cuts its connections, and gives its standbys everything.
func (s *PostgresServer) Stop() { s.end(syscall.SIGINT) }

func (s *PostgresServer) end(signal syscall.Signal) {
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(signal)
		<-s.exited
	}
}

// Restart kills the server if it still lives, starts it again on the same port with
// the same data, and waits until it answers.
func (s *PostgresServer) Restart() {
	s.t.Helper()
	s.Kill()
	s.mustStart()
}

func (s *PostgresServer) mustStart() {
	s.t.Helper()
	command := asPostgres(s.t, "QUIT", mustFindPostgres(s.t, "postgres"), postgresArgs(s.dir, s.port, s.settings...)...)
	cmd := exec.Command(command[0], command[1:]...)
	exited, err := launch(cmd)
	Must(s.t, err)
	s.cmd, s.exited = cmd, exited
	mustAnswer(s.t, s.server, s.dir)
}

// mustCopyData makes the data of a server in its directory, which takes a fifth of the time of initdb.
func mustCopyData(t testing.TB, from, dir string) {
	t.Helper()
	out, err := exec.Command("cp", "-a", from, filepath.Join(dir, "data")).CombinedOutput()
	if err != nil {
		t.Fatalf("copy %s: %v: %s", from, err, out)
	}
}

// mustInitPostgres makes the data of a server, "new", in a new directory, which the user of the server owns. The caller
// removes it.
func mustInitPostgres(t testing.TB) (dir, password string) {
	t.Helper()
	dir, password = mustTempDir(t, "fanfare-postgres-"), rand.Text()
	file := filepath.Join(dir, "password")
	Must(t, os.WriteFile(file, []byte(scramSecret(t, password)), 0o600))
	mustGive(t, dir, file)
	args := []string{"--pgdata=" + filepath.Join(dir, "new"), "--username=fanfare", "--pwfile=" + file, "--auth=scram-sha-256", "--no-sync", "--encoding=UTF8", "--locale=C"}
	if PostgresVersion(t) >= 15 {
		args = append(args, "--locale-provider=icu", "--icu-locale=en")
	}
	mustRunPostgres(t, "initdb", args...)
	return dir, password
}

// scramSecret is what the server keeps of a password (RFC 5803). Each new connection hashes the password once in place of
// 4096 times, which took longer than a connection may, for many at once under the race detector.
func scramSecret(t testing.TB, password string) string {
	t.Helper()
	salt := []byte("not a secret")
	salted, err := pbkdf2.Key(sha256.New, password, salt, 1, sha256.Size)
	Must(t, err)
	derived := func(name string) []byte {
		mac := hmac.New(sha256.New, salted)
		mac.Write([]byte(name))
		return mac.Sum(nil)
	}
	stored := sha256.Sum256(derived("Client Key"))
	text := base64.StdEncoding.EncodeToString
	return "SCRAM-SHA-256$1:" + text(salt) + "$" + text(stored[:]) + ":" + text(derived("Server Key"))
}

// PostgresVersion is the major version of the PostgreSQL that tests use. From 15 on tests get databases with a collation
// that does not compare bytes.
func PostgresVersion(t testing.TB) int {
	t.Helper()
	out, err := exec.Command(mustFindPostgres(t, "initdb"), "--version").Output() // initdb (PostgreSQL) 15.14 (Debian ...)
	Must(t, err)
	_, number, _ := strings.Cut(string(out), "(PostgreSQL) ")
	version, err := strconv.Atoi(number[:max(0, strings.IndexFunc(number, func(r rune) bool { return r < '0' || r > '9' }))])
	Must(t, err)
	return version
}

// mustGive makes the user of the servers the owner of files.
func mustGive(t testing.TB, files ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	owner := mustPostgresUser(t)
	uid, _ := strconv.Atoi(owner.Uid)
	gid, _ := strconv.Atoi(owner.Gid)
	for _, file := range files {
		Must(t, os.Chown(file, uid, gid))
	}
}

func mustRunPostgres(t testing.TB, program string, args ...string) {
	t.Helper()
	command := asPostgres(t, "KILL", mustFindPostgres(t, program), args...)
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", program, err, out)
	}
}

// postgresArgs are options for small memory, no fsync, loopback only, and deadlocks that are found soon.
func postgresArgs(dir string, port int, settings ...string) []string {
	args := []string{"-D", filepath.Join(dir, "data"), "-p", strconv.Itoa(port)}
	for _, setting := range slices.Concat([]string{
		"listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "full_page_writes=off", "shared_buffers=32MB", "max_connections=400",
		"deadlock_timeout=50ms", "wal_retrieve_retry_interval=100ms", "logging_collector=on", "log_directory=" + dir, "log_filename=log", "max_wal_size=256MB", "wal_init_zero=off",
	}, settings) {
		args = append(args, "-c", setting)
	}
	return args
}

// asPostgres is the command line of a program that does not run as root: root becomes another user for it. It gets a
// signal when its parent ends.
func asPostgres(t testing.TB, signal, program string, args ...string) []string {
	t.Helper()
	command := append([]string{program}, args...)
	if os.Geteuid() != 0 {
		return command
	}
	owner := mustPostgresUser(t)
	return append([]string{mustFind(t, "setpriv"), "--reuid=" + owner.Uid, "--regid=" + owner.Gid, "--clear-groups", "--pdeathsig=" + signal}, command...)
}

// mustPostgresUser is the user whom root becomes.
func mustPostgresUser(t testing.TB) *user.User {
	t.Helper()
	for _, name := range []string{"postgres", "nobody"} {
		if found, err := user.Lookup(name); err == nil {
			return found
		}
	}
	t.Fatal("there is neither a user postgres nor nobody")
	return nil
}

// mustFindPostgres finds a program of PostgreSQL in PATH, or where Debian has it, in the newest version.
func mustFindPostgres(t testing.TB, program string) string {
	t.Helper()
	if path, err := exec.LookPath(program); err == nil {
		return path
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/[1-9][0-9]/bin/" + program) // the pattern is right
	if len(found) == 0 {
		t.Fatalf("%s is needed: install PostgreSQL (make test does it on Debian)", program)
	}
	return found[len(found)-1]
}

func mustExecPostgres(t testing.TB, url, statements string) {
	t.Helper()
	if err := execPostgres(url, statements); err != nil {
		t.Errorf("%s: %v", statements, err)
	}
}

// execPostgres runs statements on a new connection.
func execPostgres(url, statements string) error {
	return withPostgres(url, func(ctx context.Context, db *sql.DB) error {
		_, err := db.ExecContext(ctx, statements)
		return err
	})
}

func withPostgres(url string, f func(context.Context, *sql.DB) error) error {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return errors.Join(f(ctx, db), db.Close())
}

// UseTLS gives the server a certificate for the name localhost, and lets in nobody without TLS. It returns the file of
// the authority.
func (s *PostgresServer) UseTLS() (authority string) {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Must(s.t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	Must(s.t, err)
	secret, err := x509.MarshalECPrivateKey(key)
	Must(s.t, err)
	certFile, keyFile, rules := filepath.Join(s.dir, "cert.pem"), filepath.Join(s.dir, "key.pem"), filepath.Join(s.dir, "data", "pg_hba.conf")
	Must(s.t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600))
	Must(s.t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}), 0o600))
	Must(s.t, os.WriteFile(rules, []byte("hostssl all all 127.0.0.1/32 scram-sha-256\n"), 0o600))
	mustGive(s.t, certFile, keyFile, rules)
	s.settings = append(s.settings, "ssl=on", "ssl_cert_file="+certFile, "ssl_key_file="+keyFile)
	s.Restart()
	return certFile
}
