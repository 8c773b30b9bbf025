package handlers

import (
	"context"

	"fanfare/api"
	"fanfare/handlers/web"
	"fanfare/store/events"
)

type openedRequest struct {
	ID string `path:"id" validate:"identifier"`
	// Idempotency is checked but not used.
	Idempotency api.Idempotency
	Body        api.OpenedRequest
}

// postOpened counts that a user opened a notification.
//
//	@Summary		Say that a user opened a notification
//	@Description	An app calls this when its user taps a notification, with the `event_id` of its payload. The user counts once in `opened`
//	@Description	of the event's report, whatever the number of calls and of devices, for as long as the report is kept; with the type
//	@Description	`notification.opened` on, it is also told as a fact. The event's type needs `opened: true`, before the event is posted.
//	@Description	With a user token only the token's own user counts; a key names any user who got a notification of the event.
//	@Tags			push
//	@ID				postOpened
//	@Accept			json
//	@Param			Idempotency-Key	header	string				false	"Accepted and not kept: the call is safe to repeat without it"	minlength(1)	maxlength(255)
//	@Param			id				path	string				true	"The event, as the notification's payload names it in `event_id`"
//	@Param			opened			body	api.OpenedRequest	true	"Who opened it"
//	@Success		204				"Counted, or it was counted before"
//	@Failure		404				{object}	api.Problem	"not_found: there is no such event, its report is no longer kept, or the user got no notification of it"
//	@Failure		409				{object}	api.Problem	"not_counted: the event's type does not count who opens its notifications"
//	@Router			/v1/events/{id}/opened [post]
func (s *server) postOpened(ctx context.Context, in *openedRequest) (*web.Reply[web.Nothing], error) {
	return web.NoContent(), s.o.Events.CountOpening(ctx, in.ID, events.Opened, &in.Body)
}

// postDismissed counts that a user dismissed a notification.
//
//	@Summary		Say that a user dismissed a notification
//	@Description	As `POST /v1/events/{id}/opened`, for a user who removed a notification without opening it. The user counts in `dismissed`,
//	@Description	and the fact is of the type `notification.dismissed`. A user may count in both.
//	@Tags			push
//	@ID				postDismissed
//	@Accept			json
//	@Param			Idempotency-Key	header	string				false	"Accepted and not kept: the call is safe to repeat without it"	minlength(1)	maxlength(255)
//	@Param			id				path	string				true	"The event, as the notification's payload names it in `event_id`"
//	@Param			dismissed		body	api.OpenedRequest	true	"Who dismissed it"
//	@Success		204				"Counted, or it was counted before"
//	@Failure		404				{object}	api.Problem	"not_found: there is no such event, its report is no longer kept, or the user got no notification of it"
//	@Failure		409				{object}	api.Problem	"not_counted: the event's type does not count who dismisses its notifications"
//	@Router			/v1/events/{id}/dismissed [post]
func (s *server) postDismissed(ctx context.Context, in *openedRequest) (*web.Reply[web.Nothing], error) {
	return web.NoContent(), s.o.Events.CountOpening(ctx, in.ID, events.Dismissed, &in.Body)
}
