package handlers

import (
	"context"

	"fanfare/api"
	"fanfare/handlers/web"
)

type optOutRequest struct {
	User string `path:"user" validate:"identifier"`
	Type string `path:"type" validate:"identifier"`
}

// putOptOut opts a user out of an event type.
//
//	@Summary		Opt a user out of an event type
//	@Description	The user gets no more notifications of that type. The type need not be registered. A user can have at most 1,000
//	@Description	opt-outs.
//	@Tags			push
//	@ID				putOptOut
//	@Param			user	path	string	true	"The user"
//	@Param			type	path	string	true	"The event type"
//	@Success		204		"Opted out"
//	@Failure		422		{object}	api.Problem	"validation_failed, also for a user's opt-out number 1,001"
//	@Router			/v1/users/{user}/opt-outs/{type} [put]
func (s *server) putOptOut(ctx context.Context, in *optOutRequest) (*web.Reply[web.Nothing], error) {
	return web.NoContent(), s.o.Devices.PutOptOut(ctx, in.User, in.Type)
}

// deleteOptOut opts a user in again.
//
//	@Summary	Opt a user in again
//	@Tags		push
//	@ID			deleteOptOut
//	@Param		user	path	string	true	"The user"
//	@Param		type	path	string	true	"The event type"
//	@Success	204		"Opted in, or was not opted out"
//	@Router		/v1/users/{user}/opt-outs/{type} [delete]
func (s *server) deleteOptOut(ctx context.Context, in *optOutRequest) (*web.Reply[web.Nothing], error) {
	return web.NoContent(), s.o.Devices.DeleteOptOut(ctx, in.User, in.Type)
}

type putMuteRequest struct {
	User   string `path:"user" validate:"identifier"`
	Object string `path:"object" validate:"identifier=object"`
	Body   *api.MuteRequest
}

// putMute mutes an object for a user.
//
//	@Summary		Mute an object for a user
//	@Description	The user gets no more notifications about that object, or none until `until` if it is given. A user can have at
//	@Description	most 1,000 mutes.
//	@Tags			push
//	@ID				putMute
//	@Accept			json
//	@Param			user	path	string			true	"The user"
//	@Param			object	path	string			true	"The object"
//	@Param			mute	body	api.MuteRequest	false	"When the mute ends; may be left out"
//	@Success		204		"Muted"
//	@Failure		422		{object}	api.Problem	"validation_failed, also for a user's mute number 1,001"
//	@Router			/v1/users/{user}/mutes/{object} [put]
func (s *server) putMute(ctx context.Context, in *putMuteRequest) (*web.Reply[web.Nothing], error) {
	mute := in.Body
	if mute == nil {
		mute = &api.MuteRequest{}
	}
	return web.NoContent(), s.o.Devices.PutMute(ctx, in.User, in.Object, mute)
}

type deleteMuteRequest struct {
	User   string `path:"user" validate:"identifier"`
	Object string `path:"object" validate:"identifier=object"`
}

// deleteMute ends a mute.
//
//	@Summary	Unmute an object for a user
//	@Tags		push
//	@ID			deleteMute
//	@Param		user	path	string	true	"The user"
//	@Param		object	path	string	true	"The object"
//	@Success	204		"Unmuted, or was not muted"
//	@Router		/v1/users/{user}/mutes/{object} [delete]
func (s *server) deleteMute(ctx context.Context, in *deleteMuteRequest) (*web.Reply[web.Nothing], error) {
	return web.NoContent(), s.o.Devices.DeleteMute(ctx, in.User, in.Object)
}

// getSettings shows a user's opt-outs, mutes and devices.
//
//	@Summary	Show a user's notification settings
//	@Tags		push
//	@ID			getNotificationSettings
//	@Produce	json
//	@Param		user	path		string						true	"The user"
//	@Success	200		{object}	api.NotificationSettings	"Opt-outs, mutes and devices"
//	@Router		/v1/users/{user}/notification-settings [get]
func (s *server) getSettings(ctx context.Context, in *userRequest) (*web.Reply[api.NotificationSettings], error) {
	settings, err := s.o.Devices.Settings(ctx, in.User)
	return web.OK(settings), err
}
