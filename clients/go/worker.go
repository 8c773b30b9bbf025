package fanfare

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"runtime/debug"
	"sync"
	"time"
)

// Worker claims jobs of one queue and does them. Its fields must not change while it runs.
type Worker struct {
	// Client's key needs the scope jobs:work.
	Client *Client
	Queue  string
	// Handle does a job. Its context ends when the job no longer belongs to this worker: context.Cause says
	// ErrLeaseEnded, ErrJobLost or ErrJobCancelled. Write nothing more then. It does not end when Run is told
	// to stop: the job is finished first. (Job.Stopping is for jobs that take too long for that.)
	//
	// nil completes the job. An error fails it, which counts as an attempt, and so does a panic. Release and
	// RetryAfter make errors that mean something else.
	Handle func(ctx context.Context, job *Job) error
	// Name is shown beside the jobs; by default the machine's name and the process id.
	Name string
	// Types are the types of jobs to claim; by default all.
	Types []string
	// Concurrency is how many jobs are done at the same time; 1 by default.
	Concurrency int
	// Lease is how long a job belongs to this worker if it is not heard from. It is renewed at a third of it. 30 s
	// by default.
	Lease time.Duration
	// Log gets what is repeated or given up; by default nothing is logged.
	Log *slog.Logger
}

// Why a job no longer belongs to its worker.
var (
	ErrLeaseEnded   = errors.New("the lease ended before it could be renewed")
	ErrJobLost      = errors.New("another worker has the job, or it has ended")
	ErrJobCancelled = errors.New("the job was cancelled")
)

// Run claims and does jobs until ctx ends. Then it claims no more and returns nil when all jobs that it has are done and
// reported. A claim that waits on the server is not cut off, which takes a sixth of the lease at most. It returns an
// error if the server refuses to hand out jobs for good, for a wrong key say.
func (w *Worker) Run(ctx context.Context) error {
	r := &run{Worker: *w, stopping: ctx.Done()}
	if err := r.fill(); err != nil {
		return err
	}
	free := make(chan struct{}, r.Concurrency)
	for range r.Concurrency {
		free <- struct{}{}
	}
	var busy sync.WaitGroup
	defer busy.Wait()
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-free:
		}
		room := 1 + take(free, maxClaim-1)
		jobs, err := r.claim(ctx, room)
		for range room - len(jobs) {
			free <- struct{}{}
		}
		if err != nil {
			if v := judge(err); !v.transient && CodeOf(err) != "" {
				return err
			}
			r.Log.WarnContext(ctx, "no jobs could be claimed", "queue", r.Queue, "error", err)
			pause(ctx, jitter(r.Client.o.MinBackoff, 3*r.Client.o.MaxBackoff, failures))
			failures++
			continue
		}
		failures = 0
		if ctx.Err() != nil {
			r.giveBack(ctx, jobs)
			return nil
		}
		for _, job := range jobs {
			busy.Go(func() {
				r.do(ctx, job)
				free <- struct{}{}
			})
		}
	}
}

// take takes up to n values without waiting.
func take(free chan struct{}, n int) (taken int) {
	for ; taken < n; taken++ {
		select {
		case <-free:
		default:
			return taken
		}
	}
	return taken
}

const (
	// maxClaim is how many jobs one claim may take.
	maxClaim = 100
	// maxError is how many bytes of an error are kept.
	maxError = 1000
)

// run is a worker that runs, with its defaults.
type run struct {
	Worker
	stopping <-chan struct{}
}

// name has what a name may not have.
var name = regexp.MustCompile(`[^A-Za-z0-9._:@-]`)

// fill sets the defaults.
func (r *run) fill() error {
	if r.Client == nil || r.Queue == "" || r.Handle == nil {
		return errors.New("fanfare: a worker needs Client, Queue and Handle")
	}
	if r.Name == "" {
		host, _ := os.Hostname() // without one the process id has to do
		host = name.ReplaceAllString(host, "-")
		r.Name = fmt.Sprintf("%.100s-%d", host, os.Getpid())
	}
	setDefault(&r.Concurrency, 1)
	setDefault(&r.Lease, 30*time.Second)
	setDefault(&r.Log, slog.New(slog.DiscardHandler))
	return nil
}

// claim claims up to n jobs. It repeats a claim whose answer was lost, and gets the same jobs, as long as most of
// their leases is left.
func (r *run) claim(ctx context.Context, n int) ([]*Job, error) {
	wait := min(r.Lease/6, 30*time.Second)
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait+r.Lease/2)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(wait+time.Second, cancel) })()
	body := map[string]any{"worker": r.Name, "max": n, "lease_ms": r.Lease.Milliseconds(), "wait_ms": wait.Milliseconds()}
	if len(r.Types) > 0 {
		body["types"] = r.Types
	}
	var answer struct{ Jobs []*Job }
	sent := time.Now()
	err := r.Client.Call(whole, http.MethodPost, Path("v1", "queues", r.Queue, "claims"), body, &answer, Timeout(wait+r.Client.o.Timeout))
	for _, job := range answer.Jobs {
		job.until, job.stopping = sent.Add(r.Lease), r.stopping
	}
	return answer.Jobs, err
}

// giveBack releases jobs that came after the worker was told to stop.
func (r *run) giveBack(ctx context.Context, jobs []*Job) {
	for _, job := range jobs {
		r.end(ctx, job, result{Outcome: "release"})
	}
}

// do does a job, keeps its lease meanwhile, and reports what became of it.
func (r *run) do(ctx context.Context, job *Job) {
	held, lose := context.WithCancelCause(context.WithoutCancel(ctx))
	kept := make(chan struct{})
	over := time.AfterFunc(time.Until(job.until), func() { lose(ErrLeaseEnded) })
	stop := make(chan struct{})
	go func() {
		defer close(kept)
		r.keep(held, job, over, lose, stop)
	}()
	err := r.handle(held, job)
	why := context.Cause(held)
	close(stop)
	lose(context.Canceled)
	<-kept
	over.Stop()
	if why != nil {
		r.Log.WarnContext(ctx, "a job no longer belongs to this worker", "job", job.ID, "reason", why)
	}
	if errors.Is(why, ErrJobLost) || errors.Is(why, ErrJobCancelled) {
		return // nobody waits for a result
	}
	if err != nil {
		r.Log.WarnContext(ctx, "a job was not done", "job", job.ID, "type", job.Type, "attempt", job.Attempt, "error", err)
	}
	r.end(ctx, job, resultOf(err, why))
}

// handle calls the handler and turns a panic into an error.
func (r *run) handle(ctx context.Context, job *Job) (err error) {
	defer func() {
		if v := recover(); v != nil {
			r.Log.ErrorContext(ctx, "a job panicked", "job", job.ID, "panic", v, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return r.Handle(ctx, job)
}

// keep renews the lease at a third of it until the job ends or is lost.
func (r *run) keep(ctx context.Context, job *Job, over *time.Timer, lose func(error), stop <-chan struct{}) {
	until := job.until
	next := until.Add(-2 * r.Lease / 3)
	for failures := 0; ; {
		timer := time.NewTimer(time.Until(next))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-stop:
			timer.Stop()
			return
		case <-timer.C:
		}
		sent := time.Now()
		status, err := r.report(ctx, job, result{Outcome: "renew", LeaseMS: r.Lease.Milliseconds()}, Attempts(1), Timeout(min(time.Until(until), r.Client.o.Timeout)))
		switch {
		case err != nil && ctx.Err() != nil:
			return
		case err != nil:
			r.Log.WarnContext(ctx, "a lease could not be renewed", "job", job.ID, "error", err)
			next = time.Now().Add(jitter(r.Client.o.MinBackoff, r.Lease/6, failures))
			failures++
		case status == "job_lost":
			lose(ErrJobLost)
			return
		case status == "cancelled":
			lose(ErrJobCancelled)
			return
		default:
			failures, until, next = 0, sent.Add(r.Lease), sent.Add(r.Lease/3)
			over.Reset(time.Until(until))
		}
	}
}
