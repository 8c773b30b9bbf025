package queue

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"fanfare/store/queue/shard"
	"fanfare/store/redisdb"
)

// Listed is a job that is in the queue, or a dead letter.
type Listed = shard.Listed

// Edit goes through all jobs of the queue. edit says whether a job is to be changed, and its new
// payload; without a payload the job has to end by itself. Edit returns how many jobs got their
// payload, and whether others are left: those without a payload, and those that a process has
// claimed.
func (q *Queue) Edit(ctx context.Context, edit func(*Listed) (payload []byte, change bool, err error)) (changed int64, left bool, err error) {
	for _, s := range q.shards {
		before := changed
		err := s.EachJob(ctx, func(w *Listed) error {
			payload, change, err := edit(w)
			if err != nil || !change {
				return err
			}
			done := false
			if payload != nil {
				done, err = w.Rewrite(ctx, payload)
			}
			if done {
				changed++
			}
			left = left || !done
			return err
		})
		if changed > before {
			s.CheckSoon(context.WithoutCancel(ctx))
		}
		if err != nil {
			return changed, true, err
		}
	}
	return changed, left, nil
}

// DropDead forgets the dead letters that drop chooses, and counts them.
func (q *Queue) DropDead(ctx context.Context, drop func(*Listed) (bool, error)) (dropped int64, err error) {
	for n, s := range q.shards {
		err := s.Dead(ctx, func(w *Listed) error {
			goes, err := drop(w)
			if err != nil || !goes {
				return err
			}
			value, err := q.db.Eval(ctx, redisdb.Write, q.common.Scripts.DeadDelete, q.shards[n].Keys(), w.Job.ID, w.LetterID())
			if err == nil {
				dropped += redisdb.Number(value)
			}
			return err
		})
		if err != nil {
			return dropped, err
		}
	}
	return dropped, nil
}

// Attached reads the attachment of a job that is in the queue, or of a dead letter.
func (q *Queue) Attached(ctx context.Context, w *Listed) ([]string, error) {
	cmd := redis.NewStringSliceCmd(ctx, "lrange", q.shards[w.Job.Shard].AttachKey(w.Job.ID), 0, -1)
	items, err := redisdb.Value(ctx, q.db, redisdb.Read, cmd)
	if err != nil {
		return nil, fmt.Errorf("read the attachment of job %s: %w", w.Job.ID, err)
	}
	return items, nil
}

// RenameAttached replaces a word in the items of a job's attachment, which are words separated by
// blanks, and returns how many items had it.
func (q *Queue) RenameAttached(ctx context.Context, w *Listed, word, other string) (int64, error) {
	return q.shards[w.Job.Shard].RenameAttached(ctx, w.Job.ID, word, other)
}

// RenameMarks replaces the last word of the marks under a key of Redis, and returns how many had
// it. A key that has no marks of this queue is left as it is.
func (q *Queue) RenameMarks(ctx context.Context, key, word, other string) (int64, error) {
	for _, s := range q.shards {
		if id, ok := strings.CutPrefix(key, s.MarksKey("")); ok {
			return s.RenameMarks(ctx, id, word, other)
		}
	}
	return 0, nil
}
