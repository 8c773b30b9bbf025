package chat

import (
	"fmt"
	"strconv"
	"strings"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// The log has a message as "<time in ms> <sender> <text>" at the position of its id. It is
// published as "<epoch> <id> " followed by the same. The text comes last and may contain anything.

// decodeEntry reads a message of the log.
func decodeEntry(id int64, entry string) (api.ChatMessage, error) {
	parts := strings.SplitN(entry, " ", 3)
	if len(parts) != 3 {
		return api.ChatMessage{}, fmt.Errorf("message %d is kept as %q", id, entry)
	}
	at, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil {
		return api.ChatMessage{}, fmt.Errorf("time of message %d: %w", id, err)
	}
	return api.ChatMessage{ID: id, Sender: parts[1], Text: parts[2], SentAt: api.AtMillis(at)}, nil
}

// decodeEntries reads messages with consecutive ids.
func decodeEntries(first int64, entries []any) ([]api.ChatMessage, error) {
	out := make([]api.ChatMessage, len(entries))
	for i, entry := range entries {
		var err error
		if out[i], err = decodeEntry(first+int64(i), redisdb.Text(entry)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// DecodePublished reads a text that was published on a MessageChannel: the chat's epoch and the
// message.
func DecodePublished(payload string) (epoch string, m api.ChatMessage, err error) {
	parts := strings.SplitN(payload, " ", 3)
	if len(parts) != 3 {
		return "", m, fmt.Errorf("published message %q", payload)
	}
	id, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return "", m, fmt.Errorf("id of a published message: %w", err)
	}
	m, err = decodeEntry(id, parts[2])
	return parts[0], m, err
}
