package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// mustServeTwo starts two servers on one Redis, with short backoffs.
func mustServeTwo(t testing.TB, redis *storetest.RedisServer) (first, second *program) {
	t.Helper()
	both := mustServeMany(t, 2, jobSettings(t, redis)...)
	return both[0], both[1]
}

func jobSettings(t testing.TB, redis *storetest.RedisServer) []string {
	t.Helper()
	return quick("FANFARE_REDIS_URL="+redis.URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t))
}

// enqueue enqueues a job, which must be accepted, and returns its id.
func (p *program) enqueue(queue string, job map[string]any, headers ...string) string {
	p.t.Helper()
	var accepted api.JobAccepted
	p.must(202, &accepted, "POST", "/v1/queues/"+queue+"/jobs", job, headers...)
	return accepted.ID
}

// tryClaim claims jobs with a lease. more has further fields of the body.
func (p *program) tryClaim(queue string, lease time.Duration, more map[string]any, headers ...string) ([]api.ClaimedJob, error) {
	body := map[string]any{"worker": "w", "lease_ms": lease.Milliseconds()}
	for name, value := range more {
		body[name] = value
	}
	var claimed api.ClaimedJobs
	err := p.ask(&claimed, "/v1/queues/"+queue+"/claims", body, headers...)
	return claimed.Jobs, err
}

// ask posts something that must be answered 200. Unlike must, goroutines may use it.
func (p *program) ask(out any, path string, body any, headers ...string) error {
	status, answer, err := p.try("POST", path, body, headers...)
	switch {
	case err != nil:
		return err
	case status != http.StatusOK:
		return fmt.Errorf("%s: %d %s", path, status, answer)
	}
	return json.Unmarshal(answer, out)
}

// claim claims jobs at once.
func (p *program) claim(queue string, lease time.Duration, most int, headers ...string) []api.ClaimedJob {
	p.t.Helper()
	jobs, err := p.tryClaim(queue, lease, map[string]any{"max": most}, headers...)
	storetest.Must(p.t, err)
	return jobs
}

// claimOne claims exactly one job, for which it waits if need be.
func (p *program) claimOne(queue string, lease time.Duration) api.ClaimedJob {
	p.t.Helper()
	jobs, err := p.tryClaim(queue, lease, map[string]any{"wait_ms": 15_000})
	storetest.Must(p.t, err)
	if len(jobs) != 1 {
		p.t.Fatalf("claimed %d jobs of %s, want 1", len(jobs), queue)
	}
	return jobs[0]
}

// hold enqueues a job and claims it.
func (p *program) hold(queue string, lease time.Duration) api.ClaimedJob {
	p.t.Helper()
	p.enqueue(queue, map[string]any{"type": "t"})
	return p.claimOne(queue, lease)
}

// trySay says something about a job, and returns the answer.
func (p *program) trySay(j api.ClaimedJob, outcome string) (api.JobStatus, error) {
	var answers api.JobAnswers
	queue := j.ID[:strings.LastIndexByte(j.ID, '.')]
	result := map[string]any{"id": j.ID, "token": j.Token, "outcome": outcome}
	if err := p.ask(&answers, "/v1/queues/"+queue+"/results", map[string]any{"results": []any{result}}); err != nil {
		return "", err
	}
	return answers.Results[0].Status, nil
}

// say says something about a job, which must be answered as given.
func (p *program) say(j api.ClaimedJob, outcome string, want api.JobStatus) {
	p.t.Helper()
	status, err := p.trySay(j, outcome)
	storetest.Must(p.t, err)
	if status != want {
		p.t.Errorf("%s of %s: %s, want %s", outcome, j.ID, status, want)
	}
}

// mustBeJob checks the state of a job, and returns the job.
func (p *program) mustBeJob(id string, want api.JobState) (j api.Job) {
	p.t.Helper()
	p.must(200, &j, "GET", "/v1/jobs/"+id, nil)
	if j.State != want {
		p.t.Errorf("%s is %s, want %s", id, j.State, want)
	}
	return j
}

// queueOf reads a queue.
func (p *program) queueOf(name string) (q api.JobQueue) {
	p.t.Helper()
	p.must(200, &q, "GET", "/v1/queues/"+name, nil)
	return q
}

// claimed is the answer of a claim that waited.
type claimed struct {
	jobs []api.ClaimedJob
	err  error
}

// wait claims a job of a queue for which nobody waits yet, and returns when the process listens.
func (p *program) wait(ctx context.Context, redis *storetest.RedisServer, queue string) <-chan claimed {
	p.t.Helper()
	got := make(chan claimed, 1)
	go func() {
		jobs, err := p.claimWithin(ctx, queue)
		got <- claimed{jobs, err}
	}()
	storetest.Eventually(p.t, 20*time.Second, "the claim waits", func() bool {
		return len(redis.Client().PubSubChannels(p.t.Context(), "*w:"+queue+"?wake").Val()) == 1
	})
	return got
}

// claimWithin waits for a job until ctx ends: then it hangs up.
func (p *program) claimWithin(ctx context.Context, queue string) ([]api.ClaimedJob, error) {
	body := []byte(`{"worker": "w", "lease_ms": 3600000, "wait_ms": 30000}`)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.base+"/v1/queues/"+queue+"/claims", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer api.ClaimedJobs
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the waiting claim: %s", resp.Status)
	}
	return answer.Jobs, json.NewDecoder(resp.Body).Decode(&answer)
}

// A job belongs to whoever has its token, not to the process that gave it.
func TestJ2_HoldsOutliveProcesses(t *testing.T) {
	t.Parallel()
	vars := jobSettings(t, storetest.Redis(t))
	both := mustServeMany(t, 2, vars...)
	first, second := both[0], both[1]
	var ids []string
	for range 3 {
		ids = append(ids, first.enqueue("q", map[string]any{"type": "t", "key": "k"}))
	}
	other := first.enqueue("q", map[string]any{"type": "u", "payload": map[string]any{"a": 1}})
	jobs := second.claim("q", time.Hour, 10, "Idempotency-Key", "one")
	if len(jobs) != 2 || jobs[0].ID != ids[0] || jobs[1].ID != other || string(jobs[1].Payload) != `{"a":1}` {
		t.Fatalf("claimed %+v", jobs)
	}
	second.kill()
	again := first.claim("q", time.Hour, 10, "Idempotency-Key", "one")
	if len(again) != 2 || again[0].Token != jobs[0].Token || again[1].Token != jobs[1].Token {
		t.Errorf("a repeat at another process: %+v, was %+v", again, jobs)
	}
	if more := first.claim("q", time.Hour, 10); len(more) != 0 {
		t.Errorf("claimed %+v while the key is held", more)
	}
	first.say(jobs[0], "renew", api.JobOK)
	for _, j := range jobs {
		first.say(j, "complete", api.JobOK)
		first.say(j, "complete", api.JobOK)
		first.mustBeJob(j.ID, api.JobDone)
	}
	third := mustServeMany(t, 1, vars...)[0]
	for _, id := range ids[1:] {
		next := third.claimOne("q", time.Hour)
		if next.ID != id || next.Attempt != 1 || next.Fence <= jobs[1].Fence {
			t.Errorf("claimed %+v, want %s", next, id)
		}
		first.say(next, "complete", api.JobOK)
	}
	if q := third.queueOf("q"); q.Done != 4 || q.Depth+q.Blocked+q.Running+q.Recovered != 0 {
		t.Errorf("the queue is %+v", q)
	}
}

// A claim that waits at one process is woken by a job that another process takes.
func TestJ5_WokenByAnotherProcess(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	front, back := mustServeTwo(t, redis)
	// A process that only asked from time to time would do so after 10 s. One wake-up may be late on a busy machine.
	best := time.Hour
	for n := 0; n < 3 && best > 3*time.Second; n++ {
		queue := fmt.Sprint("q", n)
		waiting := back.wait(t.Context(), redis, queue)
		begun := time.Now()
		id := front.enqueue(queue, map[string]any{"type": "t"})
		got := <-waiting
		best = min(best, time.Since(begun))
		if got.err != nil || len(got.jobs) != 1 || got.jobs[0].ID != id || got.jobs[0].Attempt != 1 {
			t.Fatalf("woken with %+v, want %s", got, id)
		}
		front.say(got.jobs[0], "complete", api.JobOK)
	}
	if best > 3*time.Second {
		t.Errorf("a job waited for its worker for %v", best)
	}
}

// A caller that hangs up, or whose process is killed, holds nothing. A process that stops answers those that wait.
func TestJ5_HowWaitsEnd(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	first, second := mustServeTwo(t, redis)
	mustGoOn := func(queue string) {
		t.Helper()
		// If the job was given to a caller who had left, it was given back: its lease would last for an hour.
		id := first.enqueue(queue, map[string]any{"type": "t"})
		if j := first.claimOne(queue, time.Minute); j.ID != id || j.Attempt != 1 {
			t.Errorf("claimed %+v, want %s", j, id)
		}
	}
	ctx, hangUp := context.WithCancel(t.Context())
	left := second.wait(ctx, redis, "left")
	hangUp()
	if got := <-left; got.err == nil {
		t.Errorf("a caller that hung up got %+v", got.jobs)
	}
	// A process cannot know that a caller has left before its system tells. A job that comes then may be on its way to the caller.
	storetest.Eventually(t, 20*time.Second, "the process knows that the caller has left", func() bool {
		return second.metric("fanfare_http_in_flight_requests") == "1" // the one that reads the metric
	})
	mustGoOn("left")
	stopped, stays := first.wait(t.Context(), redis, "stopped"), second.wait(t.Context(), redis, "killed")
	second.kill()
	if got := <-stays; got.err == nil {
		t.Errorf("a killed process answered %+v", got.jobs)
	}
	mustGoOn("killed")
	if code, took := first.terminate(); code != 0 || took > 10*time.Second {
		t.Errorf("exit code %d after %v with a claim that waits", code, took)
	}
	if got := <-stopped; got.err != nil || len(got.jobs) != 0 {
		t.Errorf("the process that stopped answered %+v", got)
	}
}

// Leases that ended while Redis was away last once more, so that their holders can say something first.
func TestJ8_LeasesOutliveAnAbsence(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	redis := storetest.Redis(t, keepsAnswered...)
	first, second := mustServeTwo(t, redis)
	both := []*program{first, second}
	long, kept, left := first.hold("long", time.Hour), first.hold("kept", lease), second.hold("left", lease)
	held := time.Now()
	redis.Kill()
	for _, p := range both {
		p.mustRefuseJobs(long.ID)
	}
	storetest.Eventually(t, time.Minute, "the leases are over", func() bool { return time.Since(held) > lease+100*time.Millisecond })
	back := time.Now()
	redis.Restart()
	inTime := func() bool { return time.Since(back) < lease }

	// At once, because a worker that had to wait asks at once, too.
	for _, queue := range []string{"kept", "left"} {
		for _, p := range both {
			var jobs []api.ClaimedJob
			storetest.Eventually(t, time.Minute, "Redis is back", func() (ok bool) {
				var err error
				jobs, err = p.tryClaim(queue, time.Hour, nil)
				return err == nil
			})
			if len(jobs) > 0 && inTime() {
				t.Fatalf("%s: taken over %v after Redis was back: %+v", queue, time.Since(back), jobs)
			}
		}
	}
	if status, err := second.trySay(kept, "renew"); inTime() && (err != nil || status != api.JobOK) {
		t.Errorf("the renewal: %s, %v", status, err)
	}
	second.say(long, "complete", api.JobOK)
	taken := first.claimOne("left", time.Hour)
	if inTime() || taken.Attempt != 2 || taken.Fence <= left.Fence {
		t.Errorf("taken over %v after Redis was back: %+v after %+v", time.Since(back), taken, left)
	}
	second.say(left, "complete", api.JobLost)
	second.say(taken, "complete", api.JobOK)
	second.mustBeJob(left.ID, api.JobDone)
}

// A worker says nothing until its lease is over, and the process that gave it the job is frozen as well. The other
// process gives the job to another worker, and what the first one says then is of no effect.
func TestJ2_AFrozenWorkerLosesItsJob(t *testing.T) {
	t.Parallel()
	const lease = 700 * time.Millisecond
	frozen, other := mustServeTwo(t, storetest.Redis(t))
	next := other.enqueue("q", map[string]any{"type": "t", "key": "k"})
	behind := other.enqueue("q", map[string]any{"type": "t", "key": "k"})
	begun := time.Now()
	lost := frozen.claimOne("q", lease)
	frozen.signal(syscall.SIGSTOP)
	taken := other.claimOne("q", time.Minute)
	if early := time.Since(begun); early < lease || taken.ID != next || taken.Attempt != 2 || taken.Fence <= lost.Fence {
		t.Errorf("after %v %+v was given to another: %+v", early, lost, taken)
	}
	frozen.signal(syscall.SIGCONT)
	for _, outcome := range []string{"renew", "complete", "fail", "release"} {
		frozen.say(lost, outcome, api.JobLost)
	}
	if j := frozen.mustBeJob(next, api.JobRunning); j.Fence != taken.Fence || j.LostLeases != 1 {
		t.Errorf("the job is %+v, held as %+v", j, taken)
	}
	other.mustBeJob(behind, api.JobBlocked)
	frozen.say(taken, "complete", api.JobOK)

	// Nobody claims this one after its lease, so the late result counts.
	late := other.claimOne("q", 20*time.Millisecond)
	storetest.Eventually(t, 20*time.Second, "the lease is over", func() bool { return *other.mustBeJob(behind, api.JobRunning).LeaseMS == 0 })
	frozen.say(late, "complete", api.JobOK)
	other.mustBeJob(behind, api.JobDone)
}

// Redis loses everything. Holders learn that their jobs are lost, new jobs are done, and fences go on rising.
func TestJ4_AnEmptiedRedis(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	first, second := mustServeTwo(t, redis)
	before := first.hold("q", time.Hour)
	waiting := second.wait(t.Context(), redis, "waits")
	storetest.Must(t, redis.Client().FlushAll(t.Context()).Err())
	second.say(before, "renew", api.JobLost)
	first.say(before, "complete", api.JobLost)
	first.must(404, nil, "GET", "/v1/jobs/"+before.ID, nil)
	second.must(404, nil, "GET", "/v1/queues/q", nil)
	after := second.hold("q", time.Hour)
	if after.Fence <= before.Fence || after.Attempt != 1 {
		t.Errorf("claimed %+v, before Redis was emptied %+v", after, before)
	}
	first.say(after, "complete", api.JobOK)
	id := first.enqueue("waits", map[string]any{"type": "t"})
	if got := <-waiting; got.err != nil || len(got.jobs) != 1 || got.jobs[0].ID != id {
		t.Errorf("woken with %+v, want %s", got, id)
	}
}
