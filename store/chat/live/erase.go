package live

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// Present reports whether a user has a live stream, as far as Redis knows.
func (h *Hub) Present(ctx context.Context, user string) (bool, error) {
	cmd := redis.NewIntCmd(ctx, "exists", PresenceKey(user))
	if err := h.presence.db.Share(ctx, redisdb.Read, cmd); err != nil {
		return false, err
	}
	n, err := cmd.Result()
	if err != nil {
		return false, fmt.Errorf("read the presence of a user: %w", err)
	}
	return n > 0, nil
}
