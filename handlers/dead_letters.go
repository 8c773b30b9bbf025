package handlers

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"fanfare/api"
	"fanfare/handlers/web"
	"fanfare/store/queue"
)

// deadQueueOf finds the queue of a dead letter by the name that the letter's id begins with.
func (s *server) deadQueueOf(id string) (*queue.Queue, error) {
	for _, q := range s.o.DeadQueues {
		if strings.HasPrefix(id, q.Name()+".") {
			return q, nil
		}
	}
	return nil, api.Errorf(api.CodeNotFound, "no dead letter %s", id)
}

type listDeadLettersRequest struct {
	Kind   string `query:"kind" validate:"omitempty,oneof=event notification task job"`
	Reason string `query:"reason" validate:"max=256"`
	Type   string `query:"type" validate:"omitempty,identifier"`
	App    string `query:"app" validate:"max=512"`
	Queue  string `query:"queue" validate:"omitempty,identifier"`
	web.Page
}

// listDeadLetters lists jobs that were given up.
//
//	@Summary		List dead letters
//	@Description	Lists jobs that were given up, newest first, each with its reason and last error. They are kept for 7 days.
//	@Description	A page looks at up to 10,000 letters: with a reason, a type, an app or a queue it may be short, or empty with a `next`.
//	@Description	Of a message that was redacted the payload is `{"redacted": true}`.
//	@Tags			operations
//	@ID				listDeadLetters
//	@Produce		json
//	@Param			kind	query		string				false	"Only letters of this kind"	Enums(event, notification, task, job)
//	@Param			reason	query		string				false	"Only letters with this reason"	maxlength(256)
//	@Param			type	query		string				false	"Only letters of events of this type, and of jobs of this type"
//	@Param			app		query		string				false	"Only notifications of this app or, without a slash, of all apps of this topic"	maxlength(512)
//	@Param			queue	query		string				false	"Only letters of the kind job of this queue"
//	@Param			limit	query		int					false	"Items per page"	minimum(1)	maximum(500)	default(50)
//	@Param			cursor	query		string				false	"The `next` of the previous page"
//	@Success		200		{object}	api.DeadLetterList	"A page"
//	@Router			/v1/dead-letters [get]
func (s *server) listDeadLetters(ctx context.Context, in *listDeadLettersRequest) (*web.Reply[api.DeadLetterList], error) {
	if err := api.CheckDeadQueue(in.Kind, in.Queue); err != nil {
		return nil, err
	}
	cursor, err := web.OpenCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	queues := slices.DeleteFunc(slices.Clone(s.o.DeadQueues), func(q *queue.Queue) bool {
		return in.Kind != "" && in.Kind != q.DeadKind()
	})
	filter := queue.DeadFilter{Reason: in.Reason, Type: in.Type, App: in.App, Queue: in.Queue}
	list, err := queue.DeadLetters(ctx, filter, cursor, int(in.Limit), queues...)
	if err != nil {
		return nil, err
	}
	if err := s.o.Events.HideWithdrawn(ctx, list.Items); err != nil {
		return nil, err
	}
	list.Next = web.SealCursor(list.Next)
	return web.OK(list), nil
}

// listDeadLetterGroups counts the jobs that were given up.
//
//	@Summary		Count dead letters
//	@Description	Counts dead letters by kind, reason, type and app, or queue for the kind `job`, the largest groups first. `type` and
//	@Description	`app` are absent if there is none, and for letters that no handler saw. Of a kind the newest 10,000 are told apart,
//	@Description	about the same number of each shard: the rest of a kind is in a group with the reason `other`, without type, app
//	@Description	and queue.
//	@Tags			operations
//	@ID				listDeadLetterGroups
//	@Produce		json
//	@Success		200	{object}	api.DeadLetterGroups	"The groups"
//	@Router			/v1/dead-letters/groups [get]
func (s *server) listDeadLetterGroups(ctx context.Context, _ *web.Nothing) (*web.Reply[api.DeadLetterGroups], error) {
	groups := &api.DeadLetterGroups{Items: []api.DeadLetterGroup{}}
	for _, q := range s.o.DeadQueues {
		of, err := q.DeadGroups(ctx)
		if err != nil {
			return nil, err
		}
		groups.Items = append(groups.Items, of...)
	}
	slices.SortStableFunc(groups.Items, func(a, b api.DeadLetterGroup) int { return cmp.Compare(b.Count, a.Count) })
	return web.OK(groups), nil
}

// retryDeadLetter gives a dead letter another try.
//
//	@Summary		Retry a dead letter
//	@Description	Puts the job back into its queue with its attempts set to zero. An event continues where it stopped.
//	@Tags			operations
//	@ID				retryDeadLetter
//	@Produce		json
//	@Param			Idempotency-Key	header		string					false	"Makes the call safe to repeat for 24 h"	minlength(1)	maxlength(255)
//	@Param			id				path		string					true	"The dead letter's id"
//	@Success		202				{object}	api.DeadLetterRetried	"The job will be tried again"
//	@Header			202				{string}	Idempotent-Replayed		"true if this is the first answer again"
//	@Failure		404				{object}	api.Problem				"not_found: no such dead letter"
//	@Failure		409				{object}	api.Problem				"conflict: another job with the same unique id is waiting"
//	@Failure		422				{object}	api.Problem				"validation_failed, idempotency_key_reused"
//	@Failure		429				{object}	api.Problem				"queue_full: the queue of the job has 1,000,000 jobs that have not ended, rate_limited"
//	@Router			/v1/dead-letters/{id}/retry [post]
func (s *server) retryDeadLetter(ctx context.Context, in *idOnceRequest) (*web.Reply[api.DeadLetterRetried], error) {
	q, err := s.deadQueueOf(in.ID)
	if err != nil {
		return nil, err
	}
	once := queue.Once{Body: in.Idempotency.Body, Answer: in.ID, TTL: api.IdempotencyTTL}
	if in.Idempotency.Key != "" {
		once.Key = in.Idempotency.Name()
	}
	replayed, stored, err := q.RetryDead(ctx, in.ID, once)
	if err != nil {
		return nil, err
	}
	if !replayed {
		s.web.LogChange(ctx, "dead_letters.retry", in.ID)
	}
	return web.Accepted(&api.DeadLetterRetried{ID: cmp.Or(stored, in.ID)}).Replayed(replayed), nil
}

// deleteDeadLetter forgets a dead letter.
//
//	@Summary		Delete a dead letter
//	@Description	Deletes the job for good.
//	@Tags			operations
//	@ID				deleteDeadLetter
//	@Param			id	path	string	true	"The dead letter's id"
//	@Success		204	"Deleted"
//	@Failure		404	{object}	api.Problem	"not_found: no such dead letter"
//	@Router			/v1/dead-letters/{id} [delete]
func (s *server) deleteDeadLetter(ctx context.Context, in *idRequest) (*web.Reply[web.Nothing], error) {
	q, err := s.deadQueueOf(in.ID)
	if err != nil {
		return nil, err
	}
	if err := q.DeleteDead(ctx, in.ID); err != nil {
		return nil, err
	}
	s.web.LogChange(ctx, "dead_letters.delete", in.ID)
	return web.NoContent(), nil
}

type deadLettersRequest struct {
	Body        api.DeadLettersRequest
	Idempotency api.Idempotency
}

// retryDeadLetters retries all dead letters that fit.
//
//	@Summary		Retry many dead letters
//	@Description	Puts the jobs of all dead letters that fit back into their queues, as an operation in the background. `kind`, `reason`,
//	@Description	`type`, `app` and `queue` choose letters as they do in the list; without them, `all` must be true. `before` and
//	@Description	`expect` make sure that these are letters that the caller knows: letters that died at `before` or later are left alone, and if more
//	@Description	than `expect` fit, nothing happens. Fewer are fine. `GET /v1/operations/{id}` shows how far the operation has come. It
//	@Description	survives crashes. A letter is left if its job, or another job with the same unique id, has been queued since, or its
//	@Description	queue of jobs is full.
//	@Tags			operations
//	@ID				retryDeadLetters
//	@Accept			json
//	@Produce		json
//	@Param			Idempotency-Key	header		string						false	"Makes the call safe to repeat for 24 h"	minlength(1)	maxlength(255)
//	@Param			letters			body		api.DeadLettersRequest		true	"Which letters, and how many they are"
//	@Success		202				{object}	api.DeadLettersAccepted		"The operation has begun"
//	@Header			202				{string}	Idempotent-Replayed			"true if this is the first answer again"
//	@Header			202				{string}	Location					"The URL of the operation"
//	@Failure		409				{object}	api.Problem					"changed: more letters fit than expected"
//	@Failure		422				{object}	api.Problem					"validation_failed, idempotency_key_reused"
//	@Router			/v1/dead-letters/retry [post]
func (s *server) retryDeadLetters(ctx context.Context, in *deadLettersRequest) (*web.Reply[api.DeadLettersAccepted], error) {
	return s.actOnDeadLetters(ctx, api.ActionRetryDead, in)
}

// deleteDeadLetters deletes all dead letters that fit.
//
//	@Summary		Delete many dead letters
//	@Description	Deletes all dead letters that fit for good, as an operation in the background. What is said of retrying many dead
//	@Description	letters holds here too; no letter is left.
//	@Tags			operations
//	@ID				deleteDeadLetters
//	@Accept			json
//	@Produce		json
//	@Param			Idempotency-Key	header		string						false	"Makes the call safe to repeat for 24 h"	minlength(1)	maxlength(255)
//	@Param			letters			body		api.DeadLettersRequest		true	"Which letters, and how many they are"
//	@Success		202				{object}	api.DeadLettersAccepted		"The operation has begun"
//	@Header			202				{string}	Idempotent-Replayed			"true if this is the first answer again"
//	@Header			202				{string}	Location					"The URL of the operation"
//	@Failure		409				{object}	api.Problem					"changed: more letters fit than expected"
//	@Failure		422				{object}	api.Problem					"validation_failed, idempotency_key_reused"
//	@Router			/v1/dead-letters/delete [post]
func (s *server) deleteDeadLetters(ctx context.Context, in *deadLettersRequest) (*web.Reply[api.DeadLettersAccepted], error) {
	return s.actOnDeadLetters(ctx, api.ActionDeleteDead, in)
}

func (s *server) actOnDeadLetters(ctx context.Context, action api.Action, in *deadLettersRequest) (*web.Reply[api.DeadLettersAccepted], error) {
	begun, replayed, err := s.o.DeadLetters.Begin(ctx, action, &in.Body, in.Idempotency)
	if err != nil {
		return nil, err
	}
	if !replayed {
		s.web.LogChange(ctx, string(action), begun.Operation)
	}
	return web.Accepted(begun).At(operationPath(begun.Operation)).Replayed(replayed), nil
}
