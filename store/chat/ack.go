package chat

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// Ack moves a user's positions forward, all in one round trip. A position never moves back. If
// there are several chats, each can be refused separately, and the errors are in the result. If
// there is only one chat, the call returns its error: not_found, not_a_member, or validation_failed
// for an id above the last one. epochs may name the epoch of an id, by chat: if the chat's messages up to the id are
// not the ones of that epoch, that is validation_failed, too.
func (s *Store) Ack(ctx context.Context, user string, acks map[string]int64, epochs map[string]string) (*api.Acks, error) {
	if len(acks) == 0 {
		return &api.Acks{Acked: map[string]int64{}}, nil
	}
	for chat := range epochs {
		if _, ok := acks[chat]; !ok {
			return nil, api.Invalid("epochs."+chat, "acks", "must be a chat in acks")
		}
	}
	chats := slices.Sorted(maps.Keys(acks))
	v := memberCall{mode: redisdb.Write, user: user, chats: chats, cmds: make([]redis.Cmder, len(chats))}
	for i, chat := range chats {
		v.cmds[i] = s.chatCmd(ctx, s.ackScript, chat, user, acks[chat], epochs[chat], s.MessageChannel(chat), MaxTold)
	}
	missing, err := s.call(ctx, v)
	if err != nil && (len(chats) == 1 || !anyAnswered(v.cmds)) {
		return nil, err
	}
	out := &api.Acks{Acked: make(map[string]int64, len(chats))}
	for i, chat := range chats {
		acked, err := readAck(v.cmds[i].(*redis.Cmd), chat, user)
		switch err = s.db.Err(err, redisdb.Write); {
		case err == nil:
			out.Acked[chat] = acked
		case len(chats) == 1:
			return nil, err
		default:
			refuse(out, chat, err)
		}
	}
	s.addMissing(ctx, user, slices.DeleteFunc(missing, func(chat string) bool { _, ok := out.Acked[chat]; return !ok }))
	return out, nil
}

// readAck reads the answer of message_ack.lua.
func readAck(cmd *redis.Cmd, chat, user string) (int64, error) {
	reply, err := redisdb.ListOf(cmd)
	if err != nil {
		return 0, fmt.Errorf("acknowledge in chat %s: %w", chat, err)
	}
	if err := refusal(redisdb.Number(reply[0]), chat, user); err != nil {
		return 0, err
	}
	switch redisdb.Number(reply[0]) {
	case statusTooHigh:
		return 0, api.Invalid("acks."+chat, "max", "must be at most %d, the last message", redisdb.Number(reply[1]))
	case statusOtherEpoch:
		return 0, api.Invalid("epochs."+chat, "epoch", "is not the epoch of these messages any more: read the chat again")
	}
	return redisdb.Number(reply[1]), nil
}

func refuse(out *api.Acks, chat string, err error) {
	if out.Errors == nil {
		out.Errors = map[string]api.ChatError{}
	}
	out.Errors[chat] = api.ChatError{Code: api.CodeOf(err)}
}
