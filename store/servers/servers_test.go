package servers_test

import (
	"context"
	"os"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/servers"
	"fanfare/store/storetest"
)

// No goroutine that a test started runs after the tests.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// mustRun keeps a process on the list until the returned function is called.
func mustRun(t *testing.T, s *servers.Store, about api.Server) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, about) }()
	return func() {
		t.Helper()
		cancel()
		storetest.Must(t, <-ended)
	}
}

// ids are the ids of the listed processes.
func ids(t *testing.T, s *servers.Store) (out []string) {
	t.Helper()
	all, err := s.List(t.Context())
	storetest.Must(t, err)
	for _, one := range all {
		out = append(out, one.ID)
	}
	return out
}

func TestServers(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		s := servers.New(db, servers.Options{})
		if all, err := s.List(t.Context()); err != nil || all == nil || len(all) != 0 {
			t.Fatalf("%v %v", all, err)
		}
		began := time.Now()
		one := api.Server{ID: "one", Version: "v1", Roles: []string{"api"}, Shards: []int{}}
		two := api.Server{ID: "two", Version: "v2", Roles: []string{"jobs", "delivery"}, Shards: []int{0, 7}}
		stopOne := mustRun(t, s, one)
		storetest.Eventually(t, time.Minute, "the first is listed", func() bool { return slices.Equal(ids(t, s), []string{"one"}) })
		stopTwo := mustRun(t, s, two)
		storetest.Eventually(t, time.Minute, "both are listed", func() bool { return len(ids(t, s)) == 2 })
		all, err := s.List(t.Context())
		storetest.Must(t, err)
		for i, want := range []api.Server{one, two} {
			got := all[i]
			if d := got.StartedAt.Sub(began); d < -time.Second || d > time.Minute || got.SeenAt.Before(got.StartedAt.Time) {
				t.Errorf("%s: started %v after the test, seen %v", want.ID, d, got.SeenAt)
			}
			got.StartedAt, got.SeenAt = api.Time{}, api.Time{}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
		stopOne()
		if got := ids(t, s); !slices.Equal(got, []string{"two"}) {
			t.Errorf("after a stop: %v", got)
		}
		stopTwo()
	})
}

// A process that says nothing any more is off the list when its time is over, not before, and off
// Redis when another one is seen. One that goes on stays.
func TestSilentProcessesAreForgotten(t *testing.T) {
	t.Parallel()
	r := storetest.Redis(t)
	const lifetime = time.Second
	s, dead := servers.New(storetest.Open(t, r.URL()), servers.Options{Lifetime: lifetime}), servers.New(storetest.Open(t, r.URL()), servers.Options{Lifetime: lifetime})
	members := func() int64 {
		n, err := r.Client().ZCard(t.Context(), "ff:{processes}:seen").Result()
		storetest.Must(t, err)
		return n
	}
	stopDead := mustRun(t, dead, api.Server{ID: "dead"})
	storetest.Eventually(t, time.Minute, "it is listed", func() bool { return slices.Contains(ids(t, s), "dead") })
	copied, err := r.Client().ZRangeWithScores(t.Context(), "ff:{processes}:seen", 0, -1).Result()
	storetest.Must(t, err)
	stopDead()
	copied[0].Score = float64(time.Now().UnixMilli())
	storetest.Must(t, r.Client().ZAdd(t.Context(), "ff:{processes}:seen", copied...).Err()) // as if it had been killed
	died := time.UnixMilli(int64(copied[0].Score))
	storetest.Eventually(t, time.Minute, "the silent process is off the list", func() bool { return !slices.Contains(ids(t, s), "dead") })
	if after := time.Since(died); after < lifetime {
		t.Errorf("it is off the list after %v", after)
	}
	stop := mustRun(t, s, api.Server{ID: "alive"})
	defer stop()
	storetest.Eventually(t, time.Minute, "another process forgets it", func() bool {
		return slices.Equal(ids(t, s), []string{"alive"}) && members() == 1
	})
	first, err := s.List(t.Context())
	storetest.Must(t, err)
	storetest.Eventually(t, time.Minute, "the other one is seen again", func() bool {
		all, err := s.List(t.Context())
		return err == nil && len(all) == 1 && len(first) == 1 && all[0].SeenAt.After(first[0].SeenAt.Time) && all[0].StartedAt.Equal(first[0].StartedAt.Time)
	})
}

// A process whose rate changes is listed once, with its rate of now, also if the answer to a write was lost, and
// leaves nothing when it stops.
func TestN17_TheRateOfAProcess(t *testing.T) {
	t.Parallel()
	r := storetest.Redis(t)
	var rate atomic.Int64
	proxy, url := storetest.ProxyTo(t, r.URL())
	s := servers.New(storetest.Open(t, url), servers.Options{Lifetime: time.Second, DeliveredPerSecond: func() float64 { return float64(rate.Add(1)) + .04 }})
	stop := mustRun(t, s, api.Server{ID: "one", Addr: "127.0.0.1:8080", PID: 7})
	reader := servers.New(storetest.Open(t, r.URL()), servers.Options{Lifetime: time.Second})
	for _, wait := range []int64{3, 9} {
		storetest.Eventually(t, time.Minute, "its rate is another one", func() bool {
			all, err := reader.List(t.Context())
			return err == nil && len(all) == 1 && all[0].DeliveredPerSecond >= float64(wait) && all[0].PID == 7
		})
		proxy.Cut()
		proxy.Mend()
	}
	storetest.Eventually(t, time.Minute, "it is listed once", func() bool { return r.Client().ZCard(t.Context(), "ff:{processes}:seen").Val() == 1 })
	stop()
	if n := r.Client().ZCard(t.Context(), "ff:{processes}:seen").Val(); n != 0 {
		t.Errorf("%d descriptions are left", n)
	}
}

// What another version wrote, and this one cannot read, is left out.
func TestUnreadableDescriptions(t *testing.T) {
	t.Parallel()
	r := storetest.Redis(t)
	s := servers.New(storetest.Open(t, r.URL()), servers.Options{})
	now := float64(time.Now().UnixMilli())
	storetest.Must(t, r.Client().ZAdd(t.Context(), "ff:{processes}:seen",
		redis.Z{Score: now, Member: `{"id":7}`}, redis.Z{Score: now, Member: `{"id":"new","more":true}`}).Err())
	if got := ids(t, s); !slices.Equal(got, []string{"new"}) {
		t.Errorf("%v", got)
	}
}

// While Redis is away the list is an error, not empty. A process comes back to the list by itself.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	proxy, url := storetest.ProxyTo(t, storetest.Redis(t).URL())
	s := servers.New(storetest.Open(t, url), servers.Options{Lifetime: 2 * time.Second})
	proxy.Cut()
	stop := mustRun(t, s, api.Server{ID: "one"})
	defer stop()
	_, err := s.List(t.Context())
	storetest.WantCode(t, err, api.CodeUnavailable)
	proxy.Mend()
	storetest.Eventually(t, time.Minute, "it is listed", func() bool {
		all, err := s.List(t.Context())
		return err == nil && len(all) == 1
	})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	storetest.Checks(t, os.DirFS("."))
}
