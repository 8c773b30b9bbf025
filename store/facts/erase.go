package facts

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/queue"
	"fanfare/store/redisdb"
)

// erasePage is how many facts of a lane are looked at in one round trip.
const erasePage = 1000

// Erase deletes the facts that name a user and happened up to a time, or are about events that were accepted up to then, among keys of Redis, and counts them. Readers who have not
// come to them are told of a gap.
func (s *Store) Erase(ctx context.Context, user string, since time.Time, keys []string) (erased int64, err error) {
	name, _ := json.Marshal(user) // a string always marshals
	for _, key := range keys {
		if !strings.HasSuffix(key, "}:facts") && !strings.HasSuffix(key, "}:facts:out") {
			continue
		}
		n, err := s.eraseFrom(ctx, key, user, string(name), since)
		if erased += n; err != nil {
			return erased, err
		}
	}
	return erased, nil
}

// eraseFrom deletes them from one lane or outbox.
func (s *Store) eraseFrom(ctx context.Context, key, user, name string, since time.Time) (erased int64, err error) {
	for from := "-"; ; {
		found, err := redisdb.Value(ctx, s.o.DB, redisdb.Read, redis.NewXMessageSliceCmd(ctx, "xrange", key, from, "+", "COUNT", erasePage))
		if err != nil {
			return erased, fmt.Errorf("look for a user in facts: %w", err)
		}
		args := []any{"xdel", key}
		for _, m := range found {
			from = "(" + m.ID
			p, _ := parsePosition(m.ID)
			old := p.ms <= since.UnixMilli() || queue.MadeBefore(redisdb.Text(m.Values["k"]), since) // or of an event that was there
			if old && names(redisdb.Text(m.Values["d"]), user, name) {
				args = append(args, m.ID)
			}
		}
		if len(args) > 2 {
			n, err := redisdb.Value(ctx, s.o.DB, redisdb.Write, redis.NewIntCmd(ctx, args...))
			if erased += n; err != nil {
				return erased, fmt.Errorf("delete facts of a user: %w", err)
			}
		}
		if len(found) < erasePage {
			return erased, nil
		}
	}
}

// names reports whether the data of a fact names a user. name is the user as JSON has it.
func names(data, user, name string) bool {
	var d struct {
		User string `json:"user"`
	}
	return strings.Contains(data, name) && json.Unmarshal([]byte(data), &d) == nil && d.User == user
}
