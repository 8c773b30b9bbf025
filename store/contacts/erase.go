package contacts

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"fanfare/store/queue"
	"fanfare/store/record"
	"fanfare/store/redisdb"
)

// eraseAhead is how many relationships of one operation may wait for their jobs before the next
// are removed.
const eraseAhead = 5000

// EraseUploads forgets the uploads that a user had when an operation began. It reports whether it
// found any, and whether fan-outs of theirs still run.
func (s *Store) EraseUploads(ctx context.Context, o *record.Operation) (found, busy bool, err error) {
	for {
		n, err := s.rec.EraseUploads(ctx, o)
		if err != nil {
			return found, true, fmt.Errorf("erase uploads: %w", err)
		}
		if n == 0 {
			break
		}
		found = true
	}
	open, err := s.rec.OpenUploads(ctx, o)
	if err != nil {
		return found, true, fmt.Errorf("erase uploads: %w", err)
	}
	return found, open > 0, nil
}

// EraseContacts forgets a user's relationships in both directions: those that were there when an
// operation began. Jobs take the user out of the indexes of others; busy tells that some still
// run. The user's own index goes at once. The user's uploads must be gone, and their fan-outs
// done, or they would bring the user back into indexes.
func (s *Store) EraseContacts(ctx context.Context, o *record.Operation) (found, busy bool, err error) {
	for {
		open, err := s.rec.OpenErasure(ctx, o, 0)
		if err != nil {
			return found, true, fmt.Errorf("erase contacts: %w", err)
		}
		if open >= eraseAhead {
			return found, true, nil
		}
		n, changed, err := s.rec.EraseContacts(ctx, o)
		if err != nil {
			return found, true, fmt.Errorf("erase contacts: %w", err)
		}
		if n == 0 {
			return found, open > 0, s.dropIndex(ctx, o.Subject)
		}
		found = true
		jobs := make([]queue.Job, 0, len(changed))
		for row, pair := range changed {
			jobs = append(jobs, contactJob(row, pair))
		}
		s.announce(ctx, jobs...)
	}
}

// dropIndex removes a user's index. The next read builds another one.
func (s *Store) dropIndex(ctx context.Context, user string) error {
	args := []any{"del"}
	for _, key := range buildKeys(user) {
		args = append(args, key)
	}
	if err := s.index.db.Do(ctx, redisdb.Write, redis.NewIntCmd(ctx, args...)); err != nil {
		return fmt.Errorf("drop the index of a user: %w", err)
	}
	return nil
}
