package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"os"
	"slices"

	"fanfare/api"
)

// sayAlive keeps this process on the list of processes until ctx ends.
func (a *app) sayAlive(ctx context.Context) error {
	machine, _ := os.Hostname()
	version, _ := builtAs()
	return a.servers.Run(ctx, api.Server{
		ID: cmp.Or(machine, "unknown") + "." + rand.Text(), Version: version, Roles: a.config.Roles, Shards: a.config.shards(),
	})
}

// shards are the shards whose work this process does.
func (c *config) shards() []int {
	shards := []int{}
	switch {
	case !slices.ContainsFunc(c.Roles, func(role string) bool { return role != roleAPI }):
	case len(c.ShardSet) > 0:
		shards = append(shards, c.ShardSet...)
	default:
		for n := range c.Shards {
			shards = append(shards, n)
		}
	}
	return shards
}
