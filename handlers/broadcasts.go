package handlers

import (
	"context"

	"fanfare/api"
	"fanfare/handlers/web"
)

type putBroadcastRequest struct {
	Object string `path:"object" validate:"identifier=object"`
	Body   api.BroadcastRequest
}

// putBroadcast makes a broadcast.
//
//	@Summary		Put a broadcast
//	@Description	Gives an object a channel of APNs, to which the Live Activities of any number of phones subscribe: an event to the
//	@Description	object is then one request, however many there are (iOS 18 and later). The answer has the channel, which the app takes
//	@Description	when it starts an activity. The same call again changes nothing, and another `ends_at` changes that alone. The channel
//	@Description	is deleted an hour after `ends_at`.
//	@Description
//	@Description	While APNs' management host is out of reach the answer is 503. If its answer is lost, that is `unknown_outcome`: the
//	@Description	broadcast is then `making`, and the same call again makes a channel. If Apple no longer knows a channel, its broadcast
//	@Description	is `lost`, and the same call again makes another one.
//	@Tags			push
//	@ID				putBroadcast
//	@Accept			json
//	@Produce		json
//	@Param			object		path		string					true	"The object"	example(match:42)
//	@Param			broadcast	body		api.BroadcastRequest	true	"The app, and what its channel keeps"
//	@Success		200			{object}	api.Broadcast			"It has a channel already"
//	@Success		201			{object}	api.Broadcast			"A channel was made"
//	@Failure		409			{object}	api.Problem				"conflict (the channel is of another topic, environment or keep), channels_exhausted, channels_refused"
//	@Failure		422			{object}	api.Problem				"validation_failed, unknown_app"
//	@Failure		503			{object}	api.Problem				"unavailable, unknown_outcome: repeat the call"
//	@Router			/v1/broadcasts/{object} [put]
func (s *server) putBroadcast(ctx context.Context, in *putBroadcastRequest) (*web.Reply[api.Broadcast], error) {
	broadcast, made, err := s.o.Broadcasts.Put(ctx, in.Object, &in.Body)
	if err != nil {
		return nil, err
	}
	return web.Put(broadcast, made), nil
}

// listBroadcasts lists the broadcasts.
//
//	@Summary		List broadcasts
//	@Description	Lists all broadcasts by object. The key needs the scope `push` or `ops:read`.
//	@Tags			push
//	@ID				listBroadcasts
//	@Produce		json
//	@Param			limit	query		int					false	"Items per page"	minimum(1)	maximum(500)	default(50)
//	@Param			cursor	query		string				false	"The `next` of the previous page"
//	@Success		200		{object}	api.BroadcastList	"A page"
//	@Failure		403		{object}	api.Problem			"forbidden: the key has neither the scope push nor the scope ops:read"
//	@Router			/v1/broadcasts [get]
func (s *server) listBroadcasts(ctx context.Context, in *web.Page) (*web.Reply[api.BroadcastList], error) {
	if err := needsOneOf(ctx, api.ScopePush, api.ScopeOpsRead); err != nil {
		return nil, err
	}
	read := func(ctx context.Context, _, after string, limit int) ([]api.Broadcast, error) {
		return s.o.Broadcasts.List(ctx, after, limit)
	}
	items, next, err := web.ReadPage(ctx, *in, read, "", func(b *api.Broadcast) string { return b.Object })
	if err != nil {
		return nil, err
	}
	return web.OK(&api.BroadcastList{Items: items, Next: next}), nil
}

type broadcastRequest struct {
	Object string `path:"object" validate:"identifier=object"`
}

// getBroadcast shows a broadcast.
//
//	@Summary		Show a broadcast
//	@Description	Shows the channel of an object, its state and when APNs took the last update. The key needs the scope `push` or
//	@Description	`ops:read`.
//	@Tags			push
//	@ID				getBroadcast
//	@Produce		json
//	@Param			object	path		string			true	"The object"	example(match:42)
//	@Success		200		{object}	api.Broadcast	"The broadcast"
//	@Failure		403		{object}	api.Problem		"forbidden: the key has neither the scope push nor the scope ops:read"
//	@Failure		404		{object}	api.Problem		"not_found"
//	@Router			/v1/broadcasts/{object} [get]
func (s *server) getBroadcast(ctx context.Context, in *broadcastRequest) (*web.Reply[api.Broadcast], error) {
	if err := needsOneOf(ctx, api.ScopePush, api.ScopeOpsRead); err != nil {
		return nil, err
	}
	broadcast, err := s.o.Broadcasts.Get(ctx, in.Object)
	if err != nil {
		return nil, err
	}
	return web.OK(broadcast), nil
}

// deleteBroadcast ends a broadcast.
//
//	@Summary		End a broadcast
//	@Description	Deletes the channel of an object, for good: its subscribers get nothing more, and no other channel has its name. While
//	@Description	APNs' management host is out of reach, the broadcast is `closing`, and its channel is deleted later. Ending a broadcast
//	@Description	that is not there changes nothing. Send an event with the action `end` before, and wait until its report has
//	@Description	`broadcast.sent: 1`: an `end` that was not sent by then reaches no phone. Or give the broadcast an earlier `ends_at`
//	@Description	instead, which leaves an hour for the `end`.
//	@Tags			push
//	@ID				deleteBroadcast
//	@Param			object	path	string	true	"The object"	example(match:42)
//	@Success		204		"Ended, or not there"
//	@Router			/v1/broadcasts/{object} [delete]
func (s *server) deleteBroadcast(ctx context.Context, in *broadcastRequest) (*web.Reply[web.Nothing], error) {
	return web.NoContent(), s.o.Broadcasts.Delete(ctx, in.Object)
}
