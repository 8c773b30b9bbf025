package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/webpush/webpushtest"
	"fanfare/store/storetest"
)

// soakLease is longer than a busy machine delays a process, so that repeats come only from the
// faults.
const soakLease = 6 * time.Second

// slot is a place in the fleet. The process in it uses one proxy to Redis and sends to one
// stand-in, so that the ledger shows which process sent a request.
type slot struct {
	n       int
	vars    []string
	private string // base URL of its metrics and profiles
	dir     string
	proxy   *storetest.Proxy // nil: the process reaches Redis directly
	apns    *apnstest.Server

	mu      sync.Mutex
	program *program
}

// soak is mixed traffic of all features on three servers, random faults, and a ledger of everything
// that was accepted.
type soak struct {
	t      *testing.T
	name   string // of its section in the results
	seed   uint64
	length time.Duration
	long   bool // figures are written, and memory is measured
	slots  [3]*slot
	redis  soakRedis
	sql    *storetest.MySQLPair
	pages  *pagesTraffic
	http   *http.Client
	faults []soakFault
	// redisKills counts the kills of Redis, of any of its masters.
	redisKills atomic.Int64
	flat       flatness
	ever       []*program // all processes, including ended ones

	traffic context.Context // workers go on until it ends
	halt    context.CancelFunc
	workers sync.WaitGroup
	gate    sync.RWMutex // holding it for writing stops the traffic

	mu     sync.Mutex
	counts map[string]int // how often things happened, for the figures
	wrong  int            // failures, of which the first are shown
}

// TestSoak runs traffic of all four features on three servers with one Redis, one MariaDB and a
// stand-in for APNs each, with random faults. Afterwards it compares everything that was accepted
// with its outcome. FANFARE_SOAK says how long (make soak), and FANFARE_SOAK_SEED repeats the
// faults of another run. Without these it is a short run.
func TestSoak(t *testing.T) {
	t.Parallel()
	newSoak(t, "Soak", oneRedis).run()
}

// TestSoakOnACluster is the same on three masters of a Cluster, each with a replica that never takes over:
// masters lose their replica and refuse writes, and slots move while they are used.
func TestSoakOnACluster(t *testing.T) {
	t.Parallel()
	newSoak(t, "Soak on a Cluster", redisOfMasters).run()
}

func (s *soak) run() {
	push, pages, chat, sales, contacts := s.preparePush(), s.preparePages(), s.prepareChat(), s.prepareSales(), s.prepareContacts()
	began := time.Now()
	s.suffer(began.Add(s.length))
	s.halt()
	s.workers.Wait()
	s.heal()
	s.t.Logf("%v of traffic are over; the ledger is compared", time.Since(began).Round(time.Second))
	push.check()
	pages.check()
	chat.check()
	sales.check()
	contacts.check()
	s.checkNothingIsLeft()
	s.checkRepeats()
	s.flat.check(s)
	s.report()
}

// newSoak starts everything that a soak needs.
func newSoak(t *testing.T, name string, redis func(*testing.T) soakRedis) *soak {
	t.Helper()
	storetest.SkipShort(t, "the whole program")
	s := &soak{t: t, name: name, seed: rand.Uint64(), length: 30 * time.Second, counts: map[string]int{}}
	if text := os.Getenv("FANFARE_SOAK"); text != "" {
		length, err := time.ParseDuration(text)
		storetest.Must(t, err)
		s.length, s.long = length, true
	}
	if text := os.Getenv("FANFARE_SOAK_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		storetest.Must(t, err)
		s.seed = seed
	}
	t.Logf("a soak of %v; FANFARE_SOAK_SEED=%d has the same faults again", s.length, s.seed)
	s.traffic, s.halt = context.WithCancel(t.Context())
	t.Cleanup(s.workers.Wait) // also after a failure
	t.Cleanup(s.halt)
	t.Cleanup(s.keepEvidence)
	s.http = &http.Client{Timeout: 8 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 32}}
	s.redis = redis(t)
	s.sql = storetest.NewMySQLPair(t)
	s.pages = &pagesTraffic{s: s, services: webpushtest.Start(t, webpushtest.Options{})}
	for n := range s.slots {
		s.slots[n] = s.newSlot(n)
		s.slots[n].launch(s)
	}
	for _, at := range s.slots {
		at.now().awaitReady()
	}
	return s
}

func (s *soak) newSlot(n int) *slot {
	proxy, url := s.redis.reach(s.t)
	private := fmt.Sprintf("127.0.0.1:%d", storetest.FreePort(s.t))
	at := &slot{n: n, private: "http://" + private, dir: s.t.TempDir(), proxy: proxy, apns: apnstest.Start(s.t, apnstest.Options{})}
	at.vars = append(at.apns.Env(), "FANFARE_REDIS_URL="+url, "FANFARE_DATABASE_URL="+s.sql.URL(), "FANFARE_METRICS_ADDR="+private,
		"FANFARE_NOTIFICATION_LEASE="+soakLease.String(), "FANFARE_JOB_LEASE="+soakLease.String(),
		"FANFARE_RETRY_BASE=100ms", "FANFARE_RETRY_MAX=10s", "FANFARE_LOG_LEVEL=warn")
	at.vars = append(at.vars, s.soakApps(n, at.apns)...)
	if s.long {
		at.vars = append(at.vars, fmt.Sprint("GODEBUG=memprofilerate=", profileRate))
	}
	return at
}

// launch starts a process in the slot: in a long soak the shipped program, otherwise that of mustBuild.
// In a long soak the clock of the last slot's process jumps by two minutes and back; it sends
// with a certificate, so that no provider token depends on that clock.
func (at *slot) launch(s *soak) {
	path, vars := "", at.vars
	switch {
	case s.long && at.n == len(s.slots)-1:
		path, vars = mustBuildShifted(s.t), slices.Concat(vars, shiftVars(2*time.Minute, 7*time.Second))
	case s.long:
		path = mustBuildShipped(s.t)
	default:
		path = mustBuild(s.t)
	}
	p := launchServerPath(s.t, path, at.dir, vars...)
	p.http = s.http
	s.ever = append(s.ever, p)
	at.mu.Lock()
	defer at.mu.Unlock()
	at.program = p
}

// now is the present process.
func (at *slot) now() *program {
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.program
}

// all are the present processes.
func (s *soak) all() []*program {
	var all []*program
	for _, at := range s.slots {
		all = append(all, at.now())
	}
	return all
}

// work runs a worker until the traffic ends: it calls f again and again at random intervals around
// every, which are half as long again if other tests run at the same time. A call that has begun is
// finished.
func (s *soak) work(name string, n int, every time.Duration, f func(r *rand.Rand, i int)) {
	if !s.long {
		every += every / 2
	}
	r := rand.New(rand.NewPCG(s.seed, hashOf(name)+uint64(n)))
	s.workers.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-s.traffic.Done():
				return
			case <-time.After(between(r, 2*every)):
			}
			s.gate.RLock()
			f(r, i)
			s.gate.RUnlock()
		}
	})
}

func hashOf(name string) (sum uint64) {
	for _, b := range []byte(name) {
		sum = sum*31 + uint64(b)
	}
	return sum << 8
}

// outcome is the outcome of a call, as far as it is known.
type outcome int

// The outcomes.
const (
	answered outcome = iota // it happened, or was refused for good
	nothing                 // it did not happen: unavailable, overloaded, rate_limited
	unknown                 // it may have happened
)

// reply is the answer to a call.
type reply struct {
	outcome outcome
	status  int
	code    string
	state   string // of a problem
	text    []byte
}

// once makes a call only once, to any server, and decodes a success into out.
func (s *soak) once(r *rand.Rand, out any, method, path string, body any, header ...string) reply {
	servers := s.all()
	status, text, err := servers[r.IntN(len(servers))].try(method, path, body, header...)
	if err != nil {
		return reply{outcome: unknown, text: []byte(err.Error())}
	}
	var problem struct{ Code, State string }
	if status/100 != 2 {
		_ = json.Unmarshal(text, &problem)
	} else if out != nil && len(text) > 0 {
		if err := json.Unmarshal(text, out); err != nil {
			s.failf("%s %s: %v in %s", method, path, err, text)
		}
	}
	got := reply{status: status, code: problem.Code, state: problem.State, text: text}
	switch {
	case status == http.StatusServiceUnavailable && problem.Code == "unknown_outcome":
		got.outcome = unknown
	case status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests:
		got.outcome = nothing
	case status >= 500:
		s.failf("%s %s: %d %s", method, path, status, text)
		got.outcome = unknown
	}
	return got
}

// patience is how long a good client repeats a call. Every fault is much shorter.
const patience = 3 * time.Minute

// insist repeats a call until it is answered. A call that makes something must have an
// Idempotency-Key.
func (s *soak) insist(r *rand.Rand, out any, method, path string, body any, header ...string) reply {
	deadline := time.Now().Add(patience)
	for {
		got := s.once(r, out, method, path, body, header...)
		if got.outcome == answered {
			return got
		}
		if s.traffic.Err() != nil && s.t.Failed() {
			return got // the answer is not needed any more
		}
		s.count("calls repeated", 1)
		if time.Now().After(deadline) {
			s.failf("%s %s: no answer for %v, at last %d %s", method, path, patience, got.status, got.text)
			return got
		}
		<-time.After(50*time.Millisecond + rand.N(200*time.Millisecond))
	}
}

// want repeats a call until it is answered with one of some statuses.
func (s *soak) want(r *rand.Rand, out any, statuses []int, method, path string, body any, header ...string) bool {
	got := s.insist(r, out, method, path, body, header...)
	ok := got.outcome == answered && slices.Contains(statuses, got.status)
	if got.outcome == answered && !ok {
		s.failf("%s %s: %d %s, want %v", method, path, got.status, got.text, statuses)
	}
	return ok
}

// mustBe is want for calls before and after the traffic. If an earlier try of the call made the
// thing, the answer is 200.
func (s *soak) mustBe(status int, out any, method, path string, body any) {
	s.t.Helper()
	r := rand.New(rand.NewPCG(s.seed, 0))
	if !s.want(r, out, []int{status, 200}, method, path, body) {
		s.t.FailNow()
	}
}

// failf reports a failure. After the first few it only counts.
func (s *soak) failf(format string, args ...any) {
	s.t.Helper()
	s.mu.Lock()
	s.wrong++
	n := s.wrong
	s.mu.Unlock()
	if n <= 30 {
		s.t.Errorf(time.Now().Format("15:04:05.000 ")+format, args...)
	} else if n == 31 {
		s.t.Error("and more, which are not shown")
	}
}

func (s *soak) count(what string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[what] += n
}

// eventually is storetest.Eventually for conditions that take long to check.
func (s *soak) eventually(within time.Duration, what string, cond func() bool) bool {
	s.t.Helper()
	for deadline := time.Now().Add(within); !cond(); <-time.After(300 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.failf("did not happen within %v: %s", within, what)
			return false
		}
	}
	return true
}

// queueFigures are the figures of GET /v1/stats that are zero if no work is left.
type queueFigures struct {
	Name                                       string
	Depth, Blocked, Scheduled, Retries, Parked int64
	InFlight                                   int64 `json:"in_flight"`
	DeadLetters                                int64 `json:"dead_letters"`
}

// left describes the work that is not done; "" if there is none.
func (s *soak) left() string {
	var stats struct {
		Queues   []queueFigures
		Contacts struct{ Pending int64 }
		Sales    struct {
			Waiting  int64 `json:"waiting_orders"`
			Oversold map[string]map[string]int64
		}
	}
	s.mustBe(200, &stats, "GET", "/v1/stats", nil)
	var left []string
	for _, q := range stats.Queues {
		if q.Depth+q.Blocked+q.Scheduled+q.InFlight+q.Parked+q.DeadLetters != 0 {
			left = append(left, fmt.Sprintf("%+v", q))
		}
	}
	if stats.Contacts.Pending+stats.Sales.Waiting != 0 || len(stats.Sales.Oversold) > 0 {
		left = append(left, fmt.Sprintf("%+v %+v", stats.Contacts, stats.Sales))
	}
	return strings.Join(left, ", ")
}

// checkNothingIsLeft waits until the queues are empty, and finds no dead letter.
func (s *soak) checkNothingIsLeft() {
	left := ""
	if !s.eventually(2*time.Minute, "no work is left", func() bool { left = s.left(); return left == "" }) {
		var dead json.RawMessage
		s.mustBe(200, &dead, "GET", "/v1/dead-letters?limit=5", nil)
		s.failf("left: %s; dead letters %s", left, dead)
	}
}

// heal waits until every process is ready.
func (s *soak) heal() {
	for _, at := range s.slots {
		s.eventually(2*time.Minute, "every process is ready", func() bool {
			status, _, err := at.now().try("GET", "/readyz", nil)
			return err == nil && status == http.StatusOK
		})
	}
}

// report shows the figures, and writes those of a long soak into a file.
func (s *soak) report() {
	lines := []string{}
	for _, name := range slices.Sorted(maps.Keys(s.counts)) {
		lines = append(lines, fmt.Sprintf("%s: %d", name, s.counts[name]))
	}
	s.t.Logf("seed %d, %v\n%s", s.seed, s.length, strings.Join(lines, "\n"))
	if path := os.Getenv("FANFARE_SOAK_RESULTS"); path != "" && s.flat.enough() && !s.t.Failed() {
		storetest.Must(s.t, writeSection(path, s.section()))
	}
}

// keepEvidence keeps the output of the processes and the faults of a long soak that failed.
func (s *soak) keepEvidence() {
	if !s.long || !s.t.Failed() {
		return
	}
	dir, err := os.MkdirTemp("", "fanfare-soak-")
	storetest.Must(s.t, err)
	faults := ""
	for _, f := range s.faults {
		faults += fmt.Sprintf("%v of %v\n", f.fault, f.slots)
	}
	storetest.Must(s.t, os.WriteFile(filepath.Join(dir, "faults"), []byte(faults), 0o600))
	for i, p := range s.ever {
		name := fmt.Sprintf("%03d%s.log", i, filepath.Base(filepath.Dir(p.dir))+"-"+filepath.Base(p.dir))
		storetest.Must(s.t, os.WriteFile(filepath.Join(dir, name), []byte(p.stderr.String()), 0o600))
	}
	s.t.Logf("what the processes said is in %s", dir)
}
