package chat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// entry is a chat in a user's index, with the stamp of the user's join: a time in µs.
type entry struct {
	chat  string
	stamp int64
}

// indexedCmd reads which of some chats are in a user's index.
func indexedCmd(ctx context.Context, user string, chats []string) *redis.FloatSliceCmd {
	args := make([]any, 0, 2+len(chats))
	args = append(args, "zmscore", indexKey(user))
	for _, chat := range chats {
		args = append(args, chat)
	}
	return redis.NewFloatSliceCmd(ctx, args...)
}

// missingOf lists the chats that indexedCmd did not find. If the command failed, the list is empty.
func missingOf(indexed *redis.FloatSliceCmd, chats []string) (missing []string) {
	stamps, err := indexed.Result()
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

// addMissing adds chats that a member's index should have. If that fails, the member's next call
// adds them.
func (s *Store) addMissing(ctx context.Context, user string, chats []string) {
	if _, err := s.AddMissing(ctx, user, chats); err != nil {
		s.o.Logger.DebugContext(ctx, "the index of a user lacks chats until the user's next call", "error", err)
	}
}

// AddMissing adds chats that a member's index may have lost, under the stamps of the member's
// joins, and returns the chats that the member has left. It returns Redis' error if some chats
// could not be read or the index was not written.
func (s *Store) AddMissing(ctx context.Context, user string, chats []string) (left []string, err error) {
	if len(chats) == 0 {
		return nil, nil
	}
	cmds := make([]redis.Cmder, len(chats))
	for i, chat := range chats {
		cmds[i] = s.chatCmd(ctx, s.readChatScript, chat, user)
	}
	// On a Cluster some masters answer although another one is away.
	if err = s.db.Pipeline(ctx, redisdb.Read, cmds...); err != nil && !anyAnswered(cmds) {
		return nil, err
	}
	var entries []entry
	for i, cmd := range cmds {
		reply, e := redisdb.ListOf(cmd)
		if e != nil {
			err = errors.Join(err, e)
			continue
		}
		facts := memberFacts(reply)
		if len(facts) == 0 {
			left = append(left, chats[i])
			continue
		}
		if stamp, e := strconv.ParseInt(redisdb.Text(facts[0]), 10, 64); e == nil {
			entries = append(entries, entry{chats[i], stamp})
		}
	}
	return left, errors.Join(err, s.writeEntries(ctx, user, entries))
}

// writeEntries writes the entries unless the index has them or later ones.
func (s *Store) writeEntries(ctx context.Context, user string, entries []entry) error {
	if len(entries) == 0 {
		return nil
	}
	args := []any{"zadd", indexKey(user), "gt"}
	for _, e := range entries {
		args = append(args, e.stamp, e.chat)
	}
	return s.db.Share(ctx, redisdb.Write, redis.NewIntCmd(ctx, args...))
}

// indexBatch is how many indexes one pipeline writes.
const indexBatch = 250

// addToIndexes adds a chat to the indexes of users under new stamps, before they
// become its members: in one pipeline for each batch of users.
func (s *Store) addToIndexes(ctx context.Context, chat string, users ...string) ([]string, error) {
	stamps := make([]string, 0, len(users))
	for batch := range slices.Chunk(users, indexBatch) {
		cmds := make([]redis.Cmder, len(batch))
		for i, user := range batch {
			cmds[i] = s.putScript.Cmd(ctx, []string{indexKey(user)}, chat)
		}
		send := s.db.Share
		if len(batch) > 1 {
			send = s.db.Pipeline
		}
		if err := send(ctx, redisdb.Write, cmds...); err != nil {
			return nil, err
		}
		for _, cmd := range cmds {
			stamp, err := cmd.(*redis.Cmd).Text()
			if err != nil {
				return nil, fmt.Errorf("add chat to an index: %w", err)
			}
			stamps = append(stamps, stamp)
		}
	}
	return stamps, nil
}

// dropCmd removes entries from a user's index if they have the given age and still have the same
// stamp.
func (s *Store) dropCmd(ctx context.Context, user string, ageMicros int64, entries ...entry) *redis.Cmd {
	args := make([]any, 0, 1+2*len(entries))
	args = append(args, ageMicros)
	for _, e := range entries {
		args = append(args, e.chat, e.stamp)
	}
	return s.dropScript.Cmd(ctx, []string{indexKey(user)}, args...)
}

// page is a page of a user's index.
type page struct {
	now     int64 // Redis' time in us
	entries []entry
}

// readPage reads at most limit entries after a cursor, which is "" for the beginning. A cursor is a
// position in the order of the index, by stamp and then by chat. It is still right if the entry
// from which it was made was removed or has moved.
func (s *Store) readPage(ctx context.Context, user, cursor string, limit int) (*page, error) {
	last, err := readCursor(cursor)
	if err != nil {
		return nil, fmt.Errorf("read chats of %s: %w", user, err)
	}
	reply, err := s.db.List(ctx, redisdb.Read, s.pageScript.Cmd(ctx, []string{indexKey(user)}, last.stamp, limit))
	if err != nil {
		return nil, fmt.Errorf("read chats of %s: %w", user, err)
	}
	p := &page{}
	if p.now, err = strconv.ParseInt(redisdb.Text(reply[0]), 10, 64); err != nil {
		return nil, fmt.Errorf("read chats of %s: %w", user, err)
	}
	pairs := redisdb.ListAt(reply, 1)
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

// follows reports whether e comes after another entry in the order of an index.
func (e entry) follows(other entry) bool {
	return cmp.Or(cmp.Compare(e.stamp, other.stamp), cmp.Compare(e.chat, other.chat)) > 0
}

// readCursor parses a cursor that next made.
func readCursor(cursor string) (e entry, err error) {
	if cursor == "" {
		return entry{}, nil
	}
	stamp, chat, _ := strings.Cut(cursor, " ")
	e.chat = chat
	e.stamp, err = strconv.ParseInt(stamp, 10, 64)
	return e, err
}

// next is the cursor of the next page, "" if this page was not full.
func (p *page) next(limit int) string {
	if len(p.entries) < limit {
		return ""
	}
	last := p.entries[len(p.entries)-1]
	return strconv.FormatInt(last.stamp, 10) + " " + last.chat
}

// dropStale drops entries that a crash left: old entries of chats of which the user is not a
// member. If that fails, the next read drops them.
func (s *Store) dropStale(ctx context.Context, user string, now int64, stale []entry) {
	var old []entry
	for _, e := range stale {
		if now-e.stamp >= repairAge.Microseconds() {
			old = append(old, e)
		}
	}
	if len(old) == 0 {
		return
	}
	if err := s.db.Share(ctx, redisdb.Write, s.dropCmd(ctx, user, repairAge.Microseconds(), old...)); err != nil {
		s.o.Logger.DebugContext(ctx, "the index of a user has stale chats until the user's next read", "error", err)
	}
}
