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
//	@Description	Says how events of this type look on a phone. `title` and `body` are templates: text, `{{.actor}}`, `{{.object}}`,
//	@Description	`{{.data.name}}` and `{{if}}{{else}}{{end}}`, nothing else. What would be printed but is missing, the actor, the
//	@Description	object or a name of `data`, refuses the event. A `background` push needs neither text and refuses priority 10. A change counts for events
//	@Description	posted at most a second later; what was accepted before keeps its look.
//	@Tags			push
//	@ID				putEventType
//	@Accept			json
//	@Produce		json
//	@Param			type		path		string					true	"The type's name"
//	@Param			event_type	body		api.EventTypeRequest	true	"Its look"
//	@Success		200			{object}	api.EventType			"Replaced"
//	@Success		201			{object}	api.EventType			"Registered"
//	@Failure		422			{object}	api.Problem				"validation_failed, also for a template that does more than the above"
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
//	@Description	All registered types, by name, each with the defaults that are in force.
//	@Tags			push
//	@ID				listEventTypes
//	@Produce		json
//	@Param			limit	query		int					false	"Items per page"	minimum(1)	maximum(500)	default(50)
//	@Param			cursor	query		string				false	"next of the page before"
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
