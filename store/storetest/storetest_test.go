package storetest_test

import (
	"context"
	"database/sql"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite"

	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// TestEachRedis: each shape answers.
func TestEachRedis(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		cmd := redis.NewStatusCmd(t.Context(), "set", "{a}b", "c")
		if err := db.Share(t.Context(), redisdb.Write, cmd); err != nil || cmd.Val() != "OK" {
			t.Fatal(err, cmd)
		}
	})
}

// TestSentinel: clients find the master, and it has its replica.
func TestSentinel(t *testing.T) {
	t.Parallel()
	s := storetest.Sentinel(t)
	if s.Master(t) != s.First {
		t.Error("the first server is not the master")
	}
	db := storetest.Open(t, s.URL())
	storetest.Eventually(t, 30*time.Second, "the master answers", func() bool {
		_, err := db.Ping(t.Context())
		return err == nil
	})
}

// TestRedisServer: killed, restarted and frozen as tests of faults need it.
func TestRedisServer(t *testing.T) {
	t.Parallel()
	s := storetest.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	if err := s.Client().Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	if s.Client().Ping(t.Context()).Err() == nil {
		t.Error("a killed server answers")
	}
	s.Restart()
	if got := s.Client().Get(t.Context(), "k").Val(); got != "v" {
		t.Errorf("got %q after a restart, want what the append-only file kept", got)
	}
	s.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	frozen := redis.NewClient(&redis.Options{Addr: s.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1})
	defer frozen.Close()
	if frozen.Ping(ctx).Err() == nil {
		t.Error("a frozen server answers")
	}
	s.Resume()
	storetest.Eventually(t, 30*time.Second, "the server answers again", func() bool {
		return s.Client().Ping(t.Context()).Err() == nil
	})
}

// TestEachSQL: each test has an empty database of its own.
func TestEachSQL(t *testing.T) {
	t.Parallel()
	storetest.EachSQL(t, func(t *testing.T, first string) {
		second := storetest.SQLite(t)
		if strings.HasPrefix(first, "mysql://") {
			second = storetest.MySQL(t)
		}
		for _, at := range []string{first, second} {
			db := mustOpenSQL(t, at)
			if _, err := db.ExecContext(t.Context(), "CREATE TABLE only (id INTEGER)"); err != nil {
				t.Errorf("create a table: %v", err)
			}
		}
	})
}

// TestPrivateMySQL: what was committed is there after a kill.
func TestPrivateMySQL(t *testing.T) {
	t.Parallel()
	s := storetest.PrivateMySQL(t)
	db := mustOpenSQL(t, s.URL())
	for _, statement := range []string{"CREATE TABLE only (id INTEGER)", "INSERT INTO only VALUES (1)"} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	s.Kill()
	if db.PingContext(t.Context()) == nil {
		t.Error("a killed server answers")
	}
	s.Restart()
	var n int
	if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM only").Scan(&n); err != nil || n != 1 {
		t.Errorf("%d rows after a restart, want 1: %v", n, err)
	}
}

func mustOpenSQL(t *testing.T, at string) *sql.DB {
	t.Helper()
	driver, source := "sqlite", strings.TrimPrefix(at, "sqlite:")
	if strings.HasPrefix(at, "mysql://") {
		u, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		password, _ := u.User.Password()
		driver, source = "mysql", u.User.Username()+":"+password+"@tcp("+u.Host+")"+u.Path
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}
