package handlers

import (
	"context"

	"fanfare/api"
	"fanfare/handlers/web"
)

type liveObjectRequest struct {
	Object string `path:"object" validate:"identifier=object"`
}

// getLiveObject tells what shows an object.
//
//	@Summary		Show what shows an object
//	@Description	Shows how many Live Activities and Live Updates show an object, on each platform, the update or end that a process began
//	@Description	with last, and the broadcast of the object. Users are not named. An object that nobody shows has none of these. The last
//	@Description	event is forgotten some time after it, and with Redis' data. The key needs the scope `push` or `ops:read`.
//	@Tags			push
//	@ID				getLiveObject
//	@Produce		json
//	@Param			object	path		string			true	"The object"	example(match:42)
//	@Success		200		{object}	api.LiveObject	"What shows it"
//	@Failure		403		{object}	api.Problem		"forbidden: the key has neither the scope push nor the scope ops:read"
//	@Router			/v1/live/{object} [get]
func (s *server) getLiveObject(ctx context.Context, in *liveObjectRequest) (*web.Reply[api.LiveObject], error) {
	if err := needsOneOf(ctx, api.ScopePush, api.ScopeOpsRead); err != nil {
		return nil, err
	}
	shown := &api.LiveObject{Object: in.Object}
	var err error
	if shown.Broadcast, err = s.o.Broadcasts.Get(ctx, in.Object); err != nil && api.CodeOf(err) != api.CodeNotFound {
		return nil, err
	}
	if shown.Activities, err = s.o.Record.CountActivities(ctx, in.Object, api.MaxLiveCount); err != nil {
		return nil, err
	}
	counted := int64(0)
	for _, n := range shown.Activities {
		counted += n
	}
	shown.More = counted == api.MaxLiveCount
	if shown.Last, err = s.o.Events.LastLive(ctx, in.Object); err != nil {
		return nil, err
	}
	return web.OK(shown), nil
}
