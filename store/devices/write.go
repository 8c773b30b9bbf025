package devices

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/record"
)

// redisPatience limits each call of Redis during a write of SQL, so that the write finishes within
// its deadline if Redis is away.
const redisPatience = time.Second

// settingsChange is a committed write that must be relayed to Redis.
type settingsChange struct {
	writer string // the writer whose marks end
	change record.Change
	token  string // the token whose guard is written; "" for none
}

// write makes one change in SQL while its users are marked (P10), and relays it to Redis. It also
// works while Redis is away: a sweeper relays the outbox rows later.
func (s *Store) write(ctx context.Context, users []string, token string, do func(context.Context) (record.Change, error)) error {
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
		s.relayNow(ctx, settingsChange{writer: writer, change: change, token: token})
	}
	return nil
}

// markUsers tells whether every mark is set.
func (s *Store) markUsers(ctx context.Context, writer string, users []string) bool {
	ctx, cancel := context.WithTimeout(ctx, redisPatience)
	defer cancel()
	cmds := make([]redis.Cmder, len(users))
	for i, u := range users {
		cmds[i] = s.mark.Cmd(ctx, []string{settingsKey(u), changingKey(u)}, writer, markTTL.Milliseconds())
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), redisPatience)
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), redisPatience)
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
	if err := s.storeVersions(ctx, c.writer, c.change.Users); err != nil || c.token == "" {
		return err
	}
	return s.writeGuards(ctx, c.token)
}

func (s *Store) storeVersions(ctx context.Context, writer string, versions []record.UserVersion) error {
	cmds := make([]redis.Cmder, len(versions))
	for i, v := range versions {
		cmds[i] = s.store.Cmd(ctx, []string{settingsKey(v.User), changingKey(v.User)},
			writer, v.Version, versionTTL.Milliseconds())
	}
	return s.send(ctx, cmds)
}

// send runs scripts of several users in one round trip and returns the first failure.
func (s *Store) send(ctx context.Context, cmds []redis.Cmder) error {
	if err := s.db.Pipeline(ctx, writes, cmds...); err != nil {
		return err
	}
	for _, c := range cmds {
		if err := c.Err(); err != nil {
			return fmt.Errorf("change settings in redis: %w", err)
		}
	}
	return nil
}
