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

// asStranger hides from a user whether a chat exists that the user is no member of.
func asStranger(ctx context.Context, err error) error {
	if caller(ctx) != "" && stranger(api.CodeOf(err)) {
		return api.Errorf(api.CodeNotFound, "there is no such chat, or you are not a member")
	}
	return err
}

func stranger(code api.Code) bool { return code == api.CodeNotFound || code == api.CodeNotAMember }

// hideStrangers does the same for a call about several chats.
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
//	@Description	A JWT with which an app or a page calls for this user alone, without an API key: `chat` opens his chats, messages and
//	@Description	stream, `contacts` the reading of his contacts, `devices` his devices and settings, `buy` sales and his reservations. It
//	@Description	is signed with a key of fanfare's own and holds on every server until it expires or is revoked. Your backend may sign
//	@Description	tokens by itself instead, with a key of `FANFARE_USER_KEYS_FILE`. It is shown this once: the call takes no
//	@Description	Idempotency-Key.
//	@Tags			users' own access
//	@ID				postToken
//	@Accept			json
//	@Produce		json
//	@Param			user	path		string				true	"The user"	example(bob)
//	@Param			token	body		api.TokenRequest	true	"What it opens, and for how long"
//	@Success		201		{object}	api.Token			"Made"
//	@Router			/v1/users/{user}/tokens [post]
func (s *server) postToken(_ context.Context, in *postTokenRequest) (*web.Reply[api.Token], error) {
	token, err := s.tokens.Issue(in.User, &in.Body)
	if err != nil {
		return nil, err
	}
	return web.Created(token), nil
}

type revokeTokensRequest struct {
	User        string `path:"user" validate:"identifier"`
	Idempotency api.Idempotency
}

// revokeTokens ends a user's tokens.
//
//	@Summary		Revoke a user's tokens
//	@Description	Ends every token of the user whose `iat` is up to this second, whoever signed it, with its tickets and open streams:
//	@Description	within 10 s, on every server.
//	@Tags			users' own access
//	@ID				revokeTokens
//	@Param			user			path	string	true	"The user"	example(bob)
//	@Param			Idempotency-Key	header	string	false	"Makes the call safe to repeat for 24 h: tokens made since go on"	minlength(1)	maxlength(255)
//	@Success		204				"Revoked"
//	@Header			204				{string}	Idempotent-Replayed	"true when this is the first answer again"
//	@Failure		422				{object}	api.Problem	"validation_failed, idempotency_key_reused"
//	@Router			/v1/users/{user}/tokens/revoke [post]
func (s *server) revokeTokens(ctx context.Context, in *revokeTokensRequest) (*web.Reply[web.Nothing], error) {
	replayed, err := s.tokens.Revoke(ctx, in.User, in.Idempotency)
	if err != nil {
		return nil, err
	}
	return web.NoContent().Replayed(replayed), nil
}

type postTicketRequest struct {
	User string `path:"user" validate:"identifier"`
}

// postTicket makes a ticket.
//
//	@Summary		Make a ticket for a stream
//	@Description	A browser's EventSource can send no header. A ticket, made with a user token, stands in the URL instead: `?ticket=`
//	@Description	opens one stream of that user or of a sale, or one long poll, on any server, once, within 60 s. It can do what the token can
//	@Description	and ends with it. It is shown this once: the call takes no Idempotency-Key.
//	@Tags			users' own access
//	@ID				postTicket
//	@Produce		json
//	@Param			user	path		string		true	"The user of the token"
//	@Success		201		{object}	api.Ticket	"Made"
//	@Failure		400		{object}	api.Problem	"invalid_request: it was called without a user token, or with an Idempotency-Key"
//	@Router			/v1/users/{user}/tickets [post]
func (s *server) postTicket(ctx context.Context, _ *postTicketRequest) (*web.Reply[api.Ticket], error) {
	u := web.UserOf(ctx)
	if u == nil {
		return nil, api.Errorf(api.CodeInvalidRequest, "a ticket is made with a user token, not with an API key")
	}
	ticket, err := s.tokens.GiveTicket(ctx, u)
	if err != nil {
		return nil, err
	}
	return web.Created(ticket), nil
}
