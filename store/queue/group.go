package queue

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/queue/shard"
	"fanfare/store/redisdb"
)

// Groups adds a group's counts up over all shards, in one pipeline. There are none when
// no shard knows the group.
func (q *Queue) Groups(ctx context.Context, group string) (map[string]int64, error) {
	sums, err := q.GroupsOf(ctx, []string{group})
	if err != nil {
		return nil, err
	}
	return sums[0][0], nil
}

// GroupsOf reads the counts of several groups as Groups does, in one pipeline. For as little it reads with
// the counts of each group those of the groups that have the same name with one of these endings, and
// lists them behind its own, in this order.
func (q *Queue) GroupsOf(ctx context.Context, groups []string, endings ...string) ([][]map[string]int64, error) {
	if len(groups) == 0 {
		return nil, nil
	}
	var cmds []redis.Cmder
	for _, group := range groups {
		for _, shard := range q.shards {
			key, field := shard.GroupKey(group)
			args := []any{"hmget", key, field}
			for _, ending := range endings {
				args = append(args, field+ending)
			}
			cmds = append(cmds, redis.NewSliceCmd(ctx, args...))
		}
	}
	if err := q.db.Pipeline(ctx, redisdb.Read, cmds...); err != nil {
		return nil, err
	}
	all := make([][]map[string]int64, len(groups))
	for i := range all {
		var err error
		if all[i], err = sumsOf(cmds[i*len(q.shards):(i+1)*len(q.shards)], 1+len(endings)); err != nil {
			return nil, fmt.Errorf("read group %s: %w", groups[i], err)
		}
	}
	return all, nil
}

// sumsOf adds n records up over the answers of all shards.
func sumsOf(cmds []redis.Cmder, n int) ([]map[string]int64, error) {
	sums := make([]map[string]int64, n)
	for i := range sums {
		sums[i] = map[string]int64{}
	}
	for _, cmd := range cmds {
		records, err := cmd.(*redis.SliceCmd).Result()
		for i := 0; err == nil && i < len(records); i++ {
			if record, ok := records[i].(string); ok {
				err = addCounts(sums[i], record)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return sums, nil
}

// shortNames are the counts that scripts write as a letter (part_group.lua).
var shortNames = map[string]string{"c": "created", "d": "delivered", "e": "expired", "f": "failed", "r": "retrying", "u": "unknown_outcome"}

// addCounts adds the counts of a group's record.
func addCounts(sums map[string]int64, record string) error {
	for _, one := range strings.Fields(record) {
		name, number, _ := strings.Cut(one, "=")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return err
		}
		if whole, ok := shortNames[name]; ok {
			name = whole
		}
		sums[name] += n
	}
	return nil
}

// Guard is a companion record of jobs in a shard.
type Guard struct {
	Shard       int
	Name, Value string
}

// SetGuards stores, for ttl and in one round trip, the companion records that claims of jobs with
// these guards return. A record with the value "" is deleted.
func (q *Queue) SetGuards(ctx context.Context, ttl time.Duration, guards ...Guard) error {
	cmds := make([]redis.Cmder, len(guards))
	for i, g := range guards {
		key := q.shards[g.Shard].GuardKey(g.Name)
		cmds[i] = redis.NewStatusCmd(ctx, "set", key, g.Value, "px", shard.MS(ttl))
		if g.Value == "" {
			cmds[i] = redis.NewIntCmd(ctx, "del", key)
		}
	}
	send := q.db.Share
	if len(cmds) > 1 { // several masters of a Cluster must not make others wait
		send = q.db.Pipeline
	}
	if err := send(ctx, redisdb.Write, cmds...); err != nil {
		return err
	}
	for i, cmd := range cmds {
		if err := cmd.Err(); err != nil {
			return fmt.Errorf("set guard in %s shard %d: %w", q.o.Name, guards[i].Shard, err)
		}
	}
	return nil
}

// Marks reads the marks that earlier owners left of jobs, in one round trip: a map for
// each job.
func (q *Queue) Marks(ctx context.Context, jobs ...*Claimed) ([]map[string]string, error) {
	cmds := make([]redis.Cmder, len(jobs))
	for i, c := range jobs {
		cmds[i] = redis.NewMapStringStringCmd(ctx, "hgetall", q.shards[c.Shard].MarksKey(c.ID))
	}
	if err := q.db.Pipeline(ctx, redisdb.Read, cmds...); err != nil {
		return nil, err
	}
	out := make([]map[string]string, len(jobs))
	for i, c := range jobs {
		var err error
		if out[i], err = cmds[i].(*redis.MapStringStringCmd).Result(); err != nil {
			return nil, fmt.Errorf("read the marks of job %s: %w", c.ID, err)
		}
		if len(out[i]) > 0 {
			c.NoteMarks()
		}
	}
	return out, nil
}

// Attachment reads one item of a claimed job's attachment.
func (q *Queue) Attachment(ctx context.Context, c *Claimed, index int) (string, error) {
	cmd := redis.NewStringCmd(ctx, "lindex", q.shards[c.Shard].AttachKey(c.ID), index)
	if err := q.db.Share(ctx, redisdb.Read, cmd); err != nil {
		return "", err
	}
	value, err := cmd.Result()
	if err != nil {
		return "", fmt.Errorf("read attachment %d of job %s: %w", index, c.ID, err)
	}
	return value, nil
}
