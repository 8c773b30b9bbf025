package chat

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// Head is where a chat's log ends: its epoch and last id, "" and 0 when there is
// no such chat.
type Head struct {
	Epoch  string
	LastID int64
	Err    error // why it could not be read, when others could
}

// Heads reads the heads of chats in one pipeline. It is for whoever keeps
// messages in memory and must know whether they are the newest.
func (s *Store) Heads(ctx context.Context, chats []string) ([]Head, error) {
	list := make([]redis.Cmder, len(chats))
	for i, chat := range chats {
		list[i] = redis.NewSliceCmd(ctx, "hmget", metaKey(chat), fieldEpoch, fieldLast)
	}
	if err := s.roundTrip(ctx, stepRead, s.db.Pipeline, redisdb.Read, list...); err != nil && !anyAnswered(list) {
		return nil, err
	}
	heads := make([]Head, len(chats))
	for i, cmd := range list {
		heads[i] = readHead(cmd.(*redis.SliceCmd))
	}
	return heads, nil
}

func readHead(cmd *redis.SliceCmd) (h Head) {
	values, err := cmd.Result()
	if err != nil || len(values) != 2 {
		h.Err = fmt.Errorf("read the head of a chat: %w", err)
		return h
	}
	h.Epoch, _ = values[0].(string)
	if text, _ := values[1].(string); text != "" {
		h.LastID, h.Err = strconv.ParseInt(text, 10, 64)
	}
	return h
}
