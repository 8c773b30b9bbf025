package chat

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// entry is a chat in a user's index, with the stamp of the join it is for: a
// time in us.
type entry struct {
	chat  string
	stamp int64
}

// lookCmd asks which of some chats are in a user's index.
func lookCmd(ctx context.Context, user string, chats []string) *redis.FloatSliceCmd {
	args := make([]any, 0, 2+len(chats))
	args = append(args, "zmscore", indexKey(user))
	for _, chat := range chats {
		args = append(args, chat)
	}
	return redis.NewFloatSliceCmd(ctx, args...)
}

// absent are the chats that a look did not find; none when it failed.
func absent(look *redis.FloatSliceCmd, chats []string) (missing []string) {
	stamps, err := look.Result()
	if err != nil || len(stamps) != len(chats) {
		return nil
	}
	for i, stamp := range stamps {
		if stamp == 0 {
			missing = append(missing, chats[i])
		}
	}
	return missing
}

// heal enters chats that a member's index should have under the stamps of his
// joins. Whose membership is over by now is left out. What fails is done by the
// member's next call.
func (s *Store) heal(ctx context.Context, user string, chats []string) {
	if len(chats) == 0 {
		return
	}
	cmds := make([]redis.Cmder, len(chats))
	for i, chat := range chats {
		cmds[i] = s.chatCmd(ctx, s.lookScript, chat, user)
	}
	if err := s.trip(ctx, stepLook, s.db.Pipeline, redisdb.Read, cmds...); err != nil {
		s.o.Logger.DebugContext(ctx, "the chats of a user wait for his next call", "error", err)
		return
	}
	var entries []entry
	for i, cmd := range cmds {
		reply, err := answer(cmd.(*redis.Cmd))
		if err != nil || len(reply) <= lookStamp {
			continue
		}
		if stamp, err := strconv.ParseInt(redisdb.Text(reply[lookStamp]), 10, 64); err == nil {
			entries = append(entries, entry{chats[i], stamp})
		}
	}
	s.keepEntries(ctx, user, entries)
}

// keepEntries writes entries unless the index has them, or later ones.
func (s *Store) keepEntries(ctx context.Context, user string, entries []entry) {
	if len(entries) == 0 {
		return
	}
	args := []any{"zadd", indexKey(user), "gt"}
	for _, e := range entries {
		args = append(args, e.stamp, e.chat)
	}
	if err := s.trip(ctx, stepHeal, s.db.Share, redisdb.Write, redis.NewIntCmd(ctx, args...)); err != nil {
		s.o.Logger.DebugContext(ctx, "the chats of a user wait for his next call", "error", err)
	}
}

// enterBatch is how many indexes one pipeline writes.
const enterBatch = 250

// enter puts a chat into the indexes of users under new stamps, before they
// become its members: in one pipeline, of many users in one for each batch.
func (s *Store) enter(ctx context.Context, chat string, users ...string) ([]string, error) {
	stamps := make([]string, 0, len(users))
	for batch := range slices.Chunk(users, enterBatch) {
		cmds := make([]redis.Cmder, len(batch))
		for i, user := range batch {
			cmds[i] = s.putScript.Cmd(ctx, []string{indexKey(user)}, chat)
		}
		send := s.db.Share
		if len(batch) > 1 {
			send = s.db.Pipeline
		}
		if err := s.trip(ctx, stepIndex, send, redisdb.Write, cmds...); err != nil {
			return nil, err
		}
		for _, cmd := range cmds {
			stamp, err := cmd.(*redis.Cmd).Text()
			if err != nil {
				return nil, fmt.Errorf("enter chat into an index: %w", err)
			}
			stamps = append(stamps, stamp)
		}
	}
	return stamps, nil
}

// dropCmd takes entries out of a user's index if they are as old as that and
// still the same.
func (s *Store) dropCmd(ctx context.Context, user string, ageMicros int64, entries ...entry) *redis.Cmd {
	args := make([]any, 0, 1+2*len(entries))
	args = append(args, ageMicros)
	for _, e := range entries {
		args = append(args, e.chat, e.stamp)
	}
	return s.dropScript.Cmd(ctx, []string{indexKey(user)}, args...)
}

// page is a part of a user's index.
type page struct {
	now     int64 // Redis' time in us
	entries []entry
}

// readPage reads at most limit entries that follow a cursor, "" for the
// beginning. A cursor is a place in the order of the index, by stamp and then by
// chat: the entry that it was made of may be gone or elsewhere by now.
func (s *Store) readPage(ctx context.Context, user, cursor string, limit int) (*page, error) {
	last, err := readCursor(cursor)
	if err != nil {
		return nil, fmt.Errorf("read chats of %s: %w", user, err)
	}
	reply, err := s.ask(ctx, stepRead, redisdb.Read, s.pageScript.Cmd(ctx, []string{indexKey(user)}, last.stamp, limit))
	if err != nil {
		return nil, fmt.Errorf("read chats of %s: %w", user, err)
	}
	p := &page{}
	if p.now, err = strconv.ParseInt(redisdb.Text(reply[0]), 10, 64); err != nil {
		return nil, fmt.Errorf("read chats of %s: %w", user, err)
	}
	pairs := list(reply[1])
	for i := 0; i+1 < len(pairs) && len(p.entries) < limit; i += 2 {
		score, err := strconv.ParseFloat(redisdb.Text(pairs[i+1]), 64)
		if err != nil {
			return nil, fmt.Errorf("read chats of %s: %w", user, err)
		}
		if e := (entry{redisdb.Text(pairs[i]), int64(score)}); e.follows(last) {
			p.entries = append(p.entries, e)
		}
	}
	return p, nil
}

// follows tells whether e stands behind another place in the order of an index.
func (e entry) follows(other entry) bool {
	return cmp.Or(cmp.Compare(e.stamp, other.stamp), cmp.Compare(e.chat, other.chat)) > 0
}

// readCursor reads what next wrote.
func readCursor(cursor string) (e entry, err error) {
	if cursor == "" {
		return entry{}, nil
	}
	stamp, chat, _ := strings.Cut(cursor, " ")
	e.chat = chat
	e.stamp, err = strconv.ParseInt(stamp, 10, 64)
	return e, err
}

// next is the cursor of the page after this one, "" when a page of that many
// was not full.
func (p *page) next(limit int) string {
	if len(p.entries) < limit {
		return ""
	}
	last := p.entries[len(p.entries)-1]
	return strconv.FormatInt(last.stamp, 10) + " " + last.chat
}

// repair drops entries that a crash left: old ones of chats that the user is
// not in. What fails is dropped by the next read.
func (s *Store) repair(ctx context.Context, user string, now int64, stale []entry) {
	var old []entry
	for _, e := range stale {
		if now-e.stamp >= repairAge.Microseconds() {
			old = append(old, e)
		}
	}
	if len(old) == 0 {
		return
	}
	if err := s.trip(ctx, stepUnindex, s.db.Share, redisdb.Write, s.dropCmd(ctx, user, repairAge.Microseconds(), old...)); err != nil {
		s.o.Logger.DebugContext(ctx, "old chats of a user wait for his next read", "error", err)
	}
}
