package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// GroupRead is a reading of a group that has not been sent: several, of several
// queues, can travel in one pipeline.
type GroupRead struct {
	cmds  []redis.Cmder
	group string
}

// ReadGroup prepares a reading of a group in one shard, or with shard -1 in all.
func (q *Queue) ReadGroup(ctx context.Context, shard int, group string) *GroupRead {
	from, to := shard, shard+1
	if shard < 0 {
		from, to = 0, q.o.Shards
	}
	r := &GroupRead{group: group}
	for n := from; n < to; n++ {
		for _, key := range q.groupKeys(n, group) {
			r.cmds = append(r.cmds, redis.NewStringCmd(ctx, "hget", key, group))
		}
	}
	return r
}

// ReadGroups sends readings in one pipeline.
func (q *Queue) ReadGroups(ctx context.Context, reads ...*GroupRead) error {
	var cmds []redis.Cmder
	for _, r := range reads {
		cmds = append(cmds, r.cmds...)
	}
	return q.db.Pipeline(ctx, redisdb.Read, cmds...)
}

// Result gives the counts, added up over the shards that were read, and the
// facts. Both are empty when no shard knows the group.
func (r *GroupRead) Result() (counts map[string]int64, facts map[string]string, err error) {
	counts, facts = map[string]int64{}, map[string]string{}
	for _, cmd := range r.cmds {
		record, err := cmd.(*redis.StringCmd).Result()
		if err == redis.Nil {
			continue
		}
		if err == nil {
			err = addRecord(record, counts, facts)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read group %s: %w", r.group, err)
		}
	}
	return counts, facts, nil
}

// addRecord reads a group's record: numbers are counts, strings facts.
func addRecord(record string, counts map[string]int64, facts map[string]string) error {
	var fields map[string]any
	if err := json.Unmarshal([]byte(record), &fields); err != nil {
		return err
	}
	for name, v := range fields {
		switch v := v.(type) {
		case float64:
			counts[name] += int64(v)
		case string:
			facts[name] = v
		}
	}
	return nil
}

// Group reads a group's counts and facts in one shard.
func (q *Queue) Group(ctx context.Context, shard int, group string) (map[string]int64, map[string]string, error) {
	r := q.ReadGroup(ctx, shard, group)
	if err := q.db.Share(ctx, redisdb.Read, r.cmds...); err != nil {
		return nil, nil, err
	}
	return r.Result()
}

// Groups adds a group's counts up over all shards, in one pipeline.
func (q *Queue) Groups(ctx context.Context, group string) (map[string]int64, error) {
	r := q.ReadGroup(ctx, -1, group)
	if err := q.ReadGroups(ctx, r); err != nil {
		return nil, err
	}
	counts, _, err := r.Result()
	return counts, err
}

// SetGuard stores the companion record that claims of jobs with this Guard
// return, for ttl. The value "" deletes it.
func (q *Queue) SetGuard(ctx context.Context, shard int, name, value string, ttl time.Duration) error {
	cmd := q.guardCmd(ctx, shard, name, value, ttl)
	if err := q.db.Share(ctx, redisdb.Write, cmd); err != nil {
		return err
	}
	if err := cmd.Err(); err != nil {
		return fmt.Errorf("set guard in %s shard %d: %w", q.o.Name, shard, err)
	}
	return nil
}

func (q *Queue) guardCmd(ctx context.Context, shard int, name, value string, ttl time.Duration) redis.Cmder {
	key := q.guardKey(shard, name)
	if value == "" {
		return redis.NewIntCmd(ctx, "del", key)
	}
	if ttl <= 0 {
		return redis.NewStatusCmd(ctx, "set", key, value)
	}
	return redis.NewStatusCmd(ctx, "set", key, value, "px", ms(ttl))
}

// Attachment reads one item of a claimed job's attachment.
func (q *Queue) Attachment(ctx context.Context, c *Claimed, index int) (string, error) {
	cmd := redis.NewStringCmd(ctx, "lindex", q.attachKey(c.Shard, c.ID), index)
	if err := q.db.Share(ctx, redisdb.Read, cmd); err != nil {
		return "", err
	}
	value, err := cmd.Result()
	if err != nil {
		return "", fmt.Errorf("read attachment %d of job %s: %w", index, c.ID, err)
	}
	return value, nil
}

// The letters that the queue itself writes at the begin of a report: that of a job
// that is queued, also of a dead letter that is retried, of one that became a dead
// letter, and of one that did because it was older than MaxAge.
const (
	StateQueued  = 'Q'
	StateDead    = 'X'
	StateExpired = 'E'
)

// Report reads the report of a job that was enqueued with one; "": nobody knows of
// such a job any more.
func (q *Queue) Report(ctx context.Context, shard int, id string) (string, error) {
	cmd := redis.NewStringCmd(ctx, "hget", q.reportKey(shard, id), id)
	if err := q.db.Share(ctx, redisdb.Read, cmd); err != nil {
		return "", err
	}
	text, err := cmd.Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("read report in %s shard %d: %w", q.o.Name, shard, err)
	}
	return text, nil
}
