package facts

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// recorded is a world with devices in SQL.
type recorded struct {
	*world
	rec *record.DB
}

func setupRecorded(t testing.TB, db *redisdb.DB, change ...func(*Options)) *recorded {
	t.Helper()
	rec := storetest.Record(t, storetest.SQLite(t))
	storetest.Must(t, rec.Migrate(t.Context()))
	return &recorded{setup(t, db, append(change, func(o *Options) { o.Record = rec })...), rec}
}

func token(n int) string { return fmt.Sprintf("%064x", n) }

// drop drops a user's device, after it was registered, and returns the keys that are told.
func (r *recorded) drop(ctx context.Context, n int, reason string) ([]string, error) {
	w := record.DeviceWrite{User: "ann", Token: token(n), Owner: "ann", Tells: func() bool { return true }}
	done, _, err := r.rec.PutDevice(ctx, w, &api.DeviceRequest{Platform: "apns", Topic: "com.example.app", Environment: api.EnvSandbox})
	if err != nil {
		return nil, err
	}
	c, err := r.rec.SetDeviceState(ctx, w, record.StateChange{State: api.DeviceDropped, Reason: reason, RegisteredAt: done.Device.RegisteredAt})
	return c.Told, err
}

func (r *recorded) mustDrop(n int, reason string) []string {
	r.t.Helper()
	keys, err := r.drop(r.t.Context(), n, reason)
	storetest.Must(r.t, err)
	return keys
}

// process is another process with the same Redis and SQL.
func (r *recorded) process(db *redisdb.DB) *Store {
	o := r.s.o
	o.DB = db
	return New(o)
}

// sweep relays all rows of the outbox once, of any age.
func (r *recorded) sweep(s *Store) error {
	return r.rec.NewRelay(record.RelayOptions{Age: time.Nanosecond}, s.Outbox()).Sweep(r.t.Context())
}

// told are the reasons for which devices were dropped, by key, in the order in which they are told.
func (r *recorded) told() map[string][]string {
	r.t.Helper()
	facts, _, _ := r.mustReadAll("", 1000)
	told := map[string][]string{}
	for _, f := range facts {
		var d struct{ User, Device, Reason string }
		storetest.Must(r.t, json.Unmarshal(f.Data, &d))
		if age := time.Since(f.At.Time); f.Type != api.FactDeviceDropped || d.User != "ann" || d.Device != token(0)[:8] || age < -time.Minute || age > time.Hour { // the machine may be busy
			r.t.Errorf("the fact is %+v with %s", f, f.Data)
		}
		told[f.Key] = append(told[f.Key], d.Reason)
	}
	return told
}

func (r *recorded) mustOpen() int64 {
	r.t.Helper()
	open, _, err := r.rec.OutboxLag(r.t.Context(), record.KindFact)
	storetest.Must(r.t, err)
	return open
}

// H1, H2: what a transaction has left is told once, that of a device in its order, whichever and how many processes tell it, and
// wherever they die.
func TestH1_FactsOnRecordAreToldOnce(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		r := setupRecorded(t, db)
		const devices, drops = 23, 5
		want := map[string][]string{}
		for i := range devices * drops {
			n, reason := i/drops, fmt.Sprint("reason ", i%drops)
			keys := r.mustDrop(n, reason)
			want[keys[0]] = append(want[keys[0]], reason)
			dying := r.process(storetest.Faulty(t, db, storetest.DieAt(rand.IntN(4)).Fault))
			switch i % 4 {
			case 0: // the process dies before it tells anything
			case 1:
				dying.Recorded(keys...)
				dying.tellRecorded(t.Context())
			case 2:
				_ = r.sweep(dying)
			case 3:
				r.s.Recorded(keys...)
				r.s.tellRecorded(t.Context())
			}
		}
		storetest.AtOnce(t, 4, func(context.Context, int) error { return r.sweep(r.process(db)) })
		if got := r.told(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("told %v, want %v", got, want)
		}
		if open := r.mustOpen(); open != 0 {
			t.Errorf("%d rows are left", open)
		}
	})
}

// H1: the process that has made a fact true tells it at once, and the row stays for the relay.
func TestH1_FactsOnRecordAreToldAtOnce(t *testing.T) {
	t.Parallel()
	r := setupRecorded(t, storetest.Open(t, storetest.Redis(t).URL()))
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = r.s.RunRecorded(ctx) })
	defer running.Wait()
	defer stop()
	at := r.mustRead(api.FactsNow, 1).Next
	for n := range 3 {
		keys := r.mustDrop(n, "Unregistered")
		began := time.Now()
		r.s.Recorded(keys...)
		list, err := r.s.Read(t.Context(), waiting(t, soon), at, nil, 10)
		if err != nil || len(list.Items) != 1 || list.Items[0].Key != keys[0] {
			t.Fatalf("fact %d: %v, %v", n, list, err)
		}
		t.Logf("fact %d took %v", n, time.Since(began))
		at = list.Next
	}
	if open := r.mustOpen(); open != 3 {
		t.Errorf("%d rows are open, want 3", open)
	}
}

// H10: Redis loses its data before a fact was told, and right after: it is told all the same.
func TestH10_RedisIsEmptied(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	r := setupRecorded(t, storetest.Open(t, server.URL()))
	before, after := r.mustDrop(1, "Unregistered"), r.mustDrop(2, "Unregistered")
	r.s.Recorded(after...)
	r.s.tellRecorded(t.Context())
	if told := r.told(); len(told) != 1 {
		t.Fatalf("told %v", told)
	}
	storetest.Must(t, server.Client().FlushAll(t.Context()).Err())
	storetest.Must(t, r.sweep(r.s))
	if told := r.told(); len(told[before[0]]) != 1 || len(told[after[0]]) != 1 || r.mustOpen() != 0 {
		t.Errorf("told %v", told)
	}
}

// While the master of a lane is away, facts of other lanes are told. A fact whose lane is away is not overtaken by a later one of its
// device, also if it is on another page of rows.
func TestALaneIsAwayForFactsOnRecord(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Redis(t).URL())
	r := setupRecorded(t, db)
	var calls atomic.Int64
	key := r.mustDrop(0, "first")[0]
	away := r.s.keys(r.q.LaneOf(key))[0]
	s := r.process(storetest.FaultyBy(t, db, func(cmd redis.Cmder) string {
		if slices.Contains(cmd.Args(), any(away)) {
			return "lane"
		}
		return ""
	}, func(string, bool) error {
		if calls.Add(1) == 1 { // back for the second page
			return storetest.ErrCut
		}
		return nil
	}))
	const others = 505 // more than one page
	elsewhere := 0
	for n := range others {
		if k := r.mustDrop(n+1, "other"); r.q.LaneOf(k[0]) != r.q.LaneOf(key) {
			elsewhere++
		}
	}
	r.mustDrop(0, "second")
	if err := r.sweep(s); err == nil {
		t.Error("a round without a lane succeeded")
	}
	told := r.told()
	if len(told) < elsewhere {
		t.Errorf("%d devices are told, %d are in lanes that are there", len(told), elsewhere)
	}
	if got := told[key]; len(got) > 0 && got[0] != "first" {
		t.Errorf("told %v", got)
	}
	storetest.Must(t, r.sweep(s))
	if told = r.told(); len(told) != others+1 || !slices.Equal(told[key], []string{"first", "second"}) {
		t.Errorf("%d devices are told, the first one %v", len(told), told[key])
	}
}

// A row is remembered for longer than it may be told: a row that is older than facts are kept is dropped.
func TestOldFactsOnRecordAreDropped(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "embedded")
	r := setupRecorded(t, db, func(o *Options) { o.Retention = time.Hour })
	key := r.mustDrop(1, "Unregistered")[0]
	storetest.Must(t, r.sweep(r.s))
	remembered := db.Client().Keys(t.Context(), r.q.KeyBeside(r.q.LaneOf(key), "facts:done:*")).Val()
	if len(remembered) != 1 {
		t.Fatalf("rows are remembered in %v", remembered)
	}
	if ttl := db.Client().PTTL(t.Context(), remembered[0]).Val(); ttl <= 24*time.Hour || ttl > 25*time.Hour {
		t.Errorf("the row is remembered for %v, want 25 h", ttl)
	}
	r.mustDrop(2, "Unregistered")
	dropped := db.Clock() // in this millisecond the row is not older than any retention
	storetest.Eventually(t, soon, "two milliseconds have passed", func() bool { return db.Clock().Sub(dropped) >= 2*time.Millisecond })
	later := New(Options{DB: db, Events: r.q, Record: r.rec, Retention: time.Nanosecond})
	storetest.Eventually(t, soon, "the row is older than facts are kept", func() bool { return r.sweep(later) == nil && r.mustOpen() == 0 })
	if told := r.told(); len(told) != 1 {
		t.Errorf("told %v", told)
	}
}
