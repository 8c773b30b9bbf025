package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/store/queue/shard"
	"fanfare/store/storetest"
)

// Failure table, Redis near maxmemory: from 90 % on accepts answer 503 `overloaded`, accepted work
// finishes, and Redis drains by itself.
func TestRedisNearMaxmemory(t *testing.T) {
	t.Parallel()
	apns := apnstest.Start(t, apnstest.Options{CountsOnly: true, TrackIDs: true})
	redis := storetest.Redis(t, "--maxmemory", "10mb")
	vars := append(apns.Env(), "FANFARE_REDIS_URL="+redis.URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t))
	front := mustServeShipped(t, append(vars, "FANFARE_ROLES=api,jobs")...)
	front.mustRegister(100)
	accepted, refusal := front.postUntilRefused(t)
	if refusal.Code != "overloaded" || refusal.RetryAfterMS <= 0 {
		t.Errorf("refused with %+v", refusal)
	}
	used := usedMemory(t, redis)
	if used < 10<<20*85/100 || used > 10<<20*103/100 {
		t.Errorf("refused at %d of %d bytes", used, 10<<20)
	}
	front.must(200, nil, "GET", "/readyz", nil) // everything else still works
	// The process that drains Redis has to start although Redis is full.
	if err := redis.Client().ConfigSet(t.Context(), "maxmemory", fmt.Sprint(used*3/4)).Err(); err != nil {
		t.Fatal(err)
	}
	mustServeShipped(t, append(vars, "FANFARE_ROLES=push")...)
	if err := apns.WaitIDs(accepted, time.Minute); err != nil {
		t.Fatal(err)
	}
	storetest.Eventually(t, 20*time.Second, "events are accepted again", func() bool {
		status, _, err := front.try("POST", "/v1/events", greeting("user-0"))
		return err == nil && status == 202
	})
	if err := apns.WaitIDs(accepted+1, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d events until the refusal, all sent", accepted)
}

// An outage of Redis causes only a few lines of the log, however many callers there are. All of
// them have one form, and the last one says how long the outage took.
func TestAnOutageMakesFewLines(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t, "--appendonly", "yes")
	p := mustServe(t, t.TempDir(), "FANFARE_REDIS_URL="+redis.URL(), "FANFARE_LOG_FORMAT=json")
	before := len(p.stderr.String())
	redis.Kill()
	storetest.Eventually(t, time.Minute, "it notices", func() bool {
		return strings.Count(p.stderr.String(), "Redis is away") >= 3 // one for each queue
	})
	// Lines that would be repeated are logged by now.
	if refused := p.callAgain(3); refused < 8*3 {
		t.Errorf("only %d calls were refused: this has tried nothing", refused)
	}
	redis.Restart()
	storetest.Eventually(t, 60*time.Second, "it is back", func() bool {
		return strings.Count(p.stderr.String(), `"msg":"Redis is back","queue":`) >= 3
	})
	said := strings.TrimSpace(p.stderr.String()[before:])
	if n := strings.Count(said, "\n") + 1; n >= 20 {
		t.Errorf("%d lines:\n%s", n, said)
	}
	for line := range strings.Lines(said) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
}

// callAgain makes calls that need Redis and calls that only relay a change to it, the given number
// of times from each of 16 callers, and counts the refusals.
func (p *program) callAgain(times int) (refused int64) {
	var n atomic.Int64
	var all sync.WaitGroup
	for caller := range 16 {
		all.Go(func() {
			for i := range times {
				user := fmt.Sprintf("/v1/users/u%d-%d", caller, i)
				var status int
				switch caller % 4 {
				case 0:
					status, _, _ = p.try("POST", "/v1/events", greeting("bob"))
				case 1:
					status, _, _ = p.try("GET", user+"/chats", nil)
				case 2:
					status, _, _ = p.try("PUT", user+"/opt-outs/hello", nil)
				case 3:
					status, _, _ = p.try("PUT", user+"/contacts/bob", map[string]any{"relationship": "friend"})
				}
				if status == 503 {
					n.Add(1)
				}
			}
		})
	}
	all.Wait()
	return n.Load()
}

// refused is a problem, with its Retry-After.
type refused struct {
	Code         string
	RetryAfterMS int `json:"retry_after_ms"`
}

// postUntilRefused posts batches until one is refused with 503, and returns the number of accepted
// events.
func (p *program) postUntilRefused(t testing.TB) (accepted int, r refused) {
	t.Helper()
	events := make([]any, 100)
	for i := range events {
		events[i] = greeting(fmt.Sprintf("user-%d", i))
	}
	for range 1000 {
		status, answer, err := p.try("POST", "/v1/events/batch", map[string]any{"events": events})
		if err != nil {
			t.Fatal(err)
		}
		if status == 202 {
			accepted += len(events)
			continue
		}
		if err := json.Unmarshal(answer, &r); err != nil || status != 503 {
			t.Fatalf("%d %s", status, answer)
		}
		return accepted, r
	}
	t.Fatal("100,000 events fit")
	return 0, r
}

// journal has the accepted events, with their users and times.
type journal struct {
	mu    sync.Mutex
	began map[string]time.Time // by event: when it was posted
}

func (j *journal) add(event string, began time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.began[event] = began
}

func (j *journal) len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.began)
}

// post posts n events, each until it is accepted.
func (j *journal) post(n int, servers ...*program) error {
	return spread(n, func(i int) error {
		deadline := time.Now().Add(time.Minute)
		for attempt := 0; ; attempt++ {
			began := time.Now()
			status, answer, err := servers[(i+attempt)%len(servers)].try("POST", "/v1/events", greeting(fmt.Sprintf("user-%d", i)),
				"Idempotency-Key", fmt.Sprintf("post-%d", i))
			var accepted struct{ ID string }
			if err == nil && status == 202 && json.Unmarshal(answer, &accepted) == nil {
				j.add(accepted.ID, began)
				return nil
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("post %d: %w %d %s", i, err, status, answer)
			}
			<-time.After(20 * time.Millisecond)
		}
	})
}

// missing lists the events that were accepted and not sent, except those that were posted in the
// given interval.
func (j *journal) missing(apns *apnstest.Server, from, to time.Time) (missing, excused int) {
	sent := map[string]bool{}
	for _, r := range apns.Requests() {
		var payload struct {
			Event string `json:"event_id"`
		}
		if json.Unmarshal(r.Payload, &payload) == nil {
			sent[payload.Event] = true
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for event, began := range j.began {
		switch {
		case sent[event]:
		case began.After(from) && began.Before(to):
			excused++
		default:
			missing++
		}
	}
	return missing, excused
}

// Failure table: a fail-over by Sentinel and the death of a Cluster's master, under load. Calls are
// answered 503 in the meantime, and the workers resume by themselves. Nothing acknowledged is lost,
// except writes that Redis itself had not yet sent to its replica when it died.
func TestRedisFailsOverUnderLoad(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) (url string, master func() *storetest.RedisServer){
		"Sentinel": func(t *testing.T) (string, func() *storetest.RedisServer) {
			s := storetest.Sentinel(t)
			return s.URL(), func() *storetest.RedisServer { return s.Master(t) }
		},
		"Cluster": func(t *testing.T) (string, func() *storetest.RedisServer) {
			c := storetest.PrivateCluster(t, 1)
			return c.URL(), func() *storetest.RedisServer { return c.MasterOf(t, shard.Prefix("notifications", 0, 8)) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, master := open(t)
			checkFailOver(t, url, master)
		})
	}
}

// checkFailOver posts events all the time, and kills a master in between.
func checkFailOver(t *testing.T, url string, master func() *storetest.RedisServer) {
	t.Helper()
	const n = 1500
	apns := apnstest.Start(t, apnstest.Options{})
	servers := mustServeMany(t, 2, quick(append(apns.Env(), "FANFARE_REDIS_URL="+url, "FANFARE_DATABASE_URL="+storetest.MySQL(t))...)...)
	servers[0].mustRegister(n)
	promised := &journal{began: map[string]time.Time{}}
	done := make(chan error, 1)
	go func() { done <- promised.post(n, servers...) }()
	storetest.Eventually(t, time.Minute, "a third is accepted", func() bool { return promised.len() >= n/3 })
	victim := master()
	killed := time.Now()
	victim.Kill()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	healed := time.Since(killed)
	// Replication lags by less than this. Events that were posted just before the death may be lost
	// with the master.
	lag := 2 * time.Second
	var missing, excused int
	storetest.Eventually(t, time.Minute, "every event that no master took with it", func() bool {
		missing, excused = promised.missing(apns, killed.Add(-lag), killed.Add(lag))
		return missing == 0
	})
	for _, p := range servers {
		p.awaitReady()
	}
	t.Logf("%d events accepted until %v after the death; %d went down with the master, %d requests", n, healed.Round(time.Millisecond), excused, apns.Total())
	if excused > n/10 {
		t.Errorf("%d events went down with the master", excused)
	}
}

// Failure table: SIGSTOP past the lease, then SIGCONT. No send starts after the end of the lease,
// and results are answered `lost` if another process took over.
func TestFrozenPastTheLeaseSendsNothingAfter(t *testing.T) {
	t.Parallel()
	const n = 3000
	slow := apnstest.Options{Latency: 30 * time.Millisecond}
	ours, theirs := apnstest.Start(t, slow), apnstest.Start(t, slow)
	shared := quick("FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t))
	frozen := mustServeMany(t, 1, append(shared, ours.Env()...)...)[0]
	// This process can claim only a few jobs, so that there is work for the one that will be
	// frozen.
	other := mustServeMany(t, 1, append(append(shared, theirs.Env()...), "FANFARE_MAX_IN_FLIGHT=150")...)[0]
	other.mustRegister(n)
	posts := &poster{n: n, batch: 50, servers: func() []*program { return []*program{other} }}
	posts.start()
	if err := ours.WaitTotal(n/20, time.Minute); err != nil {
		t.Fatal(err)
	}
	_ = frozen.cmd.Process.Signal(syscall.SIGSTOP)
	stopped := time.Now()
	if err := <-posts.done; err != nil {
		t.Fatal(err)
	}
	storetest.Eventually(t, time.Minute, "another to have taken everything over", func() bool {
		return time.Since(stopped) > quickLease && len(idsOf(ours, theirs)) == n
	})
	before := ours.Total()
	_ = frozen.cmd.Process.Signal(syscall.SIGCONT)
	frozen.awaitReady()
	frozen.must(202, nil, "POST", "/v1/events", greeting("user-0")) // the process works again
	storetest.Eventually(t, time.Minute, "one more", func() bool { return len(idsOf(ours, theirs)) == n+1 })
	late := 0
	taken := map[string]bool{}
	for _, r := range theirs.Requests() {
		taken[r.ID] = true
	}
	for _, r := range ours.Requests()[before:] {
		if taken[r.ID] {
			late++
		}
	}
	// No lease can rule out a stop between the last check of the lease and the write. At most the
	// notifications that were just being written are repeated.
	if late > 3 {
		t.Errorf("%d sends started after their lease's end", late)
	}
	t.Logf("%d sent before the stop, %d after its end, %d by the other, %d twice", before, late, theirs.Total(), ours.Total()+theirs.Total()-n-1)
}

// idsOf are the distinct apns-ids of some ledgers.
func idsOf(ledgers ...*apnstest.Server) map[string]bool {
	ids := map[string]bool{}
	for _, l := range ledgers {
		for _, r := range l.Requests() {
			ids[r.ID] = true
		}
	}
	return ids
}
