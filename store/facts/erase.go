package facts

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"fanfare/store/record"
	"fanfare/store/redisdb"
)

// erasePage is how many facts of a lane are looked at in one round trip.
const erasePage = 1000

// Erased is how many facts of a user were deleted.
type Erased struct {
	// Before counts the facts of what had happened when the operation began. Facts of what happened later are deleted, too, but the
	// operation does not wait until there are none.
	Before int64
	// Any says that some were deleted.
	Any bool
}

// EraseLeft deletes the facts that name a user in the outboxes among keys of Redis.
//
// It has to come before Erase: a relay deletes a fact in its outbox only when the lane has it, so a fact that is moved meanwhile is found
// in one of the two. A relay that read a fact before it was deleted here appends it to the lane afterwards: so there has to be another
// pass if any was deleted.
func (s *Store) EraseLeft(ctx context.Context, o *record.Operation, keys []string) (Erased, error) {
	return s.eraseFrom(ctx, o, slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return !strings.HasSuffix(key, "}:facts:out") }))
}

// Erase deletes the facts that name a user in the lanes. Readers who have not come to them are told of a gap.
func (s *Store) Erase(ctx context.Context, o *record.Operation) (Erased, error) {
	keys := make([]string, s.Lanes())
	for n := range keys {
		keys[n] = s.lane(n)
	}
	return s.eraseFrom(ctx, o, keys)
}

// eraseFrom deletes them from lanes or outboxes, a page of each in a round trip.
func (s *Store) eraseFrom(ctx context.Context, o *record.Operation, keys []string) (erased Erased, err error) {
	after := map[string]string{}
	for len(keys) > 0 {
		reads := make([]redis.Cmder, len(keys))
		for i, key := range keys {
			reads[i] = redis.NewXMessageSliceCmd(ctx, "xrange", key, cmp.Or(after[key], "-"), "+", "COUNT", erasePage)
		}
		if err := s.o.DB.Pipeline(ctx, redisdb.Read, reads...); err != nil {
			return erased, fmt.Errorf("look for a user in facts: %w", err)
		}
		var more []string
		var before, later []redis.Cmder
		for i, key := range keys {
			page, err := reads[i].(*redis.XMessageSliceCmd).Result()
			if err != nil {
				return erased, fmt.Errorf("look for a user in facts: %w", err)
			}
			for _, m := range page {
				after[key] = "(" + m.ID
				switch del := redis.NewIntCmd(ctx, "xdel", key, m.ID); {
				case !names(redisdb.Text(m.Values["d"]), o.Subject):
				case happenedBefore(m, o):
					before = append(before, del)
				default:
					later = append(later, del)
				}
			}
			if len(page) == erasePage {
				more = append(more, key)
			}
		}
		if found := append(before, later...); len(found) > 0 {
			erased.Any = true
			if err := s.o.DB.Do(ctx, redisdb.Write, found...); err != nil {
				return erased, fmt.Errorf("delete facts of a user: %w", err)
			}
		}
		for _, del := range before {
			erased.Before += del.(*redis.IntCmd).Val()
		}
		keys = more
	}
	return erased, nil
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

// names reports whether the data of a fact names a user. An identifier needs no escape in JSON.
func names(data, user string) bool {
	var d struct {
		User   string `json:"user"`
		Sender string `json:"sender"` // of a message
	}
	return strings.Contains(data, `"`+user+`"`) && json.Unmarshal([]byte(data), &d) == nil && (d.User == user || d.Sender == user)
}
