package handlers

import (
	"context"

	"fanfare/api"
	"fanfare/handlers/web"
)

type postEventRequest struct {
	Idempotency api.Idempotency
	Body        api.EventRequest
}

// postEvent accepts an event.
//
//	@Summary		Post an event
//	@Description	Something happened, and these people may want to know. The event is accepted at once and survives crashes from
//	@Description	here on; who gets a notification is found out afterwards: opt-outs, mutes and devices are read then, and the
//	@Description	actor is never told about his own doing. Look at the event later to see how far it has come.
//	@Description
//	@Description	`audience` is exactly one of `users` (1 to 10,000), `contacts_of` (everyone who calls that user a contact) and
//	@Description	`chat` (its members). `data` (flat strings, at most 2 KiB) fills the type's templates and travels in the payload.
//	@Description	`alert` overrides the templates; with it the type need not be registered.
//	@Tags			push
//	@ID				postEvent
//	@Accept			json
//	@Produce		json
//	@Param			Idempotency-Key	header		string				false	"Makes the call safe to repeat for 24 h"	minlength(1)	maxlength(255)
//	@Param			event			body		api.EventRequest	true	"The event"
//	@Success		202				{object}	api.EventAccepted	"Accepted: from here on it is not lost"
//	@Header			202				{string}	Idempotent-Replayed	"true when this is the first answer again"
//	@Header			202				{string}	Location			"Where to look at the event"
//	@Failure		413				{object}	api.Problem			"payload_too_large: an event may have at most 1 MiB"
//	@Failure		422				{object}	api.Problem			"validation_failed, unknown_event_type (no such type and no alert), already_expired, idempotency_key_reused"
//	@Router			/v1/events [post]
func (s *server) postEvent(ctx context.Context, in *postEventRequest) (*web.Reply[api.EventAccepted], error) {
	event, replayed, err := s.events.Accept(ctx, &in.Body, in.Idempotency)
	if err != nil {
		return nil, err
	}
	return web.Accepted(event).Replayed(replayed).At("/v1/events/" + event.ID), nil
}

type postEventBatchRequest struct {
	Idempotency api.Idempotency
	Body        api.EventBatchRequest
}

// postEventBatch accepts many events in one step.
//
//	@Summary		Post many events
//	@Description	Accepts 1 to 1,000 events in one step, all or none: one bad event refuses the whole batch, naming its index. The
//	@Description	answer lists the ids in the order of the events.
//	@Tags			push
//	@ID				postEventBatch
//	@Accept			json
//	@Produce		json
//	@Param			Idempotency-Key	header		string					false	"Makes the call safe to repeat for 24 h"	minlength(1)	maxlength(255)
//	@Param			batch			body		api.EventBatchRequest	true	"The events"
//	@Success		202				{object}	api.EventBatchAccepted	"All accepted"
//	@Header			202				{string}	Idempotent-Replayed		"true when this is the first answer again"
//	@Failure		413				{object}	api.Problem				"payload_too_large: a batch may have at most 4 MiB"
//	@Failure		422				{object}	api.Problem				"as for one event; errors name the field with the event's index, such as events[3].type"
//	@Router			/v1/events/batch [post]
func (s *server) postEventBatch(ctx context.Context, in *postEventBatchRequest) (*web.Reply[api.EventBatchAccepted], error) {
	events, replayed, err := s.events.AcceptBatch(ctx, &in.Body, in.Idempotency)
	if err != nil {
		return nil, err
	}
	return web.Accepted(events).Replayed(replayed), nil
}

type getEventRequest struct {
	ID string `path:"id" validate:"identifier"`
}

// getEvent reports on an event.
//
//	@Summary		Look at an event
//	@Description	How far an event has come. The counts are true at any moment, whatever crashed in between. `recipients` are distinct
//	@Description	users before suppression; each suppressed user counts once, by the first reason that applies: is_actor, opted_out,
//	@Description	muted, no_device, live (an event to a chat does not go to members who follow their chats on a stream just now). `done` means that every notification is delivered, failed or expired. Kept for 24 h after its end
//	@Description	(`FANFARE_EVENT_RETENTION`). `failed_by` counts the failed by reason, the 10 most frequent ones.
//	@Tags			push
//	@ID				getEvent
//	@Produce		json
//	@Param			id	path		string			true	"The id that posting it returned"
//	@Success		200	{object}	api.EventReport	"The report"
//	@Failure		404	{object}	api.Problem		"not_found: never accepted, or ended too long ago"
//	@Router			/v1/events/{id} [get]
func (s *server) getEvent(ctx context.Context, in *getEventRequest) (*web.Reply[api.EventReport], error) {
	report, err := s.events.Report(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return web.OK(report), nil
}
