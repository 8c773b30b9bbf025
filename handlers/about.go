package handlers

import (
	"context"

	"fanfare/api"
	"fanfare/handlers/web"
)

// getAbout describes the process that answers.
//
//	@Summary		Read version and configuration
//	@Description	Reads the version and the configuration of the server that answers. Passwords in values are masked. Other servers of
//	@Description	the cluster may have other values.
//	@Tags			operations
//	@ID				getAbout
//	@Produce		json
//	@Success		200	{object}	api.About	"The server that answered"
//	@Router			/v1/about [get]
func (s *server) getAbout(context.Context, *web.Nothing) (*web.Reply[api.About], error) {
	return web.OK(&s.o.About), nil
}
