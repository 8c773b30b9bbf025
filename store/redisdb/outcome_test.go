package redisdb_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// TestRefusedConnections: a server that refuses a new connection was not asked anything,
// and nothing is taken for its answer.
func TestRefusedConnections(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	if err := server.Client().ConfigSet(t.Context(), "requirepass", "right").Err(); err != nil {
		t.Fatal(err)
	}
	full := storetest.Redis(t)
	first := full.Client() // the only one that has room
	if err := errors.Join(first.Ping(t.Context()).Err(), first.ConfigSet(t.Context(), "maxclients", "1").Err()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		url     string
		refused bool
	}{
		"WrongPassword": {strings.Replace(server.URL(), "://", "://:wrong@", 1), true},
		"NoPassword":    {server.URL(), true},
		"TooMany":       {full.URL(), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := storetest.OpenWith(t, redisdb.Options{URL: c.url})
			for what, send := range map[string]redisdb.Sender{"Pipeline": db.Pipeline, "Share": db.Share} {
				set := redis.NewStatusCmd(t.Context(), "set", "a", "b")
				get := redis.NewStringCmd(t.Context(), "get", "a")
				err := send(t.Context(), redisdb.Write, set, get)
				if code := api.CodeOf(err); code != api.CodeUnavailable && (c.refused || code != api.CodeUnknownOutcome) {
					t.Errorf("%s: %v", what, err) // a connection that is closed at once may look lost
				}
				if redisdb.Refused(err) != c.refused {
					t.Errorf("%s: refused: %v", what, err)
				}
			}
			_, err := db.Eval(t.Context(), redisdb.Read, mustScript(t, "return 1"), nil)
			mustCode(t, err, api.CodeUnavailable)
			_, err = db.Ping(t.Context())
			mustCode(t, err, api.CodeUnavailable)
		})
	}
}

// TestErr goes through what may come back from the client.
func TestErr(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "embedded")
	reply := func(text string) error {
		_, err := db.Eval(t.Context(), redisdb.Read, mustScript(t, "return redis.error_reply('"+text+"')"), nil)
		if err == nil {
			t.Fatalf("no error for %q", text)
		}
		return err
	}
	dial := &net.OpError{Op: "dial", Err: errors.New("refused")}
	timeout := &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
	for _, c := range []struct {
		name        string
		err         error
		read, write api.Code
	}{
		{"nil", nil, "", ""},
		{"dial", dial, api.CodeUnavailable, api.CodeUnavailable},
		{"name lookup", &net.DNSError{}, api.CodeUnavailable, api.CodeUnavailable},
		{"pool", redis.ErrPoolTimeout, api.CodeUnavailable, api.CodeUnavailable},
		{"closed", redis.ErrClosed, api.CodeUnavailable, api.CodeUnavailable},
		{"cancelled", context.Canceled, api.CodeUnavailable, api.CodeUnavailable},
		{"no nodes", errors.New("redis: cluster has no nodes"), api.CodeUnavailable, api.CodeUnavailable},
		{"time-out", timeout, api.CodeUnavailable, api.CodeUnknownOutcome},
		{"cut", io.EOF, api.CodeUnavailable, api.CodeUnknownOutcome},
		{"anything", errPlain, api.CodeUnavailable, api.CodeUnknownOutcome},
		{"ours", api.Errorf(api.CodeSoldOut, "x"), api.CodeSoldOut, api.CodeSoldOut},
		{"own error", reply("MINE x"), api.CodeInternal, api.CodeInternal},
		{"Nil", redis.Nil, api.CodeInternal, api.CodeInternal},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			mustCode(t, db.Err(c.err, redisdb.Read), c.read)
			mustCode(t, db.Err(c.err, redisdb.Write), c.write)
		})
	}
	for text, want := range map[string]api.Code{
		"LOADING x": api.CodeUnavailable, "CLUSTERDOWN x": api.CodeUnavailable, "READONLY x": api.CodeUnavailable,
		"MASTERDOWN x": api.CodeUnavailable, "MISCONF x": api.CodeUnavailable, "NOREPLICAS x": api.CodeUnavailable,
		"TRYAGAIN x": api.CodeUnavailable, "DENIED x": api.CodeUnavailable, "NOAUTH x": api.CodeUnavailable, "OOM x": api.CodeOverloaded,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			old := "ERR Error running script (call to f_0123456789abcdef0123456789abcdef01234567): @user_script:88: @user_script: 88: -" + text + " "
			mustCode(t, db.Err(redisdb.ScriptError(old), redisdb.Write), want)
			mustCode(t, db.Err(redisdb.ScriptError("@user_script: 88: -"+text), redisdb.Write), want)
			cmd := mustScript(t, "return redis.error_reply('"+text+"')").Cmd(t.Context(), nil)
			mustCode(t, db.Share(t.Context(), redisdb.Write, cmd), want)
		})
	}
	for _, text := range []string{"ERR Error running script (call to f_0): @user_script:8: @user_script: 8: -WRONGTYPE x", "ERR Error running script (call to f_0): @user_script:8: user_script:8: attempt to index a nil value x: OOM ", "x @user_script: -OOM "} {
		mustCode(t, db.Err(redisdb.ScriptError(text), redisdb.Write), api.CodeInternal)
	}
	if got := db.Err(redis.Nil, redisdb.Read); got != redis.Nil {
		t.Errorf("got %v, want redis.Nil as it is", got)
	}
}

// TestPartOfAWrite: when a part of a call was done and another refused, the
// answer must not be that nothing happened.
func TestPartOfAWrite(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "embedded")
	refused := func() redis.Cmder {
		return mustScript(t, "return redis.error_reply('READONLY x')").Cmd(t.Context(), nil)
	}
	done := redis.NewCmd(t.Context(), "set", "k", "v")
	mustCode(t, db.Share(t.Context(), redisdb.Write, done, refused()), api.CodeUnknownOutcome)
	mustCode(t, db.Share(t.Context(), redisdb.Read, redis.NewCmd(t.Context(), "get", "k"), refused()), api.CodeUnavailable)
}

// TestMemory: from 90 % of maxmemory on Overloaded says so, a write that Redis
// refuses is overloaded too, and both end with the shortage.
func TestMemory(t *testing.T) {
	t.Parallel()
	w := setup(t)
	mustNil(t, w.Overloaded())
	mustNil(t, w.server.Client().Set(t.Context(), "ballast", make([]byte, 1<<20), 0).Err())
	mustNil(t, w.server.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())
	storetest.Eventually(t, 30*time.Second, "overloaded", func() bool { return w.Overloaded() != nil })
	var e *api.Error
	if err := w.Overloaded(); !errors.As(err, &e) || e.Code != api.CodeOverloaded || e.RetryAfter <= 0 {
		t.Errorf("got %v", err)
	}
	set := redis.NewCmd(t.Context(), "set", "k", "v")
	mustCode(t, w.Share(t.Context(), redisdb.Write, set), api.CodeOverloaded)
	script := mustScript(t, "redis.call('SET', KEYS[1], 'v') return 1").Cmd(t.Context(), []string{"k"})
	mustCode(t, w.Share(t.Context(), redisdb.Write, script), api.CodeOverloaded)
	mustNil(t, w.server.Client().ConfigSet(t.Context(), "maxmemory", "1gb").Err())
	storetest.Eventually(t, 30*time.Second, "room again", func() bool { return w.Overloaded() == nil })
}

// TestMemoryOneMasterAway: what the other masters say counts, and a master that was
// full and is away now refuses nobody.
func TestMemoryOneMasterAway(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*storetest.RedisServer){
		"Dead": (*storetest.RedisServer).Kill, "Hanging": (*storetest.RedisServer).Pause,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := storetest.PrivateCluster(t, 0)
			db := storetest.Open(t, cluster.URL())
			limit := func(s *storetest.RedisServer, to string) {
				t.Helper()
				mustNil(t, s.Client().ConfigSet(t.Context(), "maxmemory", to).Err())
			}
			is := func(what string, full bool) {
				t.Helper()
				storetest.Eventually(t, time.Minute, what, func() bool { return (db.Overloaded() != nil) == full })
			}
			away, there := cluster.Nodes[0], cluster.Nodes[1]
			limit(away, "1mb")
			is("the first master to be full", true)
			leave(away)
			is("room, since nobody who answers is full", false)
			limit(there, "1mb")
			is("another master to be full", true)
			limit(there, "1gb")
			is("room again", false)
		})
	}
}
