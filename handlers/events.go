package handlers

import (
	"context"
	"fmt"
	"strings"

	"fanfare/api"
	"fanfare/handlers/web"
	"fanfare/store/events"
	"fanfare/store/queue"
)

type postEventRequest struct {
	Idempotency api.Idempotency
	DryRun      string `query:"dry_run" validate:"omitempty,oneof=true false"`
	Body        api.EventRequest
}

// postEvent accepts an event.
//
//	@Summary		Post an event
//	@Description	Tells fanfare that something happened and which users may want to know. Once the event is accepted it survives
//	@Description	crashes. Its recipients are found afterwards: opt-outs, mutes and devices are read then. The actor never gets a
//	@Description	notification of the event. `GET /v1/events/{id}` shows how far the event has come.
//	@Description
//	@Description	`audience` has exactly one of `users` (1 to 10,000), `contacts_of` (everyone who has that user as a contact), `chat`
//	@Description	(its members), `topic` (its members), `all` (`true`: every user with an active device; the key also needs the scope
//	@Description	`push:all`), `activities_of` (the Live Activities of that object) and `broadcast` (the broadcast channel of that object). `data` (flat strings, at most 2 KiB) fills the type's templates and is sent in the payload. `alert`
//	@Description	replaces the templates; with it the type need not be registered. With `send_at` the event is accepted now, and
//	@Description	its recipients are found then.
//	@Description
//	@Description	With `live`, the event starts, updates or ends Live Activities, and its type has push type `liveactivity`, or does not
//	@Description	exist. A start goes to the start tokens of the users of any of the first audiences, and needs an `object` and an alert.
//	@Description	An update or an end has the audience `activities_of` or `broadcast`. At most one update of an object is sent in a
//	@Description	second: one that finds a newer one is `superseded`.
//	@Description
//	@Description	`dry_run=true` checks the event and answers 200 with what devices would get, on each platform that the process delivers to
//	@Description	and in each language of the type. Nothing is stored or sent, and an Idempotency-Key is not used up.
//	@Tags			push
//	@ID				postEvent
//	@Accept			json
//	@Produce		json
//	@Param			Idempotency-Key	header		string				false	"Makes the call safe to repeat for 24 h"	minlength(1)	maxlength(255)
//	@Param			dry_run			query		bool				false	"Check the event, and show what it would send"	default(false)
//	@Param			event			body		api.EventRequest	true	"The event"
//	@Success		200				{object}	api.EventPreview	"With dry_run: what the event would send"
//	@Success		202				{object}	api.EventAccepted	"Accepted: from here on it is not lost"
//	@Header			202				{string}	Idempotent-Replayed	"true if this is the first answer again"
//	@Header			202				{string}	Location			"The URL of the event's report"
//	@Failure		403				{object}	api.Problem			"forbidden: the key lacks the scope `push`, or `push:all` for an event to all users"
//	@Failure		413				{object}	api.Problem			"payload_too_large: an event may have at most 1 MiB"
//	@Failure		422				{object}	api.Problem			"validation_failed, unknown_event_type (no such type and no alert), reserved_key (a name of `data` that FCM or fanfare uses), already_expired, idempotency_key_reused"
//	@Router			/v1/events [post]
func (s *server) postEvent(ctx context.Context, in *postEventRequest) (*web.Reply[any], error) {
	if err := mayReach(ctx, &in.Body, alone); err != nil {
		return nil, err
	}
	if in.DryRun == "true" {
		preview, err := s.o.Events.Preview(ctx, &in.Body)
		return web.OK[any](new(any(preview))), err
	}
	event, replayed, err := s.o.Events.Accept(ctx, &in.Body, in.Idempotency)
	if err != nil {
		return nil, err
	}
	return web.Accepted[any](new(any(event))).Replayed(replayed).At("/v1/events/" + event.ID), nil
}

type postEventBatchRequest struct {
	Idempotency api.Idempotency
	Body        api.EventBatchRequest
}

// postEventBatch accepts many events in one step.
//
//	@Summary		Post many events
//	@Description	Accepts 1 to 1,000 events in one step, either all or none: one bad event refuses the whole batch, and the error
//	@Description	names its index. The answer lists the ids in the order of the events.
//	@Tags			push
//	@ID				postEventBatch
//	@Accept			json
//	@Produce		json
//	@Param			Idempotency-Key	header		string					false	"Makes the call safe to repeat for 24 h"	minlength(1)	maxlength(255)
//	@Param			batch			body		api.EventBatchRequest	true	"The events"
//	@Success		202				{object}	api.EventBatchAccepted	"All accepted"
//	@Header			202				{string}	Idempotent-Replayed		"true if this is the first answer again"
//	@Failure		403				{object}	api.Problem				"forbidden: the key lacks the scope `push`, or `push:all` and one of the events is to all users"
//	@Failure		413				{object}	api.Problem				"payload_too_large: a batch may have at most 4 MiB"
//	@Failure		422				{object}	api.Problem				"as for a single event; errors name the field with the event's index, such as events[3].type"
//	@Router			/v1/events/batch [post]
func (s *server) postEventBatch(ctx context.Context, in *postEventBatchRequest) (*web.Reply[api.EventBatchAccepted], error) {
	for i := range in.Body.Events {
		if err := mayReach(ctx, &in.Body.Events[i], i); err != nil {
			return nil, err
		}
	}
	events, replayed, err := s.o.Events.AcceptBatch(ctx, &in.Body, in.Idempotency)
	return web.Accepted(events).Replayed(replayed), err
}

// alone is the index of an event that is not in a batch.
const alone = -1

// mayReach refuses an event to all users if the caller's key lacks the scope for it. index is the
// event's place in its batch.
func mayReach(ctx context.Context, e *api.EventRequest, index int) error {
	if !e.Audience.All || web.Allows(ctx, api.ScopePushAll) {
		return nil
	}
	field := "audience.all"
	if index != alone {
		field = fmt.Sprintf("events[%d].%s", index, field)
	}
	return api.Errorf(api.CodeForbidden, "%s needs the scope %s, which this API key lacks", field, api.ScopePushAll).With("scope", api.ScopePushAll)
}

type listEventsRequest struct {
	Type   string         `query:"type" validate:"omitempty,identifier"`
	State  api.EventState `query:"state" validate:"omitempty,oneof=scheduled queued targeting sending done expired cancelled superseded"`
	Failed string         `query:"failed" validate:"omitempty,oneof=true false"`
	web.Page
}

// listEvents lists events.
//
//	@Summary		List events
//	@Description	Lists events whose report is kept, newest first by the 32nd of a second in which they were accepted, with the numbers
//	@Description	of `GET /v1/events/{id}`. Payloads and recipients are not shown. A page looks at up to 1,000 events: with `type`, `state`
//	@Description	or `failed` it may have fewer than `limit`, or none, and still a `next`. Each shard lists the events of its latest 10,000
//	@Description	32nds of a second with events; older ones have a report, but are not listed.
//	@Tags			operations
//	@ID				listEvents
//	@Produce		json
//	@Param			type	query		string			false	"Only events of this type"
//	@Param			state	query		string			false	"Only events that are in this state now"	Enums(scheduled, queued, targeting, sending, done, expired, cancelled, superseded)
//	@Param			failed	query		bool			false	"true: only events of which notifications failed; false: only the others"
//	@Param			limit	query		int				false	"Items per page"	minimum(1)	maximum(500)	default(50)
//	@Param			cursor	query		string			false	"The `next` of the previous page"
//	@Success		200		{object}	api.EventList	"A page"
//	@Failure		422		{object}	api.Problem		"validation_failed: no such state, no name of a type, or another `failed` than true and false"
//	@Router			/v1/events [get]
func (s *server) listEvents(ctx context.Context, in *listEventsRequest) (*web.Reply[api.EventList], error) {
	after, err := web.OpenCursor(in.Cursor)
	if _, ok := queue.ParseID(after); err == nil && after != "" && !ok {
		err = web.BadCursor()
	}
	if err != nil {
		return nil, err
	}
	q := events.ListQuery{Type: in.Type, State: in.State, After: after, Limit: int(in.Limit)}
	if in.Failed != "" {
		q.Failed = new(in.Failed == "true")
	}
	list, next, err := s.o.Events.List(ctx, q)
	if err != nil {
		return nil, err
	}
	list.Next = web.SealCursor(next)
	return web.OK(list), nil
}

// getEvent reports on an event.
//
//	@Summary		Show the report of an event
//	@Description	Shows how far an event has come. The counts are right at any moment, whatever has crashed. `recipients` are
//	@Description	distinct users before suppression. Each suppressed user counts once, under the first reason that applies:
//	@Description	is_actor, opted_out, muted, no_device, live (an event to a chat is not sent to members who follow their chats on
//	@Description	a stream at that moment). `done` means that every notification is delivered, failed, expired or superseded. `failed_by`
//	@Description	counts the failed notifications by their 10 most frequent reasons. `platforms` has the numbers of each push
//	@Description	service; they add up to those of the event. A report is kept for 24 h after the event's end
//	@Description	(`FANFARE_EVENT_RETENTION`). `scheduled` events wait for their `send_at`. An event is `cancelled` from the call of
//	@Description	`POST /v1/events/{id}/cancel` on; `cancelled` counts its notifications that were made and are not sent. A live event
//	@Description	is `superseded` if a newer one of its object went before it; `superseded` counts notifications that were made before that
//	@Description	and are not sent.
//	@Tags			push
//	@ID				getEvent
//	@Produce		json
//	@Param			id	path		string			true	"The id from the answer to the POST"
//	@Success		200	{object}	api.EventReport	"The report"
//	@Failure		404	{object}	api.Problem		"not_found: the event was never accepted, or its report is no longer kept"
//	@Router			/v1/events/{id} [get]
func (s *server) getEvent(ctx context.Context, in *idRequest) (*web.Reply[api.EventReport], error) {
	report, err := s.o.Events.Report(ctx, in.ID)
	return web.OK(report), err
}

type getUserEventRequest struct {
	ID   string `path:"id" validate:"identifier"`
	User string `path:"user" validate:"identifier"`
}

// getUserEvent tells what became of an event for a user.
//
//	@Summary		Show why a user got an event, or why not
//	@Description	Shows what became of an event for one user. `now` is what holds for the user now, which may have been different when
//	@Description	the event was targeted. `notifications` are those to the devices that the user has now, also dropped ones; while the
//	@Description	event is not `done`, some may be missing yet. A notification has a `reason` if it waits, is tried again or failed, `at` is
//	@Description	when it ended, and `until` when it is tried again. What is not known is absent: `is_actor` and `muted` before the
//	@Description	event is targeted, or if its actor and object are not on record. `outcomes_kept: false` says that it is no longer known how some of the event's
//	@Description	notifications have ended, so that a device without one may have got it. The key needs the scope `push` as well,
//	@Description	because the answer is about a user.
//	@Tags			operations
//	@ID				getUserEvent
//	@Produce		json
//	@Param			id		path		string			true	"The id from the answer to the POST"
//	@Param			user	path		string			true	"The user"
//	@Success		200		{object}	api.UserEvent	"What became of the event for the user"
//	@Failure		403		{object}	api.Problem		"forbidden: the key lacks the scope `ops:read`, or `push`"
//	@Failure		404		{object}	api.Problem		"not_found: the event was never accepted, or its report is no longer kept"
//	@Router			/v1/events/{id}/users/{user} [get]
func (s *server) getUserEvent(ctx context.Context, in *getUserEventRequest) (*web.Reply[api.UserEvent], error) {
	if err := namesUsers(ctx, "what became of an event for a user"); err != nil {
		return nil, err
	}
	now, err := s.userNow(ctx, in.User)
	if err != nil {
		return nil, err
	}
	found, err := s.o.Events.UserEvent(ctx, in.ID, now)
	return web.OK(found), err
}

type listEventNotificationsRequest struct {
	ID    string                `path:"id" validate:"identifier"`
	State api.NotificationState `query:"state" validate:"required,oneof=failed"`
	web.Page
}

// listEventNotifications lists the notifications of an event that failed.
//
//	@Summary		List the notifications of an event that failed
//	@Description	Lists who did not get an event because a push service refused the notification, or because it was given up: user,
//	@Description	device (the begin of its token), reason, time, how often it was sent, and its dead letter if it became one. A notification
//	@Description	whose dead letter was retried or deleted is left out. The list goes through the shards one by one, and begins with the
//	@Description	oldest of each. A page may have fewer than `limit`, or none, and still a `next`. Each shard keeps the first 200 of an
//	@Description	event: `complete` is false if it is known that some are missing. They are kept as long as the event's report at least.
//	@Description	The key needs the scope `push` as well, because the answer names users.
//	@Tags			operations
//	@ID				listEventNotifications
//	@Produce		json
//	@Param			id		path		string						true	"The id from the answer to the POST"
//	@Param			state	query		string						true	"How they ended: only those that failed are kept one by one"	Enums(failed)
//	@Param			limit	query		int							false	"Items per page"	minimum(1)	maximum(500)	default(50)
//	@Param			cursor	query		string						false	"The `next` of the previous page"
//	@Success		200		{object}	api.EventNotificationList	"A page"
//	@Failure		403		{object}	api.Problem					"forbidden: the key lacks the scope `ops:read`, or `push`"
//	@Failure		404		{object}	api.Problem					"not_found: the event was never accepted, or its report is no longer kept"
//	@Failure		422		{object}	api.Problem					"validation_failed: no state, or another one than failed"
//	@Router			/v1/events/{id}/notifications [get]
func (s *server) listEventNotifications(ctx context.Context, in *listEventNotificationsRequest) (*web.Reply[api.EventNotificationList], error) {
	if err := namesUsers(ctx, "who did not get an event"); err != nil {
		return nil, err
	}
	after, err := web.OpenCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	list, err := s.o.Events.FailedNotifications(ctx, in.ID, after, int(in.Limit))
	if err != nil {
		return nil, err
	}
	list.Next = web.SealCursor(list.Next)
	return web.OK(list), nil
}

// namesUsers refuses an answer about users if the caller's key lacks push, which it needs beside the scope of the route.
func namesUsers(ctx context.Context, answer string) error {
	if web.Allows(ctx, api.ScopePush) {
		return nil
	}
	return api.Errorf(api.CodeForbidden, "%s needs the scope %s as well, which this API key lacks", answer, api.ScopePush).With("scope", api.ScopePush)
}

// userNow reads what holds for a user now.
func (s *server) userNow(ctx context.Context, user string) (*events.UserNow, error) {
	settings, err := s.o.Devices.Settings(ctx, user)
	if err != nil {
		return nil, err
	}
	live, err := s.o.Live.Present(ctx, user)
	if err != nil {
		return nil, err
	}
	all, err := s.o.Apps(ctx)
	if err != nil {
		return nil, err
	}
	activities, err := s.o.Devices.Activities(ctx, user)
	if err != nil {
		return nil, err
	}
	return &events.UserNow{User: user, Settings: settings, Activities: activities, Live: live, Aside: func(d *api.Device) string { return s.aside(all, d) }}, nil
}

// aside says why notifications to a device may be set aside: its app is paused, or resumes; "": its app
// runs.
func (s *server) aside(all []api.App, d *api.Device) string {
	for i := range all {
		a := &all[i]
		if a.Topic != d.Topic || a.Platform != d.PlatformOf() || a.Environment != d.Environment || d.Target != "" && !strings.HasSuffix(a.App, ":"+s.o.PushOrigins.OfTarget(d.Target)) {
			continue
		}
		switch a.State {
		case api.AppPaused:
			return "app_paused: " + a.Reason
		case api.AppResuming:
			return "app_resuming"
		}
	}
	return ""
}

// cancelEvent cancels an event.
//
//	@Summary		Cancel an event
//	@Description	Sends nothing more of an event, on every server, from one second after the answer on. An event that was not targeted
//	@Description	yet, also one with `send_at`, reaches nobody. Otherwise notifications that were sent stay counted as they ended, and those
//	@Description	that were made and not sent count as `cancelled`, each when its turn comes: in the end `delivered`, `failed`, `expired`
//	@Description	and `cancelled` add up to `notifications`. The key needs the scope `push` or `ops`. The call may be repeated, which
//	@Description	also completes a call that was answered with 503. The call is logged.
//	@Tags			push
//	@ID				cancelEvent
//	@Produce		json
//	@Param			Idempotency-Key	header		string			false	"Accepted and not kept: the call is safe to repeat without it"	minlength(1)	maxlength(255)
//	@Param			id				path		string			true	"The id from the answer to the POST"
//	@Success		200				{object}	api.EventReport	"The report so far, in the state `cancelled`"
//	@Failure		403				{object}	api.Problem		"forbidden: the key has neither the scope push nor the scope ops"
//	@Failure		404				{object}	api.Problem		"not_found: the event was never accepted, or its report is no longer kept"
//	@Failure		409				{object}	api.Problem		"too_late: the event is over, and stays as it is"
//	@Router			/v1/events/{id}/cancel [post]
func (s *server) cancelEvent(ctx context.Context, in *idOnceRequest) (*web.Reply[api.EventReport], error) {
	if err := needsOneOf(ctx, api.ScopePush, api.ScopeOps); err != nil {
		return nil, err
	}
	report, made, err := s.o.Events.Cancel(ctx, in.ID)
	if made { // also if its report could not be read
		s.web.LogChange(ctx, "events.cancel", in.ID)
	}
	if err != nil {
		return nil, err
	}
	return web.OK(report), nil
}
