package handlers

import (
	"context"

	"fanfare/api"
	"fanfare/handlers/web"
)

type badgeRequest struct {
	User string `path:"user" validate:"identifier"`
}

// getBadge shows a user's badge.
//
//	@Summary		Show a user's badge
//	@Description	The number on the icon of the user's app. `version` rises with each change. It is 0, and `since` is missing, if there
//	@Description	is no badge: it was never changed, or not for a year, or Redis has lost its data. A `since` that is later than before
//	@Description	says that the badge began at 0 again.
//	@Tags			push
//	@ID				getBadge
//	@Produce		json
//	@Param			user	path		string		true	"The user"	example(bob)
//	@Success		200		{object}	api.Badge	"The badge"
//	@Router			/v1/users/{user}/badge [get]
func (s *server) getBadge(ctx context.Context, in *badgeRequest) (*web.Reply[api.Badge], error) {
	badge, err := s.o.Badges.Get(ctx, in.User)
	return web.OK(badge), err
}

type putBadgeRequest struct {
	User string `path:"user" validate:"identifier"`
	Body api.BadgeRequest
}

// putBadge sets a user's badge.
//
//	@Summary		Set a user's badge
//	@Description	Sets the number that the next notification with a badge begins from. With `clear` it is also sent to the user's devices
//	@Description	of APNs, without a text, so that what was read on one device loses its number on the others. This is done at most
//	@Description	once a minute for a user: a number that is set in between is sent at the end of the minute.
//	@Tags			push
//	@ID				putBadge
//	@Accept			json
//	@Produce		json
//	@Param			user	path		string				true	"The user"	example(bob)
//	@Param			badge	body		api.BadgeRequest	true	"The number, from 0 to 99,999"
//	@Success		200		{object}	api.Badge			"The badge"
//	@Router			/v1/users/{user}/badge [put]
func (s *server) putBadge(ctx context.Context, in *putBadgeRequest) (*web.Reply[api.Badge], error) {
	badge, at, err := s.o.Badges.Set(ctx, in.User, *in.Body.Count, in.Body.Clear)
	if err == nil && in.Body.Clear {
		err = api.AfterAChange(s.o.Events.ShowBadge(ctx, in.User, at))
	}
	return web.OK(badge), err
}

type postBadgeRequest struct {
	User        string `path:"user" validate:"identifier"`
	Idempotency api.Idempotency
	Body        api.BadgeChange
}

// postBadge adds to a user's badge.
//
//	@Summary		Add to a user's badge
//	@Description	Adds `delta`, which may be below 0. The badge stays between 0 and 99,999.
//	@Tags			push
//	@ID				postBadge
//	@Accept			json
//	@Produce		json
//	@Param			user			path		string			true	"The user"	example(bob)
//	@Param			Idempotency-Key	header		string			false	"Makes the call safe to repeat for 24 h"	minlength(1)	maxlength(255)
//	@Param			change			body		api.BadgeChange	true	"What is added"
//	@Success		200				{object}	api.Badge		"The badge"
//	@Header			200				{string}	Idempotent-Replayed	"true if this is the first answer again"
//	@Failure		422				{object}	api.Problem		"validation_failed, idempotency_key_reused"
//	@Router			/v1/users/{user}/badge [post]
func (s *server) postBadge(ctx context.Context, in *postBadgeRequest) (*web.Reply[api.Badge], error) {
	badge, again, err := s.o.Badges.Add(ctx, in.User, *in.Body.Delta, in.Idempotency)
	if err != nil {
		return nil, err
	}
	return web.OK(badge).Replayed(again), nil
}
