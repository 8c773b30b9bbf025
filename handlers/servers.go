package handlers

import (
	"context"

	"fanfare/api"
	"fanfare/handlers/web"
)

// listServers lists the processes.
//
//	@Summary		List the processes
//	@Description	Lists the running processes of the cluster, the oldest first. Each says every 5 s that it is alive, and is listed for
//	@Description	15 s after the last time. A process that stops by itself is taken off the list at once.
//	@Tags			operations
//	@ID				listServers
//	@Produce		json
//	@Success		200	{object}	api.ServerList	"The processes"
//	@Router			/v1/servers [get]
func (s *server) listServers(ctx context.Context, _ *web.Nothing) (*web.Reply[api.ServerList], error) {
	all, err := s.o.Servers.List(ctx)
	return web.OK(&api.ServerList{Items: all}), err
}
