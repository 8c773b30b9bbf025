package fanfare_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	fanfare "fanfare/clients/go"
)

// work runs a worker until the test ends or stop is called, which waits for it.
func work(t *testing.T, w fanfare.Worker) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Error("the worker does not stop")
		}
	})
	t.Cleanup(stop)
	return stop
}

// state is what the server says of a job.
func state(t *testing.T, c *fanfare.Client, id string) (job struct {
	State      string
	Failures   int
	LostLeases int    `json:"lost_leases"`
	LastError  string `json:"last_error"`
}) {
	t.Helper()
	must(t, c.Call(within(t, time.Minute), http.MethodGet, fanfare.Path("v1", "jobs", id), nil, &job, fanfare.Attempts(100)))
	return job
}

// The server is killed again and again and answers are lost while jobs are enqueued and done: every job is done, once,
// with a fence that is higher than those before it.
func TestAWorkerSurvivesKills(t *testing.T) {
	t.Parallel()
	needRedis(t)
	s, ctx := setup(t), within(t, 2*time.Minute)
	c := s.client(fanfare.Options{Attempts: 100, MaxBackoff: time.Second})
	var answers atomic.Int64
	s.losing(func(r *http.Request, _ int) bool {
		return r.Method == http.MethodPost && answers.Add(1)%7 == 0
	})
	const n = 100
	var mu sync.Mutex
	done := map[string]int{}
	stop := work(t, fanfare.Worker{Client: c, Queue: "q", Concurrency: 5, Lease: 20 * time.Second, Handle: func(ctx context.Context, job *fanfare.Job) error {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		mu.Lock()
		defer mu.Unlock()
		done[job.ID]++
		return nil
	}})
	var ids []string
	for i := range n {
		job, err := c.EnqueueJob(ctx, "q", fanfare.NewJob{Type: "a", Payload: i})
		must(t, err)
		ids = append(ids, job.ID)
		if i%40 == 20 {
			s.kill()
			s.start()
		}
	}
	until(t, "all jobs are done", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(done) == n
	})
	stop()
	for _, id := range ids {
		if done[id] != 1 || state(t, c, id).State != "done" {
			t.Errorf("%s was done %d times and is %+v", id, done[id], state(t, c, id))
		}
	}
	if len(done) != n {
		t.Errorf("%d jobs were done, %d enqueued", len(done), n)
	}
}

// What a handler returns decides what becomes of its job.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	c, ctx := setup(t).client(fanfare.Options{}), within(t, time.Minute)
	var released atomic.Bool
	work(t, fanfare.Worker{Client: c, Queue: "q", Concurrency: 3, Handle: func(_ context.Context, job *fanfare.Job) error {
		switch job.Type {
		case "fail":
			return errors.New("no: " + strings.Repeat("ä", 600))
		case "later":
			return fanfare.RetryAfter(errors.New("come later"), time.Hour)
		case "panic":
			panic("oh")
		case "release":
			if !released.Swap(true) {
				return fanfare.Release(10 * time.Millisecond)
			}
		}
		return nil
	}})
	for _, test := range []struct{ kind, state, problem string }{{"ok", "done", ""}, {"fail", "dead", "no: ä"}, {"later", "scheduled", "come later"}, {"panic", "dead", "panic: oh"}, {"release", "done", ""}} {
		attempts := int64(1)
		if test.kind == "later" {
			attempts = 2
		}
		job, err := c.EnqueueJob(ctx, "q", fanfare.NewJob{Type: test.kind, MaxAttempts: attempts})
		must(t, err)
		until(t, test.kind+" is "+test.state, func() bool { return state(t, c, job.ID).State == test.state })
		if now := state(t, c, job.ID); !strings.HasPrefix(now.LastError, test.problem) || len(now.LastError) > 1000 {
			t.Errorf("%s: %+v", test.kind, now)
		}
	}
}

// A job that takes much longer than its lease keeps it, one that is cancelled is told, and so is one whose lease
// cannot be renewed, which is then done by another worker.
func TestLeases(t *testing.T) {
	t.Parallel()
	s, ctx := setup(t), within(t, time.Minute)
	c := s.client(fanfare.Options{MinBackoff: 10 * time.Millisecond})
	begun, why := make(chan string, 10), make(chan error, 10)
	var slow atomic.Int64
	stop := work(t, fanfare.Worker{Client: c, Queue: "q", Lease: time.Second, Handle: func(ctx context.Context, job *fanfare.Job) error {
		begun <- job.ID
		if job.Type == "slow" {
			slow.Add(1)
			select {
			case <-time.After(3 * time.Second):
			case <-ctx.Done():
				t.Error(context.Cause(ctx))
			}
			return nil
		}
		<-ctx.Done()
		why <- context.Cause(ctx)
		return ctx.Err()
	}})
	slowJob, err := c.EnqueueJob(ctx, "q", fanfare.NewJob{Type: "slow"})
	must(t, err)
	until(t, "the slow job is done", func() bool { return state(t, c, slowJob.ID).State == "done" })
	if now := state(t, c, slowJob.ID); slow.Load() != 1 || now.LostLeases != 0 {
		t.Errorf("the slow job was begun %d times: %+v", slow.Load(), now)
	}
	<-begun
	job, err := c.EnqueueJob(ctx, "q", fanfare.NewJob{Type: "wait"})
	must(t, err)
	<-begun
	must(t, c.CancelJob(ctx, job.ID))
	if err := <-why; !errors.Is(err, fanfare.ErrJobCancelled) {
		t.Errorf("the cancelled job was told %v", err)
	}
	job, err = c.EnqueueJob(ctx, "q", fanfare.NewJob{Type: "wait"})
	must(t, err)
	<-begun
	s.losing(func(r *http.Request, _ int) bool { return strings.HasSuffix(r.URL.Path, "/results") })
	if err := <-why; !errors.Is(err, fanfare.ErrLeaseEnded) {
		t.Errorf("the job that could not be renewed was told %v", err)
	}
	s.losing(func(*http.Request, int) bool { return false })
	<-begun // again
	must(t, c.CancelJob(ctx, job.ID))
	<-why
	stop()
}

// A worker that is told to stop finishes what it has, tells jobs that want to know, and claims nothing more.
func TestDrain(t *testing.T) {
	t.Parallel()
	c, ctx := setup(t).client(fanfare.Options{}), within(t, time.Minute)
	jobs, err := c.EnqueueJobs(ctx, "q", []fanfare.NewJob{{Type: "a"}, {Type: "b"}, {Type: "c"}})
	must(t, err)
	begun := make(chan struct{}, 2)
	stop := work(t, fanfare.Worker{Client: c, Queue: "q", Concurrency: 2, Handle: func(ctx context.Context, job *fanfare.Job) error {
		begun <- struct{}{}
		<-job.Stopping()
		if job.Type == "b" {
			return fanfare.Release(0)
		}
		return ctx.Err()
	}})
	<-begun
	<-begun
	stop()
	for i, want := range []string{"done", "queued", "queued"} {
		if now := state(t, c, jobs[i].ID); now.State != want || now.Failures+now.LostLeases != 0 {
			t.Errorf("job %d: %+v, want %s", i, now, want)
		}
	}
}

// A worker that may not claim says so.
func TestAWorkerThatIsRefused(t *testing.T) {
	t.Parallel()
	c := setup(t).client(fanfare.Options{Key: "ff_wrong_0123456789abcdefghijklmnopqrstuvwxyz"})
	w := fanfare.Worker{Client: c, Queue: "q", Handle: func(context.Context, *fanfare.Job) error { return nil }}
	if err := w.Run(within(t, time.Minute)); fanfare.CodeOf(err) != "unauthorized" {
		t.Error(err)
	}
	if err := (&fanfare.Worker{}).Run(within(t, time.Minute)); err == nil {
		t.Error("it runs without a queue")
	}
}
