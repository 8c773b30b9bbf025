package fanfare

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// NewChat is a chat to be made.
type NewChat struct {
	ID      string   `json:"id,omitempty"` // absent: the server makes one
	Creator string   `json:"creator"`
	Members []string `json:"members,omitempty"` // besides the creator, at most 1,000
	Message *string  `json:"message,omitempty"` // the first one, by the creator
}

// Chat is a chat that was made.
type Chat struct {
	ID      string   `json:"id"`
	Epoch   string   `json:"epoch"`
	Members []string `json:"members"`
}

// NewMessage is a message to be sent.
type NewMessage struct {
	Sender string            `json:"sender,omitempty"` // with a user token the token's user
	Text   string            `json:"text"`
	Data   map[string]string `json:"data,omitempty"` // at most 1 KiB
}

// SentMessage is what a message was given.
type SentMessage struct {
	ID     int64     `json:"id"` // 1, 2, 3 ... in each chat
	SentAt time.Time `json:"sent_at"`
}

// Message is a message of a chat.
type Message struct {
	Chat     string            `json:"chat"` // only on a stream
	ID       int64             `json:"id"`
	Sender   string            `json:"sender"`
	Text     string            `json:"text"`
	Data     map[string]string `json:"data"`
	Redacted bool              `json:"redacted"` // its text and data were taken away
	SentAt   time.Time         `json:"sent_at"`
}

// MessageQuery says which messages are read.
type MessageQuery struct {
	User   string // who reads, a member
	After  int64  // those above this id
	Before int64  // the newest below this id
	Limit  int    // 50 by default, at most 500
	Epoch  string // of the chat as the reader knows it
}

// Messages are some messages of a chat.
type Messages struct {
	Items   []Message `json:"items"`
	LastID  int64     `json:"last_id"`
	FirstID int64     `json:"first_id"` // the oldest that is kept
	Epoch   string    `json:"epoch"`
	// Gap says that messages between After and the first item are no longer kept.
	Gap bool `json:"gap"`
}

// Acks says how far a user has read.
type Acks struct {
	Acked map[string]int64 `json:"acked"` // by chat
	// Errors has the codes of the chats whose acknowledgement was refused.
	Errors map[string]struct {
		Code string `json:"code"`
	} `json:"errors"`
}

// CreateChat makes a chat.
func (c *Client) CreateChat(ctx context.Context, n NewChat, s ...Setting) (made Chat, err error) {
	err = c.Call(ctx, http.MethodPost, "/v1/chats", n, &made, s...)
	return made, err
}

// JoinChat makes a user a member of the chat. The user reads the messages that come from now on. A user who is a member
// already stays one, at the same position.
func (c *Client) JoinChat(ctx context.Context, chat, user string, s ...Setting) error {
	return c.join(ctx, chat, user, "now", s)
}

// JoinChatFromStart makes a user a member, who also reads what is kept from before.
func (c *Client) JoinChatFromStart(ctx context.Context, chat, user string, s ...Setting) error {
	return c.join(ctx, chat, user, "start", s)
}

func (c *Client) join(ctx context.Context, chat, user, from string, s []Setting) error {
	return c.Call(ctx, http.MethodPut, Path("v1", "chats", chat, "members", user), map[string]string{"from": from}, nil, s...)
}

// LeaveChat ends a membership. The last to leave deletes the chat.
func (c *Client) LeaveChat(ctx context.Context, chat, user string, s ...Setting) error {
	return c.Call(ctx, http.MethodDelete, Path("v1", "chats", chat, "members", user), nil, nil, s...)
}

// PostMessage sends a message. A text that a person sends again because no answer came needs the same IdempotencyKey.
func (c *Client) PostMessage(ctx context.Context, chat string, n NewMessage, s ...Setting) (sent SentMessage, err error) {
	err = c.Call(ctx, http.MethodPost, Path("v1", "chats", chat, "messages"), n, &sent, s...)
	return sent, err
}

// ListMessages reads messages, and changes nothing.
func (c *Client) ListMessages(ctx context.Context, chat string, q MessageQuery, s ...Setting) (page Messages, err error) {
	query := url.Values{"user": {q.User}}
	for name, n := range map[string]int64{"after": q.After, "before": q.Before, "limit": int64(q.Limit)} {
		if n != 0 {
			query.Set(name, strconv.FormatInt(n, 10))
		}
	}
	if q.Epoch != "" {
		query.Set("epoch", q.Epoch)
	}
	err = c.Call(ctx, http.MethodGet, Path("v1", "chats", chat, "messages"), nil, &page, append([]Setting{Query(query)}, s...)...)
	return page, err
}

// AckMessages says up to which message of each chat a user has read. It only goes forward.
func (c *Client) AckMessages(ctx context.Context, user string, upTo map[string]int64, s ...Setting) (acks Acks, err error) {
	err = c.Call(ctx, http.MethodPost, Path("v1", "users", user, "messages", "ack"), map[string]any{"acks": upTo}, &acks, s...)
	return acks, err
}
