package handlers

import (
	"context"

	"fanfare/api"
	"fanfare/handlers/web"
)

// getPushKey tells pages with which key to subscribe.
//
//	@Summary		Key for Web Push
//	@Description	The public key of the app of Web Push for a topic. A page passes it to `pushManager.subscribe` as `applicationServerKey`.
//	@Description	Pages of every origin may read it.
//	@Tags			push
//	@ID				getPushKey
//	@Produce		json
//	@Param			topic	path		string		true	"The topic of the app"
//	@Success		200		{object}	api.PushKey	"The key"
//	@Failure		404		{object}	api.Problem	"not_found: there is no app of Web Push for the topic"
//	@Router			/v1/webpush/{topic}/key [get]
func (s *server) getPushKey(_ context.Context, in *topicRequest) (*web.Reply[api.PushKey], error) {
	key, ok := s.o.PublicKey(in.Topic)
	if !ok {
		return nil, api.Errorf(api.CodeNotFound, "there is no app of Web Push for the topic %s", in.Topic)
	}
	return web.OK(&api.PushKey{Key: key}), nil
}
