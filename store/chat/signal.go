package chat

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// MaxTold is how many members a chat may have whose streams are told who reads and who types (C20, C21).
const MaxTold = 100

// Signal is what the streams of a chat are told beside its messages. It is stored nowhere.
type Signal struct {
	// Epoch is the chat's.
	Epoch string
	User  string
	// Acked is the message up to which the user has read; 0: the user types, or has left.
	Acked int64
	// Left says that the user has left the chat. Then there is no Epoch.
	Left bool
}

// Typing tells the streams of a chat that a user types. Errors: not_found, not_a_member, and those of Redis.
func (s *Store) Typing(ctx context.Context, chat, user string) error {
	reply, err := s.db.List(ctx, redisdb.Read, s.chatCmd(ctx, s.typingScript, chat, user, s.MessageChannel(chat), MaxTold))
	if err != nil {
		return fmt.Errorf("say that a member of chat %s types: %w", chat, err)
	}
	return refusal(redisdb.Number(reply[0]), chat, user)
}

// DecodeSignal reads a text that was published on a MessageChannel, if it is a signal: "~read" or "~typing", the chat's
// epoch, a message's id and the user, or "~left" and the user. The epoch of a message never begins with "~".
func DecodeSignal(payload string) (signal Signal, is bool, err error) {
	if !strings.HasPrefix(payload, "~") {
		return signal, false, nil
	}
	parts := strings.Split(payload, " ")
	if len(parts) == 2 && parts[0] == "~left" {
		return Signal{User: parts[1], Left: true}, true, nil
	}
	if len(parts) != 4 {
		return signal, true, api.Errorf(api.CodeInternal, "published signal %q", payload)
	}
	acked, err := strconv.ParseInt(parts[2], 10, 64)
	return Signal{Epoch: parts[1], User: parts[3], Acked: acked}, true, err
}
