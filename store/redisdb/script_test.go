package redisdb_test

import (
	"bytes"
	"log/slog"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

func mustScript(t testing.TB, lua string) *redisdb.Script {
	t.Helper()
	s, err := redisdb.NewScript(fstest.MapFS{"test.lua": {Data: []byte(lua)}}, "test.lua")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNewScript(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"lua/a.lua":     {Data: []byte("-- a\n-- @include lua/part.lua\nreturn part()\n")},
		"lua/part.lua":  {Data: []byte("-- @include deep.lua\nlocal function part() return deep end")},
		"lua/loop.lua":  {Data: []byte("-- @include lua/loop.lua\n")},
		"lua/lost.lua":  {Data: []byte("-- @include lua/nowhere.lua\n")},
		"lua/plain.lua": {Data: []byte("return 1")},
		"deep.lua":      {Data: []byte("local deep = 42\n")},
	}
	t.Run("Includes", func(t *testing.T) {
		t.Parallel()
		s, err := redisdb.NewScript(files, "lua/a.lua")
		mustNil(t, err)
		want := "-- a\nlocal deep = 42\nlocal function part() return deep end\nreturn part()\n"
		if s.Source() != want || s.Name() != "a.lua" || len(s.SHA()) != 40 {
			t.Errorf("got %q, %q, %q", s.Source(), s.Name(), s.SHA())
		}
	})
	for name, problem := range map[string]string{"lua/loop.lua": "nested", "lua/lost.lua": "nowhere", "lua/none.lua": "none"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := redisdb.NewScript(files, name); err == nil || !strings.Contains(err.Error(), problem) {
				t.Errorf("got %v, want %q", err, problem)
			}
		})
	}
	t.Run("MustScript", func(t *testing.T) {
		t.Parallel()
		if s := redisdb.MustScript(files, "lua/plain.lua"); s.Source() != "return 1" {
			t.Errorf("got %q", s.Source())
		}
		defer func() {
			if recover() == nil {
				t.Error("a broken embed did not panic")
			}
		}()
		redisdb.MustScript(files, "lua/none.lua")
	})
}

// TestNoScript: a server that does not know a script is told, and only what it
// refused runs again.
func TestNoScript(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		key := "{" + t.Name() + "}n"
		incr := mustScript(t, "-- "+t.Name()+"\nreturn redis.call('INCR', KEYS[1])")
		for round, do := range map[string]func(m redisdb.Mode, cmds ...redis.Cmder) error{
			"share":    func(m redisdb.Mode, cmds ...redis.Cmder) error { return db.Share(t.Context(), m, cmds...) },
			"pipeline": func(m redisdb.Mode, cmds ...redis.Cmder) error { return db.Pipeline(t.Context(), m, cmds...) },
		} {
			mustNil(t, db.Pipeline(t.Context(), redisdb.Write, redis.NewCmd(t.Context(), "del", key)))
			plain, script := redis.NewCmd(t.Context(), "incrby", key, 10), incr.Cmd(t.Context(), []string{key})
			mustNil(t, do(redisdb.Write, plain, script))
			if n, err := script.Int64(); err != nil || n != 11 {
				t.Errorf("%s: got %d, %v, want 11", round, n, err)
			}
			if n, err := plain.Int64(); err != nil || n != 10 {
				t.Errorf("%s: got %d, %v, want 10", round, n, err)
			}
			// Each node forgets; a script flush is what a restart does.
			mustForget(t, db)
		}
	})
}

// TestNoScriptWithAHungMaster: a master that hangs does not keep a script from
// the others, also one that none of them knows yet.
func TestNoScriptWithAHungMaster(t *testing.T) {
	t.Parallel()
	cluster := storetest.PrivateCluster(t, 0)
	db := storetest.Open(t, cluster.URL())
	key := "{" + t.Name() + "}n"
	mustNil(t, db.Share(t.Context(), redisdb.Write, redis.NewCmd(t.Context(), "set", key, 1))) // the map of slots is known
	ours := cluster.MasterOf(t, key)
	mustNil(t, ours.Client().ConfigSet(t.Context(), "cluster-require-full-coverage", "no").Err())
	for _, node := range cluster.Nodes {
		if node != ours {
			node.Pause()
			t.Cleanup(node.Resume)
			break
		}
	}
	incr := mustScript(t, "-- "+t.Name()+"\nreturn redis.call('INCR', KEYS[1])")
	got, err := db.Eval(t.Context(), redisdb.Write, incr, []string{key})
	if err != nil || got != int64(2) {
		t.Errorf("got %v, %v", got, err)
	}
}

// The masters that were known last are told a script, also while a failure has the map of slots read again and nobody answers for
// it. Reading it first would leave no time to tell them.
func TestNoScriptWhileTheMapIsRead(t *testing.T) {
	t.Parallel()
	proxies, url := storetest.ProxiedCluster(t)
	db, err := redisdb.Open(t.Context(), redisdb.Options{URL: url}) // without Run, which reads the map, too
	mustNil(t, err)
	t.Cleanup(func() { _ = db.Close() })
	key := "{" + t.Name() + "}n"
	mustNil(t, db.Share(t.Context(), redisdb.Write, redis.NewCmd(t.Context(), "set", key, 1)))
	if _, err := db.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	home, err := db.Client().(*redis.ClusterClient).MasterForKey(t.Context(), key)
	mustNil(t, err)
	hung := 0
	for i, p := range proxies {
		p.OnSent(func(_ *storetest.ProxyConn, sent []byte) storetest.Fate {
			if bytes.Contains(bytes.ToLower(sent), []byte("\r\ncluster\r\n")) {
				return storetest.Swallow
			}
			return storetest.Pass
		})
		if p.Addr() != home.Options().Addr {
			hung = i
		}
	}
	proxies[hung].Swallow(true)
	if _, err := db.Ping(t.Context()); err == nil { // its failure has the map read again
		t.Fatal("nobody was asked")
	}
	incr := mustScript(t, "-- "+t.Name()+"\nreturn redis.call('INCR', KEYS[1])")
	got, err := db.Eval(t.Context(), redisdb.Write, incr, []string{key})
	if err != nil || got != int64(2) {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestLoadingAScriptFails: a server's no is logged, with its reason; a connection
// that breaks is not: in an outage that would be a line for each caller.
func TestLoadingAScriptFails(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	proxy, url := storetest.ProxyTo(t, server.URL())
	var log storetest.Lines
	db := storetest.OpenWith(t, redisdb.Options{URL: url, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	call := func(name string) error {
		script := mustScript(t, "-- "+t.Name()+name+"\nreturn redis.call('INCR', KEYS[1])")
		_, err := db.Eval(t.Context(), redisdb.Write, script, []string{"{" + t.Name() + "}n"})
		return err
	}
	proxy.OnSent(func(_ *storetest.ProxyConn, sent []byte) storetest.Fate {
		if bytes.Contains(bytes.ToLower(sent), []byte("\r\nscript\r\n")) {
			return storetest.Close
		}
		return storetest.Pass
	})
	if err := call("cut"); err == nil {
		t.Error("called without a script")
	}
	if said := log.String(); said != "" {
		t.Errorf("said of a broken connection: %s", said)
	}
	proxy.OnSent(nil)
	mustNil(t, server.Client().Do(t.Context(), "acl", "setuser", "default", "-script").Err())
	if err := call("forbidden"); err == nil {
		t.Error("called without a script")
	}
	if said := log.String(); !strings.Contains(said, "NOPERM") {
		t.Errorf("said of a refusal: %s", said)
	}
}

// A server that has begun anew may not take the scripts yet: the tries that are left wait
// for it, and who is refused is told that the server is there.
func TestScriptsOfAServerThatBeganAnew(t *testing.T) {
	t.Parallel()
	proxy, url := storetest.ProxyTo(t, storetest.Redis(t).URL())
	db := storetest.OpenWith(t, redisdb.Options{URL: url})
	script := mustScript(t, "-- "+t.Name()+"\nreturn redis.call('INCR', KEYS[1])")
	var left atomic.Int64
	proxy.OnSent(func(_ *storetest.ProxyConn, sent []byte) storetest.Fate {
		if bytes.Contains(bytes.ToLower(sent), []byte("\r\nscript\r\n")) && left.Add(-1) >= 0 {
			return storetest.Close
		}
		return storetest.Pass
	})
	call := func() error {
		_, err := db.Eval(t.Context(), redisdb.Write, script, []string{"{" + t.Name() + "}n"})
		return err
	}
	left.Store(math.MaxInt64)
	began := time.Now()
	err := call()
	storetest.WantCode(t, err, api.CodeUnavailable)
	if text := err.Error(); strings.Contains(text, "out of reach") || !strings.Contains(text, "begun anew") {
		t.Errorf("said of a server that is there: %s", text)
	}
	if took := time.Since(began); took < 100*time.Millisecond { // 20, 40 and 80 ms
		t.Errorf("tried for %v", took)
	}
	left.Store(1)
	storetest.Must(t, call())
}

// A single server that is slow to take a script, as one on a busy machine, has the whole time of the round trip for it.
func TestASlowServerTakesAScript(t *testing.T) {
	t.Parallel()
	proxy, url := storetest.ProxyTo(t, storetest.Redis(t).URL())
	const timeout = 4 * time.Second
	db := storetest.OpenWith(t, redisdb.Options{URL: url, Timeout: timeout})
	var loads atomic.Int64
	proxy.OnSent(func(_ *storetest.ProxyConn, sent []byte) storetest.Fate {
		if !bytes.Contains(bytes.ToLower(sent), []byte("\r\nscript\r\n")) {
			return storetest.Pass
		}
		if loads.Add(1) > 1 {
			return storetest.Close
		}
		<-time.After(timeout * 2 / 5) // the server is slow
		return storetest.Pass
	})
	script := mustScript(t, "-- "+t.Name()+"\nreturn redis.call('INCR', KEYS[1])")
	got, err := db.Eval(t.Context(), redisdb.Write, script, []string{t.Name()})
	if err != nil || got != int64(1) {
		t.Errorf("got %v, %v", got, err)
	}
}

func mustForget(t testing.TB, db *redisdb.DB) {
	t.Helper()
	if err := db.Client().ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
}
