package chat

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"fanfare/api"
	"fanfare/store/redisdb"
)

var errSkeleton = errors.New("not built yet")

// Options tunes a Store; the zero value works.
type Options struct {
	// MaxMessages is how many messages a chat keeps; default 10,000.
	MaxMessages int
	// MaxAge is how long a message is kept; default 720 h, at least 1 ms.
	MaxAge time.Duration
	// Logger hears of what heals by itself; nil: silence.
	Logger *slog.Logger
}

// Store is all chats. It is safe for concurrent use.
type Store struct {
	db *redisdb.DB
	o  Options
}

// New makes a store on redis. It starts nothing.
func New(db *redisdb.DB, o Options) *Store { return &Store{db: db, o: o} }

// Outgoing is a message to send.
type Outgoing struct {
	Chat, Sender, Text string
	Push               bool
	Once               api.Idempotency
}

// MessagesQuery says which messages of a chat to read, and who asks.
type MessagesQuery struct {
	User          string
	After, Before *int64
	Limit         int
	Epoch         string
}

// ChatRead is one of many reads.
type ChatRead struct {
	Chat string
	MessagesQuery
}

// ChatReading is what one of many reads found.
type ChatReading struct {
	Messages *api.ChatMessages
	Err      error
}

// Position is where a member stands in a chat.
type Position struct {
	Chat, Epoch            string
	Acked, LastID, FirstID int64
}

// PushBatch is what is due to be pushed in one chat.
type PushBatch struct {
	Epoch    string
	Messages []api.ChatMessage
	UpTo     int64
	More     bool
}

func (s *Store) Create(ctx context.Context, r *api.ChatRequest, once api.Idempotency, push bool) (c *api.Chat, replayed bool, err error) {
	return nil, false, errSkeleton
}
func (s *Store) Chat(ctx context.Context, chat string) (*api.ChatInfo, error) {
	return nil, errSkeleton
}
func (s *Store) Members(ctx context.Context, chat, after string, limit int) ([]api.ChatMember, error) {
	return nil, errSkeleton
}
func (s *Store) MemberNames(ctx context.Context, chat, after string, limit int) ([]string, error) {
	return nil, errSkeleton
}
func (s *Store) Join(ctx context.Context, chat, user string, fromStart bool) (joined bool, err error) {
	return false, errSkeleton
}
func (s *Store) Leave(ctx context.Context, chat, user string) error { return errSkeleton }
func (s *Store) Send(ctx context.Context, m Outgoing) (sent *api.ChatMessageSent, replayed bool, err error) {
	return nil, false, errSkeleton
}
func (s *Store) Messages(ctx context.Context, chat string, q MessagesQuery) (*api.ChatMessages, error) {
	return nil, errSkeleton
}
func (s *Store) ReadMany(ctx context.Context, user string, reads []ChatRead) ([]ChatReading, error) {
	return nil, errSkeleton
}
func (s *Store) Ack(ctx context.Context, user string, acks map[string]int64) (*api.Acks, error) {
	return nil, errSkeleton
}
func (s *Store) UserChats(ctx context.Context, user, cursor string, limit int) (items []api.UserChat, next string, err error) {
	return nil, "", errSkeleton
}
func (s *Store) Pending(ctx context.Context, user string, limit int) (*api.PendingChats, error) {
	return nil, errSkeleton
}
func (s *Store) Positions(ctx context.Context, user string) ([]Position, error) {
	return nil, errSkeleton
}
func (s *Store) DuePushes(ctx context.Context, olderThan time.Duration, limit int) ([]string, error) {
	return nil, errSkeleton
}
func (s *Store) PushMessages(ctx context.Context, chat string, limit int) (PushBatch, error) {
	return PushBatch{}, errSkeleton
}
func (s *Store) PushDone(ctx context.Context, chat, epoch string, upTo int64) error {
	return errSkeleton
}
