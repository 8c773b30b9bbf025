package facts

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/record"
	"fanfare/store/redisdb"
)

// erasePage is how many facts of a lane or an outbox are looked at in one round trip, and eraseAtOnce of how many of these.
const erasePage, eraseAtOnce = 1000, 8

// Erased is how many facts of a user were deleted.
type Erased struct {
	// Before counts the facts of what had happened when the operation began. Facts of what happened later are deleted, too.
	Before int64
	// Any is for EraseLeft. It says that some were deleted of what had happened when the operation began, or happened so soon afterwards that it may come from
	// what was there before. The operation has to look again then. It does not look again for facts of what happened later: those of a
	// name that goes on being used never end.
	Any bool
}

// EraseLeft deletes the facts that name a user in the outboxes among keys of Redis. late is for how long after the beginning of the
// operation there may happen what counts for Any.
//
// It has to come before Erase: a relay deletes a fact in its outbox only when the lane has it, so a fact that is moved meanwhile is found
// in one of the two. A relay that read a fact before it was deleted here appends it to the lane afterwards: so there has to be another
// pass if any was deleted.
func (s *Store) EraseLeft(ctx context.Context, o *record.Operation, late time.Duration, keys []string) (Erased, error) {
	e := &erasing{s: s, user: o.Subject, began: max(o.Since, o.CreatedAt), late: late.Milliseconds()}
	err := e.run(ctx, slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return !strings.HasSuffix(key, "}:facts:out") }))
	return e.Erased, err
}

// Erase deletes the facts that name a user in the lanes. Readers who have not come to them are told of a gap.
func (s *Store) Erase(ctx context.Context, o *record.Operation) (Erased, error) {
	e := &erasing{s: s, user: o.Subject, began: max(o.Since, o.CreatedAt)}
	keys := make([]string, s.Lanes())
	for n := range keys {
		keys[n] = s.lane(n)
	}
	err := e.run(ctx, keys)
	return e.Erased, err
}

// erasing is one call of EraseLeft or Erase.
type erasing struct {
	s           *Store
	user        string
	began, late int64 // ms: when the operation began, by the later one of the clocks of Redis and of SQL, and as EraseLeft takes it
	Erased
}

// run deletes the user's facts from lanes or outboxes, a page of some of them in a round trip.
func (e *erasing) run(ctx context.Context, keys []string) error {
	for some := range slices.Chunk(keys, eraseAtOnce) {
		for after := map[string]string{}; len(some) > 0; {
			var err error
			if some, err = e.page(ctx, some, after); err != nil {
				return err
			}
		}
	}
	return nil
}

// page deletes the user's facts from the next page of each of some lanes or outboxes, behind the ids of after, and moves these. It
// returns those that have more.
func (e *erasing) page(ctx context.Context, keys []string, after map[string]string) (more []string, err error) {
	reads := make([]redis.Cmder, len(keys))
	for i, key := range keys {
		reads[i] = redis.NewXMessageSliceCmd(ctx, "xrange", key, cmp.Or(after[key], "-"), "+", "COUNT", erasePage)
	}
	if err := e.s.o.DB.Pipeline(ctx, redisdb.Read, reads...); err != nil {
		return nil, fmt.Errorf("look for a user in facts: %w", err)
	}
	var before, later []redis.Cmder
	for i, key := range keys {
		page, err := reads[i].(*redis.XMessageSliceCmd).Result()
		if err != nil {
			return nil, fmt.Errorf("look for a user in facts: %w", err)
		}
		if len(page) == erasePage {
			more, after[key] = append(more, key), "("+page[len(page)-1].ID
		}
		of, since := e.sort(page)
		before, later = appendDelete(ctx, before, key, of), appendDelete(ctx, later, key, since)
	}
	if len(before)+len(later) == 0 {
		return more, nil
	}
	if err := e.s.o.DB.Do(ctx, redisdb.Write, slices.Concat(before, later)...); err != nil {
		return nil, fmt.Errorf("delete facts of a user: %w", err)
	}
	for _, del := range before {
		e.Before += del.(*redis.IntCmd).Val()
	}
	return more, nil
}

// sort finds the ids of the user's facts in a page: those of what had happened when the operation began, and those of what happened later.
func (e *erasing) sort(page []redis.XMessage) (before, later []string) {
	for _, m := range page {
		if !names(redisdb.Text(m.Values["d"]), e.user) {
			continue
		}
		at := happened(m)
		e.Any = e.Any || at <= e.began+e.late
		if at <= e.began {
			before = append(before, m.ID)
		} else {
			later = append(later, m.ID)
		}
	}
	return before, later
}

// appendDelete appends the command that deletes entries of a stream, if there are any.
func appendDelete(ctx context.Context, cmds []redis.Cmder, key string, ids []string) []redis.Cmder {
	if len(ids) == 0 {
		return cmds
	}
	args := []any{"xdel", key}
	for _, id := range ids {
		args = append(args, id)
	}
	return append(cmds, redis.NewIntCmd(ctx, args...))
}

// happened is when what an entry tells happened, in ms by the clock of Redis or of SQL.
func happened(m redis.XMessage) int64 {
	if at, err := strconv.ParseInt(redisdb.Text(m.Values["a"]), 10, 64); err == nil {
		return at
	}
	p, _ := parsePosition(m.ID)
	return p.ms
}

// names reports whether the data of a fact names a user. An identifier needs no escape in JSON.
func names(data, user string) bool {
	var d struct {
		User   string `json:"user"`
		Sender string `json:"sender"` // of a message
	}
	return strings.Contains(data, `"`+user+`"`) && json.Unmarshal([]byte(data), &d) == nil && (d.User == user || d.Sender == user)
}
