package redisdb

import (
	"context"
	"fmt"
)

// walkPage is about how many keys one command looks at.
const walkPage = 1000

// Walk calls f with the names of the keys that match a pattern, page by page, on every master. It
// looks at every key of Redis. Each key that is there all the time comes at least once.
func (db *DB) Walk(ctx context.Context, pattern string, f func(ctx context.Context, keys []string) error) error {
	walk := func(ctx context.Context, node Client) error {
		for cursor := uint64(0); ; {
			keys, next, err := node.Scan(ctx, cursor, pattern, walkPage).Result()
			if err != nil {
				return db.Err(fmt.Errorf("walk through keys: %w", err), Read)
			}
			if len(keys) > 0 {
				if err := f(ctx, keys); err != nil {
					return err
				}
			}
			if cursor = next; cursor == 0 {
				return nil
			}
		}
	}
	if db.cluster != nil {
		return forEachMaster(ctx, db.client, walk)
	}
	return walk(ctx, db.client)
}
