package apikeys_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/apikeys"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

// eachStore runs a test on both dialects, with a store whose keys are loaded.
func eachStore(t *testing.T, fn func(t *testing.T, rec *record.DB, s *apikeys.Store)) {
	t.Helper()
	storetest.EachSQL(t, func(t *testing.T, url string) {
		rec := storetest.Record(t, url)
		storetest.Must(t, rec.Migrate(t.Context()))
		s := apikeys.New(rec, apikeys.Options{})
		storetest.Must(t, s.Load(t.Context()))
		fn(t, rec, s)
	})
}

func mustCreate(t testing.TB, s *apikeys.Store, scopes ...api.Scope) (string, *api.Key) {
	t.Helper()
	secret, k, err := s.Create(t.Context(), "backend", scopes, nil)
	storetest.Must(t, err)
	return secret, k
}

// mustRun runs a store until the returned function is called.
func mustRun(t testing.TB, s *apikeys.Store) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	}
}

func TestCreate(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, rec *record.DB, s *apikeys.Store) {
		secret, k := mustCreate(t, s, api.ScopePush, api.ScopeOps)
		if !strings.HasPrefix(secret, "ff_"+k.ID+"_") || len(k.ID) < 25 || k.CreatedAt.IsZero() {
			t.Fatalf("%s %+v", secret, k)
		}
		t.Run("WorksAtOnceInThisProcess", func(t *testing.T) {
			got, err := s.Authenticate(secret)
			storetest.Must(t, err)
			if got.ID != k.ID || !got.Allows(api.ScopePush) || got.Allows(api.ScopeChat) {
				t.Fatalf("%+v", got)
			}
		})
		t.Run("TheSecretIsNotOnRecord", func(t *testing.T) {
			stored, err := rec.Keys(t.Context())
			storetest.Must(t, err)
			if _, random, _ := strings.Cut(strings.TrimPrefix(secret, "ff_"), "_"); strings.Contains(fmt.Sprintf("%+v", stored), random) {
				t.Fatal("the secret part is stored")
			}
		})
		t.Run("List", func(t *testing.T) {
			mustCreate(t, s, api.ScopeAdmin)
			list, err := s.List(t.Context())
			storetest.Must(t, err)
			at := slices.IndexFunc(list, func(l api.Key) bool { return l.ID == k.ID })
			if len(list) != 2 || at < 0 || list[1].CreatedAt.Before(list[0].CreatedAt.Time) {
				t.Fatalf("%+v", list) // of one millisecond either may be the first
			}
			if first := list[at]; at == 1 && !first.CreatedAt.Equal(list[0].CreatedAt.Time) || first.Name != "backend" || len(first.Scopes) != 2 || first.LastUsed != nil {
				t.Fatalf("%+v", list)
			}
		})
		t.Run("Refuses", func(t *testing.T) {
			for _, c := range []struct {
				name   string
				scopes []api.Scope
			}{{"", []api.Scope{api.ScopePush}}, {" ", []api.Scope{api.ScopePush}}, {strings.Repeat("x", 256), []api.Scope{api.ScopePush}}, {"x", nil}, {"x", []api.Scope{"root"}}} {
				_, _, err := s.Create(t.Context(), c.name, c.scopes, nil)
				storetest.WantCode(t, err, api.CodeValidation)
			}
		})
	})
}

func TestAuthenticate_WrongKeysAreUnauthorized(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, _ *record.DB, s *apikeys.Store) {
		secret, k := mustCreate(t, s, api.ScopePush)
		other, _ := mustCreate(t, s, api.ScopePush)
		flipped := "a"
		if strings.HasSuffix(secret, "a") {
			flipped = "b"
		}
		wrong := []string{
			"", "ff_", "ff__", "ff_x_y", "Bearer", secret[3:], secret + "a", secret[:len(secret)-1], secret[:len(secret)-1] + flipped,
			"ff_" + k.ID + "_", "ff_" + k.ID + "_" + other[strings.LastIndex(other, "_")+1:], strings.ToUpper(secret), "ff_" + strings.Repeat("x", 1<<16),
		}
		for _, w := range wrong {
			if _, err := s.Authenticate(w); api.CodeOf(err) != api.CodeUnauthorized {
				t.Errorf("%.80q: %v", w, err)
			}
		}
	})
}

func TestAuth_RunningServersFollowWithin10s(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, rec *record.DB, s *apikeys.Store) {
		server := apikeys.New(rec, apikeys.Options{})
		defer mustRun(t, server)()
		secret, k := mustCreate(t, s, api.ScopePush)
		storetest.Eventually(t, 10*time.Second, "a new key works", func() bool {
			_, err := server.Authenticate(secret)
			return err == nil
		})
		storetest.Must(t, s.Revoke(t.Context(), k.ID))
		_, err := s.Authenticate(secret)
		storetest.WantCode(t, err, api.CodeUnauthorized)
		storetest.Eventually(t, 10*time.Second, "a revoked key stops", func() bool {
			_, err := server.Authenticate(secret)
			return api.CodeOf(err) == api.CodeUnauthorized
		})
		storetest.Must(t, s.Revoke(t.Context(), k.ID))
		storetest.WantCode(t, s.Revoke(t.Context(), "nobody"), api.CodeNotFound)
	})
}

func TestAuth_OnceAFirstKeyExistedNeverOpenAgain(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, rec *record.DB, s *apikeys.Store) {
		if s.Any() {
			t.Fatal("a fresh record has a key")
		}
		_, k := mustCreate(t, s, api.ScopePush)
		storetest.Must(t, s.Revoke(t.Context(), k.ID))
		if !s.Any() {
			t.Fatal("open again after all keys were revoked")
		}
		later := apikeys.New(rec, apikeys.Options{})
		storetest.Must(t, later.Load(t.Context()))
		if !later.Any() {
			t.Fatal("a server started later is open though a key existed")
		}
	})
}

func TestAuth_LastUsedIsWrittenLazily(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, rec *record.DB, s *apikeys.Store) {
		lastUsed := func() *api.Time {
			list, err := s.List(t.Context())
			storetest.Must(t, err)
			return list[0].LastUsed
		}
		secret, _ := mustCreate(t, s, api.ScopePush)
		stop := mustRun(t, s)
		for range 100 {
			_, err := s.Authenticate(secret)
			storetest.Must(t, err)
		}
		if at := lastUsed(); at != nil {
			t.Fatalf("written at once: %v", at)
		}
		stop()
		at := lastUsed()
		if at == nil || time.Since(at.Time) > time.Minute {
			t.Fatalf("not written when the server stopped: %v", at)
		}
		t.Run("ALaterNoteStays", func(t *testing.T) {
			list, err := s.List(t.Context())
			storetest.Must(t, err)
			storetest.Must(t, rec.TouchKeys(t.Context(), map[string]time.Time{list[0].ID: at.Add(-time.Hour)}))
			if now := lastUsed(); !now.Equal(at.Time) {
				t.Fatalf("%v became %v", at, now)
			}
		})
		t.Run("WrittenWhileRunning", func(t *testing.T) {
			quick := apikeys.New(rec, apikeys.Options{PollEvery: 20 * time.Millisecond, NoteEvery: 20 * time.Millisecond})
			storetest.Must(t, quick.Load(t.Context()))
			defer mustRun(t, quick)()
			storetest.Eventually(t, 10*time.Second, "the use is on record", func() bool {
				_, err := quick.Authenticate(secret)
				storetest.Must(t, err)
				return lastUsed().After(at.Time)
			})
		})
	})
}

// U9: whether a key has ended is no use of it, and a key that another server has just made has not ended.
func TestU9_KeysThatHaveEnded(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, rec *record.DB, s *apikeys.Store) {
		soon := api.AtMillis(time.Now().Add(time.Second).UnixMilli())
		_, short, err := s.Create(t.Context(), "short", []api.Scope{api.ScopeTokens}, &soon)
		storetest.Must(t, err)
		_, revoked := mustCreate(t, s, api.ScopeTokens)
		_, valid := mustCreate(t, s, api.ScopeTokens)
		if apikeys.New(rec, apikeys.Options{}).Ended(valid.ID, time.Hour) {
			t.Error("a key ended before the keys were read")
		}
		stop := mustRun(t, s)
		storetest.Must(t, s.Revoke(t.Context(), revoked.ID))
		storetest.Eventually(t, 10*time.Second, "the short key's end", func() bool { return s.Ended(short.ID, 0) })
		for id, ago := range map[string]time.Duration{revoked.ID: 0, "gone": time.Minute, "": time.Minute} {
			if !s.Ended(id, ago) {
				t.Errorf("key %q has not ended", id)
			}
		}
		for id, ago := range map[string]time.Duration{valid.ID: time.Hour, "new": 10 * time.Second, "newest": 0} {
			if s.Ended(id, ago) {
				t.Errorf("key %q has ended", id)
			}
		}
		stop()
		list, err := s.List(t.Context())
		storetest.Must(t, err)
		for _, k := range list {
			if k.LastUsed != nil {
				t.Errorf("%s was used", k.Name)
			}
		}
	})
}

func TestAuth_NeitherKnownNorUnknownKeysCostSQL(t *testing.T) {
	t.Parallel()
	p, url := storetest.ProxyTo(t, storetest.MySQL(t))
	rec := storetest.Record(t, url)
	storetest.Must(t, rec.Migrate(t.Context()))
	s := apikeys.New(rec, apikeys.Options{})
	storetest.Must(t, s.Load(t.Context()))
	secret, _ := mustCreate(t, s, api.ScopePush)
	before := p.Bytes()
	for i := range 1000 {
		_, _ = s.Authenticate(secret)
		_, err := s.Authenticate(fmt.Sprintf("ff_unknown%d_x", i))
		storetest.WantCode(t, err, api.CodeUnauthorized)
	}
	if n := p.Bytes() - before; n != 0 {
		t.Fatalf("%d bytes went to SQL", n)
	}
}

func TestAuth_SQLAway(t *testing.T) {
	t.Parallel()
	p, url := storetest.ProxyTo(t, storetest.MySQL(t))
	rec := storetest.Record(t, url)
	storetest.Must(t, rec.Migrate(t.Context()))
	s := apikeys.New(rec, apikeys.Options{})
	t.Run("BeforeTheKeysWereReadNobodyIsToldThatHisKeyIsWrong", func(t *testing.T) {
		_, err := s.Authenticate("ff_a_b")
		storetest.WantCode(t, err, api.CodeUnavailable)
	})
	storetest.Must(t, s.Load(t.Context()))
	secret, _ := mustCreate(t, s, api.ScopePush)
	p.Cut()
	defer mustRun(t, s)()
	t.Run("KnownKeysGoOnWorking", func(t *testing.T) {
		_, err := s.Authenticate(secret)
		storetest.Must(t, err)
		_, _, err = s.Create(t.Context(), "x", []api.Scope{api.ScopePush}, nil)
		if code := api.CodeOf(err); code != api.CodeUnavailable {
			t.Fatalf("code %q: %v", code, err)
		}
	})
	t.Run("UnknownKeysAreUnavailableOnceItIsTooOldToTell", func(t *testing.T) {
		storetest.Eventually(t, 20*time.Second, "unknown keys are answered with unavailable", func() bool {
			_, err := s.Authenticate("ff_a_b")
			return api.CodeOf(err) == api.CodeUnavailable
		})
		_, err := s.Authenticate(secret)
		storetest.Must(t, err)
		if s.Ended("a", time.Hour) {
			t.Error("a key that was perhaps made meanwhile has ended")
		}
	})
	t.Run("Heals", func(t *testing.T) {
		p.Mend()
		storetest.Eventually(t, 10*time.Second, "unknown keys are unauthorized again", func() bool {
			_, err := s.Authenticate("ff_a_b")
			return api.CodeOf(err) == api.CodeUnauthorized
		})
	})
}
