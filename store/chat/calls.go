package chat

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// chatCmd is a script of a chat, with the arguments that all these scripts take first. Its last key
// never exists: while a slot of a Cluster moves, Redis refuses a script of which one key is missing
// before the script runs. Otherwise the script could find the chat moved and the log not.
func (s *Store) chatCmd(ctx context.Context, script *redisdb.Script, chat string, args ...any) *redis.Cmd {
	never := bucketTag(bucketOf(chat)) + "never"
	return s.chatCmdWith(ctx, script, append(chatKeys(chat), never), args...)
}

// chatCmdWith is chatCmd for scripts whose last key is the record of a request. They have answered
// from that record if it exists, before they read any other key.
func (s *Store) chatCmdWith(ctx context.Context, script *redisdb.Script, keys []string, args ...any) *redis.Cmd {
	all := make([]any, 0, 4+len(args))
	all = append(all, s.o.MaxMessages, s.o.MaxBytes, s.o.MaxAge.Milliseconds(), s.run)
	return script.Cmd(ctx, keys, append(all, args...)...)
}

// indexPatience is how long a call on a Cluster, once it has its own answer, still waits for the
// read of the user's index: the index may be on a master that is away.
const indexPatience = 50 * time.Millisecond

// memberCall is a user's call about some of the user's chats.
type memberCall struct {
	mode  redisdb.Mode
	user  string
	chats []string
	cmds  []redis.Cmder // one for each chat
}

// call makes a member's call and reads in the same round trip which of the chats the user's index
// has. It returns the chats that are missing there. For several chats every command has its own
// outcome, even after an error.
func (s *Store) call(ctx context.Context, c memberCall) (missing []string, err error) {
	send := s.db.Share
	if len(c.cmds) > 1 {
		send = s.db.Pipeline
	}
	if s.clustered {
		return s.beside(ctx, c.user, c.chats, func() error { return send(ctx, c.mode, c.cmds...) })
	}
	indexed := indexedCmd(ctx, c.user, c.chats)
	if err := send(ctx, c.mode, append(c.cmds[:len(c.cmds):len(c.cmds)], indexed)...); err != nil {
		return nil, err
	}
	return missingOf(indexed, c.chats), nil
}

// beside makes a call on a Cluster, where the user's index may be on another master than the chats.
// The index is read at the same time.
func (s *Store) beside(ctx context.Context, user string, chats []string, call func() error) (missing []string, err error) {
	read := make(chan []string, 1)
	go func() {
		var missing []string
		if indexed := indexedCmd(ctx, user, chats); s.db.Share(ctx, redisdb.Read, indexed) == nil {
			missing = missingOf(indexed, chats)
		}
		read <- missing
	}()
	if err := call(); err != nil {
		return nil, err
	}
	patience := time.NewTimer(indexPatience)
	defer patience.Stop()
	select {
	case missing = <-read:
	case <-patience.C:
	}
	return missing, nil
}
