package apikeys_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/apikeys"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

// The first key may be one that the operator chose; of many servers that start at
// once one makes it, and when there ever was a key nobody does.
func TestCreateFirst(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, rec *record.DB, s *apikeys.Store) {
		chosen := "ff_first_" + strings.Repeat("0123456789abcdef", 4)
		for _, bad := range []string{"", "secret", "ff_first_short", strings.ToUpper(chosen), "ff__" + strings.Repeat("a", 40), chosen + "\n", "ff_" + strings.Repeat("a", 33) + "_" + strings.Repeat("a", 40)} {
			if _, err := s.CreateFirst(t.Context(), bad); err == nil || s.Any() {
				t.Errorf("%q is taken", bad)
			}
		}
		var made atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				created, err := apikeys.New(rec, apikeys.Options{}).CreateFirst(t.Context(), chosen)
				if err != nil {
					t.Error(err)
				}
				if created {
					made.Add(1)
				}
			})
		}
		all.Wait()
		storetest.Must(t, s.Load(t.Context()))
		k, err := s.Authenticate(chosen)
		if err != nil || made.Load() != 1 || !k.Allows(api.ScopeSales) || !k.Allows(api.ScopeAdmin) {
			t.Fatalf("made %d times: %+v %v", made.Load(), k, err)
		}
		storetest.Must(t, s.Revoke(t.Context(), k.ID))
		if created, err := s.CreateFirst(t.Context(), strings.Replace(chosen, "first", "second", 1)); created || err != nil {
			t.Errorf("a second first key: %v %v", created, err)
		}
	})
}

// A key that expires works until then, on every server, and is shown with its end.
func TestExpiry(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, rec *record.DB, s *apikeys.Store) {
		end := api.AtMillis(time.Now().Add(1500 * time.Millisecond).UnixMilli())
		secret, _, err := s.Create(t.Context(), "short", []api.Scope{api.ScopePush}, &end)
		storetest.Must(t, err)
		other := apikeys.New(rec, apikeys.Options{})
		storetest.Must(t, other.Load(t.Context()))
		if _, err := other.Authenticate(secret); err != nil && time.Now().Before(end.Time) {
			t.Errorf("before its end: %v", err)
		}
		storetest.Eventually(t, 10*time.Second, "its end", func() bool {
			_, err := other.Authenticate(secret)
			return api.CodeOf(err) == api.CodeUnauthorized
		})
		if time.Now().Before(end.Time) {
			t.Error("it ended too early")
		}
		list, err := s.List(t.Context())
		if err != nil || list[0].ExpiresAt == nil || !list[0].ExpiresAt.Equal(end.Time) || list[0].RevokedAt != nil {
			t.Errorf("%+v %v", list, err)
		}
	})
}
