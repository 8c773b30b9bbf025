package devices

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/redisdb"
)

// redisPatience limits each call of Redis during a write of SQL, so that the write finishes within
// its deadline if Redis is away. A batch gets a little more for each of its users.
const redisPatience, patiencePerUser = time.Second, 500 * time.Microsecond

// patience is how long a call of Redis for so many users may take.
func patience(users int) time.Duration { return redisPatience + time.Duration(users)*patiencePerUser }

// settingsChange is a committed write that must be relayed to Redis.
type settingsChange struct {
	writer string // the writer whose marks end
	change record.Change
	tokens []string // the tokens whose guards are written
}

// write makes one change in SQL while its users are marked (P10), and relays it to Redis. It also
// works while Redis is away: a sweeper relays the outbox rows later.
func (s *Store) write(ctx context.Context, users, tokens []string, do func(context.Context) (record.Change, error)) error {
	writer := rand.Text()
	start := time.Now()
	marked := s.markUsers(ctx, writer, users)
	in, cancel := context.WithDeadline(ctx, start.Add(commitWithin))
	defer cancel()
	change, err := do(in)
	switch {
	case api.CodeOf(err) == api.CodeUnknownOutcome:
		return err // the marks stay until they expire, because the change may have been committed
	case err != nil || len(change.Outbox) == 0:
		s.unmarkUsers(ctx, writer, users, marked)
		return err
	case marked:
		s.relayNow(ctx, settingsChange{writer: writer, change: change, tokens: tokens})
	}
	return nil
}

// markUsers tells whether every mark is set.
func (s *Store) markUsers(ctx context.Context, writer string, users []string) bool {
	ctx, cancel := context.WithTimeout(ctx, patience(len(users)))
	defer cancel()
	var cmds []redis.Cmder
	for part := range slices.Chunk(users, s.together()) {
		keys := make([]string, 0, 2*len(part))
		for _, u := range part {
			keys = append(keys, settingsKey(u), changingKey(u))
		}
		cmds = append(cmds, s.mark.Cmd(ctx, keys, writer, markTTL.Milliseconds()))
	}
	if err := s.send(ctx, cmds); err != nil {
		s.left(ctx, "settings are written without a mark; the outbox will be swept", err)
		return false
	}
	return true
}

// unmarkUsers ends the marks of a write that changed nothing. If it fails, they expire by
// themselves.
func (s *Store) unmarkUsers(ctx context.Context, writer string, users []string, marked bool) {
	if !marked {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience(len(users)))
	defer cancel()
	versions := make([]record.UserVersion, len(users))
	for i, u := range users {
		versions[i].User = u
	}
	if err := s.storeVersions(ctx, writer, versions); err != nil {
		s.o.Logger.Debug("marks of an unchanged write stay until they end", "error", err)
	}
}

// relayNow relays at once. If that fails, a sweeper relays later.
func (s *Store) relayNow(ctx context.Context, c settingsChange) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience(len(c.change.Users)))
	defer cancel()
	if err := s.relay(ctx, c); err != nil {
		s.left(ctx, "a change of settings was not relayed at once; the outbox will be swept", err)
	}
}

// left logs that a relay is left to the sweepers. It logs at debug level while Redis is away,
// because that is logged elsewhere.
func (s *Store) left(ctx context.Context, what string, err error) {
	level := slog.LevelWarn
	if s.db.Away(err) {
		level = slog.LevelDebug
	}
	s.o.Logger.Log(ctx, level, what, "error", err)
}

// relayChange stores the new versions and writes the guard. The outbox rows stay. A sweeper relays
// them once more when they are some seconds old, because a fail-over may lose writes of the old
// master's last second.
func (s *Store) relayChange(ctx context.Context, c settingsChange) error {
	if err := s.storeVersions(ctx, c.writer, c.change.Users); err != nil || len(c.tokens) == 0 {
		return err
	}
	if c.change.Devices == nil {
		return s.writeGuards(ctx, c.tokens...)
	}
	return s.writeGuardsOf(ctx, c.tokens, c.change.Devices)
}

func (s *Store) storeVersions(ctx context.Context, writer string, versions []record.UserVersion) error {
	var cmds []redis.Cmder
	for part := range slices.Chunk(versions, s.together()) {
		keys, args := make([]string, 0, 2*len(part)), make([]any, 0, 2+len(part))
		args = append(args, writer, versionTTL.Milliseconds())
		for _, v := range part {
			keys, args = append(keys, settingsKey(v.User), changingKey(v.User)), append(args, v.Version)
		}
		cmds = append(cmds, s.store.Cmd(ctx, keys, args...))
	}
	return s.send(ctx, cmds)
}

// usersAtOnce is how many users one script marks, or stores the versions of. It occupies Redis for
// well under a millisecond.
const usersAtOnce = 100

// together is how many users one script may write: on a Cluster only one, because each user is in
// another slot.
func (s *Store) together() int {
	if s.db.Cluster() {
		return 1
	}
	return usersAtOnce
}

// send runs scripts of several users in one round trip and returns the first failure.
func (s *Store) send(ctx context.Context, cmds []redis.Cmder) error {
	if err := s.db.Pipeline(ctx, redisdb.Write, cmds...); err != nil {
		return err
	}
	if err := redisdb.FirstError(cmds); err != nil {
		return fmt.Errorf("change settings in redis: %w", err)
	}
	return nil
}
