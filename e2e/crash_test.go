package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

// quickLease is short enough for take-overs within a test, and longer than a busy machine delays a
// process.
const quickLease = 3 * time.Second

// quick are settings with short leases.
func quick(more ...string) []string {
	return append([]string{"FANFARE_NOTIFICATION_LEASE=" + quickLease.String(), "FANFARE_JOB_LEASE=" + quickLease.String(), "FANFARE_RETRY_BASE=50ms", "FANFARE_LOG_LEVEL=warn"}, more...)
}

// poster posts n events, to users with one device each, and goes on during restarts: every post is
// repeated with its idempotency key until it is accepted.
type poster struct {
	servers  func() []*program
	n        int
	accepted atomic.Int64
	ids      []string // by number; "" while not accepted
	done     chan error
	// audience is how many users, of a thousand, an event is for; 0: each event is for one user.
	audience int
	// batch is the number of events in one post; 0: a single event, not a batch.
	batch int
	// pace, if set, allows one post at each tick.
	pace <-chan time.Time
	// once posts each event only once: refused events are not posted again.
	once bool
}

// start begins posting from 16 goroutines.
func (o *poster) start() {
	o.ids, o.done = make([]string, o.n), make(chan error, 1)
	if o.batch > 0 {
		go func() { o.done <- spread(o.n/o.batch, o.postBatch) }()
		return
	}
	go func() { o.done <- spread(o.n, o.post) }()
}

// post posts the i-th event.
func (o *poster) post(i int) error {
	var accepted struct{ ID string }
	var users []string
	for _, user := range o.users(i) {
		users = append(users, fmt.Sprintf("user-%d", user))
	}
	ok, err := o.insist(i, "/v1/events", greeting(users...), &accepted)
	if ok {
		o.ids[i] = accepted.ID
		o.accepted.Add(1)
	}
	return err
}

// pool is how many users share the events with an audience.
const pool = 1000

// users are those of the i-th event, by number.
func (o *poster) users(i int) []int {
	if o.audience == 0 {
		return []int{i}
	}
	users := make([]int, o.audience)
	for k := range users {
		users[k] = (i*o.audience + k) % pool
	}
	return users
}

// postBatch posts the i-th batch.
func (o *poster) postBatch(i int) error {
	var events []any
	for n := range o.batch {
		events = append(events, greeting(fmt.Sprintf("user-%d", i*o.batch+n)))
	}
	var accepted struct{ Items []struct{ ID string } }
	ok, err := o.insist(i, "/v1/events/batch", map[string]any{"events": events}, &accepted)
	if ok {
		for n, item := range accepted.Items {
			o.ids[i*o.batch+n] = item.ID
		}
		o.accepted.Add(int64(len(accepted.Items)))
	}
	return err
}

// insist posts to one server after the other until the post is accepted. With once set, it tries
// only once.
func (o *poster) insist(i int, path string, body, accepted any) (bool, error) {
	if o.pace != nil {
		<-o.pace
	}
	deadline := time.Now().Add(2 * time.Minute)
	for attempt := 0; ; attempt++ {
		servers := o.servers()
		p := servers[(i+attempt)%len(servers)]
		status, answer, err := p.try(http.MethodPost, path, body, "Idempotency-Key", fmt.Sprintf("post-%d", i))
		switch {
		case err == nil && status == http.StatusAccepted && json.Unmarshal(answer, accepted) == nil:
			return true, nil
		case err == nil && status < 500:
			return false, fmt.Errorf("post %d: %d %s", i, status, answer)
		case o.once:
			return false, nil
		case time.Now().After(deadline):
			return false, fmt.Errorf("post %d: %w %d %s", i, err, status, answer)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// awaitAccepted waits until n events have been accepted.
func (o *poster) awaitAccepted(t testing.TB, n int) {
	t.Helper()
	storetest.Eventually(t, 2*time.Minute, fmt.Sprintf("%d events accepted", n), func() bool { return int(o.accepted.Load()) >= n })
}

// checkLedger compares the ledger with the accepted events. Every (event, device) is there, under
// one apns-id. A repeat is allowed only if the first request was sent shortly before or during a
// fault. It returns the number of repeats, and logs the faults that explain them.
func (o *poster) checkLedger(t *testing.T, apns ledger, faults ...fault) int {
	t.Helper()
	o.awaitAll(t, apns)
	return checkRepeats(t, apns, faults...)
}

// checkRepeats makes sure that every repeat is explained by a fault. It returns the number of
// repeats, and logs the faults that explain them.
func checkRepeats(t *testing.T, apns ledger, faults ...fault) int {
	t.Helper()
	first, repeats, causes := map[string]apnstest.Request{}, 0, map[string]int{}
	requests, last := apns.Requests(), map[int]time.Time{} // last has the last request on each connection
	for _, r := range requests {
		last[r.Connection] = r.At
	}
	for _, r := range requests {
		pair := eventOf(t, r) + " " + r.Token
		before, again := first[pair]
		if !again {
			first[pair] = r
			continue
		}
		repeats++
		if before.ID != r.ID {
			t.Errorf("%s was sent as %s and again as %s", pair, before.ID, r.ID)
		}
		cause := unknownWindow(before, r, last[before.Connection], faults)
		if causes[cause]++; cause == "" && causes[cause] <= 3 {
			t.Errorf("%s was sent at %s, answered at %s and sent again at %s; faults %v",
				pair, clock(before.At), clock(before.Answered), clock(r.At), faults)
		}
	}
	for cause, n := range causes {
		t.Logf("%d written, not recorded when the lease ended: %s", n, cmp.Or(cause, "no reason for it"))
	}
	return repeats
}

// awaitAll waits until every accepted event is in the ledger. Events whose acceptance was not
// answered may be in it as well.
func (o *poster) awaitAll(t *testing.T, apns ledger) {
	t.Helper()
	missing := map[string]int{}
	for i, id := range o.ids {
		for _, user := range o.users(i) {
			if id != "" {
				missing[id+" "+deviceToken(user)] = i
			}
		}
	}
	seen := 0
	defer func() {
		shown := 0
		for pair, i := range missing {
			if shown++; shown <= 3 {
				t.Errorf("event %d (%s) was accepted and never sent", i, pair)
			}
		}
		if shown > 3 {
			t.Errorf("%d were never sent", shown)
		}
	}()
	storetest.Eventually(t, time.Minute, "every accepted event is sent", func() bool {
		requests := apns.Requests()
		for _, r := range requests[seen:] {
			delete(missing, eventOf(t, r)+" "+r.Token)
		}
		seen = len(requests)
		return len(missing) == 0
	})
}

// eventOf is the event of a request.
func eventOf(t *testing.T, r apnstest.Request) string {
	t.Helper()
	var payload struct {
		Event string `json:"event_id"`
	}
	if err := json.Unmarshal(r.Payload, &payload); err != nil {
		t.Fatal(err)
	}
	return payload.Event
}

// fault is a fault of a process, a connection or Redis, with its time.
type fault struct {
	what     string
	from, to time.Time
}

// String is the time of the fault, for messages.
func (f fault) String() string {
	return f.what + " " + clock(f.from) + "-" + clock(f.to)
}

func clock(t time.Time) string { return t.Format("15:04:05.000") }

// now is a fault without duration, such as a kill.
func now(what string) fault { return fault{what, time.Now(), time.Now()} }

// unknownWindow names a fault between two requests that was so close to the answer to the first one
// that its record may not have reached Redis; "" if there is none. A request without an answer was
// sent by a process that was killed, and so was one on a connection that ended with the fault: a busy
// stand-in may have read them later. lastOn is when the last request came on the first one's connection.
func unknownWindow(first, second apnstest.Request, lastOn time.Time, faults []fault) string {
	const late = 5 * time.Second
	for _, f := range faults {
		latest, after := first.Answered, 500*time.Millisecond
		if latest.IsZero() {
			latest, after = second.At, late
		} else if lastOn.Before(f.to.Add(late)) {
			after = late
		}
		if latest.After(f.from.Add(-2*time.Second)) && first.At.Before(f.to.Add(after)) && second.At.After(f.from) {
			return f.what
		}
	}
	return ""
}

// 10,000 events (fewer by default) are posted while the process is killed with kill -9 twice and
// started again. The ledger has every (event, device). A15: a repeat is possible only in the
// unknown window. If APNs is slow, thousands of requests are in flight.
func TestKilledTwiceUnderLoadLosesNothing(t *testing.T) {
	t.Parallel()
	for _, latency := range []time.Duration{0, 100 * time.Millisecond} {
		t.Run(latency.String(), func(t *testing.T) {
			t.Parallel()
			killTwice(t, latency)
		})
	}
}

func killTwice(t *testing.T, latency time.Duration) {
	n := storetest.Sized(10_000, 2000)
	apns := startAPNs(t, latency)
	vars := quick(append(apns.Env(), "FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t))...)
	var server atomic.Pointer[program]
	server.Store(mustServeMany(t, 1, vars...)[0])
	server.Load().mustRegister(n)
	posts := &poster{n: n, servers: func() []*program { return []*program{server.Load()} }}
	posts.start()
	var kills []fault
	for _, at := range []int{n / 4, n * 6 / 10} {
		posts.awaitAccepted(t, at)
		kills = append(kills, now("kill -9"))
		server.Load().kill()
		server.Store(mustServeMany(t, 1, vars...)[0])
	}
	if err := <-posts.done; err != nil {
		t.Fatal(err)
	}
	apns.awaitIDs(n, 2*time.Minute)
	t.Logf("%d events, 2 kills, %d repeats, all in the unknown window", n, posts.checkLedger(t, apns, kills...))
}

// Failure table: after a kill -9 of one of several servers under load nothing accepted is lost, and
// the others take over within one lease.
func TestOthersTakeOverWithinALease(t *testing.T) {
	t.Parallel()
	const n = 2000
	apns := startAPNs(t, 20*time.Millisecond)
	vars := quick(append(apns.Env(), "FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t))...)
	servers := mustServeMany(t, 3, vars...)
	servers[0].mustRegister(n)
	posts := &poster{n: n, servers: func() []*program { return servers[:2] }}
	posts.start()
	posts.awaitAccepted(t, n/2)
	kill := now("kill -9")
	servers[2].kill()
	if err := <-posts.done; err != nil {
		t.Fatal(err)
	}
	posted := time.Now()
	apns.awaitIDs(n, time.Minute)
	// Targeting and sending may each have to be taken over, one after the other.
	if took := time.Since(kill.from); took > posted.Sub(kill.from)+2*quickLease+3*time.Second {
		t.Errorf("it took %v from the kill to the last notification", took)
	}
	t.Logf("1 kill, %d repeats", posts.checkLedger(t, apns, kill))
}

// A15: exactly once without faults: 5 processes, 10,000 notifications, 10,000 requests (4,000 by default).
func TestA15_FiveServersSendOnce(t *testing.T) {
	t.Parallel()
	n := storetest.Sized(10_000, 4000)
	apns := apnstest.Start(t, apnstest.Options{TrackIDs: true})
	vars := append(apns.Env(), "FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t), "FANFARE_LOG_LEVEL=warn")
	servers := mustServeMany(t, 5, vars...)
	servers[0].mustRegister(n)
	posts := &poster{n: n, batch: 100, servers: func() []*program { return servers }}
	posts.start()
	if err := <-posts.done; err != nil {
		t.Fatal(err)
	}
	if err := apns.WaitIDs(n, time.Minute); err != nil {
		t.Fatal(err)
	}
	for _, p := range servers { // results that were not written yet are written
		if code, _ := p.terminate(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
	if repeats := posts.checkLedger(t, apns); repeats != 0 || apns.Total() != n {
		t.Errorf("%d requests, %d repeats, want %d and none", apns.Total(), repeats, n)
	}
}
