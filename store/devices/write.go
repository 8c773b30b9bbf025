package devices

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/redisdb"
)

// patience limits the calls of Redis before and after a write of SQL, so that the write finishes within its
// deadline if Redis is away (the embedded one never is): the time of one round trip, and a little more for each of
// a batch's users.
func (s *Store) patience(users int) time.Duration {
	return s.db.Timeout() + time.Duration(users)*500*time.Microsecond
}

// settingsChange is what has to be relayed to Redis after a write of SQL.
type settingsChange struct {
	writer   string // the writer whose marks end
	versions []record.UserVersion
	// tokens are the tokens whose guards are written, guards what was read of these before the write, and
	// devices the devices as they were written, nil if they have to be read.
	tokens  []string
	guards  map[string]string
	devices map[string]record.OwnedDevice
}

// write makes one change in SQL while its users are marked (P10), and relays it to Redis. If the marks
// cannot be set, or the guards of the tokens cannot be written, nothing happens (unavailable). If the change
// is on record and cannot be relayed, the outcome is unknown: a sweeper relays the outbox rows later, and a
// repeat of the call relays them at once.
func (s *Store) write(ctx context.Context, users, tokens []string, do func(context.Context) (record.Change, error)) error {
	c := settingsChange{writer: rand.Text(), tokens: tokens, versions: make([]record.UserVersion, len(users))}
	for i, u := range users {
		c.versions[i].User = u // without a version, which only ends the mark
	}
	in, cancel := context.WithTimeout(ctx, commitWithin)
	defer cancel()
	var err error
	if c.guards, err = s.markUsers(ctx, c); err != nil {
		return err
	}
	change, err := do(in)
	if api.CodeOf(err) == api.CodeUnknownOutcome {
		return err // the marks stay until they expire, because the change may have been committed
	}
	if err == nil && len(change.Told) > 0 {
		s.o.Told(change.Told...)
	}
	if len(change.Users) > 0 {
		c.versions, c.devices, c.tokens = change.Users, change.Devices, slices.Concat(tokens, change.Gone)
	} else if c.tokens = nil; err == nil {
		// An earlier call may have changed them, and Redis refused it.
		if c.tokens, err = s.rec.OpenGuards(in, tokens); err == nil {
			c.tokens = append(c.tokens, reaching(c.guards, c.tokens)...)
		}
	}
	relayed := s.relayNow(ctx, c)
	return cmp.Or(err, relayed)
}

// reaching lists the tokens, other than those in but, whose guards still name a user. If they are not on record, they belonged to
// activities that have ended, which are removed without a word.
func reaching(guards map[string]string, but []string) (tokens []string) {
	for token, text := range guards {
		if g, ok := ParseGuard(text); ok && g.Reaches(g.User) && !slices.Contains(but, token) {
			tokens = append(tokens, token)
		}
	}
	return tokens
}

// markUsers marks the users of a change, reads the guards of its tokens, by token, and finds out whether Redis
// takes writes of all of them.
func (s *Store) markUsers(ctx context.Context, c settingsChange) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.patience(len(c.versions)))
	defer cancel()
	cmds := make([]redis.Cmder, 0, len(c.tokens)+len(c.versions))
	for _, g := range s.guardsOf(c.tokens, nil, nil) {
		cmds = append(cmds, s.guards.GuardCmd(ctx, s.o.GuardTTL, g))
	}
	for part := range slices.Chunk(c.versions, s.together()) {
		cmds = append(cmds, s.mark.Cmd(ctx, keysOf(part), c.writer, markTTL.Milliseconds()))
	}
	// As a read, because a mark whose answer was lost changes no settings.
	if err := s.db.Pipeline(ctx, redisdb.Read, cmds...); err != nil {
		return nil, err
	}
	guards := make(map[string]string, len(c.tokens))
	for i, cmd := range cmds {
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return nil, fmt.Errorf("mark settings in redis: %w", err)
		}
		if i < len(c.tokens) {
			guards[c.tokens[i]] = cmd.(*redis.StringCmd).Val()
		}
	}
	return guards, nil
}

// relayNow relays at once. If that fails, a sweeper relays later, or a repeat of the call.
func (s *Store) relayNow(ctx context.Context, c settingsChange) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.patience(len(c.versions)))
	defer cancel()
	if err := s.relay(ctx, c); err != nil {
		return api.Errorf(api.CodeUnknownOutcome, "Redis does not know of the change yet").Because(err)
	}
	return nil
}

// relayChange writes the guards, and then stores the new versions, which ends the marks: while Redis refuses
// the guards, readers read SQL. The outbox rows stay. A sweeper relays them once more when they are some
// seconds old, because a fail-over may lose writes of the old master's last second.
func (s *Store) relayChange(ctx context.Context, c settingsChange) error {
	if _, err := s.writeGuards(ctx, c); err != nil {
		return err
	}
	_, err := s.storeVersions(ctx, c.writer, c.versions)
	return err
}

// storeVersions stores versions, ends the writer's marks, and returns the users for whom Redis did so.
func (s *Store) storeVersions(ctx context.Context, writer string, versions []record.UserVersion) (stored []string, err error) {
	cmds := make([]redis.Cmder, 0, len(versions))
	parts := slices.Collect(slices.Chunk(versions, s.together()))
	for _, part := range parts {
		args := append(make([]any, 0, 2+len(part)), writer, versionTTL.Milliseconds())
		for _, v := range part {
			args = append(args, v.Version)
		}
		cmds = append(cmds, s.store.Cmd(ctx, keysOf(part), args...))
	}
	err = s.send(ctx, cmds)
	for i, cmd := range cmds {
		if cmd.Err() == nil {
			for _, v := range parts[i] {
				stored = append(stored, v.User)
			}
		}
	}
	return stored, err
}

// keysOf are the keys of users, for scripts that mark them or store their versions.
func keysOf(users []record.UserVersion) []string {
	keys := make([]string, 0, 2*len(users))
	for _, u := range users {
		keys = append(keys, settingsKey(u.User), changingKey(u.User))
	}
	return keys
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
