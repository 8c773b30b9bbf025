package chat

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// erasePage is how many chats of a user are left in one go.
const erasePage = 100

// LeaveAll ends the memberships that a user began up to a time by Redis' clock, as far as the user's
// index lists them, and counts them. Entries of the index without a membership go as well.
func (s *Store) LeaveAll(ctx context.Context, user string, until time.Time) (left int64, err error) {
	latest := until.UnixMicro() + 999 // the whole millisecond
	for cursor := ""; ; {
		page, err := s.readPage(ctx, user, cursor, erasePage)
		if err != nil {
			return left, err
		}
		for _, e := range page.entries {
			if e.stamp > latest {
				continue
			}
			was, err := s.leave(ctx, e.chat, user, strconv.FormatInt(latest, 10))
			if err != nil {
				return left, err
			}
			if was {
				left++
			} else if err := s.db.Share(ctx, redisdb.Write, s.dropCmd(ctx, user, 0, e)); err != nil {
				return left, err
			}
		}
		if cursor = page.next(erasePage); cursor == "" {
			return left, nil
		}
	}
}

// LeaveUnlisted does the same as LeaveAll in the given chats, which the user's index may have lost.
func (s *Store) LeaveUnlisted(ctx context.Context, user string, until time.Time, chats ...string) (left int64, err error) {
	cmds := make([]redis.Cmder, len(chats))
	for i, chat := range chats {
		cmds[i] = redis.NewFloatCmd(ctx, "zscore", membersKey(chat), user)
	}
	if len(cmds) == 0 {
		return 0, nil
	}
	if err := s.db.Pipeline(ctx, redisdb.Read, cmds...); err != nil {
		return 0, err
	}
	for i, cmd := range cmds {
		if err := cmd.Err(); errors.Is(err, redis.Nil) {
			continue
		} else if err != nil {
			return left, fmt.Errorf("read a member of a chat: %w", err)
		}
		was, err := s.leave(ctx, chats[i], user, strconv.FormatInt(until.UnixMicro()+999, 10))
		if err != nil {
			return left, err
		}
		if was {
			left++
		}
	}
	return left, nil
}

// eraseStep is how many messages one script looks at.
const eraseStep = 500

// EraseMessages removes content and sender of the messages that a user sent up to a time by Redis'
// clock from the log of a chat, and counts them. Ids and times stay, so that positions are right. The
// user need not be a member. A chat that is gone has none.
func (s *Store) EraseMessages(ctx context.Context, chat, user string, until time.Time) (n int64, err error) {
	for next := int64(1); next > 0; {
		cmd := s.chatCmd(ctx, s.eraseScript, chat, user, until.UnixMilli(), api.ErasedUser, next, eraseStep, s.MessageChannel(chat))
		reply, err := s.db.List(ctx, redisdb.Write, cmd)
		if err != nil {
			return n, fmt.Errorf("erase messages of chat %s: %w", chat, err)
		}
		if redisdb.Number(reply[0]) == statusUnknown {
			return n, nil
		}
		next = redisdb.Number(reply[1])
		n += redisdb.Number(reply[2])
	}
	return n, nil
}
