package chat

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// The log has a message as "<time in ms> <sender> <content>" at the position of its id. It is
// published as "<epoch> <id> " followed by the same. The content comes last: the text, which may
// contain any characters, and, if the message has data, dataMark and the data as JSON. An older
// process takes all of that for the text. A redacted message has no content; every other message
// has a text.

// dataMark is a byte that no text has, because it does not occur in UTF-8.
const dataMark = "\xff"

// encodeContent makes the content of a message.
func encodeContent(text string, data map[string]string) (string, error) {
	if len(data) == 0 {
		return text, nil
	}
	encoded, err := json.Marshal(data)
	if err != nil {
		return "", fmt.Errorf("encode the data of a message: %w", err)
	}
	return text + dataMark + string(encoded), nil
}

// decodeContent reads the content of a message.
func decodeContent(content string) (text string, data map[string]string, err error) {
	text, encoded, found := strings.Cut(content, dataMark)
	if found {
		err = json.Unmarshal([]byte(encoded), &data)
	}
	return text, data, err
}

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
	text, data, err := decodeContent(parts[2])
	if err != nil {
		return api.ChatMessage{}, fmt.Errorf("data of message %d: %w", id, err)
	}
	sender := parts[1]
	if sender == api.ErasedUser {
		sender = ""
	}
	return api.ChatMessage{ID: id, Sender: sender, Text: text, Data: data, Redacted: text == "", SentAt: api.AtMillis(at)}, nil
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
// message. A message that is redacted is published again, without its content.
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
