package handlers

import (
	"context"

	"fanfare/api"
	"fanfare/handlers/web"
	"fanfare/store/facts"
)

type putWebhookRequest struct {
	ID string `path:"id" validate:"identifier"`
	Condition
	Body api.WebhookRequest
}

// putWebhook creates or replaces a webhook.
//
//	@Summary		Put a webhook
//	@Description	Sends facts of some types to a URL, in batches, signed by Standard Webhooks, and again until they are taken. A new webhook gets
//	@Description	what happens from now on, and from `since` on nothing is missing. Its secret is in this answer and in no other: if the
//	@Description	answer was lost, make another secret. A webhook that is replaced goes on where it is, with its secret; one that its receiver
//	@Description	has turned off by 410 is turned on again. The call is logged.
//	@Description
//	@Description	Without `If-Match` and `If-None-Match` the call replaces what is there. With one of them it is a compare-and-set: if
//	@Description	the condition does not hold, 412 `version_mismatch` contains the present webhook, its `version` and its ETag.
//	@Tags			facts
//	@ID				putWebhook
//	@Accept			json
//	@Produce		json
//	@Param			id				path		string				true	"The webhook's id"	example(shop)
//	@Param			If-Match		header		string				false	"ETags of the versions to replace, or *"
//	@Param			If-None-Match	header		string				false	"*: only if there is no such webhook yet; ETags: only if the webhook is at none of these versions"
//	@Param			webhook			body		api.WebhookRequest	true	"Where facts are sent, and which"
//	@Success		200				{object}	api.PutWebhook		"Replaced, without its secret"
//	@Success		201				{object}	api.PutWebhook		"Made, with its secret"
//	@Header			200,201			{string}	ETag				"The version"
//	@Failure		412				{object}	api.Problem			"version_mismatch, with version and webhook"
//	@Failure		422				{object}	api.Problem			"validation_failed"
//	@Failure		429				{object}	api.Problem			"too_many_names (there are 100 other webhooks), rate_limited"
//	@Router			/v1/webhooks/{id} [put]
func (s *server) putWebhook(ctx context.Context, in *putWebhookRequest) (*web.Reply[api.PutWebhook], error) {
	match, err := in.match()
	if err != nil {
		return nil, err
	}
	if err := knownFacts(in.Body.Types); err != nil {
		return nil, err
	}
	w, secret, err := s.o.Webhooks.Put(ctx, in.ID, &in.Body, match)
	if err != nil {
		return nil, err
	}
	s.web.LogChange(ctx, "webhooks.put", in.ID)
	put := &api.PutWebhook{Webhook: *w, Secret: secret, Since: api.At(w.UpdatedAt.Add(facts.Known))}
	return web.Put(put, secret != "").Version(w.Version), nil
}

// listWebhooks lists the webhooks.
//
//	@Summary		List webhooks
//	@Description	Lists all webhooks by id, without their secrets.
//	@Tags			facts
//	@ID				listWebhooks
//	@Produce		json
//	@Param			limit	query		int				false	"Items per page"	minimum(1)	maximum(500)	default(50)
//	@Param			cursor	query		string			false	"The `next` of the previous page"
//	@Success		200		{object}	api.WebhookList	"A page"
//	@Router			/v1/webhooks [get]
func (s *server) listWebhooks(ctx context.Context, in *web.Page) (*web.Reply[api.WebhookList], error) {
	all, err := s.o.Webhooks.List(ctx)
	if err != nil {
		return nil, err
	}
	items, next, err := web.PageOf(*in, all, func(w *api.Webhook) string { return w.ID })
	return web.OK(&api.WebhookList{Items: items, Next: next}), err
}

type webhookRequest struct {
	ID string `path:"id" validate:"identifier"`
}

type getWebhookRequest struct {
	ID          string `path:"id" validate:"identifier"`
	IfNoneMatch string `header:"If-None-Match"`
}

// getWebhook shows a webhook.
//
//	@Summary		Show a webhook
//	@Description	Shows a webhook without its secrets, and how far it has come: its position, how long the oldest fact that it has not taken is
//	@Description	there, the last answer, and since when nothing was taken, in any of its lanes. The ETag changes with anything in the answer.
//	@Description	In `If-Match` only the version in it counts, so that a fact that is sent between reading and changing does not refuse the
//	@Description	change. With `If-None-Match` an unchanged answer is 304 without a body.
//	@Tags			facts
//	@ID				getWebhook
//	@Produce		json
//	@Param			id				path		string				true	"The webhook's id"	example(shop)
//	@Param			If-None-Match	header		string				false	"ETags that the caller has, or *"
//	@Success		200				{object}	api.WebhookStatus	"The webhook"
//	@Success		304				"Nothing has changed"
//	@Header			200,304			{string}	ETag				"The version and a digest of the answer"
//	@Failure		404				{object}	api.Problem			"not_found"
//	@Router			/v1/webhooks/{id} [get]
func (s *server) getWebhook(ctx context.Context, in *getWebhookRequest) (*web.Reply[api.WebhookStatus], error) {
	status, err := s.o.Webhooks.Status(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return web.OK(status).Tagged(status.Version).UnlessMatched(in.IfNoneMatch), nil
}

type deleteWebhookRequest struct {
	ID string `path:"id" validate:"identifier"`
	Condition
}

// deleteWebhook removes a webhook.
//
//	@Summary		Remove a webhook
//	@Description	Nothing more is sent, after 3 s at the latest. Removing a webhook that is not there changes nothing. With `If-Match` or
//	@Description	`If-None-Match` the webhook is removed only if the condition holds. The call is logged.
//	@Tags			facts
//	@ID				deleteWebhook
//	@Param			id				path	string	true	"The webhook's id"	example(shop)
//	@Param			If-Match		header	string	false	"ETags of the versions to remove, or *"
//	@Param			If-None-Match	header	string	false	"ETags: only if the webhook is at none of these versions"
//	@Success		204				"Removed, or not there"
//	@Failure		412				{object}	api.Problem	"version_mismatch, with version and webhook"
//	@Router			/v1/webhooks/{id} [delete]
func (s *server) deleteWebhook(ctx context.Context, in *deleteWebhookRequest) (*web.Reply[web.Nothing], error) {
	match, err := in.match()
	if err != nil {
		return nil, err
	}
	if err := s.o.Webhooks.Delete(ctx, in.ID, match); err != nil {
		return nil, err
	}
	s.web.LogChange(ctx, "webhooks.delete", in.ID)
	return web.NoContent(), nil
}

// postWebhookSecret gives a webhook another secret.
//
//	@Summary		Make another secret of a webhook
//	@Description	The new secret signs within 3 s, and the one before it signs as well for 24 h. At most three sign at a time: a further one is
//	@Description	refused until the oldest has ended, so that repeating the call ends no secret that a receiver knows. The secret is shown only in
//	@Description	this answer, so the call takes no Idempotency-Key. The call is logged.
//	@Tags			facts
//	@ID				postWebhookSecret
//	@Produce		json
//	@Param			id	path		string			true	"The webhook's id"	example(shop)
//	@Success		201	{object}	api.NewSecret	"Made"
//	@Failure		404	{object}	api.Problem		"not_found"
//	@Failure		429	{object}	api.Problem		"too_many_names (three secrets sign), rate_limited"
//	@Router			/v1/webhooks/{id}/secrets [post]
func (s *server) postWebhookSecret(ctx context.Context, in *webhookRequest) (*web.Reply[api.NewSecret], error) {
	w, secret, err := s.o.Webhooks.AddSecret(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	s.web.LogChange(ctx, "webhooks.secret", in.ID)
	return web.Created(&api.NewSecret{Secret: secret, OldSecretUntil: w.OldSecretUntil}), nil
}

type replayWebhookRequest struct {
	ID string `path:"id" validate:"identifier"`
	// Idempotency is checked but not used.
	Idempotency api.Idempotency
	Body        api.WebhookReplayRequest
}

// replayWebhook sends facts again.
//
//	@Summary		Send facts to a webhook again
//	@Description	Sets the position of a webhook: facts after it are sent, also those that were sent before, with the same ids. It is a `next` of
//	@Description	the list of facts or a `position` of a webhook; with none, all facts that are kept are sent, and with `now` only those that
//	@Description	happen from now on. A repeat of the call is another replay. The call is logged.
//	@Tags			facts
//	@ID				replayWebhook
//	@Accept			json
//	@Param			id		path	string						true	"The webhook's id"	example(shop)
//	@Param			Idempotency-Key	header	string	false	"Accepted and not kept: a repeat is another replay"	minlength(1)	maxlength(255)
//	@Param			replay	body	api.WebhookReplayRequest	true	"Where it begins"
//	@Success		204		"Facts after the position are sent"
//	@Failure		404		{object}	api.Problem	"not_found"
//	@Failure		422		{object}	api.Problem	"validation_failed: `after` is no position"
//	@Router			/v1/webhooks/{id}/replay [post]
func (s *server) replayWebhook(ctx context.Context, in *replayWebhookRequest) (*web.Reply[web.Nothing], error) {
	if err := s.o.Webhooks.Replay(ctx, in.ID, in.Body.After); err != nil {
		return nil, err
	}
	s.web.LogChange(ctx, "webhooks.replay", in.ID)
	return web.NoContent(), nil
}

type testWebhookRequest struct {
	ID string `path:"id" validate:"identifier"`
	// Idempotency is checked but not used.
	Idempotency api.Idempotency
}

// testWebhook sends a fact to try a webhook.
//
//	@Summary		Try a webhook
//	@Description	Sends a fact of the type `webhook.test` to the webhook at once, also to one that is off, and answers with what its receiver said.
//	@Description	It changes nothing. A receiver that needs longer than a request may take is answered as `error`.
//	@Tags			facts
//	@ID				testWebhook
//	@Produce		json
//	@Param			id				path		string				true	"The webhook's id"	example(shop)
//	@Param			Idempotency-Key	header		string				false	"Accepted and not kept: a repeat sends another fact"	minlength(1)	maxlength(255)
//	@Success		200	{object}	api.WebhookAnswer	"What the receiver answered, whatever it is"
//	@Failure		404	{object}	api.Problem			"not_found"
//	@Router			/v1/webhooks/{id}/test [post]
func (s *server) testWebhook(ctx context.Context, in *testWebhookRequest) (*web.Reply[api.WebhookAnswer], error) {
	w, err := s.o.Webhooks.Get(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return web.OK(s.o.TestWebhook(ctx, w)), nil
}
