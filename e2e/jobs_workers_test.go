package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// workers are clients that enqueue jobs and work on them. They check what workers can see: no key is held twice at
// once, the fences of a key rise, and a job that is done is given to nobody.
type workers struct {
	t       testing.TB
	servers func() []*program
	all     int           // jobs
	lease   time.Duration // of those who live
	deaths  int           // of 100 claims are made by workers that die at once
	until   time.Time     // when they give up

	mu   sync.Mutex
	ids  []string // of accepted jobs
	keys map[string]*keyHeld
	done map[string]bool // by id
}

// keyHeld is the last hold of a key.
type keyHeld struct {
	fence int64
	until time.Time // the end of the lease as the worker counts it; zero: the worker has answered
}

func newWorkers(t testing.TB, all int, servers func() []*program) *workers {
	return &workers{t: t, servers: servers, all: all, lease: 4 * time.Second, until: time.Now().Add(2 * time.Minute),
		keys: map[string]*keyHeld{}, done: map[string]bool{}}
}

// server is any of the servers.
func (w *workers) server() *program {
	all := w.servers()
	return all[rand.IntN(len(all))]
}

func (w *workers) accepted() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.ids)
}

// first is the id of the first accepted job.
func (w *workers) first() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ids[0]
}

func (w *workers) finished() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.done)
}

// enqueue enqueues all jobs, one at each tick of pace, and repeats each call until the job is accepted.
func (w *workers) enqueue(pace <-chan time.Time) error {
	return spread(w.all, func(i int) error {
		<-pace
		job := map[string]any{"type": fmt.Sprint("t", i%3), "payload": i, "max_attempts": 1000}
		if i%4 != 0 {
			job["key"] = fmt.Sprint("k", i%10)
		}
		for {
			status, answer, err := w.server().try("POST", "/v1/queues/q/jobs", job, "Idempotency-Key", fmt.Sprint("job-", i))
			var accepted api.JobAccepted
			if err == nil && status == 202 && json.Unmarshal(answer, &accepted) == nil {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.ids = append(w.ids, accepted.ID)
				return nil
			}
			if time.Now().After(w.until) {
				return fmt.Errorf("job %d: %d %s %w", i, status, answer, err)
			}
			<-time.After(20 * time.Millisecond)
		}
	})
}

// start lets n workers work until all jobs are done.
func (w *workers) start(n int) *sync.WaitGroup {
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for w.finished() < w.all && time.Now().Before(w.until) {
				if !w.claim() {
					<-time.After(20 * time.Millisecond)
				}
			}
		})
	}
	return &all
}

// claim claims some jobs and works on them. It reports whether there were any.
func (w *workers) claim() bool {
	lease, body, dies := w.lease, map[string]any{"max": 1 + rand.IntN(5)}, rand.IntN(100) < w.deaths
	if dies {
		lease = 50 * time.Millisecond
	}
	if rand.IntN(2) == 0 {
		body["wait_ms"] = 300
	}
	until := time.Now().Add(lease)
	jobs, err := w.server().tryClaim("q", lease, body)
	if err != nil {
		return false
	}
	for _, j := range jobs {
		w.got(j, until)
		dies = dies && j.Attempt < 4 // of eight leases
	}
	for _, j := range jobs {
		if !dies {
			w.work(j, until)
		}
	}
	return len(jobs) > 0
}

// got checks that nobody else holds the key of a job.
func (w *workers) got(j api.ClaimedJob, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Now().After(until) {
		return // the answer came late, and by now others may have the job
	}
	if w.done[j.ID] {
		w.t.Errorf("%s is given to somebody after it was done", j.ID)
	}
	if j.Key == "" {
		return
	}
	h := w.keys[j.Key]
	if h == nil {
		h = &keyHeld{}
		w.keys[j.Key] = h
	}
	if time.Now().Before(h.until) {
		w.t.Errorf("key %s is held twice, with the fences %d and %d", j.Key, h.fence, j.Fence)
	}
	if j.Fence <= h.fence {
		w.t.Errorf("the fence of key %s fell from %d to %d", j.Key, h.fence, j.Fence)
	}
	h.fence, h.until = j.Fence, until
}

// keep notes until when a worker holds a job's key.
func (w *workers) keep(j api.ClaimedJob, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h := w.keys[j.Key]; h != nil && h.fence == j.Fence {
		h.until = until
	}
}

// work renews some jobs, and completes most of them.
func (w *workers) work(j api.ClaimedJob, until time.Time) {
	if rand.IntN(5) == 0 {
		begun := time.Now()
		if status := w.say(j, "renew", until); status == api.JobOK {
			until = begun.Add(w.lease)
			w.keep(j, until)
		}
	}
	outcome := "complete"
	if n := rand.IntN(10); n < 2 {
		outcome = []string{"fail", "release"}[n]
	}
	w.keep(j, time.Time{}) // the worker holds it no longer once the result is under way
	if status := w.say(j, outcome, until); status == api.JobOK && outcome == "complete" {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.done[j.ID] = true
	}
}

// say says something until it is heard. While the lease lasts it must be taken: of a repeated fail or release that is
// not sure, because somebody else may have had the job since.
func (w *workers) say(j api.ClaimedJob, outcome string, until time.Time) (status api.JobStatus) {
	for repeated := false; time.Now().Before(w.until); repeated = true {
		var err error
		if status, err = w.server().trySay(j, outcome); err != nil {
			<-time.After(20 * time.Millisecond)
			continue
		}
		unsure := repeated && (outcome == "fail" || outcome == "release")
		if status != api.JobOK && !unsure && time.Now().Before(until) {
			w.t.Errorf("%s of %s: %s", outcome, j.ID, status)
		}
		return status
	}
	return status
}

// checkDone checks that all jobs were done, each once.
func (w *workers) checkDone() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	ids := map[string]bool{}
	for _, id := range w.ids {
		ids[id] = true
		if !w.done[id] {
			w.t.Errorf("%s was never done", id)
		}
	}
	q := w.server().queueOf("q")
	if len(ids) != w.all || len(w.done) != w.all || q.Done != int64(w.all) || q.Depth+q.Blocked+q.Scheduled+q.Running+q.Dead != 0 {
		w.t.Errorf("of %d jobs %d were accepted and %d done: %+v", w.all, len(ids), len(w.done), q)
	}
	w.t.Logf("%d jobs, %d retries, %d leases ended", w.all, q.Retries, q.Recovered)
}

// Workers complete, fail and release jobs with conflict keys, or die with them, while processes are killed and lose
// their connections. Every job is done once, and no key is held twice at once.
func TestJ2_WorkersWhileProcessesAreKilled(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	vars := jobSettings(t, redis)
	f := &fleet{t: t, vars: vars, redis: redis, servers: mustServeMany(t, 3, vars...)}
	w := newWorkers(t, storetest.Sized(4000, 400), f.all)
	w.deaths = 10
	pace := time.NewTicker(10 * time.Second / time.Duration(w.all)) // slow enough for all faults
	defer pace.Stop()
	enqueued := make(chan error, 1)
	go func() { enqueued <- w.enqueue(pace.C) }()
	work := w.start(8)
	for round, happens := range []func(){f.kill, f.kill, f.hangUp, f.kill, f.kill, f.hangUp, f.kill} {
		storetest.Eventually(t, time.Minute, "some more are done", func() bool { return w.finished() >= (round+1)*w.all/10 })
		happens()
	}
	storetest.Must(t, <-enqueued)
	work.Wait()
	w.checkDone()
}

// Redis is killed while callers enqueue and workers work. The kernel has every write that was answered
// (keepsAnswered), so every accepted job is done once.
func TestJ1_NoJobIsLostWithRedis(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t, keepsAnswered...)
	first, second := mustServeTwo(t, redis)
	both := []*program{first, second}
	w := newWorkers(t, storetest.Sized(4000, 400), func() []*program { return both })
	pace := time.NewTicker(4 * time.Second / time.Duration(w.all))
	defer pace.Stop()
	enqueued := make(chan error, 1)
	go func() { enqueued <- w.enqueue(pace.C) }()
	work := w.start(4)
	for round := range 2 {
		storetest.Eventually(t, time.Minute, "some are accepted and done", func() bool {
			least := (round + 1) * w.all / 3
			return w.accepted() >= least && w.finished() >= least-w.all/4
		})
		redis.Kill()
		for _, p := range both {
			p.mustRefuseJobs(w.first())
		}
		redis.Restart()
	}
	storetest.Must(t, <-enqueued)
	work.Wait()
	w.checkDone()
}

// mustRefuseJobs makes a call of each kind while Redis is away.
func (p *program) mustRefuseJobs(id string) {
	p.t.Helper()
	queue := "/v1/queues/" + id[:strings.LastIndexByte(id, '.')]
	result := map[string]any{"id": id, "token": "1", "outcome": "complete"}
	var all sync.WaitGroup
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{"POST", queue + "/jobs", map[string]any{"type": "t"}},
		{"POST", queue + "/jobs/batch", map[string]any{"jobs": []any{map[string]any{"type": "t"}}}},
		{"POST", queue + "/claims", map[string]any{"worker": "nobody"}},
		{"POST", queue + "/claims", map[string]any{"worker": "nobody", "wait_ms": 20_000}},
		{"POST", queue + "/results", map[string]any{"results": []any{result}}},
		{"GET", queue, nil},
		{"GET", "/v1/jobs/" + id, nil},
		{"DELETE", "/v1/jobs/nobodys.06f8k2m3v0q7d1h9r5t4u2s8ao", nil},
	} {
		all.Go(func() {
			var problem api.Problem
			status, answer, err := p.try(c.method, c.path, c.body)
			if err != nil || status != 503 || json.Unmarshal(answer, &problem) != nil || problem.Code != api.CodeUnavailable && problem.Code != api.CodeUnknownOutcome {
				p.t.Errorf("%s %s without Redis: %d %s %v", c.method, c.path, status, answer, err)
			}
		})
	}
	all.Wait()
}
