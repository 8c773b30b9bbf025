package handlers

import (
	"context"

	"fanfare/api"
	"fanfare/handlers/web"
)

type putEventTypeRequest struct {
	Type string `path:"type" validate:"identifier"`
	Body api.EventTypeRequest
}

// putEventType registers an event type.
//
//	@Summary		Register an event type
//	@Description	Defines how events of this type look on a phone. `title` and `body` are templates that may use text,
//	@Description	`{{.actor}}`, `{{.object}}`, `{{.data.name}}` and `{{if}}{{else}}{{end}}`. An event is refused if its template
//	@Description	prints an actor, an object or a name of `data` that the event does not have. A type with `push_type`
//	@Description	`background` needs neither title nor body and must not have priority 10. A change takes effect within a second;
//	@Description	events that were accepted before keep their look.
//	@Tags			push
//	@ID				putEventType
//	@Accept			json
//	@Produce		json
//	@Param			type		path		string					true	"The type's name"
//	@Param			event_type	body		api.EventTypeRequest	true	"How its events look"
//	@Success		200			{object}	api.EventType			"Replaced"
//	@Success		201			{object}	api.EventType			"Registered"
//	@Failure		422			{object}	api.Problem				"validation_failed, also if a template uses anything else"
//	@Router			/v1/event-types/{type} [put]
func (s *server) putEventType(ctx context.Context, in *putEventTypeRequest) (*web.Reply[api.EventType], error) {
	t, created, err := s.events.PutEventType(ctx, in.Type, &in.Body)
	if err != nil {
		return nil, err
	}
	return web.Put(t.InForce(), created), nil
}

type listEventTypesRequest struct {
	web.Page
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
func (s *server) listEventTypes(ctx context.Context, in *listEventTypesRequest) (*web.Reply[api.EventTypeList], error) {
	all, err := s.events.EventTypes(ctx)
	if err != nil {
		return nil, err
	}
	items, next, err := web.PageOf(in.Page, all, func(t *api.EventType) string { return t.Type })
	if err != nil {
		return nil, err
	}
	for i := range items {
		items[i] = *items[i].InForce()
	}
	return web.OK(&api.EventTypeList{Items: items, Next: next}), nil
}

type eventTypeRequest struct {
	Type string `path:"type" validate:"identifier"`
}

// getEventType shows an event type.
//
//	@Summary		Show an event type
//	@Description	As it was registered, with the defaults that are in force: `push_type`, `collapse` and `retry_unknown` are always there.
//	@Tags			push
//	@ID				getEventType
//	@Produce		json
//	@Param			type	path		string			true	"The type's name"
//	@Success		200		{object}	api.EventType	"The type"
//	@Failure		404		{object}	api.Problem		"not_found"
//	@Router			/v1/event-types/{type} [get]
func (s *server) getEventType(ctx context.Context, in *eventTypeRequest) (*web.Reply[api.EventType], error) {
	t, err := s.events.EventType(ctx, in.Type)
	if err != nil {
		return nil, err
	}
	return web.OK(t.InForce()), nil
}

// deleteEventType removes an event type.
//
//	@Summary		Remove an event type
//	@Description	Events that were accepted are still sent as they were. Removing a type that is not there changes nothing.
//	@Tags			push
//	@ID				deleteEventType
//	@Param			type	path	string	true	"The type's name"
//	@Success		204		"Removed, or not there"
//	@Router			/v1/event-types/{type} [delete]
func (s *server) deleteEventType(ctx context.Context, in *eventTypeRequest) (*web.Reply[web.Nothing], error) {
	if err := s.events.DeleteEventType(ctx, in.Type); err != nil {
		return nil, err
	}
	return web.NoContent(), nil
}
