package chat

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// PushBatch is what is due to be pushed in one chat.
type PushBatch struct {
	// Epoch and UpTo are for PushDone, when the batch is done.
	Epoch string
	UpTo  int64
	// Messages are the next messages that are due, ascending. Messages that every member has
	// acknowledged in the meantime are left out, because nobody needs a notification of them.
	Messages []api.ChatMessage
	// More says that more messages are due after these.
	More bool
}

// DuePushes lists chats in which pushes have been due for the given time, by Redis' clock, up to
// limit from each of the 256 buckets, in one pipeline.
func (s *Store) DuePushes(ctx context.Context, olderThan time.Duration, limit int) ([]string, error) {
	list := make([]redis.Cmder, buckets)
	for bucket := range buckets {
		list[bucket] = s.pushDueScript.Cmd(ctx, []string{dueKey(bucket)}, olderThan.Milliseconds(), limit)
	}
	if err := s.db.Pipeline(ctx, redisdb.Read, list...); err != nil && !anyAnswered(list) {
		return nil, err
	}
	var chats []string
	for _, cmd := range list {
		found, err := cmd.(*redis.Cmd).StringSlice()
		if err != nil {
			s.o.Logger.DebugContext(ctx, "chats with pushes due wait for the next sweep", "error", err)
			continue
		}
		chats = append(chats, found...)
	}
	return chats, nil
}

// PushMessages reads up to limit messages of a chat that are due, and changes
// nothing. Errors: not_found, and those of Redis.
func (s *Store) PushMessages(ctx context.Context, chat string, limit int) (PushBatch, error) {
	reply, err := s.db.List(ctx, redisdb.Read, s.chatCmd(ctx, s.pushReadScript, chat, pageSize(limit)))
	if err != nil {
		return PushBatch{}, fmt.Errorf("read pushes of chat %s: %w", chat, err)
	}
	if err := refusal(redisdb.Number(reply[0]), chat, ""); err != nil {
		return PushBatch{}, err
	}
	b := PushBatch{Epoch: redisdb.Text(reply[1]), UpTo: redisdb.Number(reply[3])}
	b.More = b.UpTo < redisdb.Number(reply[2])
	b.Messages, err = decodeEntries(redisdb.Number(reply[4]), redisdb.ListAt(reply, 5))
	return b, err
}

// PushDone records that the pushes are done up to a message; it never goes back. When that is the
// last message, the chat is no longer due; otherwise it is due anew, behind all others. Nothing is recorded if the chat is gone or has another
// epoch.
func (s *Store) PushDone(ctx context.Context, chat, epoch string, upTo int64) error {
	cmd := s.chatCmd(ctx, s.pushDoneScript, chat, epoch, upTo)
	if err := s.db.Do(ctx, redisdb.Write, cmd); err != nil {
		return fmt.Errorf("note pushes of chat %s: %w", chat, err)
	}
	return nil
}
