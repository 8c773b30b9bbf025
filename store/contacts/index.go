package contacts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// entry is a contact with a time in ms: a score of the index, or its floor.
type entry struct {
	contact string
	at      int64
}

// less orders entries as the sorted set does: by time, then by contact.
func (e entry) less(o entry) bool {
	if e.at != o.at {
		return e.at < o.at
	}
	return e.contact < o.contact
}

func (e entry) score() string { return strconv.FormatInt(e.at, 10) }

// The states of an index in the answer of index_read.lua.
const (
	stateMissing = 0
	stateReady   = 1
	stateUnbuilt = 2
)

// indexWindow is the result of one read of an index: its state and its first entries.
type indexWindow struct {
	state    int64
	sequence string
	floor    *entry // nothing above it is missing; nil: nothing is missing
	members  int64
	entries  []entry // the first entries, in descending order
}

// all reports whether the window has every member.
func (w *indexWindow) all() bool { return int64(len(w.entries)) == w.members }

// index is the part of the store in Redis. Each method runs one script.
type index struct {
	db  *redisdb.DB
	max int

	readScript, raiseScript, syncScript, lowerScript, beginScript, fillScript *redisdb.Script
}

func newIndex(db *redisdb.DB, most int) *index {
	return &index{
		db: db, max: most,
		readScript:  redisdb.MustScript(scripts, "lua/index_read.lua"),
		raiseScript: redisdb.MustScript(scripts, "lua/index_raise.lua"),
		syncScript:  redisdb.MustScript(scripts, "lua/index_sync.lua"),
		lowerScript: redisdb.MustScript(scripts, "lua/index_lower.lua"),
		beginScript: redisdb.MustScript(scripts, "lua/build_begin.lua"),
		fillScript:  redisdb.MustScript(scripts, "lua/build_fill.lua"),
	}
}

// read reads the first count entries of a user's index.
func (x *index) read(ctx context.Context, user string, count int) (*indexWindow, error) {
	reply, err := x.reply(ctx, redisdb.Read, x.readScript, indexKeys(user), count)
	if err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	w := &indexWindow{state: redisdb.NumberAt(reply, 0)}
	if w.state == stateMissing {
		return w, nil
	}
	w.sequence, w.members = redisdb.TextAt(reply, 1), redisdb.NumberAt(reply, 4)
	if score := redisdb.TextAt(reply, 2); score != "" {
		at, err := milliseconds(score)
		if err != nil {
			return nil, err
		}
		w.floor = &entry{redisdb.TextAt(reply, 3), at}
	}
	list, _ := reply[5].([]any)
	w.entries = make([]entry, len(list)/2)
	for i := range w.entries {
		at, err := milliseconds(redisdb.TextAt(list, 2*i+1))
		if err != nil {
			return nil, err
		}
		w.entries[i] = entry{redisdb.TextAt(list, 2*i), at}
	}
	return w, nil
}

// raise raises a contact's time in the indexes of many users, in one pipeline. Nothing is written
// for users without an index.
func (x *index) raise(ctx context.Context, users []string, e entry) error {
	var cmds []redis.Cmder
	for part := range slices.Chunk(users, x.together(len(users))) {
		keys := make([]string, 0, 2*len(part))
		for _, user := range part {
			keys = append(keys, recentKey(user), stateKey(user))
		}
		cmds = append(cmds, x.raiseScript.Cmd(ctx, keys, e.contact, e.score(), x.max, recentMargin.Milliseconds()))
	}
	if err := x.db.Pipeline(ctx, redisdb.Write, cmds...); err != nil {
		return err
	}
	if err := redisdb.FirstError(cmds); err != nil {
		return fmt.Errorf("raise index: %w", err)
	}
	return nil
}

// together is how many of n users one script may write: on a Cluster only one, because each user is
// in another slot.
func (x *index) together(n int) int {
	if x.db.Cluster() {
		return 1
	}
	return max(1, n)
}

// relations reads the counter that every change of a relationship raises. It returns false if the
// user has no index.
func (x *index) relations(ctx context.Context, user string) (string, bool, error) {
	counter, err := redisdb.Value(ctx, x.db, redisdb.Read, redis.NewStringCmd(ctx, "hget", stateKey(user), "r"))
	if errors.Is(err, redis.Nil) {
		return "", false, nil
	}
	return counter, err == nil, err
}

// indexed returns those users who have an index.
func (x *index) indexed(ctx context.Context, users []string) ([]string, error) {
	cmds := make([]redis.Cmder, len(users))
	for i, user := range users {
		cmds[i] = redis.NewIntCmd(ctx, "exists", stateKey(user))
	}
	if err := x.db.Pipeline(ctx, redisdb.Read, cmds...); err != nil {
		return nil, err
	}
	var found []string
	for i, cmd := range cmds {
		n, err := cmd.(*redis.IntCmd).Result()
		if err != nil {
			return nil, fmt.Errorf("look for an index: %w", err)
		}
		if n > 0 {
			found = append(found, users[i])
		}
	}
	return found, nil
}

// The answers of index_sync.lua.
const (
	syncNoIndex = 0
	syncWritten = 1
	syncMoved   = 2
)

// synced is the answer of a sync. trusted is the number of members above the floor.
type synced struct {
	status, trusted int64
	floor           bool
}

// present is the time of a contact in SQL; nil: the contact is removed from the index.
type present struct {
	contact string
	at      *int64
}

// sync writes the times of contacts that SQL returned after relations was read.
func (x *index) sync(ctx context.Context, user, relations string, contacts ...present) (synced, error) {
	args := make([]any, 0, 3+2*len(contacts))
	args = append(args, relations, x.max, recentMargin.Milliseconds())
	for _, c := range contacts {
		score := ""
		if c.at != nil {
			score = entry{c.contact, *c.at}.score()
		}
		args = append(args, c.contact, score)
	}
	reply, err := x.reply(ctx, redisdb.Write, x.syncScript, indexKeys(user), args...)
	if err != nil {
		return synced{}, fmt.Errorf("sync index: %w", err)
	}
	out := synced{status: redisdb.NumberAt(reply, 0)}
	if out.status == syncWritten {
		out.trusted, out.floor = redisdb.NumberAt(reply, 1), redisdb.NumberAt(reply, 2) == 1
	}
	return out, nil
}

// stale is a score that is higher than SQL's. at is SQL's time; nil: the contact has no visible
// upload.
type stale struct {
	seen entry
	at   *int64
}

// lower corrects stale scores, unless something has changed since the given value of q.
func (x *index) lower(ctx context.Context, user, sequence string, list []stale) error {
	args := make([]any, 0, 1+3*len(list))
	args = append(args, sequence)
	for _, s := range list {
		now := ""
		if s.at != nil {
			now = strconv.FormatInt(*s.at, 10)
		}
		args = append(args, s.seen.contact, s.seen.score(), now)
	}
	_, err := x.db.Eval(ctx, redisdb.Write, x.lowerScript, indexKeys(user), args...)
	return err
}

// reply runs a script that answers with a list.
func (x *index) reply(ctx context.Context, m redisdb.Mode, s *redisdb.Script, keys []string, args ...any) ([]any, error) {
	return x.db.List(ctx, m, s.Cmd(ctx, keys, args...))
}

// milliseconds reads a score in the form of Redis.
func milliseconds(score string) (int64, error) {
	f, err := strconv.ParseFloat(score, 64)
	if err != nil {
		return 0, fmt.Errorf("read score %q: %w", score, err)
	}
	return int64(f), nil
}
