package handlers

import (
	"context"

	"fanfare/api"
	"fanfare/handlers/web"
)

// listQueues lists the queues.
//
//	@Summary		List queues
//	@Description	Lists all queues by name, at most 1,000. The key needs the scope `jobs` or `ops:read`.
//	@Tags			jobs
//	@ID				listQueues
//	@Produce		json
//	@Success		200	{object}	api.JobQueueList	"The queues"
//	@Failure		403	{object}	api.Problem			"forbidden: the key has neither the scope jobs nor the scope ops:read"
//	@Router			/v1/queues [get]
func (s *server) listQueues(ctx context.Context, _ *web.Nothing) (*web.Reply[api.JobQueueList], error) {
	if err := needsOneOf(ctx, api.ScopeJobs, api.ScopeOpsRead); err != nil {
		return nil, err
	}
	list, err := s.o.Jobs.Queues(ctx)
	if err != nil {
		return nil, err
	}
	return web.OK(list), nil
}

type queueRequest struct {
	Queue string `path:"queue" validate:"identifier"`
}

// getQueue shows a queue.
//
//	@Summary		Show a queue
//	@Description	Shows how many jobs of a queue wait and run, and how many have ended since it was made. The first job makes a queue. One
//	@Description	that is empty, unused for 7 days and not paused is gone. The key needs the scope `jobs` or `ops:read`.
//	@Tags			jobs
//	@ID				getQueue
//	@Produce		json
//	@Param			queue	path		string			true	"The queue"	example(emails)
//	@Success		200		{object}	api.JobQueue	"The queue"
//	@Failure		403		{object}	api.Problem		"forbidden: the key has neither the scope jobs nor the scope ops:read"
//	@Failure		404		{object}	api.Problem		"not_found"
//	@Router			/v1/queues/{queue} [get]
func (s *server) getQueue(ctx context.Context, in *queueRequest) (*web.Reply[api.JobQueue], error) {
	if err := needsOneOf(ctx, api.ScopeJobs, api.ScopeOpsRead); err != nil {
		return nil, err
	}
	queue, err := s.o.Jobs.Queue(ctx, in.Queue)
	if err != nil {
		return nil, err
	}
	return web.OK(queue), nil
}

// getQueueSeries shows what a queue did minute by minute.
//
//	@Summary		Show the last hour of a queue
//	@Description	Shows what a queue counted in each of the last 60 minutes that are over, the oldest first. Minutes follow Redis' clock.
//	@Description	Minutes in which nothing happened, or before the queue was made, have zeros. The key needs the scope `jobs` or
//	@Description	`ops:read`.
//	@Tags			jobs
//	@ID				getQueueSeries
//	@Produce		json
//	@Param			queue	path		string				true	"The queue"	example(emails)
//	@Success		200		{object}	api.JobQueueSeries	"The minutes"
//	@Failure		403		{object}	api.Problem			"forbidden: the key has neither the scope jobs nor the scope ops:read"
//	@Failure		404		{object}	api.Problem			"not_found"
//	@Router			/v1/queues/{queue}/series [get]
func (s *server) getQueueSeries(ctx context.Context, in *queueRequest) (*web.Reply[api.JobQueueSeries], error) {
	if err := needsOneOf(ctx, api.ScopeJobs, api.ScopeOpsRead); err != nil {
		return nil, err
	}
	series, err := s.o.Jobs.Minutes(ctx, in.Queue)
	if err != nil {
		return nil, err
	}
	return web.OK(series), nil
}

type queueOnceRequest struct {
	Queue       string `path:"queue" validate:"identifier"`
	Idempotency api.Idempotency
}

// pauseQueue pauses a queue.
//
//	@Summary		Pause a queue
//	@Description	Lets no job of a queue be claimed until the queue is resumed. Jobs are still accepted, and workers keep the jobs that they
//	@Description	hold. The queue need not have had a job before. The key needs the scope `jobs` or `ops`. Repeating the call is
//	@Description	safe. The call is logged.
//	@Tags			jobs
//	@ID				pauseQueue
//	@Produce		json
//	@Param			queue			path		string			true	"The queue"	example(emails)
//	@Param			Idempotency-Key	header		string			false	"Accepted and not kept: the call is safe to repeat without it"	minlength(1)	maxlength(255)
//	@Success		200				{object}	api.JobQueue	"Is paused"
//	@Failure		403				{object}	api.Problem		"forbidden: the key has neither the scope jobs nor the scope ops"
//	@Failure		429				{object}	api.Problem		"too_many_names (there are 1,000 other queues), rate_limited"
//	@Router			/v1/queues/{queue}/pause [post]
func (s *server) pauseQueue(ctx context.Context, in *queueOnceRequest) (*web.Reply[api.JobQueue], error) {
	return s.changeQueue(ctx, "queues.pause", in.Queue, s.o.Jobs.Pause)
}

// resumeQueue ends the pause of a queue.
//
//	@Summary		Resume a queue
//	@Description	Ends the pause of a queue: waiting workers get its jobs at once. Resuming a queue that is not paused changes nothing. The
//	@Description	key needs the scope `jobs` or `ops`. The call is logged.
//	@Tags			jobs
//	@ID				resumeQueue
//	@Produce		json
//	@Param			queue			path		string			true	"The queue"	example(emails)
//	@Param			Idempotency-Key	header		string			false	"Accepted and not kept: the call is safe to repeat without it"	minlength(1)	maxlength(255)
//	@Success		200				{object}	api.JobQueue	"Runs"
//	@Failure		403				{object}	api.Problem		"forbidden: the key has neither the scope jobs nor the scope ops"
//	@Failure		404				{object}	api.Problem		"not_found"
//	@Router			/v1/queues/{queue}/resume [post]
func (s *server) resumeQueue(ctx context.Context, in *queueOnceRequest) (*web.Reply[api.JobQueue], error) {
	return s.changeQueue(ctx, "queues.resume", in.Queue, s.o.Jobs.Resume)
}

// changeQueue pauses or resumes a queue, and logs it.
func (s *server) changeQueue(ctx context.Context, action, name string, change func(context.Context, string) (*api.JobQueue, error)) (*web.Reply[api.JobQueue], error) {
	if err := needsOneOf(ctx, api.ScopeJobs, api.ScopeOps); err != nil {
		return nil, err
	}
	queue, err := change(ctx, name)
	if err != nil {
		return nil, err
	}
	s.web.LogChange(ctx, action, name)
	return web.OK(queue), nil
}
