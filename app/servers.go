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
		ID: cmp.Or(machine, "unknown") + "." + rand.Text(), Addr: a.config.Addr, PID: os.Getpid(), Version: version, Roles: a.config.Roles, Shards: a.config.shards(),
	})
}

// depths is how many jobs wait in all queues together, and the age of the oldest job, in ms.
func (a *app) depths(ctx context.Context) (depth, oldestAgeMS int64, err error) {
	for _, q := range a.queues() {
		stats, err := q.Stats(ctx)
		if err != nil {
			return 0, 0, err
		}
		depth, oldestAgeMS = depth+stats.Depth, max(oldestAgeMS, stats.OldestAgeMS)
	}
	return depth, oldestAgeMS, nil
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
