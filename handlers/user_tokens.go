package handlers

import (
	"context"

	"fanfare/api"
	"fanfare/handlers/web"
)

// caller is the user who calls with a user token; "" for an API key, which may act for
// everybody.
func caller(ctx context.Context) string {
	if u := web.UserOf(ctx); u != nil {
		return u.ID
	}
	return ""
}

// asStranger hides from a user token whether a chat exists of which its user is not a member.
func asStranger(ctx context.Context, err error) error {
	if caller(ctx) != "" && stranger(api.CodeOf(err)) {
		return api.Errorf(api.CodeNotFound, "there is no such chat, or you are not a member")
	}
	return err
}

func stranger(code api.Code) bool { return code == api.CodeNotFound || code == api.CodeNotAMember }

// hideStrangers does what asStranger does, for a call about several chats.
func hideStrangers(ctx context.Context, acks *api.Acks) {
	if caller(ctx) == "" {
		return
	}
	for chat, refused := range acks.Errors {
		if stranger(refused.Code) {
			acks.Errors[chat] = api.ChatError{Code: api.CodeNotFound}
		}
	}
}

type postTokenRequest struct {
	User string `path:"user" validate:"identifier"`
	Body api.TokenRequest
}

// postToken makes a user token.
//
//	@Summary		Make a user token
//	@Description	Makes a JWT with which an app or a page can call for this user only, without an API key. The scope `chat` gives
//	@Description	access to the user's chats, messages and stream, `contacts` to reading the contacts, `devices` to devices and
//	@Description	settings, and `buy` to sales and the user's reservations. The token is signed with one of fanfare's own keys.
//	@Description	Every server accepts it until it expires or is revoked, or until the API key that made it ends: `expires_at` is
//	@Description	never later than the key's own. Your backend may sign tokens itself instead, with a key
//	@Description	of `FANFARE_USER_KEYS_FILE`. The token is shown only in this answer, so the call takes no Idempotency-Key.
//	@Tags			users' own access
//	@ID				postToken
//	@Accept			json
//	@Produce		json
//	@Param			user	path		string				true	"The user"	example(bob)
//	@Param			token	body		api.TokenRequest	true	"The token's scopes and lifetime"
//	@Success		201		{object}	api.Token			"Made"
//	@Router			/v1/users/{user}/tokens [post]
func (s *server) postToken(ctx context.Context, in *postTokenRequest) (*web.Reply[api.Token], error) {
	token, err := s.o.Tokens.Issue(in.User, &in.Body, web.KeyOf(ctx))
	return web.Created(token), err
}

// revokeTokens ends a user's tokens.
//
//	@Summary		Revoke a user's tokens
//	@Description	Ends every token of the user whose `iat` is not later than this second, no matter who signed it, with its
//	@Description	tickets and open streams. Every server applies this within 10 s.
//	@Tags			users' own access
//	@ID				revokeTokens
//	@Param			user			path	string	true	"The user"	example(bob)
//	@Param			Idempotency-Key	header	string	false	"Makes the call safe to repeat for 24 h: a repeat does not end tokens made since"	minlength(1)	maxlength(255)
//	@Success		204				"Revoked"
//	@Header			204				{string}	Idempotent-Replayed	"true if this is the first answer again"
//	@Failure		422				{object}	api.Problem	"validation_failed, idempotency_key_reused"
//	@Router			/v1/users/{user}/tokens/revoke [post]
func (s *server) revokeTokens(ctx context.Context, in *userOnceRequest) (*web.Reply[web.Nothing], error) {
	replayed, err := s.o.Tokens.Revoke(ctx, in.User, in.Idempotency)
	return web.NoContent().Replayed(replayed), err
}

// postTicket makes a ticket.
//
//	@Summary		Make a ticket for a stream
//	@Description	A browser's EventSource cannot send headers. It sends a ticket in the URL instead, which a user token makes:
//	@Description	`?ticket=` opens one stream of that user or of a sale, or one long poll. A ticket can be used once, within 60 s,
//	@Description	on any server. It gives the same access as the token and ends with it. The ticket is shown only in this answer,
//	@Description	so the call takes no Idempotency-Key.
//	@Tags			users' own access
//	@ID				postTicket
//	@Produce		json
//	@Param			user	path		string		true	"The user of the token"
//	@Success		201		{object}	api.Ticket	"Made"
//	@Failure		400		{object}	api.Problem	"invalid_request: the call came without a user token, or with an Idempotency-Key"
//	@Router			/v1/users/{user}/tickets [post]
func (s *server) postTicket(ctx context.Context, _ *userRequest) (*web.Reply[api.Ticket], error) {
	u := web.UserOf(ctx)
	if u == nil {
		return nil, api.Errorf(api.CodeInvalidRequest, "a ticket is made with a user token, not with an API key")
	}
	ticket, err := s.o.Tokens.GiveTicket(ctx, u)
	return web.Created(ticket), err
}
