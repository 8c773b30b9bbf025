package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"fanfare/api"
	"fanfare/handlers/web"
	"fanfare/store/jobs"
)

type postJobRequest struct {
	Queue       string `path:"queue" validate:"identifier"`
	Idempotency api.Idempotency
	Body        api.JobRequest
}

// postJob enqueues a job.
//
//	@Summary		Enqueue a job
//	@Description	Stores a job for the workers of a queue. The first job makes the queue. Once the job is accepted it is not lost: it is
//	@Description	claimed until a worker completes it, somebody cancels it, or its `max_attempts` are used up. It may be claimed more
//	@Description	than once, because a worker can die, so what it does must be safe to repeat. Jobs with the same `key` are done one
//	@Description	after the other, in the order in which they were enqueued. As long as a job with the same `unique` has not ended,
//	@Description	no second one is stored, and the answer is 200 with the id of the first.
//	@Tags			jobs
//	@ID				postJob
//	@Accept			json
//	@Produce		json
//	@Param			queue			path		string			true	"The queue"	example(emails)
//	@Param			Idempotency-Key	header		string			false	"Makes the call safe to repeat for 24 h"	minlength(1)	maxlength(255)
//	@Param			job				body		api.JobRequest	true	"The job"
//	@Success		200				{object}	api.JobAccepted	"A job with this `unique` has not ended yet: nothing was stored"
//	@Success		202				{object}	api.JobAccepted	"Accepted: from here on it is not lost"
//	@Header			200,202			{string}	Idempotent-Replayed	"true if this is the first answer again"
//	@Header			200,202			{string}	Location			"The URL of the job"
//	@Failure		422				{object}	api.Problem		"validation_failed, idempotency_key_reused"
//	@Failure		429				{object}	api.Problem		"queue_full, too_many_names (there are 1,000 other queues), rate_limited"
//	@Router			/v1/queues/{queue}/jobs [post]
func (s *server) postJob(ctx context.Context, in *postJobRequest) (*web.Reply[api.JobAccepted], error) {
	accepted, replayed, err := s.enqueue(ctx, in.Queue, []api.JobRequest{in.Body}, in.Idempotency)
	if _, late := errors.AsType[jobs.TooFarError](err); late {
		return nil, tooFar("run_at")
	}
	if err != nil {
		return nil, err
	}
	job := &accepted[0]
	reply := web.Accepted(job)
	if job.New != nil && !*job.New {
		reply = web.OK(job)
	}
	return reply.Replayed(replayed).At("/v1/jobs/" + job.ID), nil
}

type postJobBatchRequest struct {
	Queue       string `path:"queue" validate:"identifier"`
	Idempotency api.Idempotency
	Body        api.JobBatchRequest
}

// postJobBatch enqueues many jobs in one step.
//
//	@Summary		Enqueue many jobs
//	@Description	Accepts 1 to 1,000 jobs in one step, either all or none: one bad job refuses the whole batch, and the error names its
//	@Description	index. The answer lists the ids in the order of the jobs. An item with `"new": false` has the id of an earlier job
//	@Description	with the same `unique`.
//	@Tags			jobs
//	@ID				postJobBatch
//	@Accept			json
//	@Produce		json
//	@Param			queue			path		string					true	"The queue"	example(emails)
//	@Param			Idempotency-Key	header		string					false	"Makes the call safe to repeat for 24 h"	minlength(1)	maxlength(255)
//	@Param			batch			body		api.JobBatchRequest		true	"The jobs"
//	@Success		202				{object}	api.JobBatchAccepted	"All accepted"
//	@Header			202				{string}	Idempotent-Replayed		"true if this is the first answer again"
//	@Failure		413				{object}	api.Problem				"payload_too_large: a batch may have at most 4 MiB"
//	@Failure		422				{object}	api.Problem				"validation_failed: errors name the field with the job's index, such as jobs[3].type; idempotency_key_reused"
//	@Failure		429				{object}	api.Problem				"queue_full, too_many_names (there are 1,000 other queues), rate_limited"
//	@Router			/v1/queues/{queue}/jobs/batch [post]
func (s *server) postJobBatch(ctx context.Context, in *postJobBatchRequest) (*web.Reply[api.JobBatchAccepted], error) {
	accepted, replayed, err := s.enqueue(ctx, in.Queue, in.Body.Jobs, in.Idempotency)
	if late, is := errors.AsType[jobs.TooFarError](err); is {
		return nil, tooFar(fmt.Sprintf("jobs[%d].run_at", late.Index))
	}
	if err != nil {
		return nil, err
	}
	return web.Accepted(&api.JobBatchAccepted{Items: accepted}).Replayed(replayed), nil
}

// enqueue stores jobs, whose payloads it makes short.
func (s *server) enqueue(ctx context.Context, queue string, all []api.JobRequest, once api.Idempotency) ([]api.JobAccepted, bool, error) {
	parent := web.Traceparent(ctx)
	for i := range all {
		var err error
		if all[i].Payload, err = shortPayload(all[i].Payload); err != nil {
			return nil, false, err
		}
		all[i].Traceparent = parent
	}
	return s.o.Jobs.Enqueue(ctx, queue, all, once)
}

// shortPayload is a payload in the form in which it is measured. A payload that is null is the same as none.
func shortPayload(payload json.RawMessage) (json.RawMessage, error) {
	if len(payload) == 0 || string(payload) == "null" {
		return nil, nil
	}
	return api.ShortestJSON(payload)
}

// tooFar is the error for a run_at that is too far ahead of Redis' clock.
func tooFar(field string) error {
	return api.Invalid(field, "max", "must be at most %d days ahead", int(api.MaxJobDelay.Hours()/24))
}

type claimJobsRequest struct {
	Queue       string `path:"queue" validate:"identifier"`
	Idempotency api.Idempotency
	Body        api.JobClaim
}

// claimWaits reports whether a claim may wait.
func claimWaits(in *claimJobsRequest) bool { return in.Body.WaitMS > 0 }

// claimJobs hands jobs to a worker.
//
//	@Summary		Claim jobs
//	@Description	Hands jobs to the caller, the oldest first, each to one caller at a time by Redis' clock. The caller holds a job until it
//	@Description	says what became of it (`POST /v1/queues/{queue}/results`), or until its lease is over; then others may claim it, and
//	@Description	the attempt counts. If there is no job the call waits for `wait_ms`, is woken by the next job, and otherwise answers an
//	@Description	empty list. A queue that does not exist has no jobs. Payloads have at most 1 MiB together, so there may be fewer jobs
//	@Description	than `max`, and the others stay in the queue.
//	@Description
//	@Description	Count `lease_ms` from before the request was sent; after a wait, renew the lease before you begin. Even so a worker can
//	@Description	be paused between its look at the clock and its write: send `fence` along, and let the system that is written to refuse
//	@Description	a fence that is lower than the highest that it has seen for the job or its `key`. With an Idempotency-Key a repeat gets the
//	@Description	same jobs with the same tokens while their leases last, without those that have ended. Without one, a caller
//	@Description	that hangs up while it waits holds nothing, and no attempt counts.
//	@Tags			jobs
//	@ID				claimJobs
//	@Accept			json
//	@Produce		json
//	@Param			queue			path		string			true	"The queue"	example(emails)
//	@Param			Idempotency-Key	header		string			false	"Makes the call safe to repeat while the leases last"	minlength(1)	maxlength(255)
//	@Param			claim			body		api.JobClaim	true	"The worker, and what it takes"
//	@Success		200				{object}	api.ClaimedJobs	"The jobs that the caller holds; an empty list if there were none"
//	@Header			200				{string}	Idempotent-Replayed	"true if this is the first answer again"
//	@Failure		422				{object}	api.Problem		"validation_failed, idempotency_key_reused"
//	@Router			/v1/queues/{queue}/claims [post]
func (s *server) claimJobs(ctx context.Context, in *claimJobsRequest) (*web.Reply[api.ClaimedJobs], error) {
	var wait context.Context // nil: the claim does not wait
	if claimWaits(in) {
		waiting, cancel := s.web.WaitContext(ctx, time.Duration(in.Body.WaitMS)*time.Millisecond)
		defer cancel()
		wait = waiting
	}
	claimed, replayed, err := s.o.Jobs.Claim(ctx, wait, in.Queue, &in.Body, in.Idempotency)
	if err != nil {
		return nil, err
	}
	err = s.mayKeep(ctx, in.Idempotency, func(brief context.Context) {
		if len(claimed.Jobs) > 0 {
			s.o.Jobs.GiveBack(brief, in.Queue, claimed) // otherwise their leases end
		}
	})
	if err != nil {
		return nil, err
	}
	return web.OK(claimed).Replayed(replayed && in.Idempotency.Key != ""), nil
}

type postJobResultsRequest struct {
	Queue       string `path:"queue" validate:"identifier"`
	Idempotency api.Idempotency
	Body        api.JobResults
}

// postJobResults records what became of jobs.
//
//	@Summary		Report results of jobs
//	@Description	Says of 1 to 100 jobs that the caller holds what became of them. `complete` ends a job. After `fail` it is tried again,
//	@Description	later after each failure, or after `retry_after_ms` at the earliest; once `max_attempts` have failed it becomes a dead
//	@Description	letter. After `release` others may claim it, and the attempt does not count. `renew` begins a new lease; renew at a
//	@Description	third of the lease.
//	@Description
//	@Description	Each result has its own answer. `ok`: it is on record. `job_lost`: the job was claimed again since, or has ended, so nothing
//	@Description	changed, and the worker must not go on. `cancelled`: somebody has cancelled the job; its lease is not renewed, and `fail`
//	@Description	and `release` end it. The last holder's result is taken even after its lease, as long as nobody has claimed the job
//	@Description	since. Repeating the call is safe: `complete` and `fail` are answered `ok` again, `release` may be answered `job_lost`.
//	@Tags			jobs
//	@ID				postJobResults
//	@Accept			json
//	@Produce		json
//	@Param			queue			path		string			true	"The queue"	example(emails)
//	@Param			Idempotency-Key	header		string			false	"Accepted and not kept: the call is safe to repeat without it"	minlength(1)	maxlength(255)
//	@Param			results			body		api.JobResults	true	"The results"
//	@Success		200				{object}	api.JobAnswers	"One answer for each result, in the order of the request"
//	@Router			/v1/queues/{queue}/results [post]
func (s *server) postJobResults(ctx context.Context, in *postJobResultsRequest) (*web.Reply[api.JobAnswers], error) {
	answers, err := s.o.Jobs.Results(ctx, in.Queue, in.Body.Results)
	if err != nil {
		return nil, err
	}
	return web.OK(answers), nil
}

type jobRequest struct {
	ID string `path:"id" validate:"job_id"`
}

// getJob shows a job.
//
//	@Summary		Show a job
//	@Description	Shows how far a job has come, and what it contains. Of a job that is done or cancelled only `id`, `queue` and `state` are
//	@Description	known, and only for an hour, or until 10,000 later jobs of the queue have ended. Of a dead one there is what its dead letter
//	@Description	has for as long as that is kept, and then its state alone for the rest of that hour. After that it is 404. The key needs
//	@Description	the scope `jobs` or `jobs:work`.
//	@Tags			jobs
//	@ID				getJob
//	@Produce		json
//	@Param			id	path		string		true	"The id from the answer to the POST"	maxlength(256)
//	@Success		200	{object}	api.Job		"The job"
//	@Failure		403	{object}	api.Problem	"forbidden: the key has neither the scope jobs nor the scope jobs:work"
//	@Failure		404	{object}	api.Problem	"not_found: there never was such a job, or it ended a while ago"
//	@Router			/v1/jobs/{id} [get]
func (s *server) getJob(ctx context.Context, in *jobRequest) (*web.Reply[api.Job], error) {
	if err := needsOneOf(ctx, api.ScopeJobs, api.ScopeJobsWork); err != nil {
		return nil, err
	}
	job, err := s.o.Jobs.Get(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return web.OK(job), nil
}

// cancelJob ends a job.
//
//	@Summary		Cancel a job
//	@Description	Ends a job before it is done. A job that a worker holds is marked: the worker is told when it renews its lease, and no
//	@Description	other worker gets the job. If the worker completes it nevertheless, it is done. Cancelling a job again is 204 as
//	@Description	well.
//	@Tags			jobs
//	@ID				cancelJob
//	@Param			id	path	string	true	"The id from the answer to the POST"	maxlength(256)
//	@Success		204	"Is cancelled"
//	@Failure		404	{object}	api.Problem	"not_found: there never was such a job, or it ended a while ago"
//	@Failure		409	{object}	api.Problem	"too_late: the job is done or dead, and stays as it is"
//	@Router			/v1/jobs/{id} [delete]
func (s *server) cancelJob(ctx context.Context, in *jobRequest) (*web.Reply[web.Nothing], error) {
	return web.NoContent(), s.o.Jobs.Cancel(ctx, in.ID)
}
