package devices_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/devices"
	"fanfare/store/queue"
	"fanfare/store/record"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// world is everything a Store stands on.
type world struct {
	db    *redisdb.DB
	rec   *record.DB
	queue *queue.Queue
	store *devices.Store
}

// eachWorld runs a test on real Redis with MySQL and on the embedded parts.
func eachWorld(t *testing.T, fn func(t *testing.T, w *world)) {
	t.Helper()
	t.Run("redis and mysql", func(t *testing.T) {
		t.Parallel()
		fn(t, setup(t, storetest.Redis(t).URL(), storetest.MySQL(t)))
	})
	t.Run("embedded and sqlite", func(t *testing.T) {
		t.Parallel()
		fn(t, setup(t, "embedded", storetest.SQLite(t)))
	})
}

func setup(t testing.TB, redisURL, sqlURL string) *world {
	t.Helper()
	return setupOn(t, storetest.Open(t, redisURL), sqlURL)
}

func setupOn(t testing.TB, db *redisdb.DB, sqlURL string) *world {
	t.Helper()
	w := &world{db: db, rec: storetest.Record(t, sqlURL)}
	storetest.Must(t, w.rec.Migrate(t.Context()))
	w.queue = queue.New(w.db, queue.Options{Name: "notifications"})
	w.store = w.another(devices.Options{})
	return w
}

// another is a second process's store over the same Redis and SQL.
func (w *world) another(o devices.Options) *devices.Store {
	return devices.New(w.db, w.rec, w.queue, o)
}

// withoutSQL is a process whose SQL is away.
func (w *world) withoutSQL(t testing.TB) *devices.Store {
	t.Helper()
	rec := storetest.Record(t, fmt.Sprintf("mysql://u:p@127.0.0.1:%d/x", storetest.FreePort(t)))
	return devices.New(w.db, rec, w.queue, devices.Options{})
}

func token(i int) string { return fmt.Sprintf("%064x", i) }

func mustPut(t testing.TB, s *devices.Store, user, tok string) *api.Device {
	t.Helper()
	d, _, err := s.PutDevice(t.Context(), user, tok,
		&api.DeviceRequest{Platform: "apns", Topic: "com.example.app", Environment: api.EnvSandbox})
	storetest.Must(t, err)
	return d
}

func mustTarget(t testing.TB, s *devices.Store, q devices.Query) devices.Target {
	t.Helper()
	found, err := s.Targets(t.Context(), []devices.Query{q})
	storetest.Must(t, err)
	return found[0]
}

// mustGuard is what a claim of this token's notifications would see.
func mustGuard(t testing.TB, w *world, tok string) devices.Guard {
	t.Helper()
	keys, err := w.db.Client().Keys(t.Context(), "ff:{q:notifications:*"+devices.GuardName(tok)).Result()
	storetest.Must(t, err)
	if len(keys) != 1 {
		t.Fatalf("guard keys of the token: %v", keys)
	}
	if ttl := w.db.Client().PTTL(t.Context(), keys[0]).Val(); ttl < 24*time.Hour+time.Hour-time.Minute {
		t.Fatalf("the guard lives %v only", ttl)
	}
	g, ok := devices.ParseGuard(w.db.Client().Get(t.Context(), keys[0]).Val())
	if !ok {
		t.Fatal("the guard cannot be read")
	}
	return g
}

// mustOutbox counts the rows that wait, of any age.
func mustOutbox(t testing.TB, w *world) int {
	t.Helper()
	n := 0
	for _, kind := range []string{record.KindSettings, record.KindGuard} {
		due, err := w.rec.OutboxPage(t.Context(), kind, 0, record.OpenRow{}, 1000)
		storetest.Must(t, err)
		n += len(due)
	}
	return n
}

// mustRelayOnce hands a store all rows that wait, once, those of guards first. Those of guards that it cannot write stay.
func mustRelayOnce(t testing.TB, w *world, s *devices.Store) {
	t.Helper()
	for _, kind := range []string{record.KindGuard, record.KindSettings} {
		page, err := w.rec.OutboxPage(t.Context(), kind, 0, record.OpenRow{}, 1000)
		storetest.Must(t, err)
		rows := make([]record.OutboxRow, len(page))
		for i, row := range page {
			rows[i] = row.OutboxRow
		}
		done, _ := s.Outbox()[kind](t.Context(), rows)
		storetest.Must(t, w.rec.DeleteOutbox(t.Context(), done...))
	}
}

// quick is a relay that takes over soon.
var quick = record.RelayOptions{Every: 20 * time.Millisecond, Age: time.Millisecond}

// mustRelay runs the relay of one more process until the test ends.
func mustRelay(t testing.TB, w *world, o record.RelayOptions) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.rec.NewRelay(o, w.store.Outbox()).Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

// insist repeats a call while it is refused: a token may move more often than one call tries, and on a busy
// machine Redis may answer too late.
func insist(ctx context.Context, f func() error) error {
	for {
		err := f()
		if code := api.CodeOf(err); err == nil || code != api.CodeUnavailable && code != api.CodeUnknownOutcome || ctx.Err() != nil {
			return err
		}
	}
}
