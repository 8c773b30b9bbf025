package sessions_test

import (
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/sessions"
	"fanfare/store/storetest"
	"fanfare/store/usertokens"
)

// No goroutine that a test started runs after the tests.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ids makes the store that makes and recognises ids.
func ids(t *testing.T, db *redisdb.DB) *usertokens.Store {
	t.Helper()
	rec := storetest.Record(t, storetest.SQLite(t))
	ids, err := usertokens.New(rec, db, usertokens.Options{})
	storetest.Must(t, err)
	storetest.Must(t, ids.Load(t.Context()))
	return ids
}

// An id that nobody was given is refused without asking Redis, whoever asks for whatever.
func TestN3_MadeUpIDsAskRedisNothing(t *testing.T) {
	t.Parallel()
	var commands atomic.Int64
	db := storetest.FaultyBy(t, storetest.Open(t, storetest.Redis(t).URL()), redis.Cmder.Name, func(string, bool) error {
		commands.Add(1)
		return nil
	})
	made, elsewhere := ids(t, db), ids(t, db)
	s := sessions.New(db, made, sessions.Options{})
	ticket, err := made.NewSecret("ticket")
	storetest.Must(t, err)
	other, err := elsewhere.NewSecret("session")
	storetest.Must(t, err)
	before := commands.Load()
	for _, id := range []string{"", "x", ticket, other, strings.Repeat("A", 32), strings.Repeat("x", 1<<10)} {
		for _, extend := range []bool{false, true} {
			_, err := s.Use(t.Context(), id, extend)
			storetest.WantCode(t, err, api.CodeUnauthorized)
		}
		storetest.Must(t, s.Close(t.Context(), id))
	}
	if n := commands.Load() - before; n != 0 {
		t.Errorf("made-up ids cost %d commands", n)
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		s := sessions.New(db, ids(t, db), sessions.Options{})
		id, err := s.Open(t.Context(), "somekey")
		storetest.Must(t, err)
		other, err := s.Open(t.Context(), "otherkey")
		storetest.Must(t, err)
		for range 2 {
			for _, extend := range []bool{false, true} {
				if key, err := s.Use(t.Context(), id, extend); err != nil || key != "somekey" {
					t.Fatalf("%q %v", key, err)
				}
			}
		}
		storetest.Must(t, s.Close(t.Context(), id))
		storetest.Must(t, s.Close(t.Context(), id))
		for _, bad := range []string{id, "", "x", strings.Repeat("x", 1<<10)} {
			_, err := s.Use(t.Context(), bad, true)
			storetest.WantCode(t, err, api.CodeUnauthorized)
		}
		if key, err := s.Use(t.Context(), other, true); err != nil || key != "otherkey" {
			t.Errorf("the other session: %q %v", key, err)
		}
	})
}

// Redis knows neither the id of a session nor a secret, and forgets the session when it has ended.
// The times are those of the contract, see TestTimes for what happens then.
func TestWhatRedisKnows(t *testing.T) {
	t.Parallel()
	r := storetest.Redis(t)
	db := storetest.Open(t, r.URL())
	s := sessions.New(db, ids(t, db), sessions.Options{})
	id, err := s.Open(t.Context(), "somekey")
	storetest.Must(t, err)
	keys, err := r.Client().Keys(t.Context(), "ff:{session:*").Result()
	storetest.Must(t, err)
	if len(keys) != 1 {
		t.Fatalf("keys %q", keys)
	}
	value := r.Client().Get(t.Context(), keys[0]).Val()
	if strings.Contains(keys[0]+value, id) || len(id) < 32 {
		t.Errorf("the id %q is in Redis, or short: %q %q", id, keys[0], value)
	}
	if left := r.Client().PTTL(t.Context(), keys[0]).Val(); left <= 50*time.Minute || left > time.Hour {
		t.Errorf("without use it lasts %v, not an hour", left)
	}
	var ends int64
	for _, digit := range strings.Fields(value)[0] {
		ends = ends*10 + int64(digit-'0')
	}
	if lasts := time.Until(time.UnixMilli(ends)); lasts <= 12*time.Hour-10*time.Minute || lasts > 12*time.Hour+time.Minute {
		t.Errorf("it lasts %v, not 12 h", lasts)
	}
}

// A session ends when it was not used for a while, and in any case after its whole life, however often
// it is used. What refreshes itself does not count as use.
func TestTimes(t *testing.T) {
	t.Parallel()
	r := storetest.Redis(t)
	db := storetest.Open(t, r.URL())
	t.Run("Idle", func(t *testing.T) {
		t.Parallel()
		s := sessions.New(db, ids(t, db), sessions.Options{Idle: time.Second})
		id, err := s.Open(t.Context(), "key")
		storetest.Must(t, err)
		storetest.Eventually(t, time.Minute, "it ends although a page refreshes itself", func() bool {
			_, err := s.Use(t.Context(), id, false)
			return api.CodeOf(err) == api.CodeUnauthorized
		})
	})
	t.Run("Used", func(t *testing.T) {
		t.Parallel()
		ids := ids(t, db)
		s := sessions.New(db, ids, sessions.Options{Idle: time.Minute, Life: 3 * time.Second})
		began := time.Now()
		id, err := s.Open(t.Context(), "key")
		storetest.Must(t, err)
		short := sessions.New(db, ids, sessions.Options{Idle: time.Minute})
		storetest.Eventually(t, time.Minute, "its life is over", func() bool {
			_, err := short.Use(t.Context(), id, true)
			return api.CodeOf(err) == api.CodeUnauthorized
		})
		if lasted := time.Since(began); lasted < 3*time.Second-100*time.Millisecond {
			t.Errorf("it lasted %v", lasted)
		}
	})
	t.Run("UseLetsItLast", func(t *testing.T) {
		t.Parallel()
		ids := ids(t, db)
		brief, s := sessions.New(db, ids, sessions.Options{Idle: time.Minute}), sessions.New(db, ids, sessions.Options{Idle: 2 * time.Hour, Life: 3 * time.Hour})
		id, err := brief.Open(t.Context(), "lasting")
		storetest.Must(t, err)
		_, err = s.Use(t.Context(), id, true)
		storetest.Must(t, err)
		found := time.Duration(0)
		keys, err := r.Client().Keys(t.Context(), "ff:{session:*").Result()
		storetest.Must(t, err)
		for _, key := range keys {
			if strings.HasSuffix(r.Client().Get(t.Context(), key).Val(), " lasting") {
				found = r.Client().PTTL(t.Context(), key).Val()
			}
		}
		if found < time.Hour {
			t.Errorf("after its use it lasts %v", found)
		}
	})
}

func TestRedisAway(t *testing.T) {
	t.Parallel()
	proxy, url := storetest.ProxyTo(t, storetest.Redis(t).URL())
	db := storetest.Open(t, url)
	s := sessions.New(db, ids(t, db), sessions.Options{})
	id, err := s.Open(t.Context(), "key")
	storetest.Must(t, err)
	proxy.Cut()
	for _, extend := range []bool{false, true} {
		if _, err := s.Use(t.Context(), id, extend); !api.Passing(err) {
			t.Errorf("while Redis is away: %v", err)
		}
	}
	proxy.Mend()
	storetest.Eventually(t, time.Minute, "the session is found again", func() bool {
		key, err := s.Use(t.Context(), id, true)
		return err == nil && key == "key"
	})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	storetest.Checks(t, os.DirFS("."))
}
