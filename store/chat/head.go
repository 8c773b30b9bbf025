package chat

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// Head is the end of a chat's log: its epoch and last id. They are "" and 0 if there is no such
// chat.
type Head struct {
	Epoch  string
	LastID int64
	Err    error // why this one could not be read, if others could
}

// Heads reads the heads of chats in one pipeline. Package live compares them with the
// messages that it keeps in memory.
func (s *Store) Heads(ctx context.Context, chats []string) ([]Head, error) {
	list := make([]redis.Cmder, len(chats))
	for i, chat := range chats {
		list[i] = redis.NewStringCmd(ctx, "get", metaKey(chat))
	}
	if err := s.db.Pipeline(ctx, redisdb.Read, list...); err != nil && !anyAnswered(list) {
		return nil, err
	}
	heads := make([]Head, len(chats))
	for i, cmd := range list {
		heads[i] = readHead(cmd.(*redis.StringCmd))
	}
	return heads, nil
}

// readHead reads the beginning of a chat's meta, in the form of part_chat.lua.
func readHead(cmd *redis.StringCmd) (h Head) {
	meta, err := cmd.Result()
	if errors.Is(err, redis.Nil) {
		return h
	}
	fields := strings.SplitN(meta, " ", 3)
	if err == nil && len(fields) < 3 {
		err = fmt.Errorf("it is %q", meta)
	}
	if err == nil {
		h.Epoch = fields[0]
		h.LastID, err = strconv.ParseInt(fields[1], 10, 64)
	}
	if err != nil {
		h.Err = fmt.Errorf("read the head of a chat: %w", err)
	}
	return h
}
