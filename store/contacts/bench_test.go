package contacts

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

// mustLoad gives a user so many contacts, each with three uploads, on record.
func (w *world) mustLoad(b *testing.B, user string, n int) {
	b.Helper()
	names := make([]string, n)
	rows := make([]record.Contact, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%06d", user, i)
		rows[i] = record.Contact{Owner: user, Contact: names[i], Relationship: "friend"}
	}
	for part := range slices.Chunk(rows, 10_000) {
		storetest.Must(b, w.rec.PutContacts(b.Context(), part...))
	}
	at := int64(1_700_000_000_000)
	for part := range slices.Chunk(names, 500) {
		var args []any
		for _, name := range part {
			for k := range 3 {
				at += 7
				args = append(args, fmt.Sprintf("%s-%d", name, k), name, []string{"public", "contacts", "public"}[k], at)
			}
		}
		values := strings.TrimSuffix(strings.Repeat("(?, ?, ?, FALSE, ?, 0, 0), ", 3*len(part)), ", ")
		_, err := w.sql.ExecContext(b.Context(), "INSERT INTO uploads (id, owner, visibility, deleted, uploaded_at, created_at, updated_at) VALUES "+values, args...)
		storetest.Must(b, err)
	}
}

// quantiles runs f n times and gives its median and 99th percentile.
func quantiles(n int, f func()) (p50, p99 time.Duration) {
	took := make([]time.Duration, n)
	for i := range took {
		began := time.Now()
		f()
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return took[n/2], took[n*99/100]
}

// BenchmarkRead (R15): the ten most recent of 10, 1,000 and 100,000 contacts,
// by the index and by plain SQL.
func BenchmarkRead(b *testing.B) {
	w := setup(b, storetest.Redis(b).URL(), storetest.MySQL(b), Options{InlinePages: 1000})
	sizes := []int{10, 1000, 100_000}
	var small time.Duration
	for _, n := range sizes {
		user := fmt.Sprint("user", n)
		w.mustLoad(b, user, n)
		if got, want := w.mustRecent(b, user, 10), w.bruteForce(b, user, 10); got != want {
			b.Fatalf("%s, want %s", got, want)
		}
	}
	_, err := w.sql.Exec("ANALYZE TABLE contacts, uploads")
	storetest.Must(b, err)
	rounds := map[int][]time.Duration{}
	for range 5 { // in turn, so that a busy moment meets all sizes
		for _, n := range sizes {
			p50, p99 := quantiles(300, func() { w.mustRecent(b, fmt.Sprint("user", n), 10) })
			rounds[n] = append(rounds[n], p50, p99)
		}
	}
	b.Logf("%9s %12s %12s %12s %14s %12s", "contacts", "index p50", "index p99", "to 10", "plain SQL p50", "SQL / index")
	for _, n := range sizes {
		p50, p99 := medianOf(rounds[n], 0), medianOf(rounds[n], 1)
		if n == sizes[0] {
			small = p50
		}
		plain, _ := quantiles(max(3, 3000/n), func() { w.bruteForce(b, fmt.Sprint("user", n), 10) })
		b.Logf("%9d %12v %12v %11.2fx %14v %11.1fx", n, p50, p99, float64(p50)/float64(small), plain, float64(plain)/float64(p50))
		b.ReportMetric(float64(plain)/float64(p50), fmt.Sprintf("sql/index@%d", n))
	}
}

// medianOf is the median of every second duration.
func medianOf(list []time.Duration, from int) time.Duration {
	var picked []time.Duration
	for i := from; i < len(list); i += 2 {
		picked = append(picked, list[i])
	}
	slices.Sort(picked)
	return picked[len(picked)/2]
}

// BenchmarkFanOut (R10): one upload to 10,000 and to 100,000 followers, by a
// process of its own, whose memory must not follow.
func BenchmarkFanOut(b *testing.B) {
	b.Logf("%9s %10s %14s %14s", "followers", "took", "followers/s", "peak memory")
	for _, n := range []int{10_000, 100_000} {
		w := setup(b, storetest.Redis(b).URL(), storetest.MySQL(b), Options{})
		users := w.mustFollow(b, "star", n)
		worker := (&process{Role: "worker", Redis: w.redisURL(), SQL: w.sqlURL}).start(b)
		w.mustUpload(b, "warm", "nobody", api.VisiblePublic, 1)
		w.waitForJobs(b)
		began := time.Now()
		w.mustUpload(b, "u1", "star", api.VisiblePublic, 50)
		storetest.Eventually(b, 2*time.Minute, "the fan-out is done", func() bool {
			stats, err := w.Stats(b.Context())
			return err == nil && stats.Pending == 0
		})
		took := time.Since(began)
		if got := w.raised(b, users, "star", 50); got != n {
			b.Fatalf("%d of %d followers", got, n)
		}
		b.Logf("%9d %10v %14.0f %14s", n, took.Round(time.Millisecond), float64(n)/took.Seconds(), mustPeak(b, worker.Process.Pid))
		b.ReportMetric(float64(n)/took.Seconds(), fmt.Sprintf("followers/s@%d", n))
		kill(worker)
	}
}

// mustPeak is the most memory that a process ever had, as Linux tells it.
func mustPeak(b *testing.B, pid int) string {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	storetest.Must(b, err)
	for line := range strings.Lines(string(text)) {
		if peak, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return strings.TrimSpace(peak)
		}
	}
	return "unknown"
}
