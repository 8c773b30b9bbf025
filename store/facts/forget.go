package facts

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// Forget lets the lanes forget outboxes, such as those of sales that are over: a lane forgets an outbox when its last fact from there is
// so old that it would take none of that age any more.
func (s *Store) Forget(ctx context.Context) (err error) {
	before := s.o.DB.Clock().Add(-remembered - forgetLate).UnixMilli()
	for n := range s.Lanes() {
		err = errors.Join(err, s.forgetIn(ctx, s.from(n), before))
	}
	return err
}

// forgetIn lets one lane forget the outboxes whose last fact was left before a time in ms.
func (s *Store) forgetIn(ctx context.Context, key string, before int64) error {
	for cursor := uint64(0); ; {
		cmd := redis.NewScanCmd(ctx, nil, "hscan", key, cursor, "count", forgetPage)
		if err := s.o.DB.Share(ctx, redisdb.Read, cmd); err != nil {
			return fmt.Errorf("list outboxes that are gone: %w", err)
		}
		page, next, err := cmd.Result()
		if err != nil {
			return fmt.Errorf("list outboxes that are gone: %w", err)
		}
		var old []any
		for i := 0; i+1 < len(page); i += 2 {
			if p, ok := parsePosition(page[i+1]); ok && p.ms < before {
				old = append(old, page[i], page[i+1])
			}
		}
		if len(old) > 0 {
			if _, err := s.o.DB.Eval(ctx, redisdb.Write, forgetScript, []string{key}, old...); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
