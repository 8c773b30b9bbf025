package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// Standing is what is on record of a named job.
type Standing int

// The standings, as job_find.lua answers.
const (
	StandingUnknown Standing = iota // it was never enqueued, or its tombstone is over
	StandingLive                    // it waits, or a process works on it
	StandingDead                    // it is a dead letter
	StandingEnded                   // it has ended: also a dead letter that was deleted
)

// Found is what is on record of a named job.
type Found struct {
	Standing Standing
	// Text is what the record of a live job says, and the tombstone of an ended one (part_tombstone.lua),
	// and the reason of a dead letter, which died At.
	Text string
	At   api.Time
}

// Find tells what is on record of named jobs. Each is told by its ID, Shard and Group. All are read in
// one pipeline.
func (q *Queue) Find(ctx context.Context, jobs ...Job) ([]Found, error) {
	cmds := make([]redis.Cmder, len(jobs))
	for i, j := range jobs {
		cmds[i] = q.common.Scripts.Find.Cmd(ctx, q.shards[j.Shard].Keys(), j.ID, j.Group)
	}
	if len(cmds) == 0 {
		return nil, nil
	}
	if err := q.db.Pipeline(ctx, redisdb.Read, cmds...); err != nil {
		return nil, err
	}
	found := make([]Found, len(jobs))
	for i, cmd := range cmds {
		answer, err := cmd.(*redis.Cmd).Slice()
		if err != nil {
			return nil, fmt.Errorf("find job %s of %s: %w", jobs[i].ID, q.o.Name, err)
		}
		found[i] = Found{Standing: Standing(redisdb.NumberAt(answer, 0)), Text: redisdb.TextAt(answer, 1)}
		if ms := redisdb.NumberAt(answer, 2); ms > 0 {
			found[i].At = api.AtMillis(ms)
		}
	}
	return found, nil
}

// Notes are the notes that done jobs without a name have left under the name of their group, or their own, on the
// given shards or on all, each as it was written.
func (q *Queue) Notes(ctx context.Context, name string, shards ...int) (string, error) {
	if len(shards) == 0 {
		for n := range q.shards {
			shards = append(shards, n)
		}
	}
	cmds := make([]redis.Cmder, len(shards))
	for i, n := range shards {
		cmds[i] = redis.NewStringCmd(ctx, "get", q.shards[n].NotesKey(name))
	}
	if err := q.db.Pipeline(ctx, redisdb.Read, cmds...); err != nil {
		return "", err
	}
	var all strings.Builder
	for i, cmd := range cmds {
		text, err := cmd.(*redis.StringCmd).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return "", fmt.Errorf("read notes of %s in %s shard %d: %w", name, q.o.Name, shards[i], err)
		}
		all.WriteString(text)
	}
	return all.String(), nil
}
