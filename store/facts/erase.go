package facts

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/queue"
	"fanfare/store/record"
	"fanfare/store/redisdb"
)

// erasePage is how many facts of a lane are looked at in one round trip.
const erasePage = 1000

// Erase deletes the facts that name a user and happened before an operation began, or are about events that were accepted before,
// among keys of Redis, and counts them. Readers who have not come to them are told of a gap.
func (s *Store) Erase(ctx context.Context, o *record.Operation, keys []string) (erased int64, err error) {
	name, _ := json.Marshal(o.Subject) // a string always marshals
	for _, key := range keys {
		if !strings.HasSuffix(key, "}:facts") && !strings.HasSuffix(key, "}:facts:out") {
			continue
		}
		n, err := s.eraseFrom(ctx, key, o, string(name))
		if erased += n; err != nil {
			return erased, err
		}
	}
	return erased, nil
}

// eraseFrom deletes them from one lane or outbox.
func (s *Store) eraseFrom(ctx context.Context, key string, o *record.Operation, name string) (erased int64, err error) {
	for from := "-"; ; {
		found, err := redisdb.Value(ctx, s.o.DB, redisdb.Read, redis.NewXMessageSliceCmd(ctx, "xrange", key, from, "+", "COUNT", erasePage))
		if err != nil {
			return erased, fmt.Errorf("look for a user in facts: %w", err)
		}
		args := []any{"xdel", key}
		for _, m := range found {
			from = "(" + m.ID
			if isOld(m, o) && names(redisdb.Text(m.Values["d"]), o.Subject, name) {
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

// isOld reports whether what an entry tells happened before an operation began, or to an event that was there then. The entry itself
// may be newer: facts of other slots, and of SQL, are moved later.
func isOld(m redis.XMessage, o *record.Operation) bool {
	p, _ := parsePosition(m.ID)
	began := o.Since
	if ofRecord[redisdb.Text(m.Values["t"])] {
		began = o.CreatedAt
	}
	at, err := strconv.ParseInt(redisdb.Text(m.Values["a"]), 10, 64)
	if err != nil {
		at = p.ms
	}
	return at <= began || queue.MadeBefore(redisdb.Text(m.Values["k"]), time.UnixMilli(o.Since))
}

// names reports whether the data of a fact names a user. name is the user as JSON has it.
func names(data, user, name string) bool {
	var d struct {
		User   string `json:"user"`
		Sender string `json:"sender"` // of a message
	}
	return strings.Contains(data, name) && json.Unmarshal([]byte(data), &d) == nil && (d.User == user || d.Sender == user)
}
