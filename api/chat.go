package api

import "time"

// The limits of the group chat.
const (
	MaxChatMembers         = 1000                // members named in one POST /v1/chats
	MaxMessageText         = 4000                // characters of a message
	MaxMessageData         = 1 << 10             // data of a message, as JSON
	MaxPollWait            = 30 * time.Second    // ?wait_ms= of a long poll
	DefaultChatMaxMessages = 10_000              // FANFARE_CHAT_MAX_MESSAGES
	DefaultChatMaxBytes    = 8 << 20             // FANFARE_CHAT_MAX_BYTES
	DefaultChatMaxAge      = 30 * 24 * time.Hour // FANFARE_CHAT_MAX_AGE
	DefaultMaxStreams      = 20_000              // FANFARE_MAX_STREAMS
	MaxPushText            = 500                 // bytes of a message in its push
)

// ChatMessageType is the event type of push notifications of messages. As long as it is not
// registered, messages are not pushed.
const ChatMessageType = "chat.message"

// ChatObject is the object of the push notifications of a chat. A user who mutes it mutes the chat.
func ChatObject(chat string) string { return chatObject + chat }

const chatObject = "chat:"

// ChatRequest is the body of POST /v1/chats. The creator is a member, whether listed in Members or
// not.
type ChatRequest struct {
	ID      string   `json:"id,omitempty" validate:"omitempty,identifier" example:"team"`
	Creator string   `json:"creator" validate:"required,identifier" example:"alice"`
	Members []string `json:"members,omitempty" validate:"omitempty,max=1000,dive,identifier" example:"bob"`
	// Message is the first message, from the creator.
	Message *string `json:"message,omitempty" validate:"omitempty,text" example:"hello"`
}

// Chat is the answer of POST /v1/chats. Each chat that is made under the same id has another Epoch.
type Chat struct {
	ID      string   `json:"id" example:"team"`
	Epoch   string   `json:"epoch"`
	Members []string `json:"members" example:"alice,bob"`
}

// ChatInfo is the answer of GET /v1/chats/{chat}. FirstID is the oldest message that is kept, or
// LastID + 1 if none is kept.
type ChatInfo struct {
	ID          string `json:"id" example:"team"`
	Epoch       string `json:"epoch"`
	LastID      int64  `json:"last_id"`
	FirstID     int64  `json:"first_id"`
	MemberCount int64  `json:"member_count"`
	CreatedAt   Time   `json:"created_at" swaggertype:"string" format:"date-time"`
}

// ChatMember is a member and the position up to which the member has acknowledged.
type ChatMember struct {
	User     string `json:"user" example:"bob"`
	Acked    int64  `json:"acked"`
	JoinedAt Time   `json:"joined_at" swaggertype:"string" format:"date-time"`
}

// ChatMemberList is the answer of GET /v1/chats/{chat}/members, by name.
type ChatMemberList struct {
	Items []ChatMember `json:"items"`
	Next  string       `json:"next,omitempty"`
}

// JoinFrom says where a new member begins to read.
type JoinFrom string

// A new member begins to read with the next message, or with the oldest message that is kept.
const (
	JoinNow   JoinFrom = "now"
	JoinStart JoinFrom = "start"
)

// JoinRequest is the optional body of PUT /v1/chats/{chat}/members/{user}.
type JoinRequest struct {
	From JoinFrom `json:"from,omitempty" validate:"omitempty,oneof=now start" enums:"now,start" example:"start"`
}

// ChatMessageRequest is the body of POST /v1/chats/{chat}/messages.
type ChatMessageRequest struct {
	// Sender may be left out with a user token: the token's user is then the sender.
	Sender string `json:"sender" validate:"required,identifier" subject:"self" example:"alice"`
	Text   string `json:"text" validate:"text" example:"hello"`
	// Data is what an app adds to the text, such as the id of a picture: flat string values, at most
	// 1 KiB as JSON. fanfare does not look at it.
	Data map[string]string `json:"data,omitempty" validate:"omitempty,maxjson=1024" example:"picture:p1"`
}

// ChatMessageSent is the answer to a message: its id, which is one more than the id of the previous
// message, and the time at which it was sent, by Redis' clock.
type ChatMessageSent struct {
	ID     int64 `json:"id" example:"1"`
	SentAt Time  `json:"sent_at" swaggertype:"string" format:"date-time"`
}

// ChatMessage is one message. If it is Redacted, its Text is "", and it has no Data.
type ChatMessage struct {
	ID       int64             `json:"id" example:"1"`
	Sender   string            `json:"sender" example:"alice"`
	Text     string            `json:"text" example:"hello"`
	Data     map[string]string `json:"data,omitempty" example:"picture:p1"`
	Redacted bool              `json:"redacted,omitempty"`
	SentAt   Time              `json:"sent_at" swaggertype:"string" format:"date-time"`
}

// ChatMessages is the answer of GET /v1/chats/{chat}/messages, ascending. Gap is true if messages
// that the reader asked for are no longer kept, or if the reader's epoch is not the chat's: the chat
// was deleted and made again, or Redis lost messages that the reader may have and used their ids again.
type ChatMessages struct {
	Items   []ChatMessage `json:"items"`
	LastID  int64         `json:"last_id"`
	FirstID int64         `json:"first_id"`
	Epoch   string        `json:"epoch"`
	Gap     bool          `json:"gap"`
}

// UserChat is one of a user's chats. Unread counts the kept messages of other members above Acked.
// If Error is set, only the ID is known.
type UserChat struct {
	ID     string     `json:"id" example:"team"`
	Unread int64      `json:"unread"`
	LastID int64      `json:"last_id"`
	Acked  int64      `json:"acked"`
	Error  *ChatError `json:"error,omitempty"`
}

// UserChatList is the answer of GET /v1/users/{user}/chats, in the order in which the user joined.
type UserChatList struct {
	Items []UserChat `json:"items"`
	Next  string     `json:"next,omitempty"`
}

// PendingChat is a chat with unread messages of a user: the kept messages above the user's position,
// including the user's own, up to the limit. Error is set if the chat could not be read completely.
type PendingChat struct {
	ID      string        `json:"id" example:"team"`
	Epoch   string        `json:"epoch"`
	Unread  int64         `json:"unread"`
	Gap     bool          `json:"gap"`
	FirstID int64         `json:"first_id"`
	Items   []ChatMessage `json:"items"`
	Error   *ChatError    `json:"error,omitempty"`
}

// PendingChats is the answer of GET /v1/users/{user}/messages/pending. More is set if the answer has no
// room for the messages of some chats, which have no Items.
type PendingChats struct {
	Chats []PendingChat `json:"chats"`
	More  bool          `json:"more,omitempty"`
}

// ChatError says why one chat of several was refused or could not be read.
type ChatError struct {
	Code Code `json:"code" swaggertype:"string" example:"not_a_member"`
}

// AckRequest is the body of POST /v1/users/{user}/messages/ack: the last
// message of each chat that the user has seen and, if the client sends it, the epoch that the message is of.
type AckRequest struct {
	Acks   map[string]int64  `json:"acks" validate:"required,min=1,max=1000,dive,keys,identifier,endkeys,min=0" each:"50"`
	Epochs map[string]string `json:"epochs,omitempty" validate:"max=1000,dive,keys,identifier,endkeys,max=128"`
}

// Acks is the answer to an AckRequest: the present positions, and the chats that were refused.
type Acks struct {
	Acked  map[string]int64     `json:"acked"`
	Errors map[string]ChatError `json:"errors,omitempty"`
}

// StreamMessage is the data of a stream's `message` event. If the message was redacted before it was
// delivered, its Text is "", and it has no Data.
type StreamMessage struct {
	Chat string `json:"chat" example:"team"`
	ChatMessage
}

// StreamRedacted is the data of a stream's `redacted` event: a message that was delivered before has
// been redacted.
type StreamRedacted struct {
	Chat string `json:"chat" example:"team"`
	ID   int64  `json:"id" example:"1"`
}

// StreamGap is the data of a stream's `gap` event: the messages before FirstID are no longer kept, or
// are not the ones that the reader has.
type StreamGap struct {
	Chat    string `json:"chat" example:"team"`
	FirstID int64  `json:"first_id"`
	Epoch   string `json:"epoch"`
}

// StreamRead is the data of a stream's `read` event: a member has acknowledged the messages up to Acked.
type StreamRead struct {
	Chat  string `json:"chat" example:"team"`
	User  string `json:"user" example:"bob"`
	Acked int64  `json:"acked" example:"7"`
}

// StreamTyping is the data of a stream's `typing` event: another member types.
type StreamTyping struct {
	Chat string `json:"chat" example:"team"`
	User string `json:"user" example:"bob"`
}

// TypingRequest is the body of POST /v1/chats/{chat}/typing.
type TypingRequest struct {
	// User may be left out with a user token: it is then the token's user.
	User string `json:"user" validate:"required,identifier" subject:"self" example:"alice"`
}

// StreamEvents lists the events of GET /v1/users/{user}/messages/stream. A field's name is the name of
// an event, and the field's type is the data of that event, as JSON.
type StreamEvents struct {
	Message  *StreamMessage  `json:"message"`
	Redacted *StreamRedacted `json:"redacted"`
	Gap      *StreamGap      `json:"gap"`
	Read     *StreamRead     `json:"read"`
	Typing   *StreamTyping   `json:"typing"`
	Bye      *Bye            `json:"bye"`
}
