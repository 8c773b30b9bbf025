package queue

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/queue/shard"
	"fanfare/store/redisdb"
)

// deadPage is how many letters of a shard one page of ActOnDead looks at.
const deadPage = 200

// CountDead counts the dead letters that a filter chooses and that died before a time by Redis' clock. It
// looks at all letters of the shards that can have such letters, which takes some 5 ms of Redis' time for 1,000.
func (q *Queue) CountDead(ctx context.Context, f DeadFilter, before time.Time) (sum int64, err error) {
	look := make([]int64, q.o.Shards)
	for _, n := range q.DeadShards(f) {
		look[n] = math.MaxInt64
	}
	err = q.lookAtDead(ctx, f, deadSearch{newest: diedBefore(before), what: deadNumber}, look, func(n int64, _ []any) { sum += n })
	return sum, err
}

// diedBefore is the newest id that a letter has which died before a time, as XREVRANGE takes it.
func diedBefore(at time.Time) string { return strconv.FormatInt(max(0, at.UnixMilli()-1), 10) }

// DeadWalk goes through the dead letters of a shard that a filter chooses, newest first.
type DeadWalk struct {
	Shard  int
	Filter DeadFilter
	// Before is a time by Redis' clock: letters that died then or later are left alone.
	Before time.Time
	// After is where the walk goes on: the id of the last letter that it looked at; "": at its begin.
	After string
}

// DeadActed is what became of a page of dead letters.
type DeadActed struct {
	// After is where the walk goes on; "": the page was the last of the shard.
	After string
	// Gone are the letters that are not dead letters any more, also those that somebody else had retried or
	// deleted meanwhile. Kept are those that could not be retried, because their job, or another one with
	// its unique id, has been queued since, or a callers' queue is full.
	Gone, Kept int64
}

// RetryDeadPage queues the jobs of the walk's next dead letters again, in two round trips. Up to 200
// letters are looked at. A page may be repeated, also beside other processes: each letter is retried once.
// A job that died again meanwhile is another letter, which died after the walk's Before.
func (q *Queue) RetryDeadPage(ctx context.Context, w DeadWalk) (DeadActed, error) {
	acted, err := q.actOnDead(ctx, w, func(id, eid string) redis.Cmder {
		args := append(q.retryArgs(id, Once{}), eid)
		return q.retryScript().Cmd(ctx, q.shards[w.Shard].Keys(), args...)
	}, func(cmd *redis.Cmd) (status int64, err error) {
		answer, err := cmd.Slice()
		return redisdb.NumberAt(answer, 0), err
	})
	if acted.Gone > 0 {
		q.lookAfterRetried(ctx, w.Shard)
	}
	return acted, err
}

// DeleteDeadPage deletes the walk's next dead letters, as RetryDeadPage retries them. None is kept.
func (q *Queue) DeleteDeadPage(ctx context.Context, w DeadWalk) (DeadActed, error) {
	return q.actOnDead(ctx, w, func(id, eid string) redis.Cmder {
		return q.common.Scripts.DeadDelete.Cmd(ctx, q.shards[w.Shard].Keys(), id, eid)
	}, (*redis.Cmd).Int64)
}

// actOnDead runs a script for each letter of a page, by the ids of its job and of itself.
func (q *Queue) actOnDead(ctx context.Context, w DeadWalk, act func(id, eid string) redis.Cmder, status func(*redis.Cmd) (int64, error)) (acted DeadActed, err error) {
	s := deadSearch{newest: diedBefore(w.Before), look: deadPage, most: deadPage, what: deadIDs}
	if w.After != "" {
		s.newest = "(" + w.After
	}
	find := q.findDead(ctx, w.Shard, w.Filter, s)
	if err := q.db.Share(ctx, redisdb.Read, find); err != nil {
		return acted, err
	}
	last, letters, err := foundDead(find)
	if err != nil {
		return acted, fmt.Errorf("find dead letters of %s: %w", q.o.Name, err)
	}
	cmds := make([]redis.Cmder, len(letters))
	for i, l := range letters {
		ids, _ := l.([]any)
		cmds[i] = act(redisdb.TextAt(ids, 1), redisdb.TextAt(ids, 0))
	}
	if len(cmds) > 0 {
		err = q.db.Pipeline(ctx, redisdb.Write, cmds...)
	}
	for _, cmd := range cmds {
		if err != nil {
			break
		}
		var n int64
		switch n, err = status(cmd.(*redis.Cmd)); n {
		case deadTaken, deadAlready, deadFull:
			acted.Kept++
		default:
			acted.Gone++
		}
	}
	if err != nil {
		return DeadActed{}, fmt.Errorf("act on dead letters of %s: %w", q.o.Name, err)
	}
	acted.After = last
	return acted, nil
}

// retryArgs are the arguments of the script that queues a dead letter again, but for the last.
func (q *Queue) retryArgs(id string, once Once) []any {
	args := append([]any{id, shard.MS(q.o.GroupRetention), shard.MS(q.common.ReportTTL())}, shard.OnceArgs(once)...)
	if once.Key == "" {
		args[3] = ""
	}
	return args
}
