package handlers

import (
	"context"

	"fanfare/api"
	"fanfare/handlers/web"
)

type putEventTypeRequest struct {
	Type string `path:"type" validate:"identifier"`
	Condition
	Body api.EventTypeRequest
}

// putEventType registers an event type.
//
//	@Summary		Register an event type
//	@Description	Defines how events of this type look on a phone. `title` and `body` are templates that may use text,
//	@Description	`{{.actor}}`, `{{.object}}`, `{{.data.name}}` and `{{if}}{{else}}{{end}}`. An event is refused if its template
//	@Description	prints an actor, an object or a name of `data` that the event does not have. A type with `push_type`
//	@Description	`background` needs neither title nor body and must not have priority 10. `localized` has the texts in other languages:
//	@Description	a device gets each text in the locale that it registered with, else in the language of that locale, else as the type's
//	@Description	own. A change takes effect within a second;
//	@Description	events that were accepted before keep their look.
//	@Description
//	@Description	Without `If-Match` and `If-None-Match` the call replaces what is there. With one of them it is a compare-and-set: if
//	@Description	the condition does not hold, 412 `version_mismatch` contains the present type, its revision as `version`, and its
//	@Description	ETag.
//	@Tags			push
//	@ID				putEventType
//	@Accept			json
//	@Produce		json
//	@Param			type			path		string					true	"The type's name"
//	@Param			If-Match		header		string					false	"ETags of the revisions to replace, or *"
//	@Param			If-None-Match	header		string					false	"*: only if there is no such type yet; ETags: only if the type is at none of these revisions"
//	@Param			event_type		body		api.EventTypeRequest	true	"How its events look"
//	@Success		200				{object}	api.EventType			"Replaced"
//	@Success		201				{object}	api.EventType			"Registered"
//	@Header			200,201			{string}	ETag					"The revision and a digest of the answer"
//	@Failure		412				{object}	api.Problem				"version_mismatch, with version and event_type"
//	@Failure		422				{object}	api.Problem				"validation_failed, also if a template uses anything else"
//	@Router			/v1/event-types/{type} [put]
func (s *server) putEventType(ctx context.Context, in *putEventTypeRequest) (*web.Reply[api.EventType], error) {
	match, err := in.match()
	if err != nil {
		return nil, err
	}
	if in.Body.Badge == api.BadgeUnread && in.Type != api.ChatMessageType {
		return nil, api.Invalid("badge", "unread", "unread is for the type %s", api.ChatMessageType)
	}
	t, created, err := s.o.Events.PutEventType(ctx, in.Type, &in.Body, match)
	if err != nil {
		return nil, err
	}
	return web.Put(t.InForce(), created).Tagged(t.Revision), nil
}

// listEventTypes lists the event types.
//
//	@Summary		List event types
//	@Description	Lists all registered types by name, with the defaults that apply to them.
//	@Tags			push
//	@ID				listEventTypes
//	@Produce		json
//	@Param			limit	query		int					false	"Items per page"	minimum(1)	maximum(500)	default(50)
//	@Param			cursor	query		string				false	"The `next` of the previous page"
//	@Success		200		{object}	api.EventTypeList	"A page"
//	@Router			/v1/event-types [get]
func (s *server) listEventTypes(ctx context.Context, in *web.Page) (*web.Reply[api.EventTypeList], error) {
	all, err := s.o.Events.EventTypes(ctx)
	if err != nil {
		return nil, err
	}
	items, next, err := web.PageOf(*in, all, func(t *api.EventType) string { return t.Type })
	if err != nil {
		return nil, err
	}
	for i := range items {
		items[i] = *items[i].InForce()
	}
	return web.OK(&api.EventTypeList{Items: items, Next: next}), nil
}

type getEventTypeRequest struct {
	Type        string `path:"type" validate:"identifier"`
	IfNoneMatch string `header:"If-None-Match"`
}

// getEventType shows an event type.
//
//	@Summary		Show an event type
//	@Description	As it was registered, with the defaults that are in force: `push_type`, `collapse` and `retry_unknown` are always there.
//	@Description	With `If-None-Match` an unchanged answer is 304 without a body.
//	@Tags			push
//	@ID				getEventType
//	@Produce		json
//	@Param			type			path		string			true	"The type's name"
//	@Param			If-None-Match	header		string			false	"ETags that the caller has, or *"
//	@Success		200				{object}	api.EventType	"The type"
//	@Success		304				"Nothing has changed"
//	@Header			200,304			{string}	ETag			"The revision and a digest of the answer"
//	@Failure		404				{object}	api.Problem		"not_found"
//	@Router			/v1/event-types/{type} [get]
func (s *server) getEventType(ctx context.Context, in *getEventTypeRequest) (*web.Reply[api.EventType], error) {
	t, err := s.o.Events.EventType(ctx, in.Type)
	if err != nil {
		return nil, err
	}
	return web.OK(t.InForce()).Tagged(t.Revision).UnlessMatched(in.IfNoneMatch), nil
}

type deleteEventTypeRequest struct {
	Type string `path:"type" validate:"identifier"`
	Condition
}

// deleteEventType removes an event type.
//
//	@Summary		Remove an event type
//	@Description	Events that were accepted are still sent as they were. Removing a type that is not there changes nothing. With
//	@Description	`If-Match` or `If-None-Match` the type is removed only if the condition holds.
//	@Tags			push
//	@ID				deleteEventType
//	@Param			type			path	string	true	"The type's name"
//	@Param			If-Match		header	string	false	"ETags of the revisions to remove, or *"
//	@Param			If-None-Match	header	string	false	"ETags: only if the type is at none of these revisions"
//	@Success		204				"Removed, or not there"
//	@Failure		412				{object}	api.Problem	"version_mismatch, with version and event_type"
//	@Router			/v1/event-types/{type} [delete]
func (s *server) deleteEventType(ctx context.Context, in *deleteEventTypeRequest) (*web.Reply[web.Nothing], error) {
	match, err := in.match()
	if err != nil {
		return nil, err
	}
	return web.NoContent(), s.o.Events.DeleteEventType(ctx, in.Type, match)
}
