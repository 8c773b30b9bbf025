package api

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// The limits of jobs over HTTP.
const (
	MaxJobPayload  = 60 << 10            // bytes of JSON, without blanks and needless escapes
	MaxJobDelay    = 30 * 24 * time.Hour // run_at from now
	MaxJobs        = 1_000_000           // jobs of a queue that have not ended
	MaxQueues      = 1000
	MaxClaimBytes  = 1 << 20   // payloads of one claim
	MaxJobID       = 256       // bytes
	MaxJobBody     = 256 << 10 // POST /v1/queues/{queue}/jobs: a library that escapes all but ASCII makes a payload three times as long
	MaxResultsBody = 1 << 20   // POST /v1/queues/{queue}/results
)

// JobRequest is the body of POST /v1/queues/{queue}/jobs.
type JobRequest struct {
	// Type says what is to be done. Workers choose their types.
	Type string `json:"type" validate:"required,identifier" example:"send_invoice"`
	// Payload is any JSON, at most 60 KiB without blanks and needless escapes. `null` is the same as none.
	Payload json.RawMessage `json:"payload,omitempty" swaggertype:"object"`
	// Key is a conflict key: of the jobs of a queue with the same key at most one is held at a time, in the order in which
	// they were enqueued.
	Key string `json:"key,omitempty" validate:"omitempty,identifier" example:"customer:42"`
	// Unique names the job in its queue until it ends: a second job with this name is not stored meanwhile.
	Unique string `json:"unique,omitempty" validate:"omitempty,identifier" example:"invoice:2026-01:42"`
	// RunAt is when the job may be claimed, at most 30 days ahead. Absent or past: at once.
	RunAt *Time `json:"run_at,omitempty" swaggertype:"string" format:"date-time"`
	// MaxAttempts is the number of failures after which the job becomes a dead letter.
	MaxAttempts *int64 `json:"max_attempts,omitempty" validate:"omitnil,min=1,max=1000" minimum:"1" maximum:"1000" default:"8" example:"8"`
	// Traceparent is that of the call, see ClaimedJob.
	Traceparent string `json:"-"`
}

// JobBatchRequest is the body of POST /v1/queues/{queue}/jobs/batch.
type JobBatchRequest struct {
	// Jobs are accepted together, or none of them is.
	Jobs []JobRequest `json:"jobs" validate:"required,min=1,max=1000,dive"`
}

// JobAccepted has the id of a job. From then on the job is not lost.
type JobAccepted struct {
	ID string `json:"id" example:"emails.06f8k2m3v0q7d1h9r5t4u2s8ao"`
	// New is false if the id is that of an earlier job with the same `unique`, which has not ended yet. Otherwise it is absent.
	New *bool `json:"new,omitempty" example:"false"`
}

// JobBatchAccepted lists the accepted jobs in the order of the request.
type JobBatchAccepted struct {
	// Items are in the order of the request.
	Items []JobAccepted `json:"items"`
}

// JobClaim is the body of POST /v1/queues/{queue}/claims.
type JobClaim struct {
	// Worker names the caller, for people who look at a job.
	Worker string `json:"worker" validate:"required,identifier" example:"mailer-1"`
	// Types are the types of the jobs that the caller takes. Absent: all types.
	Types []string `json:"types,omitempty" validate:"omitempty,min=1,max=100,unique,dive,identifier" example:"send_invoice"`
	// Max is the largest number of jobs that the caller takes.
	Max *int64 `json:"max,omitempty" validate:"omitnil,min=1,max=100" minimum:"1" maximum:"100" default:"1" example:"10"`
	// LeaseMS is how long a job stays with a worker that does not renew it.
	LeaseMS *int64 `json:"lease_ms,omitempty" validate:"omitnil,min=1,max=86400000" minimum:"1" maximum:"86400000" default:"30000" example:"30000"`
	// WaitMS is how long the call may wait if there is no job.
	WaitMS int64 `json:"wait_ms,omitempty" validate:"min=0,max=30000" minimum:"0" maximum:"30000" example:"20000"`
}

// ClaimedJobs is the answer of POST /v1/queues/{queue}/claims.
type ClaimedJobs struct {
	// Jobs are those that the caller holds now. The list may be empty.
	Jobs []ClaimedJob `json:"jobs"`
}

// ClaimedJob is a job that the caller holds.
type ClaimedJob struct {
	ID string `json:"id" example:"emails.06f8k2m3v0q7d1h9r5t4u2s8ao"`
	// Token names the hold in the call of results. It is no secret.
	Token string `json:"token" example:"1767366245000000"`
	// Fence is larger than that of every earlier claim of this queue. The system that the worker writes to should keep the highest fence
	// that it has seen for the job or its key and refuse lower ones: a worker may be paused for longer than its lease.
	Fence int64 `json:"fence" example:"1767366245000000"`
	// Attempt counts from 1: one more than the failures and the ended leases of the job.
	Attempt int `json:"attempt" example:"1"`
	// Type is the type with which the job was enqueued.
	Type string `json:"type" example:"send_invoice"`
	// Key is the conflict key of the job. Absent: it has none.
	Key string `json:"key,omitempty" example:"customer:42"`
	// Payload is the JSON that was enqueued. Absent: there was none.
	Payload json.RawMessage `json:"payload,omitempty" swaggertype:"object"`
	// Traceparent names the span below which the worker's span belongs, in the form of W3C Trace Context: that of the call that
	// enqueued the job. Absent: the call had no `traceparent`, or the job is a dead letter that is tried again.
	Traceparent string `json:"traceparent,omitempty" example:"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"`
	// LeaseMS is how long the lease lasts, counted by the worker from before it sent the request. After a wait, renew the
	// lease before you begin.
	LeaseMS int64 `json:"lease_ms" example:"30000"`
}

// JobOutcome is what a worker says about a job that it holds.
type JobOutcome string

// The outcomes.
const (
	JobComplete JobOutcome = "complete"
	JobFail     JobOutcome = "fail"
	JobRelease  JobOutcome = "release"
	JobRenew    JobOutcome = "renew"
)

// JobResults is the body of POST /v1/queues/{queue}/results.
type JobResults struct {
	// Results are recorded in this order.
	Results []JobResult `json:"results" validate:"required,min=1,max=100,dive"`
}

// JobResult is what became of one job.
type JobResult struct {
	ID string `json:"id" validate:"required,job_id" maxLength:"256" example:"emails.06f8k2m3v0q7d1h9r5t4u2s8ao"`
	// Token is the token with which the job was claimed.
	Token string `json:"token" validate:"required,maxbytes=128" maxLength:"128" example:"1767366245000000"`
	// Outcome is `complete` if the job is done, `fail` if it failed and is to be tried again until its attempts are used up,
	// `release` if others may have it, without counting the attempt, or `renew` if the worker needs more time.
	Outcome JobOutcome `json:"outcome" validate:"required,oneof=complete fail release renew" enums:"complete,fail,release,renew" example:"complete"`
	// Error says why the job failed, for people. The first 1,000 bytes of it are kept. Only with `fail`.
	Error string `json:"error,omitempty" example:"mail server: connection refused"`
	// RetryAfterMS is the least time until the job may be claimed again. Only with `fail` and `release`.
	RetryAfterMS *int64 `json:"retry_after_ms,omitempty" validate:"omitnil,min=0,max=2592000000" minimum:"0" maximum:"2592000000" example:"60000"`
	// LeaseMS is how long the new lease lasts, from now on. Only with `renew`. Absent: as long as the lease of the claim.
	LeaseMS *int64 `json:"lease_ms,omitempty" validate:"omitnil,min=1,max=86400000" minimum:"1" maximum:"86400000" example:"30000"`
}

// JobStatus answers one result.
type JobStatus string

// The answers.
const (
	// JobOK: the result is on record.
	JobOK JobStatus = "ok"
	// JobLost: the job was claimed again since, or it has ended. Nothing changed.
	JobLost JobStatus = "job_lost"
	// JobCancelled: somebody has cancelled the job. Renewing it has no effect, and failing or releasing it ends it.
	JobCancelled JobStatus = "cancelled"
)

// JobAnswers is the answer of POST /v1/queues/{queue}/results, in the order of the request.
type JobAnswers struct {
	// Results are in the order of the request.
	Results []JobAnswer `json:"results"`
}

// JobAnswer answers one result.
type JobAnswer struct {
	ID string `json:"id" example:"emails.06f8k2m3v0q7d1h9r5t4u2s8ao"`
	// Status is `ok` if the result is on record; `job_lost` if the job was claimed again since, or has ended, so that nothing
	// changed; or `cancelled` if the job was cancelled: the worker should stop, and if it renewed the job, end it.
	Status JobStatus `json:"status" enums:"ok,job_lost,cancelled" example:"ok"`
	// LeaseMS is how long the new lease lasts, counted by the worker from before it sent the request. Only if it was renewed.
	LeaseMS int64 `json:"lease_ms,omitempty" example:"30000"`
}

// JobState is how far a job has come.
type JobState string

// The states of a job.
const (
	JobQueued    JobState = "queued"    // it may be claimed
	JobScheduled JobState = "scheduled" // it waits for its time, or for its next attempt
	JobBlocked   JobState = "blocked"   // another job of its key is before it
	JobRunning   JobState = "running"   // a worker holds it
	JobDone      JobState = "done"
	JobEnded     JobState = "cancelled"
	JobDead      JobState = "dead" // it is a dead letter
)

// Job is a job as anybody may see it. Of a job that is done or cancelled only id, queue and state are known, and only for a
// while; of a dead one, what its dead letter has.
type Job struct {
	ID    string `json:"id" example:"emails.06f8k2m3v0q7d1h9r5t4u2s8ao"`
	Queue string `json:"queue" example:"emails"`
	// State is `queued` if the job may be claimed, `scheduled` if it waits for its time or its next attempt, `blocked` if
	// another job of its key is before it, `running` if a worker holds it, and `done`, `cancelled` or `dead` if it has ended.
	State JobState `json:"state" enums:"queued,scheduled,blocked,running,done,cancelled,dead" example:"running"`
	// Attempt is the number of the present or next attempt.
	Attempt int `json:"attempt,omitempty" example:"1"`
	// Failures are the attempts that failed. Absent: none.
	Failures int `json:"failures,omitempty" example:"0"`
	// LostLeases are the attempts whose lease ended. Absent: none.
	LostLeases int `json:"lost_leases,omitempty" example:"0"`
	// MaxAttempts is the number of failures after which the job becomes a dead letter.
	MaxAttempts int `json:"max_attempts,omitempty" example:"8"`
	// Type is the type with which the job was enqueued.
	Type string `json:"type,omitempty" example:"send_invoice"`
	// Key is the conflict key of the job. Absent: it has none.
	Key string `json:"key,omitempty" example:"customer:42"`
	// Unique is the name of the job in its queue. Absent: it has none.
	Unique string `json:"unique,omitempty" example:"invoice:2026-01:42"`
	// Payload is the JSON that was enqueued. Absent: there was none.
	Payload json.RawMessage `json:"payload,omitempty" swaggertype:"object"`
	// EnqueuedAt is when the job was enqueued, by Redis' clock.
	EnqueuedAt *Time `json:"enqueued_at,omitempty" swaggertype:"string" format:"date-time"`
	// RunAt is when a scheduled job may be claimed.
	RunAt *Time `json:"run_at,omitempty" swaggertype:"string" format:"date-time"`
	// Worker is the worker that holds the job.
	Worker string `json:"worker,omitempty" example:"mailer-1"`
	// Fence is the fence of the hold.
	Fence int64 `json:"fence,omitempty" example:"1767366245000000"`
	// LeaseMS is how long the lease of the hold lasts; 0 if it is over and nobody has claimed the job since.
	LeaseMS *int64 `json:"lease_ms,omitempty" example:"29500"`
	// Cancelled is true if the job was cancelled while it is held.
	Cancelled bool `json:"cancelled,omitempty"`
	// Reason says why the job is dead: `max_attempts`, `lost_leases` or `max_age`.
	Reason string `json:"reason,omitempty" example:"max_attempts"`
	// LastError is the error of the last attempt that failed.
	LastError string `json:"last_error,omitempty" example:"mail server: connection refused"`
}

// JobQueue describes a queue. Jobs and attempts that have ended are counted from the making of the queue on.
type JobQueue struct {
	Queue string `json:"queue" example:"emails"`
	// Paused is true if no job of the queue can be claimed until it is resumed.
	Paused bool `json:"paused" example:"false"`
	// Depth is the number of jobs that may be claimed now.
	Depth int64 `json:"depth" example:"12"`
	// Blocked is the number of jobs that wait for another job of their key.
	Blocked int64 `json:"blocked" example:"0"`
	// Scheduled is the number of jobs that wait for their time or their next attempt.
	Scheduled int64 `json:"scheduled" example:"3"`
	// Running is the number of jobs that workers hold.
	Running int64 `json:"running" example:"4"`
	// OldestAgeMS is how long the oldest of the jobs that may be claimed has been in the queue, counted from its run_at.
	OldestAgeMS int64 `json:"oldest_age_ms" example:"1500"`
	// Done is the number of jobs that were completed since the queue was made.
	Done int64 `json:"done" example:"1200"`
	// Retries is the number of failures after which a job was tried again, since the queue was made.
	Retries int64 `json:"retries" example:"5"`
	// Recovered is the number of leases that ended while a job was held, since the queue was made.
	Recovered int64 `json:"recovered" example:"1"`
	// Dead is the number of jobs that became dead letters since the queue was made.
	Dead int64 `json:"dead" example:"0"`
	// DeadLetters is the number of dead letters that the queue has now.
	DeadLetters int64 `json:"dead_letters" example:"0"`
	// LastHour has what the queue counted in the last 60 minutes that are over and in the present one.
	LastHour JobCounts `json:"last_hour"`
}

// JobCounts are what a queue counted in a time.
type JobCounts struct {
	// Enqueued is the number of jobs that were enqueued. A dead letter that was retried counts as one.
	Enqueued int64 `json:"enqueued" example:"120"`
	// Done is the number of jobs that were completed.
	Done int64 `json:"done" example:"118"`
	// Retries is the number of failures after which a job is tried again.
	Retries int64 `json:"retries" example:"2"`
	// Recovered is the number of leases that ended while a job was held.
	Recovered int64 `json:"recovered" example:"0"`
	// Dead is the number of jobs that became dead letters.
	Dead int64 `json:"dead" example:"1"`
}

// JobMinute is what a queue counted in a minute.
type JobMinute struct {
	// At is when the minute began, by Redis' clock.
	At Time `json:"at" swaggertype:"string" format:"date-time"`
	JobCounts
}

// JobQueueSeries is the answer of GET /v1/queues/{queue}/series.
type JobQueueSeries struct {
	// Items are the last 60 minutes that are over, the oldest first.
	Items []JobMinute `json:"items"`
}

// JobQueueList lists all queues by their names.
type JobQueueList struct {
	// Items are all queues, by name.
	Items []JobQueue `json:"items"`
}

// ValidJobID reports whether s may be the id of a job: 1 to MaxJobID bytes of the characters of identifiers.
func ValidJobID(s string) bool {
	if s == "" || len(s) > MaxJobID {
		return false
	}
	for i := range len(s) {
		if !identifierByte(s[i]) {
			return false
		}
	}
	return true
}

// jobRules bounds the size of a payload.
func jobRules(to reporter, r *JobRequest) { payloadRules(to, r.Payload) }

func payloadRules(to reporter, payload json.RawMessage) {
	if len(payload) <= MaxJobPayload {
		return
	}
	if short, err := ShortestJSON(payload); err == nil && len(short) > MaxJobPayload {
		to.ReportError(payload, "payload", "Payload", "max", fmt.Sprint(MaxJobPayload))
	}
}

// jobResultRules refuses fields that have no effect with the outcome of a result.
func jobResultRules(to reporter, r *JobResult) {
	if !slices.Contains([]JobOutcome{JobComplete, JobFail, JobRelease, JobRenew}, r.Outcome) {
		return // that is reported already
	}
	if r.Error != "" && r.Outcome != JobFail {
		to.ReportError(r.Error, "error", "Error", "outcome", "fail")
	}
	if r.RetryAfterMS != nil && r.Outcome != JobFail && r.Outcome != JobRelease {
		to.ReportError(r.RetryAfterMS, "retry_after_ms", "RetryAfterMS", "outcome", "fail or release")
	}
	if r.LeaseMS != nil && r.Outcome != JobRenew {
		to.ReportError(r.LeaseMS, "lease_ms", "LeaseMS", "outcome", "renew")
	}
}
