package handlers

import (
	"context"
	"fmt"

	"fanfare/api"
	"fanfare/handlers/web"
	"fanfare/store/apikeys"
)

// listKeys lists the API keys.
//
//	@Summary		List API keys
//	@Description	Lists every API key that was ever made, oldest first, with its last use and its end. No list shows the keys
//	@Description	themselves: fanfare keeps only their hashes.
//	@Tags			operations
//	@ID				listKeys
//	@Produce		json
//	@Param			limit	query		int			false	"Items per page"	minimum(1)	maximum(500)	default(50)
//	@Param			cursor	query		string		false	"The `next` of the previous page"
//	@Success		200		{object}	api.KeyList	"A page"
//	@Router			/v1/keys [get]
func (s *server) listKeys(ctx context.Context, in *web.Page) (*web.Reply[api.KeyList], error) {
	all, err := s.o.Keys.List(ctx)
	if err != nil {
		return nil, err
	}
	items, next, err := web.PageOf(*in, all, keyPosition)
	return web.OK(&api.KeyList{Items: items, Next: next}), err
}

// keyPosition is a name of a key that sorts as the list does: by the time at which it was made, then
// by id.
func keyPosition(k *api.Key) string { return fmt.Sprintf("%015d.%s", k.CreatedAt.UnixMilli(), k.ID) }

type postKeyRequest struct {
	Body api.KeyRequest
}

// postKey makes an API key.
//
//	@Summary		Make an API key
//	@Description	Makes a key with any scopes. Every server accepts it within 10 s, this one at once. The key is shown only in this
//	@Description	answer, so the call takes no Idempotency-Key. If the answer was lost, list the keys, delete the new one and make
//	@Description	another. On a server on which no key was ever made, the first key ends the access without one. The call is logged.
//	@Tags			operations
//	@ID				postKey
//	@Accept			json
//	@Produce		json
//	@Param			key	body		api.KeyRequest	true	"What the key is for and may do"
//	@Success		201	{object}	api.NewKey		"Made"
//	@Router			/v1/keys [post]
func (s *server) postKey(ctx context.Context, in *postKeyRequest) (*web.Reply[api.NewKey], error) {
	secret, key, err := s.o.Keys.Create(ctx, in.Body.Name, in.Body.Scopes, in.Body.ExpiresAt)
	if err != nil {
		return nil, err
	}
	s.web.LogChange(ctx, "keys.create", key.ID)
	return web.Created(&api.NewKey{Key: *key, Secret: secret}), nil
}

// deleteKey ends an API key.
//
//	@Summary		Revoke an API key
//	@Description	Ends a key for good, also the key of the call itself. Every server refuses it within 10 s, this one at once. The key
//	@Description	stays in the list. Ending a key again changes nothing and is answered 204 as well. The call is logged.
//	@Tags			operations
//	@ID				deleteKey
//	@Param			id	path	string	true	"The key's id"
//	@Success		204	"The key has ended"
//	@Failure		404	{object}	api.Problem	"not_found: there is no such key"
//	@Router			/v1/keys/{id} [delete]
func (s *server) deleteKey(ctx context.Context, in *idRequest) (*web.Reply[web.Nothing], error) {
	id := apikeys.IDOf(in.ID) // somebody may send a whole key: it ends, and no log has it
	if err := s.o.Keys.Revoke(ctx, id); err != nil {
		return nil, err
	}
	s.web.LogChange(ctx, "keys.revoke", id)
	return web.NoContent(), nil
}
