package apps_test

import (
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/apps"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

func TestApps(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		s, app := apps.New(db, apps.Options{}), "com.example/production"
		t.Run("pausing keeps the first time and tells the first", func(t *testing.T) {
			mustChange(t, true)(s.PauseApp(t.Context(), app, "403 Forbidden now"))
			since := mustApps(t, s)[app].Since
			mustChange(t, false)(s.PauseApp(t.Context(), app, "again"))
			got := mustApps(t, s)[app]
			if got.State != apps.Paused || got.Reason != "403 Forbidden now" || !got.Since.Equal(since) {
				t.Errorf("app %+v", got)
			}
			if d := time.Since(since); d < -time.Minute || d > time.Minute {
				t.Errorf("paused since %v", since)
			}
		})
		t.Run("one resumer is told, and only a paused app resumes", func(t *testing.T) {
			mustChange(t, true)(s.ResumeApp(t.Context(), app))
			mustChange(t, false)(s.ResumeApp(t.Context(), app))
			mustChange(t, false)(s.ResumeApp(t.Context(), "other"))
			if got := mustApps(t, s)[app]; got.State != apps.Resuming || got.Reason == "" {
				t.Errorf("app %+v", got)
			}
		})
		t.Run("an app paused while resuming is not forgotten", func(t *testing.T) {
			mustChange(t, true)(s.PauseApp(t.Context(), app, ""))
			if err := s.ForgetApp(t.Context(), app); err != nil {
				t.Fatal(err)
			}
			if got := mustApps(t, s)[app]; got.State != apps.Paused {
				t.Errorf("app %+v", got)
			}
		})
		t.Run("forgotten", func(t *testing.T) {
			mustChange(t, true)(s.ResumeApp(t.Context(), app))
			if err := s.ForgetApp(t.Context(), app); err != nil {
				t.Fatal(err)
			}
			if got := mustApps(t, s); len(got) != 0 {
				t.Errorf("apps %+v", got)
			}
		})
	})
}

// H1, H2: each pause and each end of one leaves one fact in the step that makes it true, in their order, also if the answer of the step
// is lost. None is left of what did not happen, or while nobody wants to hear of it.
func TestH1_PausesLeaveFacts(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		const app = "com.example/production"
		var tells, left atomic.Int64
		s := apps.New(storetest.Faulty(t, db, func(_ string, answered bool) error {
			if answered && tells.Load() > 1 {
				return storetest.ErrTwice
			}
			return nil
		}), apps.Options{
			Tells: func(typ string) bool {
				return typ == api.FactAppPaused && tells.Load() > 0 || typ == api.FactAppResumed && tells.Load() > 1
			},
			Left: func() { left.Add(1) },
		})
		round := func() {
			t.Helper()
			for range 2 {
				_, err := s.PauseApp(t.Context(), app, "403 \"Forbidden\"\nnow")
				storetest.Must(t, err)
			}
			for range 2 {
				_, err := s.ResumeApp(t.Context(), app)
				storetest.Must(t, err)
			}
			_, err := s.PauseApp(t.Context(), app, "again")
			storetest.Must(t, err)
			if kept, most := db.Client().PTTL(t.Context(), "ff:{apps}:paused").Val(), 7*24*time.Hour; kept < most-time.Hour || kept > most { // what expires tells nothing
				t.Errorf("a pause is kept for %v", kept)
			}
			_, err = s.ResumeApp(t.Context(), app)
			storetest.Must(t, err)
			storetest.Must(t, s.ForgetApp(t.Context(), app))
		}
		round()
		if n := db.Client().Exists(t.Context(), apps.FactsKey).Val(); n != 0 {
			t.Error("facts were left that nobody wants to hear of")
		}
		tells.Store(1)
		round()
		if n := left.Load(); n != 2 {
			t.Errorf("the relay was called %d times, want 2", n)
		}
		tells.Store(2)
		round()
		var got []string
		for _, m := range db.Client().XRange(t.Context(), apps.FactsKey, "-", "+").Val() {
			if m.Values["k"] != app || m.Values["a"] == "" {
				t.Errorf("the entry is %v", m.Values)
			}
			got = append(got, m.Values["t"].(string)+" "+m.Values["d"].(string))
		}
		first, again := `app.paused {"app":"`+app+`","reason":"403 \"Forbidden\"\nnow"}`, `app.paused {"app":"`+app+`","reason":"again"}`
		resumed := `app.resumed {"app":"` + app + `"}`
		if want := []string{first, again, first, resumed, again, resumed}; !slices.Equal(got, want) {
			t.Errorf("left %q, want %q", got, want)
		}
	})
}

func TestTakeProbe(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		s := apps.New(db, apps.Options{})
		var won atomic.Int32
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if ok, err := s.TakeProbe(t.Context(), "a/production", time.Minute); err != nil {
					t.Error(err)
				} else if ok {
					won.Add(1)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Errorf("%d probes in one interval, want 1", won.Load())
		}
		if err := s.FreeProbe(t.Context(), "a/production"); err != nil {
			t.Fatal(err)
		}
		mustChange(t, true)(s.TakeProbe(t.Context(), "a/production", 50*time.Millisecond))
		storetest.Eventually(t, 30*time.Second, "the interval to end", func() bool {
			ok, err := s.TakeProbe(t.Context(), "a/production", time.Minute)
			return ok && err == nil
		})
	})
}

// A request for probes lets exactly the named apps be probed, and every process sees it. Under one
// Idempotency-Key there is one request.
func TestAskProbe(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		s := apps.New(db, apps.Options{})
		const one, two, other = "a/production", "a/fcm", "b/production"
		taken := func(app string, want bool) {
			t.Helper()
			mustChange(t, !want)(s.TakeProbe(t.Context(), app, time.Hour))
		}
		ask := func(once api.Idempotency, apps ...string) bool {
			t.Helper()
			replayed, err := s.AskProbe(t.Context(), once, apps...)
			storetest.Must(t, err)
			return replayed
		}
		asked := func() map[string]string {
			t.Helper()
			all, err := s.Asked(t.Context())
			storetest.Must(t, err)
			return all
		}
		for _, app := range []string{one, two, other} {
			taken(app, false)
		}
		if all := asked(); len(all) != 0 {
			t.Errorf("before: %v", all)
		}
		ask(api.Idempotency{}, one, two)
		first := asked()
		if len(first) != 2 || first[one] == "" || first[one] != first[two] {
			t.Errorf("asked %v", first)
		}
		taken(one, false)
		taken(two, false)
		taken(other, true)
		ask(api.Idempotency{}, one)
		second := asked()
		if second[one] == first[one] || second[two] != first[two] {
			t.Errorf("asked again: %v, before %v", second, first)
		}
		once := api.Idempotency{Scope: "key", Key: "k", Body: [32]byte{1}}
		if ask(once, one) {
			t.Error("the first call with a key is called a replay")
		}
		third := asked()
		taken(one, false)
		if !ask(once, one) || asked()[one] != third[one] {
			t.Error("the second call with a key asked again")
		}
		taken(one, true)
		once.Body[0]++
		_, err := s.AskProbe(t.Context(), once, one)
		storetest.WantCode(t, err, api.CodeIdempotencyReused)
		taken(one, true)
		if ask(api.Idempotency{Scope: "other", Key: "k"}) { // no app is paused
			t.Error("another caller's key is called a replay")
		}
		if !ask(api.Idempotency{Scope: "other", Key: "k"}) || len(asked()) != 2 {
			t.Errorf("a request for no app: %v", asked())
		}
	})
}

func mustChange(t *testing.T, want bool) func(bool, error) {
	t.Helper()
	return func(got bool, err error) {
		t.Helper()
		if err != nil || got != want {
			t.Errorf("got %v, %v; want %v", got, err, want)
		}
	}
}

func mustApps(t *testing.T, s *apps.Store) map[string]apps.App {
	t.Helper()
	all, err := s.Apps(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestScripts(t *testing.T) {
	t.Parallel()
	storetest.Checks(t, os.DirFS("."))
}
