package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

// mustServeShipped starts the program as it is shipped and waits until it is ready.
func mustServeShipped(t testing.TB, vars ...string) *program {
	t.Helper()
	p := launchServerPath(t, mustBuildShipped(t), t.TempDir(), append([]string{"FANFARE_LOG_LEVEL=warn"}, vars...)...)
	p.awaitReady()
	return p
}

// peakMemory is the largest memory of the process so far, in bytes.
func (p *program) peakMemory() int64 {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				p.t.Fatal(err)
			}
			return kib << 10
		}
	}
	p.t.Fatal("no VmHWM")
	return 0
}

// usedMemory is the memory that Redis reports, in bytes.
func usedMemory(t testing.TB, redis *storetest.RedisServer) int64 {
	t.Helper()
	text, err := redis.Client().Info(context.Background(), "memory").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "used_memory:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	return 0
}

// depthOf is the number of jobs in a queue, waiting or running.
func (p *program) depthOf(name string) int64 {
	p.t.Helper()
	var stats struct {
		Queues []struct {
			Name     string
			Depth    int64
			InFlight int64 `json:"in_flight"`
		}
	}
	p.must(200, &stats, "GET", "/v1/stats", nil)
	for _, q := range stats.Queues {
		if q.Name == name {
			return q.Depth + q.InFlight
		}
	}
	p.t.Fatalf("no queue %s", name)
	return 0
}

// mustPostMany posts n one-user events to the devices of users 0...devices-1.
func (p *program) mustPostMany(n, devices int) {
	p.t.Helper()
	const batch = 100
	p.each(n/batch, func(i int) error {
		events := make([]any, batch)
		for k := range events {
			events[k] = greeting(fmt.Sprintf("user-%d", (i*batch+k)%devices))
		}
		for deadline := time.Now().Add(time.Minute); ; {
			status, answer, err := p.try("POST", "/v1/events/batch", map[string]any{"events": events})
			if err == nil && status != 202 {
				err = fmt.Errorf("%d %s", status, answer)
			}
			if status != 503 || time.Now().After(deadline) { // on a busy machine the batch may then be there twice
				return err
			}
		}
	})
}

const (
	// processMemory is the promised bound of a process with a backlog.
	processMemory = 150 << 20
	// retainedPerEvent is the promised bound of the memory that an ended one-device event without
	// an idempotency key leaves in Redis.
	retainedPerEvent = 400
)

// With a backlog of 1,000,000 the memory of the processes stays under 150 MB. Redis' memory follows
// the backlog and then the retention (at most 400 bytes per one-device event), and the backlog
// drains.
//
// Not parallel: it measures (make capacity).
func TestBacklogDrains(t *testing.T) {
	n, devices := storetest.Sized(1_000_000, 30_000), 1000
	apns, redis := apnstest.Start(t, apnstest.Options{CountsOnly: true, TrackIDs: true}), storetest.Redis(t)
	vars := append(apns.Env(), "FANFARE_REDIS_URL="+redis.URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t))
	front := mustServeShipped(t, append(vars, "FANFARE_ROLES=api,jobs")...)
	front.mustRegister(devices)
	first := mustServeShipped(t, append(vars, "FANFARE_ROLES=push")...)
	front.mustPostMany(2*devices, devices) // fill the caches and load the scripts
	storetest.Must(t, apns.WaitIDs(2*devices, time.Minute))
	first.terminate()
	before, began := usedMemory(t, redis), time.Now()
	front.mustPostMany(n, devices)
	posted := time.Since(began)
	backlog, deep := usedMemory(t, redis), front.depthOf("events")
	if deep < int64(n) {
		t.Errorf("only %d events wait", deep)
	}
	began = time.Now()
	worker := mustServeShipped(t, append(vars, "FANFARE_ROLES=push")...)
	if err := apns.WaitIDs(n+2*devices, 10*time.Minute); err != nil {
		t.Fatal(err)
	}
	drained := time.Since(began)
	storetest.Eventually(t, time.Minute, "every result", func() bool { return front.depthOf("events") == 0 })
	retained := (usedMemory(t, redis) - before) / int64(n)
	t.Logf("%d events: accepted %.0f/s, drained %.0f/s; peak memory %d MB accepting, %d MB sending; Redis %d bytes per waiting event, %d retained",
		n, float64(n)/posted.Seconds(), float64(n)/drained.Seconds(), front.peakMemory()>>20, worker.peakMemory()>>20,
		(backlog-before)/int64(n), retained)
	for _, p := range []*program{front, worker} {
		if peak := p.peakMemory(); peak > processMemory {
			t.Errorf("a process took %d MB, more than %d", peak>>20, processMemory>>20)
		}
	}
	if _, repeats := apns.IDs(); repeats != 0 {
		t.Errorf("%d were sent twice", repeats)
	}
	if retained > retainedPerEvent {
		t.Errorf("an event that ended keeps %d bytes of Redis, more than %d", retained, retainedPerEvent)
	}
}

// fanToken is the first token of the followers.
const fanToken = 1 << 24

// mustFollow makes n users followers of one user, each with a device, directly in SQL.
func mustFollow(t testing.TB, database, star string, n int) {
	t.Helper()
	mustInsert(t, database, "contacts (owner, contact, relationship, version, deleted, created_at, updated_at)", n, func(i int) string {
		return fmt.Sprintf("('fan-%07d','%s','contact',1,0,0,0)", i, star)
	})
	mustInsertDevices(t, database, "fan-%07d", fanToken, n)
}

// mustInsertDevices writes n devices, one for each user of a pattern.
func mustInsertDevices(t testing.TB, database, user string, firstToken, n int) {
	t.Helper()
	mustInsert(t, database, "devices (token, user_id, platform, topic, environment, state, registered_at)", n, func(i int) string {
		return fmt.Sprintf("('%s','"+user+"','apns','com.example.app','production','active',1)", deviceToken(firstToken+i), i)
	})
}

// mustInsert writes n rows, many in each statement.
func mustInsert(t testing.TB, database, into string, n int, row func(i int) string) {
	t.Helper()
	db := mustOpenSQL(t, database)
	defer db.Close()
	const chunk = 5000
	for from := 0; from < n; from += chunk {
		rows := make([]string, 0, chunk)
		for i := from; i < min(from+chunk, n); i++ {
			rows = append(rows, row(i))
		}
		if _, err := db.Exec("INSERT INTO " + into + " VALUES " + strings.Join(rows, ",")); err != nil {
			t.Fatal(err)
		}
	}
}

// mustOpenSQL opens a database by its FANFARE_DATABASE_URL.
func mustOpenSQL(t testing.TB, database string) *sql.DB {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	driver, name := "mysql", fmt.Sprintf("%s:%s@tcp(%s)%s", u.User.Username(), password, u.Host, u.Path)
	if u.Scheme == "postgres" {
		driver, name = "pgx", database
	}
	db, err := sql.Open(driver, name)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// mustReport reads an event's report.
func mustReport(t testing.TB, p *program, event string) (got report) {
	t.Helper()
	p.must(200, &got, "GET", "/v1/events/"+event, nil)
	return got
}

// arrivals records when each of some devices was first reached.
type arrivals struct {
	mu sync.Mutex
	at map[string]time.Time
	n  int
}

func (a *arrivals) note(r *apnstest.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n++
	if _, mine := a.at[r.Token]; mine && a.at[r.Token].IsZero() {
		a.at[r.Token] = time.Now()
	}
}

func (a *arrivals) of(token string) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.at[token]
}

// A one-user event that is posted during a fan-out to 1,000,000 followers arrives within 1 s.
//
// Not parallel: it measures (make capacity).
func TestOneUserEventDuringAFanOut(t *testing.T) {
	const rounds = 3
	followers, probes := storetest.Sized(1_000_000, 50_000), storetest.Sized(20, 10)
	seen := &arrivals{at: map[string]time.Time{}}
	for i := range rounds * probes {
		seen.at[deviceToken(i)] = time.Time{}
	}
	apns := apnstest.Start(t, apnstest.Options{CountsOnly: true, OnRequest: seen.note})
	database := storetest.MySQL(t)
	vars := append(apns.Env(), "FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+database)
	p := mustServeShipped(t, vars...)
	p.mustRegister(rounds * probes)
	mustFollow(t, database, "star", followers)
	var fanOut struct{ ID string }
	event := greeting("")
	event["audience"] = map[string]any{"contacts_of": "star"}
	began := time.Now()
	p.must(202, &fanOut, "POST", "/v1/events", event)
	apns.MustWait(t, 500, time.Minute) // the fan-out is under way
	sent, worst := 0, time.Hour
	for sent < rounds*probes && worst > time.Second {
		// Other tests share the machine and may delay one round. If the events waited behind the
		// fan-out, every round would be late. Half of the bound is for the time that one-user
		// events take anyway.
		worst = slowestOf(t, p, seen, sent, probes, func() { awaitMore(t, apns, followers/probes/rounds/2) })
		sent += probes
	}
	got := mustReport(t, p, fanOut.ID)
	if got.State == "done" {
		t.Fatal("the fan-out was over before the last one-user event: nothing was tested")
	}
	if worst > time.Second {
		t.Errorf("in each of %d rounds a one-user event took more than a second, in the last one %v", rounds, worst)
	}
	storetest.Eventually(t, 20*time.Minute, "the fan-out to end", func() bool { got = mustReport(t, p, fanOut.ID); return got.State == "done" })
	whole := time.Since(began)
	if got.Delivered != followers || got.Recipients != followers || apns.Total() != followers+sent {
		t.Errorf("report %+v, %d requests", got, apns.Total())
	}
	t.Logf("%d followers in %v (%.0f/s), %d one-user events meanwhile, the slowest after %v; peak memory %d MB",
		followers, whole.Round(time.Millisecond), float64(followers)/whole.Seconds(), sent, worst.Round(time.Millisecond), p.peakMemory()>>20)
	if peak := p.peakMemory(); peak > processMemory {
		t.Errorf("the process took %d MB, more than %d", peak>>20, processMemory>>20)
	}
}

// slowestOf posts one-user events to n users, one after the other, and returns how long the slowest
// took to arrive.
func slowestOf(t testing.TB, p *program, seen *arrivals, from, n int, rest func()) (worst time.Duration) {
	t.Helper()
	for i := from; i < from+n; i++ {
		posted := time.Now()
		p.must(202, nil, "POST", "/v1/events", greeting(fmt.Sprintf("user-%d", i)))
		storetest.Eventually(t, 30*time.Second, "the one-user event", func() bool { return !seen.of(deviceToken(i)).IsZero() })
		worst = max(worst, seen.of(deviceToken(i)).Sub(posted))
		rest()
	}
	return worst
}

// awaitMore waits until n more requests have arrived, so that probes are spread
// over a fan-out.
func awaitMore(t testing.TB, apns *apnstest.Server, n int) {
	t.Helper()
	if err := apns.WaitTotal(apns.Total()+n, time.Minute); err != nil {
		t.Fatal(err)
	}
}
