package handlers

import (
	"context"

	"fanfare/api"
	"fanfare/handlers/web"
)

type putActivityRequest struct {
	User  string `path:"user" validate:"identifier"`
	Token string `path:"token" validate:"token"`
	Body  api.ActivityRequest
}

// putActivity registers an activity.
//
//	@Summary		Register a Live Activity
//	@Description	Call this whenever ActivityKit gives the app a token: `kind` is `update` for that of a running activity, which shows an
//	@Description	object, and `start` for the push-to-start token of a type of activities. An Android app registers its registration
//	@Description	token of FCM, which must be a device of the user, for each object that it shows in a Live Update, and once to start them. An iPhone that is reached
//	@Description	through FCM names its registration token in `registration`, which must be a device of the user, too. An activity is no device: only live events go to it. It ends
//	@Description	at `ends_at`, at most 12 hours ahead, and when the push service says that its token is gone. A token that belonged to
//	@Description	another user leaves that user. A user can have at most 20 activities. With a user token, there must be an app for the
//	@Description	topic and environment.
//	@Tags			push
//	@ID				putActivity
//	@Accept			json
//	@Produce		json
//	@Param			user		path		string				true	"The user"
//	@Param			token		path		string				true	"The token of the activity, hex, or the registration token of an Android phone"
//	@Param			activity	body		api.ActivityRequest	true	"What it shows, and how to send to it"
//	@Success		200			{object}	api.Activity		"Registered again"
//	@Success		201			{object}	api.Activity		"Registered"
//	@Failure		422			{object}	api.Problem			"validation_failed (also for the 21st activity of a user, and an `ends_at` in the past), unknown_app (no app for the activity, to a user token)"
//	@Router			/v1/users/{user}/activities/{token} [put]
func (s *server) putActivity(ctx context.Context, in *putActivityRequest) (*web.Reply[api.Activity], error) {
	if err := in.Body.CheckToken(in.Token); err != nil {
		return nil, err
	}
	if err := s.checkActivityApp(ctx, &in.Body); err != nil {
		return nil, err
	}
	activity, created, err := s.o.Devices.PutActivity(ctx, in.User, in.Token, &in.Body)
	return web.Put(activity, created), err
}

// checkActivityApp refuses a user's own registration if there is no app that sends to it.
func (s *server) checkActivityApp(ctx context.Context, r *api.ActivityRequest) error {
	_, topic := r.Topics()
	return s.checkApp(ctx, &api.DeviceRequest{Platform: r.Platform, Topic: topic, Environment: r.Environment})
}

// listActivities lists a user's activities.
//
//	@Summary		List a user's Live Activities
//	@Description	Lists the activities that have not ended, by token.
//	@Tags			push
//	@ID				listActivities
//	@Produce		json
//	@Param			user	path		string				true	"The user"
//	@Param			limit	query		int					false	"Items per page"	minimum(1)	maximum(500)	default(50)
//	@Param			cursor	query		string				false	"The `next` of the previous page"
//	@Success		200		{object}	api.ActivityList	"A page"
//	@Router			/v1/users/{user}/activities [get]
func (s *server) listActivities(ctx context.Context, in *userPageRequest) (*web.Reply[api.ActivityList], error) {
	all, err := s.o.Devices.Activities(ctx, in.User)
	if err != nil {
		return nil, err
	}
	page, next, err := web.PageOf(in.Page, all, func(d *api.Device) string { return d.Token })
	items := make([]api.Activity, len(page))
	for i := range page {
		items[i] = page[i].Activity()
	}
	return web.OK(&api.ActivityList{Items: items, Next: next}), err
}

type deleteActivityRequest struct {
	User   string `path:"user" validate:"identifier"`
	Token  string `path:"token" validate:"token"`
	Object string `query:"object" validate:"omitempty,identifier=object"`
}

// deleteActivity ends an activity.
//
//	@Summary		Remove a Live Activity
//	@Description	Call this when the activity has ended on the phone. Nothing more is sent to it. An Android phone has one token for all
//	@Description	its activities: with `object` only that of the object is removed. Removing an activity that does not exist changes
//	@Description	nothing.
//	@Tags			push
//	@ID				deleteActivity
//	@Param			user	path	string	true	"The user"
//	@Param			token	path	string	true	"The token with which it was registered"
//	@Param			object	query	string	false	"Only the activity of this object"
//	@Success		204		"Removed, or did not exist"
//	@Router			/v1/users/{user}/activities/{token} [delete]
func (s *server) deleteActivity(ctx context.Context, in *deleteActivityRequest) (*web.Reply[web.Nothing], error) {
	return web.NoContent(), s.o.Devices.DeleteActivity(ctx, in.User, in.Token, in.Object)
}
