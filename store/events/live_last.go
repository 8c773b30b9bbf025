package events

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// LastLive tells which update or end of an object began last; nil: none did, or Redis no longer knows.
func (s *Store) LastLive(ctx context.Context, object string) (*api.LiveLast, error) {
	cmd := redis.NewMapStringStringCmd(ctx, "hgetall", keyLive(object))
	all, err := redisdb.Value(ctx, s.o.DB, redisdb.Read, cmd)
	if err != nil {
		return nil, fmt.Errorf("read the live events of an object: %w", err)
	}
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(all[name], 10, 64) // what this version cannot read counts as never
		return n
	}
	var last *api.LiveLast
	newest := int64(0)
	for name := range all {
		lane, is := strings.CutPrefix(name, "at ")
		if at := number(name); is && at > newest {
			newest = at
			last = &api.LiveLast{Event: all["event "+lane], Action: api.LiveAction(all["action "+lane]), At: api.AtMillis(at / 1000), Timestamp: number("stamp " + lane)}
		}
	}
	return last, nil
}
