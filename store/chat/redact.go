package chat

import (
	"context"
	"fmt"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// MaxRedacted is how many messages one call of Redact looks at.
const MaxRedacted = 500

// Redaction says which messages of a chat lose their text and data.
type Redaction struct {
	// From and To are the first and the last id; at most MaxRedacted messages from From on are
	// looked at.
	From, To int64
	// Sender, if set, is whose messages alone are redacted. The sender may have left the chat.
	Sender string
	// Member, if set, is who must be a member of the chat.
	Member string
}

// Redacted is the outcome of a Redaction.
type Redacted struct {
	// Visible is how many of the messages that have no text now are seen by readers.
	Visible int
	// Others is how many messages of other senders readers see among these ids. They are unchanged.
	Others int
	// Pushes name the events of the redacted messages, for events.Store.Withdraw: pushes that wait
	// still have the text.
	Pushes []api.NamedEvent
}

// Redact removes text and data of messages from a chat's log and tells the chat's streams, in one
// step. The ids, senders and times of these messages stay. Messages that are in the log although
// readers no longer see them lose their text, too. Doing it again changes nothing and has the same
// result. Errors: not_found if there is no such chat, not_a_member, and those of Redis.
func (s *Store) Redact(ctx context.Context, chat string, r Redaction) (*Redacted, error) {
	cmd := s.chatCmd(ctx, s.redactScript, chat, r.Sender, r.Member, r.From, r.To, MaxRedacted, s.MessageChannel(chat))
	reply, err := s.db.List(ctx, redisdb.Write, cmd)
	if err != nil {
		return nil, fmt.Errorf("redact messages of chat %s: %w", chat, err)
	}
	if err := refusal(redisdb.Number(reply[0]), chat, r.Member); err != nil {
		return nil, err
	}
	first := redisdb.Number(reply[2])
	out := &Redacted{Others: int(redisdb.Number(reply[3]))}
	redacted := redisdb.ListAt(reply, 4)
	for i := 0; i+1 < len(redacted); i += 2 {
		m := api.ChatMessage{ID: redisdb.Number(redacted[i]), SentAt: api.AtMillis(redisdb.Number(redacted[i+1]))}
		out.Pushes = append(out.Pushes, pushEvent(chat, redisdb.Text(reply[1]), &m))
		if m.ID >= first {
			out.Visible++
		}
	}
	return out, nil
}
