package contacts

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/record"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// testPatience is how long tests wait for what should take a moment: longer than a
// right to build that a killed process left behind.
const testPatience = 60 * time.Second

// world is one store on a Redis and a database of its own.
type world struct {
	*Store
	db     *redisdb.DB
	sql    *sql.DB
	sqlURL string
	relay  record.RelayOptions
}

// eachWorld runs a test on real Redis with MariaDB and on the embedded Redis
// with SQLite.
func eachWorld(t *testing.T, o Options, fn func(t *testing.T, w *world)) {
	t.Helper()
	t.Run("redis+mysql", func(t *testing.T) {
		t.Parallel()
		fn(t, setup(t, storetest.Redis(t).URL(), storetest.MySQL(t), o))
	})
	t.Run("embedded+sqlite", func(t *testing.T) {
		t.Parallel()
		fn(t, setup(t, "embedded", storetest.SQLite(t), o))
	})
}

func setup(t testing.TB, redisURL, sqlURL string, o Options) *world {
	t.Helper()
	rec, err := record.Open(t.Context(), record.Options{URL: sqlURL})
	storetest.Must(t, err)
	t.Cleanup(func() { _ = rec.Close() })
	storetest.Must(t, rec.Migrate(t.Context()))
	db := storetest.Open(t, redisURL)
	return withStore(t, db, db, rec, sqlURL, o)
}

func withStore(t testing.TB, contacts, main *redisdb.DB, rec *record.DB, sqlURL string, o Options) *world {
	t.Helper()
	jobs := queue.New(main, queue.Options{Name: "jobs", Shards: 2, MaxAge: -1, Lease: 2 * time.Second, RetryMax: time.Second})
	storetest.Must(t, jobs.Init(t.Context()))
	s := New(contacts, rec, jobs, o)
	return &world{Store: s, db: contacts, sql: mustSQL(t, sqlURL), sqlURL: sqlURL}
}

// mustSQL opens the database beside the record, for queries of the test's own.
func mustSQL(t testing.TB, sqlURL string) *sql.DB {
	t.Helper()
	driver, dsn := "sqlite", strings.TrimPrefix(sqlURL, "sqlite:")+"?_pragma=busy_timeout(5000)"
	if strings.HasPrefix(sqlURL, "mysql://") {
		u, err := url.Parse(sqlURL)
		storetest.Must(t, err)
		c := mysql.NewConfig()
		c.User = u.User.Username()
		c.Passwd, _ = u.User.Password()
		c.Net, c.Addr, c.DBName = "tcp", u.Host, strings.Trim(u.Path, "/")
		driver, dsn = "mysql", c.FormatDSN()
	}
	db, err := sql.Open(driver, dsn)
	storetest.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// quick is a relay that takes over soon.
var quick = record.RelayOptions{Every: 50 * time.Millisecond, Age: 100 * time.Millisecond}

// work runs the jobs and the relay until the test ends or stop is called.
func (w *world) work(t testing.TB) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- w.jobs.Run(ctx, queue.ByType(w.Jobs())) }()
	go func() { done <- w.rec.NewRelay(w.relay, w.Outbox()).Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Errorf("worker: %v", err)
			}
		}
	}
	t.Cleanup(stop)
	return stop
}

// waitForJobs waits until no change has work left.
func (w *world) waitForJobs(t testing.TB) {
	t.Helper()
	var stats api.ContactsStats
	var q api.QueueStats
	var err error
	defer func() {
		if t.Failed() {
			t.Logf("contacts %+v, queue %+v, error %v", stats, q, err)
		}
	}()
	storetest.Eventually(t, testPatience, "every change's job is done", func() bool {
		if stats, err = w.Stats(t.Context()); err != nil || stats.Pending > 0 {
			return false
		}
		q, err = w.jobs.Stats(t.Context())
		return err == nil && q.Depth+q.InFlight+q.Scheduled+q.Blocked == 0
	})
}

func (w *world) mustPut(t testing.TB, user, contact string, relationship api.Relationship) {
	t.Helper()
	_, _, err := w.PutContact(t.Context(), user, contact, &api.ContactRequest{Relationship: relationship})
	storetest.Must(t, err)
}

func (w *world) mustRemove(t testing.TB, user, contact string) {
	t.Helper()
	storetest.Must(t, w.DeleteContact(t.Context(), user, contact))
}

func (w *world) mustUpload(t testing.TB, id, owner string, v api.Visibility, ms int64) {
	t.Helper()
	at := api.AtMillis(ms)
	_, _, _, err := w.PostUpload(t.Context(), &api.UploadRequest{ID: id, Owner: owner, Visibility: v, UploadedAt: &at}, api.Idempotency{})
	storetest.Must(t, err)
}

// mustRecent reads and writes the answer as "a@5 b@3", with "..." after an
// answer that may not be complete.
func (w *world) mustRecent(t testing.TB, user string, n int) string {
	t.Helper()
	got, err := w.RecentContacts(t.Context(), user, n)
	storetest.Must(t, err)
	return write(got)
}

func write(r *api.RecentContacts) string {
	out := make([]string, len(r.Items))
	for i, c := range r.Items {
		out[i] = fmt.Sprintf("%s@%d", c.Contact, c.LastUploadAt.UnixMilli())
	}
	if !r.Complete {
		out = append(out, "...")
	}
	return strings.Join(out, " ")
}

func (w *world) want(t testing.TB, user string, n int, want string) {
	t.Helper()
	if got := w.mustRecent(t, user, n); got != want {
		t.Fatalf("the %d most recent of %s: %q, want %q", n, user, got, want)
	}
}

// plainSQL is the answer without any index, as one would write it first.
const plainSQL = `SELECT c.contact, MAX(u.uploaded_at) AS last_upload
FROM contacts c JOIN uploads u ON u.owner = c.contact AND u.deleted = FALSE
LEFT JOIN contacts r ON r.owner = c.contact AND r.contact = c.owner AND r.deleted = FALSE
WHERE c.owner = ? AND c.deleted = FALSE AND (u.visibility = 'public'
	OR (u.visibility = 'contacts' AND r.relationship IS NOT NULL)
	OR (u.visibility = 'friends' AND r.relationship = 'friend')
	OR (u.visibility = 'family' AND r.relationship = 'family'))
GROUP BY c.contact ORDER BY last_upload DESC, c.contact DESC LIMIT ?`

// bruteForce is what plain SQL answers, in the form of mustRecent.
func (w *world) bruteForce(t testing.TB, user string, n int) string {
	t.Helper()
	rows, err := w.sql.QueryContext(t.Context(), plainSQL, user, n)
	storetest.Must(t, err)
	defer rows.Close()
	var out []string
	for rows.Next() {
		var contact string
		var at int64
		storetest.Must(t, rows.Scan(&contact, &at))
		out = append(out, fmt.Sprintf("%s@%d", contact, at))
	}
	storetest.Must(t, rows.Err())
	return strings.Join(out, " ")
}

// mustHave gives a user so many contacts on record, each with one public upload.
func (w *world) mustHave(t testing.TB, user string, n int) {
	t.Helper()
	all := make([]record.Contact, n)
	for i := range all {
		all[i] = record.Contact{Owner: user, Contact: fmt.Sprintf("%s-%06d", user, i), Relationship: "friend"}
	}
	for part := range slices.Chunk(all, 500) {
		storetest.Must(t, w.rec.PutContacts(t.Context(), part...))
	}
	for from := 0; from < n; from += 1000 {
		var args []any
		for i := from; i < min(from+1000, n); i++ {
			args = append(args, all[i].Contact+"-up", all[i].Contact, 1000+(i*7919)%n)
		}
		values := strings.TrimSuffix(strings.Repeat("(?, ?, 'public', FALSE, ?, 0, 0), ", len(args)/3), ", ")
		_, err := w.sql.ExecContext(t.Context(), "INSERT INTO uploads (id, owner, visibility, deleted, uploaded_at, created_at, updated_at) VALUES "+values, args...)
		storetest.Must(t, err)
	}
}

// members are the entries of a user's index as Redis has them, best first.
func (w *world) members(t testing.TB, user string) []string {
	t.Helper()
	list, err := w.db.Client().ZRevRangeWithScores(t.Context(), recentKey(user), 0, -1).Result()
	storetest.Must(t, err)
	out := make([]string, len(list))
	for i, z := range list {
		out[i] = fmt.Sprintf("%s@%.0f", z.Member, z.Score)
	}
	return out
}

func (w *world) wantMembers(t testing.TB, user string, want ...string) {
	t.Helper()
	if got := w.members(t, user); !slices.Equal(got, want) {
		t.Fatalf("the index of %s has %v, want %v", user, got, want)
	}
}

// state reads a field of a user's state, "" when there is none.
func (w *world) state(t testing.TB, user, field string) string {
	t.Helper()
	v, err := w.db.Client().HGet(t.Context(), stateKey(user), field).Result()
	if err != redis.Nil {
		storetest.Must(t, err)
	}
	return v
}

func z(member string, score float64) redis.Z { return redis.Z{Member: member, Score: score} }

// forbidScans takes every slot: from here on nobody can go through contacts in
// SQL, till allowScans.
func (w *world) forbidScans() {
	for range cap(w.scans) {
		w.scans <- struct{}{}
		w.fullScans <- struct{}{}
	}
}

func (w *world) allowScans() {
	for range cap(w.scans) {
		<-w.scans
		<-w.fullScans
	}
}
