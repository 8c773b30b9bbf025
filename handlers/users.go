package handlers

import (
	"context"

	"fanfare/api"
	"fanfare/handlers/web"
)

// eraseUser begins to erase a user.
//
//	@Summary		Erase a user
//	@Description	Begins an operation that removes everything about the user that was there when the call was answered: tokens and
//	@Description	streams first, then devices, settings, topics, contacts in both directions, uploads, memberships of chats, the
//	@Description	messages that the user sent, notifications and dead letters for the user or caused by the user, and holds of sales,
//	@Description	whose units come back. A user who registers again meanwhile keeps what is new. Orders and sold reservations are kept,
//	@Description	and the operation says how many. Calls that come while the operation runs get the same id. `GET /v1/operations/{id}`
//	@Description	says when it is done. Backups are not changed. The scope is covered by `admin` only.
//	@Tags			operations
//	@ID				eraseUser
//	@Produce		json
//	@Param			user	path		string			true	"The user"	example(alice)
//	@Success		202		{object}	api.Operation	"The user will be erased"
//	@Header			202		{string}	Location		"The URL of the operation"
//	@Router			/v1/users/{user} [delete]
func (s *server) eraseUser(ctx context.Context, in *userRequest) (*web.Reply[api.Operation], error) {
	id, err := s.o.Erase(ctx, in.User)
	if err != nil {
		return nil, err
	}
	operation, err := s.o.Record.Operation(ctx, id)
	if err != nil {
		return nil, api.AfterAChange(err)
	}
	return web.Accepted(operation).At(operationPath(id)), nil
}
