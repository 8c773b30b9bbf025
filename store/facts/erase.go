package facts

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"fanfare/store/record"
	"fanfare/store/redisdb"
)

// erasePage is how many facts of a lane are looked at in one round trip.
const erasePage = 1000

// EraseLeft deletes the facts that name a user in the outboxes among keys of Redis. It counts those of what had happened when the
// operation began: later ones go, too, but nobody waits until there are no more of them.
//
// It has to come before Erase: a fact that is moved meanwhile is found where it was, or where it is then, because a relay deletes it in
// its outbox when the lane has it. One that a relay has read already when it is deleted in its outbox comes into the lane afterwards,
// where the next pass finds it.
func (s *Store) EraseLeft(ctx context.Context, o *record.Operation, keys []string) (erased int64, err error) {
	for _, key := range keys {
		if !strings.HasSuffix(key, "}:facts:out") {
			continue
		}
		n, err := s.eraseFrom(ctx, key, o)
		if erased += n; err != nil {
			return erased, err
		}
	}
	return erased, nil
}

// Erase deletes the facts that name a user in the lanes, and counts as EraseLeft does. Readers who have not come to them are told of
// a gap.
func (s *Store) Erase(ctx context.Context, o *record.Operation) (erased int64, err error) {
	for n := range s.Lanes() {
		n, err := s.eraseFrom(ctx, s.lane(n), o)
		if erased += n; err != nil {
			return erased, err
		}
	}
	return erased, nil
}

// eraseFrom deletes them from one lane or outbox.
func (s *Store) eraseFrom(ctx context.Context, key string, o *record.Operation) (erased int64, err error) {
	for from := "-"; ; {
		found, err := redisdb.Value(ctx, s.o.DB, redisdb.Read, redis.NewXMessageSliceCmd(ctx, "xrange", key, from, "+", "COUNT", erasePage))
		if err != nil {
			return erased, fmt.Errorf("look for a user in facts: %w", err)
		}
		ids := map[bool][]any{} // by whether it had happened
		for _, m := range found {
			from = "(" + m.ID
			if names(redisdb.Text(m.Values["d"]), o.Subject) {
				before := happenedBefore(m, o)
				ids[before] = append(ids[before], m.ID)
			}
		}
		for before, some := range ids {
			n, err := redisdb.Value(ctx, s.o.DB, redisdb.Write, redis.NewIntCmd(ctx, append([]any{"xdel", key}, some...)...))
			if err != nil {
				return erased, fmt.Errorf("delete facts of a user: %w", err)
			}
			if before {
				erased += n
			}
		}
		if len(found) < erasePage {
			return erased, nil
		}
	}
}

// happenedBefore reports whether what an entry tells had happened when an operation began, by the clock of Redis or of SQL.
func happenedBefore(m redis.XMessage, o *record.Operation) bool {
	p, _ := parsePosition(m.ID)
	at, err := strconv.ParseInt(redisdb.Text(m.Values["a"]), 10, 64)
	if err != nil {
		at = p.ms
	}
	return at <= max(o.Since, o.CreatedAt)
}

// names reports whether the data of a fact names a user.
func names(data, user string) bool {
	var d struct {
		User   string `json:"user"`
		Sender string `json:"sender"` // of a message
	}
	return strings.Contains(data, user) && json.Unmarshal([]byte(data), &d) == nil && (d.User == user || d.Sender == user)
}
