package fanfare

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"
)

// Job is a job that a worker holds.
type Job struct {
	ID      string          `json:"id"` // the same at each attempt
	Token   string          `json:"token"`
	Fence   int64           `json:"fence"` // higher than that of every earlier hold; let what you write to refuse lower ones
	Attempt int             `json:"attempt"`
	Type    string          `json:"type"`
	Key     string          `json:"key"`
	Payload json.RawMessage `json:"payload"`

	// Traceparent names the span of the call that enqueued the job (W3C Trace Context); "": that call named none.
	Traceparent string `json:"traceparent"`

	until    time.Time
	stopping <-chan struct{}
}

// Decode reads the payload into a pointer.
func (j *Job) Decode(into any) error { return json.Unmarshal(j.Payload, into) }

// Stopping is closed when the worker is told to stop. A job that would take too long can return Release(0) then.
func (j *Job) Stopping() <-chan struct{} { return j.stopping }

// outcome is an error of a handler that says more than that the job failed.
type outcome struct {
	err     error // nil: the job is released
	after   time.Duration
	release bool
}

func (o *outcome) Error() string {
	if o.release {
		return "released"
	}
	return o.err.Error()
}

func (o *outcome) Unwrap() error { return o.err }

// Release makes an error that gives a job back without counting an attempt, because it cannot be done now through no
// fault of its own. Others may claim it after a while, or at once after 0.
func Release(after time.Duration) error { return &outcome{release: true, after: after} }

// RetryAfter makes an error that fails a job and says how long to wait at least before its next attempt. The error may
// not be nil.
func RetryAfter(err error, after time.Duration) error { return &outcome{err: err, after: after} }

// result is what is reported of a job.
type result struct {
	ID           string `json:"id"`
	Token        string `json:"token"`
	Outcome      string `json:"outcome"`
	Error        string `json:"error,omitempty"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
	LeaseMS      int64  `json:"lease_ms,omitempty"`
}

// resultOf says what the error of a handler means. why is why the lease ended, if it did: a job that was given up for
// that reason is released, since it did not fail.
func resultOf(err, why error) result {
	var told *outcome
	switch {
	case err == nil:
		return result{Outcome: "complete"}
	case errors.As(err, &told) && told.release:
		return result{Outcome: "release", RetryAfterMS: told.after.Milliseconds()}
	case why != nil && (errors.Is(err, why) || errors.Is(err, context.Canceled)):
		return result{Outcome: "release"}
	}
	text := err.Error()
	if len(text) > maxError {
		text = text[:maxError]
	}
	failed := result{Outcome: "fail", Error: strings.ToValidUTF8(text, "")}
	if told != nil {
		failed.RetryAfterMS = told.after.Milliseconds()
	}
	return failed
}

// end reports how a job ended, for as long as that may matter: the result also counts after the lease if nobody has
// claimed the job since.
func (r *run) end(ctx context.Context, job *Job, res result) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.Lease+time.Minute)
	defer cancel()
	status, err := r.report(ctx, job, res, Attempts(1_000_000))
	switch {
	case err != nil:
		r.Log.ErrorContext(ctx, "the result of a job could not be reported", "job", job.ID, "outcome", res.Outcome, "error", err)
	case status != "ok":
		r.Log.WarnContext(ctx, "the result of a job came too late", "job", job.ID, "outcome", res.Outcome, "status", status)
	}
}

// report sends one result, and returns ok, job_lost or cancelled.
func (r *run) report(ctx context.Context, job *Job, res result, s ...Setting) (string, error) {
	res.ID, res.Token = job.ID, job.Token
	var answer struct{ Results []struct{ Status string } }
	err := r.Client.Call(ctx, http.MethodPost, Path("v1", "queues", r.Queue, "results"), map[string]any{"results": []result{res}}, &answer, s...)
	if err == nil && len(answer.Results) != 1 {
		err = errors.New("fanfare: the answer has not one result")
	}
	if err != nil {
		return "", err
	}
	return answer.Results[0].Status, nil
}
